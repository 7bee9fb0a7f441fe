//! The Python worker travels inside the binary and is written to the cache folder once per content.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

static WORKER: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/src/runner/python");

/// Why the worker's files could not be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the Python worker to {path}: {source}; check the folder's permissions and free space")]
pub struct UnpackError {
    path: PathBuf,
    source: io::Error,
}

/// Writes the worker under `folder/<version>-<hash>` unless it is there as it should be, and returns the path of its
/// `main.py`.
///
/// The folder appears by one rename, so two servers that start together never see half of it. Judged code may write
/// there as its user may: whatever is not byte for byte what the binary holds, or is not in it, is moved away.
pub fn unpack(folder: &Path) -> Result<PathBuf, UnpackError> {
    let folder = folder.join(format!("{}-{}", env!("CARGO_PKG_VERSION"), content_hash()));
    let main = folder.join("main.py");
    if is_whole(&folder) {
        return Ok(main);
    }
    let partial = beside(&folder, "partial");
    let fail = |source| UnpackError { path: partial.clone(), source };
    write_all(&WORKER, &partial).map_err(fail)?;
    let mut renamed = fs::rename(&partial, &folder);
    if renamed.is_err() && !is_whole(&folder) {
        let changed = beside(&folder, "changed");
        renamed = fs::rename(&folder, &changed).and_then(|()| fs::rename(&partial, &folder));
        let _ = fs::remove_dir_all(&changed);
    }
    match renamed {
        Ok(()) => Ok(main),
        // Another process was faster: its copy has the same bytes.
        Err(_) if is_whole(&folder) => {
            let _ = fs::remove_dir_all(&partial);
            Ok(main)
        }
        Err(error) => Err(fail(error)),
    }
}

fn beside(folder: &Path, word: &str) -> PathBuf {
    folder.with_extension(format!("{word}-{}", std::process::id()))
}

/// Whether a folder holds the worker's files, each with the bytes in the binary, and nothing else: a compiled module
/// beside a source would be imported in its place.
fn is_whole(folder: &Path) -> bool {
    let files = python_files(&WORKER);
    let is_same = |file: &&include_dir::File<'_>| {
        let path = folder.join(file.path());
        fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_file())
            && fs::read(&path).is_ok_and(|bytes| bytes == file.contents())
    };
    files.iter().all(is_same) && count_files(folder).is_some_and(|count| count == files.len())
}

/// Everything below a folder that is no folder; `None` when it cannot be read.
fn count_files(folder: &Path) -> Option<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder).ok()? {
        let entry = entry.ok()?;
        count += if entry.file_type().ok()?.is_dir() { count_files(&entry.path())? } else { 1 };
    }
    Some(count)
}

fn python_files(dir: &'static Dir<'static>) -> Vec<&'static include_dir::File<'static>> {
    let mut files: Vec<_> =
        dir.files().filter(|file| file.path().extension().is_some_and(|e| e == "py")).collect();
    for child in dir.dirs() {
        files.extend(python_files(child));
    }
    files.sort_by_key(|file| file.path());
    files
}

/// Of all that the worker is made of.
pub fn content_hash() -> String {
    let mut hasher = blake3::Hasher::new();
    for file in python_files(&WORKER) {
        hasher.update(file.path().to_string_lossy().as_bytes());
        hasher.update(&[0]);
        hasher.update(file.contents());
        hasher.update(&[0]);
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

fn write_all(dir: &'static Dir<'static>, target: &Path) -> io::Result<()> {
    for file in python_files(dir) {
        let path = target.join(file.path());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, file.contents())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacking_twice_gives_the_same_place() {
        let cache = tempfile::tempdir().unwrap();
        let first = unpack(cache.path()).unwrap();
        assert!(first.is_file());
        assert!(first.with_file_name("warpsmith_worker").join("supervisor.py").is_file());
        assert_eq!(unpack(cache.path()).unwrap(), first);
        let entries = fs::read_dir(cache.path()).unwrap().count();
        assert_eq!(entries, 1, "no partial folder is left behind");
    }

    /// Judged code runs as the user and may write there: no later check believes what it left.
    #[test]
    fn what_was_changed_is_written_anew() {
        let cache = tempfile::tempdir().unwrap();
        let main = unpack(cache.path()).unwrap();
        let compare = main.with_file_name("warpsmith_worker").join("compare.py");
        let right = fs::read(&compare).unwrap();
        let planted = main.with_file_name("warpsmith_worker").join("__pycache__/compare.cpython-312.pyc");
        for change in 0..4 {
            match change {
                0 => fs::write(&compare, "def measure(*_): return {}\n").unwrap(),
                1 => fs::remove_file(&compare).unwrap(),
                2 => fs::write(main.with_file_name("torch.py"), "").unwrap(),
                _ => {
                    fs::create_dir_all(planted.parent().unwrap()).unwrap();
                    fs::write(&planted, "").unwrap();
                }
            }
            assert_eq!(unpack(cache.path()).unwrap(), main);
            assert_eq!(fs::read(&compare).unwrap(), right, "change {change}");
            assert!(!planted.exists() && !main.with_file_name("torch.py").exists(), "change {change}");
            assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 1, "change {change}");
        }
    }

    #[test]
    fn a_read_only_cache_is_told() {
        let error = unpack(Path::new("/proc/warpsmith")).unwrap_err();
        assert!(error.to_string().contains("/proc/warpsmith"), "{error}");
    }
}
