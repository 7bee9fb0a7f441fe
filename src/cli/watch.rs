//! `warpsmith check --watch`: checks again when a file, or what says what is right, has other contents.
//!
//! Folders are watched and not files, as editors save by putting a new file in the place of the old one; and what
//! counts is what a file holds: a touch, or a save of the same text, starts nothing. The operating system only says
//! when to look. Where it does not (network file systems, a folder that was made anew), looking every [`TICK`] does.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::Result;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::judge::real_path;

/// How often files are looked at when nobody says that they changed.
const TICK: Duration = Duration::from_secs(2);
/// A save may be several writes: so long there must have been none.
const QUIET: Duration = Duration::from_millis(40);
/// A program that writes all the time is not waited for longer than this.
const LONGEST_SETTLING: Duration = Duration::from_millis(800);
/// A change so soon after a check may be its own.
const AFTERMATH: Duration = Duration::from_millis(150);
/// A file that changes in each of so many checks one after another is changed by them.
const TRIES: usize = 3;

/// What is done for a file.
pub(super) trait Checks {
    /// Checks the file of this number, until it is told to stop. Returns the other files that the verdict
    /// rests on, as they were when it began.
    async fn check(&mut self, file: usize, cancel: &CancellationToken) -> Result<RestsOn>;

    /// Tells the user what goes on.
    fn say(&mut self, text: &str);
}

/// Contents of a file; `None` when it cannot be read.
pub(super) type Contents = Option<blake3::Hash>;
pub(super) type RestsOn = BTreeMap<PathBuf, Contents>;

struct Watched {
    path: PathBuf,
    shown: String,
    /// What was judged last, or is judged now.
    judged: Contents,
    /// It was told that it is gone.
    is_gone: bool,
    is_due: bool,
    /// Checks in a row in which it changed.
    changed_in: usize,
    /// It changes whenever it is checked: left alone until it is written again, even with the same text.
    left_alone: Option<Stamp>,
    rests_on: RestsOn,
}

/// Checks `files` once, then each when it has changed, until `stop`.
pub(super) async fn watch(
    files: &[PathBuf],
    checks: &mut impl Checks,
    stop: &CancellationToken,
) -> Result<()> {
    let mut eyes = Eyes::new();
    let mut watched: Vec<Watched> = files.iter().map(|file| Watched::new(file)).collect();
    let mut is_waiting = false;
    while !stop.is_cancelled() {
        let complaint = eyes.follow(watched.iter().flat_map(Watched::paths));
        if let Some(complaint) = complaint {
            checks.say(&complaint);
        }
        if let Some(index) = watched.iter().position(|file| file.is_due) {
            is_waiting = false;
            check(&mut watched[index], index, (checks, &eyes), stop).await?;
        } else {
            if !is_waiting {
                is_waiting = true;
                checks.say("waiting for changes; Ctrl-C ends");
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = eyes.something() => eyes.settle().await,
            }
        }
        for file in &mut watched {
            if let Some(news) = file.look() {
                checks.say(&news);
            }
        }
    }
    Ok(())
}

/// One check of one file, begun anew when the file changes meanwhile.
async fn check(
    file: &mut Watched,
    index: usize,
    (checks, eyes): (&mut impl Checks, &Eyes),
    stop: &CancellationToken,
) -> Result<()> {
    file.is_due = false;
    file.judged = contents(&file.path);
    if file.judged.is_none() {
        if !std::mem::replace(&mut file.is_gone, true) {
            checks.say(&format!("{} cannot be read; waiting for it", file.shown));
        }
        return Ok(());
    }
    file.is_gone = false;
    let cancel = stop.child_token();
    // The last try runs to its end, so that there is a verdict of what is there.
    let is_last = file.changed_in + 1 >= TRIES;
    let (path, judged) = (file.path.clone(), file.judged);
    let rests_on = {
        let running = checks.check(index, &cancel);
        tokio::pin!(running);
        loop {
            tokio::select! {
                ended = &mut running => break ended?,
                () = eyes.something(), if !is_last && !cancel.is_cancelled() => {
                    eyes.settle().await;
                    if contents(&path) != judged {
                        cancel.cancel();
                    }
                }
            }
        }
    };
    if stop.is_cancelled() {
        return Ok(());
    }
    file.rests_on = rests_on;
    tokio::time::sleep(AFTERMATH).await;
    eyes.settle().await;
    let now = contents(&file.path);
    let has_changed = now != file.judged;
    file.changed_in = if has_changed { file.changed_in + 1 } else { 0 };
    if file.changed_in >= TRIES {
        file.changed_in = 0;
        file.judged = now;
        file.left_alone = Some(Stamp::of(&file.path));
        checks.say(&format!(
            "{} changed in each of {TRIES} checks in a row, so it is not checked again until its next save; does it, \
             or a program that it starts, write to it?",
            file.shown
        ));
    } else if cancel.is_cancelled() || has_changed {
        file.is_due = now.is_some();
        if now.is_some() {
            checks.say(&format!("{} changed meanwhile", file.shown));
        } else {
            file.judged = None;
            file.is_gone = true;
            checks.say(&format!("{} is gone; waiting for it", file.shown));
        }
    }
    Ok(())
}

