use std::os::unix::fs::PermissionsExt;

use super::*;

const GPU: &str = "GPU-0000";
const SECOND: Duration = Duration::from_secs(1);

fn folder() -> (tempfile::TempDir, LeaseFolder) {
    let folder = tempfile::tempdir().unwrap();
    let leases = LeaseFolder::of_variable(Some(folder.path().as_os_str()));
    (folder, leases)
}

fn taken(leases: &LeaseFolder) -> Option<Owner> {
    match Lease::try_acquire(leases, GPU, "second").unwrap() {
        Attempt::Taken(owner) => owner,
        Attempt::Acquired(lease) => panic!("{lease:?}"),
    }
}

fn acquired(leases: &LeaseFolder, what: &str) -> Lease {
    match Lease::try_acquire(leases, GPU, what).unwrap() {
        Attempt::Acquired(lease) => lease,
        Attempt::Taken(owner) => panic!("{owner:?} has it"),
    }
}

#[test]
fn one_has_it_and_says_who_it_is() {
    let (_folder, leases) = folder();
    assert_eq!(Lease::owner(&leases, GPU).unwrap(), None);
    let lease = acquired(&leases, "softmax.py");
    let owner = taken(&leases).unwrap();
    assert_eq!((owner.pid, &*owner.what), (std::process::id(), "softmax.py"));
    assert_eq!(Lease::owner(&leases, GPU).unwrap().as_ref(), Some(lease.as_owner()));
    drop(acquired_of(&leases, "GPU-1111"));
    drop(lease);
    assert_eq!(Lease::owner(&leases, GPU).unwrap(), None);
    assert_eq!(std::fs::read(leases.file(GPU, "lock")).unwrap(), b"", "nothing is said of one that is free");
    drop(acquired(&leases, "again"));
}

fn acquired_of(leases: &LeaseFolder, uuid: &str) -> Lease {
    match Lease::try_acquire(leases, uuid, "other GPU").unwrap() {
        Attempt::Acquired(lease) => lease,
        Attempt::Taken(owner) => panic!("{owner:?} has it"),
    }
}

#[test]
fn all_users_may_open_the_files_whatever_the_umask() {
    let (_folder, leases) = folder();
    let _lease = acquired(&leases, "x");
    for ending in ["lock", "next"] {
        let mode = std::fs::metadata(leases.file(GPU, ending)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "{ending}");
    }
}

#[test]
fn what_a_dead_owner_left_is_not_believed() {
    let (_folder, leases) = folder();
    drop(acquired(&leases, "makes the files"));
    let path = leases.file(GPU, "lock");
    let dead = Owner { pid: 4_194_305, ..Owner::example() };
    std::fs::write(&path, serde_json::to_vec(&dead).unwrap()).unwrap();
    assert_eq!(Lease::owner(&leases, GPU).unwrap(), None, "nobody has the lock");

    // Somebody has the lock, and has not written yet.
    let other = open(&path, OFlags::RDWR).unwrap();
    rustix::fs::flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(taken(&leases), None);
    for nonsense in ["", "{", "[1,2]", "\u{0}\u{0}"] {
        std::fs::write(&path, nonsense).unwrap();
        assert_eq!(taken(&leases), None);
    }
    drop(other);
    drop(acquired(&leases, "free again"));
}

#[test]
fn what_another_wrote_is_shown_without_control_characters() {
    let (_folder, leases) = folder();
    let _lease = acquired(&leases, "x");
    let loud = Owner {
        pid: 1,
        host: "elsewhere".into(),
        user: "a\u{1b}[31m\nb".into(),
        what: "w".repeat(999),
        ..Owner::example()
    };
    std::fs::write(leases.file(GPU, "lock"), serde_json::to_vec(&loud).unwrap()).unwrap();
    let owner = taken(&leases).unwrap();
    assert_eq!((&*owner.user, owner.what.len()), ("a[31mb", MAX_WORD_CHARS));
}

#[test]
fn a_file_that_was_removed_excludes_nobody() {
    let (_folder, leases) = folder();
    let first = acquired(&leases, "first");
    std::fs::remove_file(leases.file(GPU, "lock")).unwrap();
    let second = acquired(&leases, "second");
    assert_eq!(taken(&leases).unwrap().what, "second");
    drop(first);
    assert_eq!(taken(&leases).unwrap().what, "second", "the first one's end is not the second one's");
    drop(second);
}

