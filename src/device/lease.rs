//! The exclusive right to time on one GPU, among all users of a machine.
//!
//! A lock file per GPU in the folder for temporary files; `flock` decides, and what stands in the file only says who
//! has it. The kernel gives a lock back when its owner ends, however it ends. A second file is a turnstile: whoever
//! waits holds it, and whoever wants the lease passes it first, so that a process that times one kernel after
//! another cannot take the lease again before one that has been waiting.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Overrides the folder of the lock files: for tests.
pub const FOLDER_VARIABLE: &str = "WARPSMITH_LEASE_DIR";

/// How often a lease that is taken is asked for.
const POLL: Duration = Duration::from_millis(20);
/// What is read of a lock file: it may have been written by anybody.
const MAX_TOLD_BYTES: usize = 4096;
const MAX_WORD_CHARS: usize = 200;

/// Where the lock files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseFolder(PathBuf);

impl LeaseFolder {
    /// The value of `WARPSMITH_LEASE_DIR` when it is an absolute path, else `/tmp`. Not `TMPDIR`: that differs
    /// between users, and two of them would time at the same moment.
    pub fn of_variable(value: Option<&OsStr>) -> Self {
        let named = value.map(PathBuf::from).filter(|path| path.is_absolute());
        Self(named.unwrap_or_else(|| PathBuf::from("/tmp")))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, uuid: &str, ending: &str) -> PathBuf {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        self.0.join(format!("warpsmith-{}.{ending}", uuid.chars().map(plain).collect::<String>()))
    }
}

/// Who has a lease, as that process wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub pid: u32,
    pub user: String,
    pub host: String,
    /// Seconds since 1970.
    pub since_unix_s: u64,
    /// What it is for.
    pub what: String,
    /// The version of warpsmith.
    pub warpsmith: String,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {})", self.user, self.pid)
    }
}

impl Owner {
    fn this_process(what: &str) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            pid: std::process::id(),
            user: user_name(),
            host: host_name(),
            since_unix_s: since.as_secs(),
            what: what.to_owned(),
            warpsmith: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// What stands in a lock file that is locked. One who is no longer alive on this host left it behind: whoever
    /// has the lock now has not written yet.
    fn read(file: &File) -> Option<Self> {
        let mut bytes = vec![0; MAX_TOLD_BYTES];
        let length = file.read_at(&mut bytes, 0).ok()?;
        let mut owner: Self = serde_json::from_slice(&bytes[..length]).ok()?;
        let is_elsewhere = owner.host != host_name();
        if !is_elsewhere && !Path::new("/proc").join(owner.pid.to_string()).exists() {
            return None;
        }
        for word in [&mut owner.user, &mut owner.host, &mut owner.what, &mut owner.warpsmith] {
            *word = word.chars().filter(|c| !c.is_control()).take(MAX_WORD_CHARS).collect();
        }
        Some(owner)
    }

    #[cfg(test)]
    pub(crate) fn example() -> Self {
        Self { pid: 4321, user: "ada".to_owned(), ..Self::this_process("softmax") }
    }
}

/// From `/etc/passwd`, else the number. Variables are not asked: they say what the user likes.
fn user_name() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let names = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let mut users = names.lines().map(|line| line.split(':'));
    let own = users.find_map(|mut fields| {
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    });
    own.unwrap_or_else(|| format!("user {uid}"))
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    #[error(
        "{} cannot be written ({source}), so nobody can be kept from timing at the same moment: make that folder \
         writable for all users (mode 1777)", folder.display()
    )]
    Folder { folder: PathBuf, source: io::Error },
    #[error("{} belongs to another user and cannot be opened ({source}): ask them, or an administrator, to run `chmod 666` on it", path.display())]
    Forbidden { path: PathBuf, source: io::Error },
    #[error("{} is not the plain file that warpsmith makes there: remove it", path.display())]
    NotAFile { path: PathBuf },
    #[error("{}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("after {waited_s:.0} s {} still has the GPU for timing", .owner.as_ref().map_or_else(|| "another process".to_owned(), Owner::to_string))]
    StillTaken { owner: Option<Owner>, waited_s: f64 },
    #[error("cancelled")]
    Cancelled,
}

