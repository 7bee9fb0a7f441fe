use std::fs;
use std::time::Instant;

use rusqlite::Connection;

use super::*;

fn key(axes: &str) -> Key {
    Key {
        file: "/kernels/softmax.py".into(),
        entry: "softmax".to_owned(),
        definition: "softmax".to_owned(),
        axes: axes.to_owned(),
        dtype: "float16".to_owned(),
        gpu_uuid: "GPU-1".to_owned(),
    }
}

fn entry(axes: &str, code: &str, taken_at_s: u64) -> Entry {
    Entry {
        key: key(axes),
        code_hash: code.to_owned(),
        commit: (code == "head").then(|| "a1b2c3d".to_owned()),
        taken_at_s,
        record: format!("{{\"at\":{taken_at_s}}}"),
    }
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("state/history.sqlite")
    }

    /// Names of the files beside the history.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path().join("state")).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }
}

#[tokio::test]
async fn the_last_save_and_head_are_found_again() {
    let folder = Folder::new();
    let history = History::open(&folder.file());
    assert_eq!(history.last_of_other_code(key("N=1"), "one".to_owned()).await, None);
    for made in [
        entry("N=1", "head", 5),
        entry("N=1", "one", 4),
        entry("N=2", "other axes", 6),
        entry("N=1", "two", 3),
        entry("N=1", "two", 2),
    ] {
        assert!(history.remember(made).await);
    }
    let before_two = history.last_of_other_code(key("N=1"), "two".to_owned()).await;
    assert_eq!(before_two, Some(entry("N=1", "one", 4)), "the newest by order, not by the clock");
    let at_head = history.of_code(key("N=1"), "head".to_owned()).await;
    assert_eq!(at_head.and_then(|found| found.commit).as_deref(), Some("a1b2c3d"));
    assert_eq!(history.of_code(key("N=1"), "two".to_owned()).await, Some(entry("N=1", "two", 2)));
    let other_gpu = Key { gpu_uuid: "GPU-2".to_owned(), ..key("N=1") };
    assert_eq!(history.of_code(other_gpu, "two".to_owned()).await, None);
    let recent = history.recent(&key("").file, 3).await;
    assert_eq!(recent, [entry("N=1", "two", 2), entry("N=1", "two", 3), entry("N=2", "other axes", 6)]);
    assert_eq!(history.complaint(), None);
}

#[tokio::test]
async fn several_servers_share_the_file() {
    let folder = Folder::new();
    let servers: Vec<History> = (0..4).map(|_| History::open(&folder.file())).collect();
    let writes = servers.iter().enumerate().flat_map(|(server, history)| {
        (0..10).map(move |at| {
            let (history, made) = (history.clone(), entry("N=1", &format!("{server}-{at}"), at));
            tokio::spawn(async move { history.remember(made).await })
        })
    });
    for write in writes.collect::<Vec<_>>() {
        assert!(write.await.expect("no panic"));
    }
    assert_eq!(servers[0].recent(&key("").file, 100).await.len(), 40);
    assert!(servers.iter().all(|history| history.complaint().is_none()));
}

#[tokio::test]
async fn a_broken_file_is_moved_aside() {
    let folder = Folder::new();
    fs::create_dir_all(folder.file().parent().expect("a folder")).expect("a folder");
    fs::write(folder.file(), "this is no database, whatever its name says. ".repeat(100)).expect("a file");
    let history = History::open(&folder.file());
    assert!(history.remember(entry("N=1", "one", 1)).await);
    assert_eq!(history.recent(&key("").file, 9).await.len(), 1);
    let complaint = history.complaint().expect("it is told");
    assert!(complaint.contains("was broken; it was moved to"), "{complaint}");
    assert!(folder.names().iter().any(|name| name.starts_with("history.sqlite.broken-")));
}

