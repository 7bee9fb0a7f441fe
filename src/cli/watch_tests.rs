use std::fs;
use std::time::Instant;

use notify::event::{CreateKind, ModifyKind};
use tokio::sync::mpsc;

use super::*;

type Action = Box<dyn FnMut(usize) + Send>;

/// Counts, does what the test says while a check runs, and tells the test.
struct Fake {
    checks: usize,
    rests_on: Vec<PathBuf>,
    /// Done at the beginning of each check, with its number from 1.
    action: Action,
    lasting: Duration,
    told: mpsc::UnboundedSender<String>,
}

impl Checks for Fake {
    async fn check(&mut self, file: usize, cancel: &CancellationToken) -> Result<RestsOn> {
        let rests_on = self.rests_on.iter().map(|path| (path.clone(), contents(path))).collect();
        self.checks += 1;
        (self.action)(self.checks);
        tokio::select! {
            () = cancel.cancelled() => self.say(&format!("cancelled {file}")),
            () = tokio::time::sleep(self.lasting) => self.say(&format!("checked {file}")),
        }
        Ok(rests_on)
    }

    fn say(&mut self, text: &str) {
        let _ = self.told.send(text.to_owned());
    }
}

struct Watching {
    folder: tempfile::TempDir,
    told: mpsc::UnboundedReceiver<String>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<usize>,
}

impl Watching {
    /// Of `k.py`, with `ref.py` beside it.
    fn start(lasting: Duration, action: impl FnMut(usize, &Path) + Send + 'static) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("k.py"), "one").expect("written");
        fs::write(folder.path().join("ref.py"), "one").expect("written");
        Self::start_in(folder, lasting, action)
    }

    fn start_in(
        folder: tempfile::TempDir,
        lasting: Duration,
        mut action: impl FnMut(usize, &Path) + Send + 'static,
    ) -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let file = folder.path().join("k.py");
        let acted = file.clone();
        let mut fake = Fake {
            checks: 0,
            rests_on: vec![folder.path().join("ref.py")],
            action: Box::new(move |number| action(number, &acted)),
            lasting,
            told: tell,
        };
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            watch(&[file], &mut fake, &stopped).await.expect("it ends well");
            fake.checks
        });
        Self { folder, told, stop, task }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("k.py")
    }

    /// What is told until it waits again, without paths.
    async fn until_waiting(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = tokio::time::timeout(Duration::from_secs(20), self.told.recv()).await;
            let line = line.unwrap_or_else(|_| panic!("nothing after {lines:?}")).expect("it runs");
            if line.starts_with("waiting") {
                return lines;
            }
            lines.push(line.replace(&format!("{}/", self.folder.path().display()), ""));
        }
    }

    /// Nothing is told for a while, longer than a tick.
    async fn assert_silent(&mut self) {
        let line = tokio::time::timeout(TICK + Duration::from_millis(500), self.told.recv()).await;
        assert!(line.is_err(), "{line:?}");
    }

    /// How many checks there were.
    async fn end(self) -> usize {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_secs(5), self.task).await.expect("it ends").expect("no panic")
    }
}

const SHORT: Duration = Duration::from_millis(20);

#[tokio::test]
async fn other_contents_start_a_check_however_they_come() {
    let mut watching = Watching::start(SHORT, |_, _| {});
    assert_eq!(watching.until_waiting().await, ["checked 0"]);
    let began = Instant::now();
    fs::write(watching.file(), "two").expect("written");
    assert_eq!(watching.until_waiting().await, ["k.py changed", "checked 0"]);
    assert!(began.elapsed() < TICK, "the system says so at once");
    // As most editors save: a new file in the place of the old one.
    let new = watching.folder.path().join(".k.py.swp");
    fs::write(&new, "three").expect("written");
    fs::rename(&new, watching.file()).expect("renamed");
    assert_eq!(watching.until_waiting().await, ["k.py changed", "checked 0"]);
    assert_eq!(watching.end().await, 3);
}

#[tokio::test]
async fn a_touch_a_save_of_the_same_text_and_files_beside_it_start_nothing() {
    let mut watching = Watching::start(SHORT, |_, file| {
        // As a run of Python leaves it.
        let cache = file.with_file_name("__pycache__");
        fs::create_dir_all(&cache).expect("a folder");
        fs::write(cache.join("k.cpython-312.pyc"), "x").expect("written");
        fs::write(file.with_file_name("log.txt"), "x").expect("written");
    });
    assert_eq!(watching.until_waiting().await, ["checked 0"]);
    let file = fs::File::options().append(true).open(watching.file()).expect("opened");
    file.set_modified(SystemTime::now()).expect("touched");
    fs::write(watching.file(), "one").expect("written");
    fs::write(watching.folder.path().join("other.py"), "x").expect("written");
    watching.assert_silent().await;
    assert_eq!(watching.end().await, 1);
}

#[tokio::test]
async fn what_says_what_is_right_is_watched_too() {
    let mut watching = Watching::start(SHORT, |_, _| {});
    watching.until_waiting().await;
    fs::write(watching.folder.path().join("ref.py"), "two").expect("written");
    assert_eq!(watching.until_waiting().await, ["ref.py changed, which k.py rests on", "checked 0"]);
    assert_eq!(watching.end().await, 2);
}