/// What came of asking for a lease.
#[derive(Debug)]
pub enum Attempt {
    Acquired(Lease),
    /// By whom, if that is known.
    Taken(Option<Owner>),
}

/// The exclusive right to time on one GPU. Dropping it gives it back.
#[derive(Debug)]
pub struct Lease {
    lock: Lock,
    owner: Owner,
}

impl Lease {
    /// Asks once. Never waits; does a few system calls on local files.
    ///
    /// `what` is told to those who wait: `softmax.py`.
    ///
    /// # Errors
    /// The lock file cannot be made or opened.
    pub fn try_acquire(folder: &LeaseFolder, uuid: &str, what: &str) -> Result<Attempt, LeaseError> {
        let Some(_turnstile) = Turnstile::try_pass(folder, uuid)? else {
            return Ok(Attempt::Taken(Self::owner(folder, uuid)?));
        };
        Self::try_past_turnstile(folder, uuid, what)
    }

    fn try_past_turnstile(folder: &LeaseFolder, uuid: &str, what: &str) -> Result<Attempt, LeaseError> {
        match Lock::try_take(folder, &folder.file(uuid, "lock"))? {
            Err(taken) => Ok(Attempt::Taken(Owner::read(&taken))),
            Ok(lock) => {
                let owner = Owner::this_process(what);
                lock.tell(&owner)?;
                Ok(Attempt::Acquired(Self { lock, owner }))
            }
        }
    }

    /// Waits for it up to `wait_up_to` (zero: asks once). `on_waiting` is called whenever the one that is waited
    /// for changes, with who it is where that is known.
    ///
    /// # Errors
    /// The lock file cannot be made or opened, the time is over ([`LeaseError::StillTaken`]), or `cancel` was called.
    pub async fn acquire(
        folder: &LeaseFolder,
        uuid: &str,
        what: &str,
        wait_up_to: Duration,
        cancel: &CancellationToken,
        mut on_waiting: impl FnMut(Option<&Owner>),
    ) -> Result<Self, LeaseError> {
        let start = Instant::now();
        let mut turnstile = None;
        let mut told: Option<Option<Owner>> = None;
        loop {
            if cancel.is_cancelled() {
                return Err(LeaseError::Cancelled);
            }
            if turnstile.is_none() {
                turnstile = Turnstile::try_pass(folder, uuid)?;
            }
            let attempt = match turnstile {
                Some(_) => Self::try_past_turnstile(folder, uuid, what)?,
                None => Attempt::Taken(Self::owner(folder, uuid)?),
            };
            let owner = match attempt {
                Attempt::Acquired(lease) => return Ok(lease),
                Attempt::Taken(owner) => owner,
            };
            let waited = start.elapsed();
            if waited >= wait_up_to {
                return Err(LeaseError::StillTaken { owner, waited_s: waited.as_secs_f64() });
            }
            if told.as_ref() != Some(&owner) {
                on_waiting(owner.as_ref());
                told = Some(owner);
            }
            tokio::select! {
                () = tokio::time::sleep(POLL.min(wait_up_to - waited)) => {}
                () = cancel.cancelled() => return Err(LeaseError::Cancelled),
            }
        }
    }

    /// Who has the lease now; `None` when nobody has it, or somebody who has not said yet who it is. Takes nothing.
    ///
    /// # Errors
    /// The lock file is there and cannot be opened.
    pub fn owner(folder: &LeaseFolder, uuid: &str) -> Result<Option<Owner>, LeaseError> {
        let path = folder.file(uuid, "lock");
        match open(&path, OFlags::RDONLY) {
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(cannot_open(&path, error)),
            // A shared lock for a moment: it is refused exactly when somebody has the lease. One who asks in
            // that moment asks again (see `Lock::try_take`).
            Ok(file) => match rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => Ok(None),
                Err(_) => Ok(Owner::read(&file)),
            },
        }
    }

    /// What this process has written into the lock file.
    pub fn as_owner(&self) -> &Owner {
        &self.owner
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Before the lock goes: afterwards the file may be another's.
        let _ = self.lock.file.set_len(0);
    }
}

