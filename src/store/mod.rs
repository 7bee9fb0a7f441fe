//! Verdicts and times of earlier versions, in one SQLite file that several servers share.
//!
//! One thread of a process owns the connection; it is asked through a channel and answers within [`PATIENCE`] or not at
//! all. **Invariant:** nothing that happens to the file stops or fails a check. A file that is broken is moved aside and
//! a new one begun; a file of a newer version is left alone, and nothing is remembered until this program is updated.
//! What happened is told by [`History::complaint`].
//!
//! What an entry holds is text to this room: it does not know what a time is.

mod connection;
mod reports;
mod schema;
#[cfg(test)]
mod tests;
mod verdicts;

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;

use connection::Link;

/// How long an answer is waited for. Reading takes below a millisecond; another server may hold the file meanwhile.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// What two times must have in common to be those of one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Real path of the file.
    pub file: PathBuf,
    pub entry: String,
    pub definition: String,
    /// Axes and their values in one spelling, such as JSON with sorted names.
    pub axes: String,
    pub dtype: String,
    pub gpu_uuid: String,
}

/// One time of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: Key,
    pub code_hash: String,
    /// The commit that has this version, if known.
    pub commit: Option<String>,
    /// Unix time, in seconds.
    pub taken_at_s: u64,
    /// The time itself, as JSON.
    pub record: String,
}

/// What one check said of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerdictEntry {
    /// Real path of the file.
    pub file: PathBuf,
    /// The judged function; empty when none was found.
    pub entry: String,
    pub code_hash: String,
    pub verdict: String,
    /// Cases that passed, were wrong, could not run.
    pub passed: u64,
    pub wrong: u64,
    pub could_not_run: u64,
    /// Codes of the findings, as JSON.
    pub codes: String,
    /// Who said what is right.
    pub oracle: Option<String>,
    pub method: String,
    pub gpu: Option<String>,
    /// As JSON.
    pub versions: String,
    /// The commit that was checked out, if known.
    pub commit: Option<String>,
    /// Unix time, in seconds.
    pub judged_at_s: u64,
    /// All else, as JSON.
    pub detail: String,
}

/// The whole report of one text, as JSON that this room does not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportEntry {
    /// Real path of the file.
    pub file: PathBuf,
    pub text_hash: String,
    /// What must be the same for the report to be shown again.
    pub rests_on: String,
    /// Unix time, in seconds.
    pub judged_at_s: u64,
    pub record: String,
}

/// How much is kept. What is older, or beyond the number, is dropped; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub days: Option<u64>,
    pub verdicts: Option<u64>,
}

impl Default for Retention {
    /// A year and a month, and below 20 MB. Applied when the file is opened, once a day.
    fn default() -> Self {
        Self { days: Some(400), verdicts: Some(20_000) }
    }
}

/// What was dropped, and how many verdicts are left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    pub verdicts: usize,
    pub times: usize,
    pub kept: u64,
}

/// A handle on the history; clones share one thread, which ends with the last of them.
#[derive(Clone)]
pub struct History {
    jobs: mpsc::Sender<Job>,
    complaint: Arc<Mutex<Option<String>>>,
}

type Job = Box<dyn FnOnce(&mut Link) + Send>;

impl History {
    /// The history in this file, which is made with its folder when something is first remembered or asked. Does no
    /// I/O itself.
    pub fn open(path: &Path) -> Self {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let complaint = Arc::new(Mutex::new(None));
        let mut link = Link::new(path.to_owned(), Arc::clone(&complaint));
        let thread = std::thread::Builder::new().name("warpsmith-history".to_owned()).spawn(move || {
            for job in inbox {
                job(&mut link);
            }
        });
        if let Err(error) = thread {
            complain(&complaint, format!("nothing is remembered: no thread could be started: {error}"));
        }
        Self { jobs, complaint }
    }

    /// What is wrong with the file, or what was done about it: one sentence for a log or a status line.
    pub fn complaint(&self) -> Option<String> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps an entry. Returns whether it is in the file.
    pub async fn remember(&self, entry: Entry) -> bool {
        self.ask(move |link| link.with(|connection| schema::insert(connection, &entry))).await.is_some()
    }

