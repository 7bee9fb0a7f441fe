//! The lease on a GPU is exclusive among processes, and the end of its owner, however it comes, gives it back.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use warpsmith::device::{Attempt, Lease, LeaseFolder};

const GPU: &str = "GPU-0000";
/// Set in the process that takes the lease and keeps it.
const HOLDER: &str = "WARPSMITH_TEST_LEASE_HOLDER";

fn attempt(folder: &LeaseFolder) -> Attempt {
    Lease::try_acquire(folder, GPU, "test").expect("a folder that can be written")
}

/// Not a test by itself: the other process of the one below.
#[test]
fn holder() {
    let Some(folder) = std::env::var_os(HOLDER) else { return };
    let lease = attempt(&LeaseFolder::of_variable(Some(&folder)));
    assert!(matches!(lease, Attempt::Acquired(_)));
    eprintln!("\nholds it");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

/// This program again, once it has the lease.
fn start_holder(folder: &std::path::Path) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "holder", "--nocapture"])
        .env(HOLDER, folder)
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let holds = lines.map_while(Result::ok).any(|line| line == "holds it");
    assert!(holds, "the other process did not get the lease");
    child
}

/// complaint 25, beside `a_save_while_another_times` of `tests/process/pretended_gpu.rs`: who has the GPU is known.
#[test]
fn another_process_is_kept_out_until_the_owner_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let leases = LeaseFolder::of_variable(Some(folder.path().as_os_str()));
    let mut holder = start_holder(folder.path());
    match attempt(&leases) {
        Attempt::Taken(Some(owner)) => assert_eq!(owner.pid, holder.id()),
        other => panic!("{other:?}"),
    }
    holder.kill().expect("it runs");
    holder.wait().expect("it ends");
    assert!(
        matches!(attempt(&leases), Attempt::Acquired(_)),
        "what the dead one wrote still stands in the file"
    );
}
