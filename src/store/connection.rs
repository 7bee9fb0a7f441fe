//! The one connection: opened when it is first needed, and what is done when the file is not as it should be.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use rusqlite::{Connection, ErrorCode};

use super::{complain, now_s, schema, verdicts};

/// How long another server may hold the file.
const BUSY: Duration = Duration::from_millis(1500);
/// After the file could not be opened: how long until it is tried again.
const RETRY: Duration = Duration::from_secs(30);

/// Why there is no history.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("{0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error(
        "a newer warpsmith wrote it (version {found}, this one reads up to {known}); update this one, or move the \
         file away"
    )]
    Newer { found: i64, known: i64 },
}

impl StoreError {
    fn is_broken_file(&self) -> bool {
        let Self::Sqlite(error) = self else { return false };
        matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }
}

/// Owned by the one thread of a history.
pub(super) struct Link {
    path: PathBuf,
    complaint: Arc<Mutex<Option<String>>>,
    connection: Option<Connection>,
    /// Of the file that is open: device and number.
    identity: Option<(u64, u64)>,
    /// Not opened before this.
    not_before: Option<Instant>,
}

impl Link {
    pub(super) fn new(path: PathBuf, complaint: Arc<Mutex<Option<String>>>) -> Self {
        Self { path, complaint, connection: None, identity: None, not_before: None }
    }

    /// Runs `work` on the connection, once more with a new file when the file turns out to be broken. `None` when there
    /// is no history; then there is a complaint.
    pub(super) fn with<T>(
        &mut self,
        mut work: impl FnMut(&mut Connection) -> rusqlite::Result<T>,
    ) -> Option<T> {
        if self.not_before.is_some_and(|at| Instant::now() < at) {
            return None;
        }
        let mut result = self.attempt(&mut work);
        if result.as_ref().is_err_and(StoreError::is_broken_file) {
            self.connection = None;
            result = match move_aside(&self.path) {
                Ok(Some(aside)) => {
                    let (path, aside) = (self.path.display(), aside.display());
                    let sentence =
                        format!("{path} was broken; it was moved to {aside} and a new one was begun");
                    complain(&self.complaint, sentence);
                    self.attempt(&mut work)
                }
                Ok(None) => self.attempt(&mut work),
                Err(error) => Err(error),
            };
        }
        result.map_err(|error| self.give_up(&error)).ok()
    }

    fn attempt<T>(
        &mut self,
        work: &mut impl FnMut(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        // Another server may have moved the file aside, or its owner removed it: what is written to a file that has
        // lost its name is lost.
        if identity(&self.path) != self.identity {
            self.connection = None;
        }
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => open(&self.path)?,
        };
        self.identity = identity(&self.path);
        Ok(work(self.connection.insert(connection))?)
    }

    fn give_up(&mut self, error: &StoreError) {
        self.connection = None;
        let is_busy = matches!(error, StoreError::Sqlite(error)
            if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy));
        if !is_busy {
            self.not_before = Some(Instant::now() + RETRY);
        }
        complain(&self.complaint, format!("{} is not used: {error}", self.path.display()));
    }
}

fn open(path: &Path) -> Result<Connection, StoreError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    let found = schema::version(&connection)?;
    if found > schema::VERSION {
        return Err(StoreError::Newer { found, known: schema::VERSION });
    }
    if !is_on_a_network(path) {
        // Readers and a writer of several servers do not wait for one another.
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
    }
    schema::migrate(&mut connection)?;
    // Another server may hold the file now; then that one, or the next, does it.
    if let Err(error) = verdicts::prune_daily(&mut connection, now_s()) {
        tracing::debug!("history: nothing was pruned: {error}");
    }
    Ok(connection)
}

/// A write-ahead log needs memory that all its users share, which hosts do not. Source: sqlite.org/wal.html, section on
/// disadvantages. The numbers are those of statfs(2).
fn is_on_a_network(path: &Path) -> bool {
    const NETWORK: [u64; 7] = [
        0x6969,      // NFS
        0x517B,      // SMB
        0xFF53_4D42, // CIFS
        0xFE53_4D42, // SMB 2
        0x0BD0_0BD0, // Lustre
        0x00C3_6400, // Ceph
        0x4750_4653, // GPFS
    ];
    let folder = path.parent().unwrap_or(path);
    // Whatever the sign and width of the field on this platform.
    rustix::fs::statfs(folder).is_ok_and(|found| NETWORK.contains(&(found.f_type as u64 & 0xFFFF_FFFF)))
}

/// Renames a broken file with its log. `None` when another server has done it meanwhile: under a lock the file is looked
/// at again, so that no new file is taken for the old one.
fn move_aside(path: &Path) -> Result<Option<PathBuf>, StoreError> {
    let lock = File::create(beside(path, ".lock"))?;
    lock.lock()?;
    if !is_broken(path) {
        return Ok(None);
    }
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let suffix = format!(".broken-{seconds}");
    for log in ["-wal", "-shm"] {
        match fs::rename(beside(path, log), beside(path, &format!("{suffix}{log}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let aside = beside(path, &suffix);
    fs::rename(path, &aside)?;
    Ok(Some(aside))
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Whether all of the file can be read as a database. Slow, and only asked after something went wrong.
fn is_broken(path: &Path) -> bool {
    let check = || -> rusqlite::Result<bool> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        let found: String = connection.pragma_query_value(None, "quick_check", |row| row.get(0))?;
        Ok(found == "ok")
    };
    match check() {
        Ok(is_sound) => !is_sound,
        Err(error) => StoreError::from(error).is_broken_file(),
    }
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