/// Held by the one who is next.
#[derive(Debug)]
struct Turnstile {
    _lock: Lock,
}

impl Turnstile {
    fn try_pass(folder: &LeaseFolder, uuid: &str) -> Result<Option<Self>, LeaseError> {
        Ok(Lock::try_take(folder, &folder.file(uuid, "next"))?.ok().map(|lock| Self { _lock: lock }))
    }
}

/// An exclusive lock on the file that has a path.
#[derive(Debug)]
struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child that is between fork and exec has the same open file: closing ours would not be enough.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Lock {
    /// The inner error is the file of a lock that somebody else has.
    fn try_take(folder: &LeaseFolder, path: &Path) -> Result<Result<Self, File>, LeaseError> {
        const ATTEMPTS: u32 = 3;
        let mut attempt = 1;
        loop {
            let file = open_or_make(folder, path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_file_at(&file, path) => return Ok(Ok(Self { file })),
                // Somebody cleaned the folder meanwhile: a lock on a file without a name excludes nobody.
                Ok(()) if attempt < ATTEMPTS => {}
                Ok(()) => return Err(LeaseError::NotAFile { path: path.to_owned() }),
                // Perhaps only by one who looks who has it.
                Err(Errno::WOULDBLOCK) if attempt < ATTEMPTS && Owner::read(&file).is_none() => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(Errno::WOULDBLOCK) => return Ok(Err(file)),
                Err(error) => return Err(LeaseError::Io { path: path.to_owned(), source: error.into() }),
            }
            attempt += 1;
        }
    }

    fn tell(&self, owner: &Owner) -> Result<(), LeaseError> {
        let mut file = &self.file;
        let written = serde_json::to_vec(owner).map_err(io::Error::from).and_then(|text| {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&text)
        });
        match written {
            Ok(()) => Ok(()),
            // The lock counts, not the text: on a full disk it is still held.
            Err(error) if error.kind() == ErrorKind::StorageFull => Ok(()),
            Err(source) => Err(LeaseError::Io { path: PathBuf::from("the lock file"), source }),
        }
    }
}

fn is_file_at(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), path.symlink_metadata()) else { return false };
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

/// Never follows a link, which anybody may have put there, and never waits for the other end of a pipe.
fn open(path: &Path, how: OFlags) -> Result<File, Errno> {
    let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

/// Opened before it is made: in a folder like `/tmp` the kernel refuses `O_CREAT` for a file of another user that is
/// there already (`fs.protected_regular`).
fn open_or_make(folder: &LeaseFolder, path: &Path) -> Result<File, LeaseError> {
    let file = match open(path, OFlags::RDWR) {
        Err(Errno::NOENT) => match open(path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL) {
            Ok(file) => {
                // Whatever the umask took away: all users share it.
                let mode = Mode::from_raw_mode(0o666);
                rustix::fs::fchmod(&file, mode)
                    .map_err(|error| LeaseError::Io { path: path.to_owned(), source: error.into() })?;
                Ok(file)
            }
            // Another was faster.
            Err(Errno::EXIST) => open(path, OFlags::RDWR),
            Err(error) => {
                return Err(LeaseError::Folder { folder: folder.0.clone(), source: error.into() });
            }
        },
        other => other,
    };
    let file = file.map_err(|error| cannot_open(path, error))?;
    let is_plain = file.metadata().is_ok_and(|metadata| metadata.is_file());
    if is_plain { Ok(file) } else { Err(LeaseError::NotAFile { path: path.to_owned() }) }
}

fn cannot_open(path: &Path, error: Errno) -> LeaseError {
    let (path, source) = (path.to_owned(), error.into());
    match error {
        Errno::ACCESS | Errno::PERM => LeaseError::Forbidden { path, source },
        Errno::LOOP | Errno::ISDIR | Errno::NXIO => LeaseError::NotAFile { path },
        _ => LeaseError::Io { path, source },
    }
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;