impl Watched {
    fn new(file: &Path) -> Self {
        Self {
            path: std::path::absolute(file).unwrap_or_else(|_| file.to_owned()),
            shown: file.display().to_string(),
            judged: None,
            is_gone: false,
            is_due: true,
            changed_in: 0,
            left_alone: None,
            rests_on: BTreeMap::new(),
        }
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.path.as_path()).chain(self.rests_on.keys().map(PathBuf::as_path))
    }

    /// Looks whether it is to be checked again, outside of a check; what is worth telling.
    fn look(&mut self) -> Option<String> {
        if self.is_due {
            return None;
        }
        if let Some(stamp) = &self.left_alone {
            if *stamp == Stamp::of(&self.path) {
                return None;
            }
            self.left_alone = None;
            self.judged = None;
        }
        let now = contents(&self.path);
        if now.is_none() {
            return (!std::mem::replace(&mut self.is_gone, true))
                .then(|| format!("{} is gone; waiting for it", self.shown));
        }
        let is_back = std::mem::take(&mut self.is_gone);
        if now != self.judged {
            self.is_due = true;
            let word = if is_back { "is back" } else { "changed" };
            return Some(format!("{} {word}", self.shown));
        }
        let other = self.rests_on.iter().find(|(path, then)| contents(path) != **then);
        if let Some((path, _)) = other {
            self.is_due = true;
            return Some(format!("{} changed, which {} rests on", path.display(), self.shown));
        }
        is_back.then(|| format!("{} is back, as it was", self.shown))
    }
}

fn contents(path: &Path) -> Contents {
    // To open a pipe is to wait for whoever writes into it.
    let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file.then(|| std::fs::read(path).ok().map(|bytes| blake3::hash(&bytes))).flatten()
}

/// When a file was written, and whether it is the same one.
#[derive(PartialEq, Eq)]
struct Stamp(Option<(u64, u64, Option<SystemTime>)>);

impl Stamp {
    fn of(path: &Path) -> Self {
        let found = std::fs::metadata(path);
        Self(found.ok().map(|found| (found.dev(), found.ino(), found.modified().ok())))
    }
}

/// Knows when it is worth looking.
struct Eyes {
    watcher: Option<RecommendedWatcher>,
    /// Why there is none, or why it does not see a folder.
    complaint: Option<String>,
    has_complained: bool,
    woken: Arc<Notify>,
    /// Names of files that somebody wants to know of.
    names: Arc<Mutex<BTreeSet<OsString>>>,
    /// Watched folders, as they were then: one that was made anew is another.
    folders: BTreeMap<PathBuf, (u64, u64)>,
}

impl Eyes {
    fn new() -> Self {
        let (woken, names) = (Arc::new(Notify::new()), Arc::new(Mutex::new(BTreeSet::new())));
        let (wake, wanted) = (Arc::clone(&woken), Arc::clone(&names));
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let names = wanted.lock().unwrap_or_else(PoisonError::into_inner);
            if event.is_ok_and(|event| is_news(&event, &names)) {
                wake.notify_one();
            }
        });
        let (watcher, complaint) = match watcher {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self { watcher, complaint, has_complained: false, woken, names, folders: BTreeMap::new() }
    }

    /// Watches the folders of these files, and of the files that they are links to. What to tell the user, once.
    fn follow<'a>(&mut self, files: impl Iterator<Item = &'a Path>) -> Option<String> {
        let mut folders = BTreeSet::new();
        let mut names = BTreeSet::new();
        for file in files {
            for path in [file.to_owned(), real_path(file)] {
                names.extend(path.file_name().map(OsString::from));
                folders.extend(path.parent().map(Path::to_owned));
            }
        }
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
        if let Some(watcher) = &mut self.watcher {
            for folder in folders {
                let Ok(found) = std::fs::metadata(&folder) else {
                    self.folders.remove(&folder);
                    continue;
                };
                let identity = (found.dev(), found.ino());
                if self.folders.get(&folder) == Some(&identity) {
                    continue;
                }
                // Of a folder that is no more, the watch is gone already.
                let _ = watcher.unwatch(&folder);
                match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                    Ok(()) => {
                        self.folders.insert(folder, identity);
                    }
                    Err(error) => self.complaint = Some(error.to_string()),
                }
            }
        }
        let complaint = self.complaint.as_ref().filter(|_| !self.has_complained)?;
        self.has_complained = true;
        Some(format!("changes are looked for every {} s only: {complaint}", TICK.as_secs()))
    }

    /// Until there may be something new.
    async fn something(&self) {
        // Fails when nothing was heard, which is no reason not to look.
        let _ = tokio::time::timeout(TICK, self.woken.notified()).await;
    }

    /// Until nothing was heard for a moment.
    async fn settle(&self) {
        let quiet = async { while tokio::time::timeout(QUIET, self.woken.notified()).await.is_ok() {} };
        let _ = tokio::time::timeout(LONGEST_SETTLING, quiet).await;
    }
}

/// Reading is no news: what we read ourselves would keep us reading. Nor are other files, such as what a kernel's run
/// or our own caches leave beside the watched ones.
fn is_news(event: &Event, names: &BTreeSet<OsString>) -> bool {
    let is_write = match event.kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    };
    let is_wanted = |path: &PathBuf| path.file_name().is_none_or(|name| names.contains(name));
    event.need_rescan() || (is_write && (event.paths.is_empty() || event.paths.iter().any(is_wanted)))
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