#[tokio::test]
async fn what_says_what_is_right_may_change_during_a_check() {
    let mut watching = Watching::start(Duration::from_millis(200), |number, file| {
        if number == 1 {
            fs::write(file.with_file_name("ref.py"), "two").expect("written");
        }
    });
    let told = watching.until_waiting().await;
    assert_eq!(told, ["checked 0", "ref.py changed, which k.py rests on", "checked 0"]);
    assert_eq!(watching.end().await, 2);
}

#[tokio::test]
async fn a_file_that_is_deleted_and_comes_back() {
    let mut watching = Watching::start(SHORT, |_, _| {});
    watching.until_waiting().await;
    fs::remove_file(watching.file()).expect("removed");
    let told = watching.told.recv().await.expect("told");
    assert!(told.ends_with("k.py is gone; waiting for it"), "{told}");
    fs::write(watching.file(), "one").expect("written");
    let told = watching.told.recv().await.expect("told");
    assert!(told.ends_with("k.py is back, as it was"), "{told}");
    fs::remove_file(watching.file()).expect("removed");
    let _ = watching.told.recv().await;
    fs::write(watching.file(), "two").expect("written");
    assert_eq!(watching.until_waiting().await, ["k.py is back", "checked 0"]);
    assert_eq!(watching.end().await, 2);
}

/// As `git switch` may do.
#[tokio::test]
async fn a_folder_that_is_made_anew() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).expect("a folder");
    fs::write(inner.join("k.py"), "one").expect("written");
    let (tell, mut told) = mpsc::unbounded_channel();
    let (stop, file) = (CancellationToken::new(), inner.join("k.py"));
    let mut fake =
        Fake { checks: 0, rests_on: Vec::new(), action: Box::new(|_| {}), lasting: SHORT, told: tell };
    let (stopped, watched) = (stop.clone(), file.clone());
    let task =
        tokio::spawn(async move { watch(&[watched], &mut fake, &stopped).await.map(|()| fake.checks) });
    let mut heard = async |words: &str| {
        let heard = async { while told.recv().await.is_some_and(|told| !told.contains(words)) {} };
        tokio::time::timeout(Duration::from_secs(20), heard).await.unwrap_or_else(|_| panic!("no {words}"));
    };
    heard("waiting").await;
    fs::remove_dir_all(&inner).expect("removed");
    heard("is gone").await;
    fs::create_dir(&inner).expect("a folder");
    fs::write(&file, "two").expect("written");
    heard("is back").await;
    heard("waiting").await;
    fs::write(&file, "three").expect("written");
    heard("changed").await;
    heard("waiting").await;
    stop.cancel();
    assert_eq!(task.await.expect("no panic").expect("it ends well"), 3);
}

#[tokio::test]
async fn a_file_that_is_not_there_yet_is_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut watching = Watching::start_in(folder, SHORT, |_, _| {});
    assert_eq!(watching.until_waiting().await, ["k.py cannot be read; waiting for it"]);
    fs::write(watching.file(), "one").expect("written");
    assert_eq!(watching.until_waiting().await, ["k.py is back", "checked 0"]);
    assert_eq!(watching.end().await, 1);
}

#[tokio::test]
async fn a_change_during_a_check_begins_it_anew() {
    let mut watching = Watching::start(Duration::from_millis(600), |_, _| {});
    tokio::time::sleep(Duration::from_millis(100)).await;
    fs::write(watching.file(), "two").expect("written");
    assert_eq!(watching.until_waiting().await, ["cancelled 0", "k.py changed meanwhile", "checked 0"]);
    assert_eq!(watching.end().await, 2);
}

#[tokio::test]
async fn a_check_that_rewrites_its_file_is_run_three_times() {
    let mut watching = Watching::start(Duration::from_millis(200), |number, file| {
        fs::write(file, format!("by check {number}")).expect("written");
    });
    let told = watching.until_waiting().await;
    let last = told.last().expect("told");
    assert!(last.starts_with("k.py changed in each of 3 checks in a row"), "{told:?}");
    assert_eq!(told[told.len() - 2], "checked 0", "the last one runs to its end");
    watching.assert_silent().await;
    // The next save is checked, even of the same text.
    let text = fs::read(watching.file()).expect("read");
    fs::write(watching.file(), text).expect("written");
    let again = watching.until_waiting().await;
    assert!(again.last().is_some_and(|last| last.contains("3 checks in a row")), "{again:?}");
    assert_eq!(watching.end().await, 6);
}

#[tokio::test]
async fn it_ends_in_the_middle_of_a_check() {
    let watching = Watching::start(Duration::from_secs(60), |_, _| {});
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(watching.end().await, 1);
}

#[test]
fn reading_and_other_files_are_no_news() {
    let names: BTreeSet<OsString> = ["k.py".into()].into();
    let event = |kind, path: &str| Event::new(kind).add_path(path.into());
    assert!(is_news(&event(EventKind::Modify(ModifyKind::Any), "/a/k.py"), &names));
    assert!(is_news(&event(EventKind::Access(AccessKind::Close(AccessMode::Write)), "/a/k.py"), &names));
    assert!(!is_news(&event(EventKind::Access(AccessKind::Open(AccessMode::Any)), "/a/k.py"), &names));
    assert!(!is_news(&event(EventKind::Access(AccessKind::Read), "/a/k.py"), &names));
    assert!(!is_news(&event(EventKind::Create(CreateKind::File), "/a/__pycache__"), &names));
    assert!(is_news(&Event::new(EventKind::Other).set_flag(notify::event::Flag::Rescan), &names));
}