#[test]
fn what_is_no_plain_file_is_refused() {
    let (folder, leases) = folder();
    let error = || {
        Lease::try_acquire(&leases, GPU, "x")
            .unwrap_err()
            .to_string()
            .replace(&folder.path().display().to_string(), "…")
    };
    let path = leases.file(GPU, "next");
    std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
    let link = error();
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(error(), link);
    std::fs::remove_dir(&path).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    assert_eq!(error(), link);
    insta::assert_snapshot!(link, @"…/warpsmith-GPU-0000.next is not the plain file that warpsmith makes there: remove it");
}

#[test]
fn errors_say_what_to_do() {
    let leases = LeaseFolder::of_variable(Some("/nowhere/at/all".as_ref()));
    let missing = Lease::try_acquire(&leases, GPU, "x").unwrap_err().to_string();
    let forbidden = cannot_open(Path::new("/tmp/warpsmith-GPU-0000.lock"), Errno::ACCESS).to_string();
    insta::assert_snapshot!(format!("{missing}\n{forbidden}"), @r"
    /nowhere/at/all cannot be written (No such file or directory (os error 2)), so nobody can be kept from timing at the same moment: make that folder writable for all users (mode 1777)
    /tmp/warpsmith-GPU-0000.lock belongs to another user and cannot be opened (Permission denied (os error 13)): ask them, or an administrator, to run `chmod 666` on it
    ");
    assert_eq!(Lease::owner(&leases, GPU).unwrap(), None);
}

#[test]
fn the_folder_is_the_same_for_all_users() {
    assert_eq!(LeaseFolder::of_variable(None).path(), Path::new("/tmp"));
    assert_eq!(LeaseFolder::of_variable(Some("relative".as_ref())).path(), Path::new("/tmp"));
    let file = LeaseFolder::of_variable(None).file("MIG-GPU-1/2/../3", "lock");
    assert_eq!(file, Path::new("/tmp/warpsmith-MIG-GPU-1_2____3.lock"));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_lease_the_time_or_a_cancel() {
    let (_folder, leases) = folder();
    let lease = acquired(&leases, "first");
    let cancel = CancellationToken::new();
    let mut seen = Vec::new();
    let waited = Lease::acquire(&leases, GPU, "second", 3 * SECOND, &cancel, |owner| {
        seen.push(owner.map(|owner| owner.what.clone()));
    });
    let error = waited.await.unwrap_err();
    assert!(matches!(&error, LeaseError::StillTaken { owner: Some(owner), .. } if owner.what == "first"));
    assert!(error.to_string().starts_with("after 3 s "), "{error}");
    assert_eq!(seen, [Some("first".to_owned())], "told once");

    let start = Instant::now();
    let stop = async {
        tokio::time::sleep(SECOND).await;
        cancel.cancel();
    };
    let (cancelled, ()) = tokio::join!(Lease::acquire(&leases, GPU, "x", 60 * SECOND, &cancel, |_| ()), stop);
    assert!(matches!(cancelled, Err(LeaseError::Cancelled)));
    assert!(start.elapsed() < 2 * SECOND);

    let cancel = CancellationToken::new();
    let release = async {
        tokio::time::sleep(SECOND).await;
        drop(lease);
    };
    let (got, ()) = tokio::join!(Lease::acquire(&leases, GPU, "x", 60 * SECOND, &cancel, |_| ()), release);
    assert_eq!(got.unwrap().as_owner().what, "x");
    let once = Lease::acquire(&leases, GPU, "free", Duration::ZERO, &cancel, |_| ()).await;
    assert!(once.is_ok(), "one that is free needs no time");
}

#[tokio::test(start_paused = true)]
async fn who_waits_comes_before_who_had_it() {
    let (_folder, leases) = folder();
    let lease = acquired(&leases, "greedy");
    let cancel = CancellationToken::new();
    let waiter = Lease::acquire(&leases, GPU, "patient", 60 * SECOND, &cancel, |_| ());
    let greedy = async {
        tokio::time::sleep(SECOND).await;
        drop(lease);
        // Nothing else runs between these two lines.
        matches!(Lease::try_acquire(&leases, GPU, "greedy").unwrap(), Attempt::Taken(_))
    };
    let (patient, was_refused) = tokio::join!(waiter, greedy);
    assert!(was_refused);
    assert_eq!(patient.unwrap().as_owner().what, "patient");
}

#[tokio::test(start_paused = true)]
async fn never_two_at_once_among_many() {
    let (_folder, leases) = folder();
    let holders = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let (leases, holders) = (leases.clone(), holders.clone());
        tasks.spawn(async move {
            let cancel = CancellationToken::new();
            for _ in 0..5 {
                let lease = Lease::acquire(&leases, GPU, "x", 600 * SECOND, &cancel, |_| ()).await.unwrap();
                assert_eq!(holders.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                tokio::time::sleep(Duration::from_millis(7)).await;
                holders.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                drop(lease);
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}