    /// The newest entry of this key with other code: what the last save that was timed came to.
    pub async fn last_of_other_code(&self, key: Key, code_hash: String) -> Option<Entry> {
        let find = move |link: &mut Link| {
            link.with(|connection| schema::last_of_other_code(connection, &key, &code_hash))
        };
        self.ask(find).await.flatten()
    }

    /// The newest entry of this key with this very code, such as that of HEAD.
    pub async fn of_code(&self, key: Key, code_hash: String) -> Option<Entry> {
        let find =
            move |link: &mut Link| link.with(|connection| schema::of_code(connection, &key, &code_hash));
        self.ask(find).await.flatten()
    }

    /// The newest entries of a file, the newest first.
    pub async fn recent(&self, file: &Path, count: usize) -> Vec<Entry> {
        let file = file.to_owned();
        let find = move |link: &mut Link| link.with(|connection| schema::recent(connection, &file, count));
        self.ask(find).await.unwrap_or_default()
    }

    /// Opens the file meanwhile, so that whoever asks next need not wait for it.
    pub fn prepare(&self) {
        let job: Job = Box::new(|link| {
            link.with(|_| Ok(()));
        });
        // Without a thread there is a complaint.
        let _ = self.jobs.send(job);
    }

    /// Keeps a verdict. Returns whether it is in the file.
    pub async fn keep(&self, entry: VerdictEntry) -> bool {
        self.ask(move |link| link.with(|connection| verdicts::insert(connection, &entry))).await.is_some()
    }

    /// Keeps a report in the place of an earlier one of the same text. Returns whether it is in the file.
    pub async fn keep_report(&self, entry: ReportEntry) -> bool {
        self.ask(move |link| link.with(|connection| reports::insert(connection, &entry))).await.is_some()
    }

    /// Drops the report of this text, if there is one.
    pub async fn forget_report(&self, file: PathBuf, text_hash: String) -> bool {
        self.ask(move |link| link.with(|connection| reports::forget(connection, &file, &text_hash)))
            .await
            .is_some()
    }

    /// The report of this text.
    pub async fn report(&self, file: PathBuf, text_hash: String) -> Option<ReportEntry> {
        self.ask(move |link| link.with(|connection| reports::of_text(connection, &file, &text_hash)))
            .await
            .flatten()
    }

    /// The newest verdicts of a file or of all, the newest first. `None` when there is no history; then there is a
    /// complaint.
    pub async fn verdicts(&self, file: Option<PathBuf>, count: usize) -> Option<Vec<VerdictEntry>> {
        self.ask(move |link| link.with(|connection| verdicts::newest(connection, file.as_deref(), count)))
            .await
    }

    /// Drops what is too much, of one file or of all, and gives the room back. `None` as above.
    pub async fn prune(&self, file: Option<PathBuf>, retention: Retention) -> Option<Pruned> {
        let prune = move |link: &mut Link| {
            let pruned =
                link.with(|connection| verdicts::prune(connection, file.as_deref(), retention, now_s()))?;
            // Refused while another server reads; the room is used again then.
            link.with(|connection| Ok(connection.execute_batch("VACUUM").is_ok()));
            Some(pruned)
        };
        self.ask(prune).await
    }

    /// `None` when the thread has nothing to say, or not in time.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Link) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(move |link: &mut Link| {
            // Fails only when nobody waits any more.
            let _ = reply.send(question(link));
        });
        self.jobs.send(job).ok()?;
        tokio::time::timeout(PATIENCE, answer).await.ok()?.ok()?
    }
}

/// Unix time, in seconds.
fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The newest complaint counts; each is logged once.
fn complain(complaint: &Mutex<Option<String>>, sentence: String) {
    let mut known = complaint.lock().unwrap_or_else(PoisonError::into_inner);
    if known.as_ref() != Some(&sentence) {
        tracing::warn!("history: {sentence}");
        *known = Some(sentence);
    }
}
