//! Reading a Python file that somebody named: as Python would, and never one that has no end.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::source::{EncodingError, decode};

/// Nobody writes a longer one by hand.
const MOST_BYTES: u64 = 64 << 20;

/// Why there is no text.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("cannot read {}: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("{} is a folder; name the kernel files in it", .0.display())]
    Folder(PathBuf),
    #[error("{} is a pipe or a device; only files are read", .0.display())]
    NoFile(PathBuf),
    #[error("{} has {bytes} bytes; at most {MOST_BYTES} are read", .path.display())]
    TooLong { path: PathBuf, bytes: u64 },
    #[error("{} {error}", .path.display())]
    Encoding { path: PathBuf, error: EncodingError },
}

/// The text of a Python file.
///
/// # Errors
/// There is no file, no text in it, or too much.
pub fn read_source(path: &Path) -> Result<String, Unreadable> {
    let shown = || path.to_owned();
    let io = |error| Unreadable::Io { path: shown(), error };
    let found = fs::metadata(path).map_err(io)?;
    if found.is_dir() {
        return Err(Unreadable::Folder(shown()));
    }
    // Opening a pipe waits for whoever writes into it.
    if !found.is_file() {
        return Err(Unreadable::NoFile(shown()));
    }
    if found.len() > MOST_BYTES {
        return Err(Unreadable::TooLong { path: shown(), bytes: found.len() });
    }
    decode(fs::read(path).map_err(io)?).map_err(|error| Unreadable::Encoding { path: shown(), error })
}
