//! Immutable copies of saved texts: what is judged never changes under the judge's feet.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Copies older than this are removed when a new one is made.
const KEEP: Duration = Duration::from_secs(24 * 60 * 60);

/// Why a text could not be copied.
#[derive(Debug, thiserror::Error)]
#[error("cannot copy {file} to {target}: {source}; check the folder's permissions and free space")]
pub struct CopyError {
    file: PathBuf,
    target: PathBuf,
    source: io::Error,
}

/// Writes `text` to `<runs>/<hash>/<the file's own name>` and returns that path. The same text is written once.
///
/// # Errors
/// The folder cannot be made or written.
pub fn copy_source(runs: &Path, file: &Path, text: &str) -> Result<PathBuf, CopyError> {
    let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
    let folder = runs.join(&hash[..32]);
    let name = file.file_name().unwrap_or_else(|| "kernel.py".as_ref());
    let path = folder.join(name);
    let fail = |source| CopyError { file: file.to_path_buf(), target: path.clone(), source };
    remove_old(runs);
    if fs::read(&path).is_ok_and(|existing| existing == text.as_bytes()) {
        // Its age counts from the last use.
        let _ = fs::File::open(&folder).and_then(|handle| handle.set_modified(SystemTime::now()));
    } else {
        fs::create_dir_all(&folder).map_err(fail)?;
        let partial = folder.join(format!(".partial-{}", std::process::id()));
        fs::write(&partial, text).map_err(fail)?;
        fs::rename(&partial, &path).map_err(fail)?;
    }
    Ok(path)
}

/// Writes all files of a Solution, `(relative path, text)` each, as a package below `<runs>/<hash>` and returns its
/// folder: they may import one another as `.helper` and as `helper`. Paths that leave the folder are refused.
///
/// # Errors
/// A folder cannot be made or written, a path leaves it.
pub fn copy_sources(runs: &Path, files: &[(&str, &str)]) -> Result<PathBuf, CopyError> {
    let mut hasher = blake3::Hasher::new();
    for text in files.iter().flat_map(|(path, text)| [path, text]) {
        hasher.update(&text.len().to_le_bytes()).update(text.as_bytes());
    }
    let hash = hasher.finalize().to_hex().to_string();
    let folder = runs.join(&hash[..32]).join(format!("solution_{}", &hash[..8]));
    remove_old(runs);
    for (path, text) in files {
        let fail = |source| CopyError { file: PathBuf::from(path), target: folder.join(path), source };
        let is_inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(path).components().all(is_inside) {
            return Err(fail(io::Error::other("the path leaves the Solution")));
        }
        write_once(&folder.join(path), text).map_err(fail)?;
        for package in Path::new(path).ancestors().skip(1).map(|parent| parent.join("__init__.py")) {
            if !files.iter().any(|(other, _)| Path::new(other) == package) {
                write_once(&folder.join(&package), "").map_err(fail)?;
            }
        }
    }
    if let Some(parent) = folder.parent() {
        let _ = fs::File::open(parent).and_then(|handle| handle.set_modified(SystemTime::now()));
    }
    Ok(folder)
}

fn write_once(path: &Path, text: &str) -> io::Result<()> {
    if fs::read(path).is_ok_and(|existing| existing == text.as_bytes()) {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = folder.join(format!(".partial-{}-{name}", std::process::id()));
    fs::write(&partial, text)?;
    fs::rename(&partial, path)
}

/// Best effort: a copy that cannot be removed today is removed tomorrow.
fn remove_old(runs: &Path) {
    let Ok(entries) = fs::read_dir(runs) else { return };
    for entry in entries.flatten() {
        let old = entry
            .metadata()
            .and_then(|metadata| metadata.modified())
            .is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > KEEP));
        if old {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_keeps_name_and_bytes() {
        let runs = tempfile::tempdir().unwrap();
        let file = Path::new("/home/someone/σοφτ max.py");
        let copy = copy_source(runs.path(), file, "x = 1\n").unwrap();
        assert_eq!(copy.file_name(), file.file_name());
        assert_eq!(fs::read_to_string(&copy).unwrap(), "x = 1\n");
        let again = copy_source(runs.path(), file, "x = 1\n").unwrap();
        assert_eq!(again, copy);
        let other = copy_source(runs.path(), file, "x = 2\n").unwrap();
        assert_ne!(other, copy);
    }

    #[test]
    fn a_tampered_copy_is_written_anew() {
        let runs = tempfile::tempdir().unwrap();
        let copy = copy_source(runs.path(), Path::new("k.py"), "x = 1\n").unwrap();
        fs::write(&copy, "x = 2\n").unwrap();
        let again = copy_source(runs.path(), Path::new("k.py"), "x = 1\n").unwrap();
        assert_eq!(fs::read_to_string(again).unwrap(), "x = 1\n");
    }

    #[test]
    fn the_files_of_a_solution_are_a_package() {
        let runs = tempfile::tempdir().unwrap();
        let files = [("kernel.py", "x = 1\n"), ("parts/a.py", "y = 2\n"), ("parts/__init__.py", "z = 3\n")];
        let folder = copy_sources(runs.path(), &files).unwrap();
        for (path, text) in files {
            assert_eq!(fs::read_to_string(folder.join(path)).unwrap(), text);
        }
        assert_eq!(fs::read_to_string(folder.join("__init__.py")).unwrap(), "");
        assert!(!folder.parent().unwrap().join("__init__.py").exists());
        assert_eq!(copy_sources(runs.path(), &files).unwrap(), folder);
        assert_ne!(copy_sources(runs.path(), &files[..2]).unwrap(), folder);
        for path in ["../k.py", "/k.py", "a/../../k.py"] {
            assert!(copy_sources(runs.path(), &[(path, "")]).is_err(), "{path}");
        }
    }

    #[test]
    fn old_copies_go() {
        let runs = tempfile::tempdir().unwrap();
        let old = copy_source(runs.path(), Path::new("k.py"), "x = 1\n").unwrap();
        let folder = old.parent().unwrap();
        let long_ago = SystemTime::now() - KEEP - Duration::from_secs(1);
        fs::File::open(folder).unwrap().set_modified(long_ago).unwrap();
        copy_source(runs.path(), Path::new("k.py"), "x = 2\n").unwrap();
        assert!(!folder.exists());
    }
}
