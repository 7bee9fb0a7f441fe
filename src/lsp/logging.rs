//! Logs: warnings to stderr, details into a file of bounded size. Never a byte to stdout.

use std::backtrace::Backtrace;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// Directives like `debug` or `warpsmith::lsp=trace` for both places.
pub const FILTER_VARIABLE: &str = "WARPSMITH_LOG";
/// Size of one log file; there are at most two.
pub const LOG_FILE_BYTES: u64 = 5 << 20;

/// Starts logging for this process: warnings to stderr without colours (Neovim keeps each line of it),
/// and details into `folder`/warpsmith.log when a folder is given. A folder that cannot be written is
/// said on stderr and does no harm.
///
/// # Errors
/// When logging was started before.
pub fn start(folder: Option<&Path>) -> Result<(), TryInitError> {
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        .with_filter(filter(LevelFilter::WARN));
    let opened = folder.map(|folder| LogFile::open(folder, LOG_FILE_BYTES));
    let (file, failure) = match opened {
        Some(Ok(file)) => (Some(file), None),
        Some(Err(error)) => (None, Some(error)),
        None => (None, None),
    };
    let file = file.map(|file| {
        tracing_subscriber::fmt::layer()
            .with_writer(Mutex::new(file))
            .with_ansi(false)
            .with_filter(filter(LevelFilter::INFO))
    });
    tracing_subscriber::registry().with(stderr).with(file).try_init()?;
    if let Some(error) = failure {
        tracing::warn!("no log file: {error}");
    }
    Ok(())
}

fn filter(default: LevelFilter) -> EnvFilter {
    EnvFilter::builder().with_default_directive(default.into()).with_env_var(FILTER_VARIABLE).from_env_lossy()
}

/// Panics go to the log with a backtrace, not to stderr directly: a broken pipe there panics again.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|panic: &PanicHookInfo<'_>| {
        tracing::error!("{panic}\n{}", Backtrace::force_capture());
    }));
}

/// A file that starts anew at a size, keeping one predecessor beside it. Several servers may share it.
struct LogFile {
    path: PathBuf,
    file: File,
    cap_bytes: u64,
}

impl LogFile {
    fn open(folder: &Path, cap_bytes: u64) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join("warpsmith.log");
        let file = append(&path)?;
        Ok(Self { path, file, cap_bytes })
    }

    /// Another server may have turned the file over already: then ours is the predecessor, and the path
    /// names a young file that must not be moved.
    fn turn_over(&mut self) -> io::Result<()> {
        if std::fs::metadata(&self.path).is_ok_and(|metadata| metadata.len() >= self.cap_bytes) {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        self.file = append(&self.path)?;
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.file.metadata()?.len() >= self.cap_bytes {
            self.turn_over()?;
        }
        self.file.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(path: PathBuf) -> u64 {
        std::fs::metadata(path).map_or(0, |metadata| metadata.len())
    }

    /// complaint 21: logs of hundreds of gigabytes. (A candidate that floods: `tests/process/workspace.rs`.)
    #[test]
    fn two_writers_stay_within_two_caps() {
        let folder = tempfile::tempdir().unwrap();
        let mut logs =
            [LogFile::open(folder.path(), 1000).unwrap(), LogFile::open(folder.path(), 1000).unwrap()];
        for turn in 0..500 {
            logs[turn % 2].write_all(&[b'x'; 50]).unwrap();
        }
        let files = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(files, 2);
        for name in ["warpsmith.log", "warpsmith.log.1"] {
            let size = size(folder.path().join(name));
            assert!(size > 0 && size < 1100, "{name}: {size}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let blocker = folder.path().join("file");
        std::fs::write(&blocker, "").unwrap();
        assert!(LogFile::open(&blocker.join("log"), 1000).is_err());
    }
}