#[tokio::test]
async fn a_file_that_breaks_while_it_is_used_is_moved_aside() {
    let folder = Folder::new();
    {
        let history = History::open(&folder.file());
        for at in 0..200 {
            assert!(history.remember(entry("N=1", "one", at)).await);
        }
        let connection = Connection::open(folder.file()).expect("opens");
        connection.pragma_update(None, "wal_checkpoint", "truncate").expect("one file");
    }
    // The first page with the schema stays.
    let mut bytes = fs::read(folder.file()).expect("a file");
    bytes[4096..].fill(0x5A);
    fs::write(folder.file(), bytes).expect("a file");
    for log in ["-wal", "-shm"] {
        let mut name = folder.file().into_os_string();
        name.push(log);
        let _ = fs::remove_file(name);
    }
    let history = History::open(&folder.file());
    assert!(history.remember(entry("N=1", "two", 1)).await);
    assert_eq!(history.recent(&key("").file, 9).await.len(), 1);
    assert!(history.complaint().is_some_and(|told| told.contains("moved to")));
}

#[tokio::test]
async fn a_server_follows_another_that_moved_the_file_aside() {
    let folder = Folder::new();
    let (one, other) = (History::open(&folder.file()), History::open(&folder.file()));
    assert!(one.remember(entry("N=1", "one", 1)).await);
    assert!(other.remember(entry("N=1", "two", 2)).await);
    for log in ["-wal", "-shm"] {
        let mut name = folder.file().into_os_string();
        name.push(log);
        let _ = fs::remove_file(name);
    }
    fs::rename(folder.file(), folder.0.path().join("aside")).expect("renamed");
    assert!(one.remember(entry("N=1", "three", 3)).await);
    assert!(other.remember(entry("N=1", "four", 4)).await);
    let codes: Vec<String> =
        one.recent(&key("").file, 9).await.into_iter().map(|found| found.code_hash).collect();
    assert_eq!(codes, ["four", "three"]);
}

