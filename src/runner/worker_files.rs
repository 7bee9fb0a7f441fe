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

/// Writes the worker under `folder/<version>-<hash>` unless it is there, and returns the path of its `main.py`.
///
/// The folder appears by one rename, so two servers that start together never see half of it.
pub fn unpack(folder: &Path) -> Result<PathBuf, UnpackError> {
    let folder = folder.join(format!("{}-{}", env!("CARGO_PKG_VERSION"), content_hash()));
    let main = folder.join("main.py");
    if main.is_file() {
        return Ok(main);
    }
    let partial = folder.with_extension(format!("partial-{}", std::process::id()));
    let fail = |source| UnpackError { path: partial.clone(), source };
    write_all(&WORKER, &partial).map_err(fail)?;
    match fs::rename(&partial, &folder) {
        Ok(()) => Ok(main),
        // Another process was faster: its copy has the same bytes.
        Err(_) if main.is_file() => {
            let _ = fs::remove_dir_all(&partial);
            Ok(main)
        }
        Err(error) => Err(fail(error)),
    }
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

fn content_hash() -> String {
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

    #[test]
    fn a_read_only_cache_is_told() {
        let error = unpack(Path::new("/proc/warpsmith")).unwrap_err();
        assert!(error.to_string().contains("/proc/warpsmith"), "{error}");
    }
}