#[tokio::test]
async fn a_newer_file_is_left_alone() {
    let folder = Folder::new();
    assert!(History::open(&folder.file()).remember(entry("N=1", "one", 1)).await);
    let connection = Connection::open(folder.file()).expect("opens");
    connection.pragma_update(None, "user_version", schema::VERSION + 1).expect("written");
    let history = History::open(&folder.file());
    assert!(!history.remember(entry("N=1", "two", 2)).await);
    assert!(history.recent(&key("").file, 9).await.is_empty());
    let complaint = history.complaint().expect("it is told");
    assert!(
        complaint.contains("a newer warpsmith wrote it (version 4, this one reads up to 3)"),
        "{complaint}"
    );
    assert!(!folder.names().iter().any(|name| name.contains("broken")));
    let kept: i64 = connection.query_row("SELECT count(*) FROM timing", [], |row| row.get(0)).expect("rows");
    assert_eq!(kept, 1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_costs_no_time() {
    let folder = Folder::new();
    fs::write(folder.0.path().join("state"), "a file where a folder should be").expect("a file");
    let history = History::open(&folder.file());
    let start = Instant::now();
    assert!(!history.remember(entry("N=1", "one", 1)).await);
    assert!(!history.remember(entry("N=1", "two", 1)).await);
    assert!(start.elapsed() < PATIENCE);
    assert!(history.complaint().is_some_and(|told| told.contains("is not used")));
}

#[tokio::test]
async fn a_file_that_is_held_is_not_waited_for_long() {
    let folder = Folder::new();
    assert!(History::open(&folder.file()).remember(entry("N=1", "one", 1)).await);
    let holder = Connection::open(folder.file()).expect("opens");
    holder.execute_batch("BEGIN IMMEDIATE").expect("held");
    let history = History::open(&folder.file());
    let start = Instant::now();
    assert!(!history.remember(entry("N=1", "two", 2)).await);
    assert!(start.elapsed() < PATIENCE + Duration::from_millis(500));
    holder.execute_batch("COMMIT").expect("free");
    assert!(history.remember(entry("N=1", "three", 3)).await, "tried again at once");
}

#[tokio::test]
async fn a_file_that_is_removed_is_begun_anew() {
    let folder = Folder::new();
    let history = History::open(&folder.file());
    assert!(history.remember(entry("N=1", "one", 1)).await);
    fs::remove_dir_all(folder.0.path().join("state")).expect("removed");
    assert!(history.remember(entry("N=1", "two", 2)).await);
    assert_eq!(History::open(&folder.file()).recent(&key("").file, 9).await.len(), 1);
}

#[test]
fn old_entries_of_a_key_are_dropped() {
    let mut connection = Connection::open_in_memory().expect("opens");
    schema::migrate(&mut connection).expect("a new file");
    let count = schema::KEPT + 5;
    for at in 0..count {
        schema::insert(&mut connection, &entry("N=1", "one", at as u64)).expect("inserted");
    }
    schema::insert(&mut connection, &entry("N=2", "one", 0)).expect("inserted");
    let kept = schema::recent(&connection, &key("").file, usize::MAX).expect("read");
    assert_eq!(kept.len(), schema::KEPT + 1);
    assert_eq!(kept.last().map(|oldest| oldest.taken_at_s), Some(5));
}

#[test]
fn migrating_twice_changes_nothing() {
    let mut connection = Connection::open_in_memory().expect("opens");
    schema::migrate(&mut connection).expect("a new file");
    schema::migrate(&mut connection).expect("nothing to do");
    assert_eq!(schema::version(&connection).expect("read"), schema::VERSION);
}

fn verdict(file: &str, at_s: u64) -> VerdictEntry {
    VerdictEntry {
        file: file.into(),
        entry: "softmax".to_owned(),
        code_hash: format!("code {at_s}"),
        verdict: "wrong".to_owned(),
        passed: 3,
        wrong: 2,
        could_not_run: 1,
        codes: r#"["race"]"#.to_owned(),
        oracle: Some("torch".to_owned()),
        method: "gpu".to_owned(),
        gpu: Some("GPU-1".to_owned()),
        versions: r#"{"torch":"2.15"}"#.to_owned(),
        commit: Some("a1b2c3d".to_owned()),
        judged_at_s: at_s,
        detail: "{}".to_owned(),
    }
}

#[tokio::test]
async fn verdicts_are_found_again_the_newest_first() {
    let folder = Folder::new();
    let history = History::open(&folder.file());
    assert_eq!(history.verdicts(None, 9).await, Some(Vec::new()));
    // Recent ones: older ones would be dropped by whoever opens the file next.
    let now = now_s();
    for made in [verdict("/a.py", now - 5), verdict("/b.py", now - 9), verdict("/a.py", now - 7)] {
        assert!(history.keep(made).await);
    }
    let of_a = history.verdicts(Some("/a.py".into()), 9).await;
    assert_eq!(of_a, Some(vec![verdict("/a.py", now - 7), verdict("/a.py", now - 5)]));
    let all = History::open(&folder.file()).verdicts(None, 2).await;
    assert_eq!(all, Some(vec![verdict("/a.py", now - 7), verdict("/b.py", now - 9)]));
}

#[tokio::test]
async fn several_servers_keep_verdicts_and_prune() {
    let folder = Folder::new();
    let servers: Vec<History> = (0..4).map(|_| History::open(&folder.file())).collect();
    let now = now_s();
    let writes = servers.iter().flat_map(|history| {
        (0..10).map(move |at| {
            let (history, made) = (history.clone(), verdict("/a.py", now - at));
            tokio::spawn(async move { history.keep(made).await })
        })
    });
    for write in writes.collect::<Vec<_>>() {
        assert!(write.await.expect("no panic"));
    }
    let keep = Retention { days: None, verdicts: Some(15) };
    let pruned = servers[0].prune(None, keep).await;
    assert_eq!(pruned, Some(Pruned { verdicts: 25, times: 0, kept: 15 }));
    assert_eq!(servers[3].verdicts(None, 100).await.map(|found| found.len()), Some(15));
    assert!(servers.iter().all(|history| history.complaint().is_none()));
}

#[test]
fn times_go_with_verdicts_of_their_age() {
    const DAY_S: u64 = 86_400;
    let mut connection = Connection::open_in_memory().expect("opens");
    schema::migrate(&mut connection).expect("a new file");
    for day in 0..6 {
        verdicts::insert(&connection, &verdict("/kernels/softmax.py", day * DAY_S)).expect("inserted");
        verdicts::insert(&connection, &verdict("/other.py", day * DAY_S)).expect("inserted");
        schema::insert(&mut connection, &entry("N=1", "one", day * DAY_S)).expect("inserted");
    }
    let mut prune = |file: Option<&str>, days, verdicts| {
        let retention = Retention { days, verdicts };
        verdicts::prune(&mut connection, file.map(Path::new), retention, 6 * DAY_S).expect("pruned")
    };
    let softmax = Some("/kernels/softmax.py");
    assert_eq!(prune(Some("/other.py"), Some(5), None), Pruned { verdicts: 2, times: 0, kept: 4 });
    assert_eq!(prune(softmax, Some(5), None), Pruned { verdicts: 2, times: 2, kept: 4 });
    assert_eq!(prune(softmax, None, Some(3)), Pruned { verdicts: 1, times: 1, kept: 3 });
    assert_eq!(prune(softmax, None, Some(3)), Pruned { verdicts: 0, times: 0, kept: 3 });
    assert_eq!(prune(None, Some(0), None), Pruned { verdicts: 7, times: 3, kept: 0 });
}

#[test]
fn whoever_opens_the_file_prunes_once_a_day() {
    const DAY_S: u64 = 86_400;
    let mut connection = Connection::open_in_memory().expect("opens");
    schema::migrate(&mut connection).expect("a new file");
    let now = 1_000 * DAY_S;
    let mut kept_after = |now_s: u64| {
        verdicts::insert(&connection, &verdict("/a.py", now - 401 * DAY_S)).expect("inserted");
        verdicts::insert(&connection, &verdict("/a.py", now)).expect("inserted");
        verdicts::prune_daily(&mut connection, now_s).expect("pruned");
        verdicts::newest(&connection, None, 99).expect("read").len()
    };
    assert_eq!(kept_after(now), 1);
    assert_eq!(kept_after(now + DAY_S - 1), 3, "not before a day has gone");
    assert_eq!(kept_after(now + DAY_S), 3, "both old ones are gone");
    assert_eq!(kept_after(now + 10), 4, "a clock that was set back does not stop it");
}

#[test]
fn no_more_than_the_default_number_is_kept() {
    let mut connection = Connection::open_in_memory().expect("opens");
    schema::migrate(&mut connection).expect("a new file");
    let rows = Retention::default().verdicts.expect("a limit");
    let transaction = connection.transaction().expect("begins");
    for _ in 0..rows + 5 {
        verdicts::insert(&transaction, &verdict("/a.py", 1_000)).expect("inserted");
    }
    transaction.commit().expect("written");
    verdicts::prune_daily(&mut connection, 1_001).expect("pruned");
    let kept: i64 = connection.query_row("SELECT count(*) FROM verdict", [], |row| row.get(0)).expect("rows");
    assert_eq!(u64::try_from(kept), Ok(rows));
}

/// A file as version 1 of it was written.
#[tokio::test]
async fn an_older_file_is_brought_up_to_date_with_what_it_holds() {
    let folder = Folder::new();
    fs::create_dir_all(folder.file().parent().expect("a folder")).expect("a folder");
    {
        let mut connection = Connection::open(folder.file()).expect("opens");
        connection.execute_batch(schema::TIMES).expect("version 1");
        connection.pragma_update(None, "user_version", 1).expect("written");
        schema::insert(&mut connection, &entry("N=1", "one", now_s())).expect("inserted");
    }
    let history = History::open(&folder.file());
    assert!(history.keep(verdict("/a.py", now_s())).await);
    assert_eq!(history.recent(&key("").file, 9).await.len(), 1);
    assert_eq!(history.complaint(), None);
}
