//! What users of other language servers complain of, as far as it takes processes to see it: each in our words with its
//! number, and a test that it does not happen here. See also `tests/lsp/complaints.rs`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bad_inputs::KERNEL;
use crate::harness::{Sandbox, python_or_skip};
use crate::server::{Server, uri};

const RIGHT: &str = "def kernel_fn(x):\n    return softmax(x.contiguous())\n";

/// The candidate writes down who it is, twice, and never returns.
fn endless(pids: &Path) -> String {
    format!(
        "import os\n{KERNEL}def kernel_fn(x):\n    y = softmax(x)\n    with open({pids:?}, 'w') as file:\n        \
         file.write(str(os.getpid()))\n    while True:\n        pass\n"
    )
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process of the candidate that never returns, once it runs.
fn candidate(pids: &Path) -> u32 {
    let read = || fs::read_to_string(pids).ok()?.parse().ok();
    wait_until("the candidate's start", || read().is_some());
    read().expect("it was there")
}

fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, Some('Z' | 'X') | None)
    })
}

/// Process group and session.
fn group_and_session(pid: u32) -> (u32, u32) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<u32> = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest.split(' ').skip(2).take(2).filter_map(|field| field.parse().ok()).collect())
        .unwrap_or_default();
    (fields[0], fields[1])
}

fn running(sandbox: &Sandbox) -> (Server, u32) {
    let pids = sandbox.path().join("pid");
    let text = endless(&pids);
    let file = sandbox.write("endless.py", &text);
    let mut server = Server::start(sandbox);
    server.open_and_save(&file, &text);
    let pid = candidate(&pids);
    (server, pid)
}

fn cancel(server: &mut Server, file: &Path) {
    server.send(&json!({"jsonrpc": "2.0", "id": "cancel", "method": "workspace/executeCommand", "params":
        {"command": "warpsmith.cancel", "arguments": [{"uri": uri(file)}]}}));
    server.wait_for(|message| message["id"] == "cancel");
}

/// Complaint 1: the check that a save starts holds a lock, and the user's own build waits for it. Here the user's own
/// check on the command line comes to its end while the server's has not.
#[test]
fn the_users_own_check_does_not_wait_for_the_servers() {
    let Some(python) = python_or_skip("the_users_own_check_does_not_wait") else { return };
    let sandbox = Sandbox::new(python);
    let (_server, pid) = running(&sandbox);
    let file = sandbox.write("mine.py", &format!("{KERNEL}{RIGHT}"));
    assert!(is_alive(pid), "the server's check runs");
    let mine = sandbox.check(&file, &["--stage", "smoke", "--dtype", "f32"]);
    assert_eq!(mine.verdict(), "passed", "{}", mine.describe());
}

/// Complaint 2: cancelling hides the progress, and the work goes on behind it. Here the process that ran the kernel is
/// gone, and the next check is judged.
#[test]
fn a_cancelled_check_is_over() {
    let Some(python) = python_or_skip("a_cancelled_check_is_over") else { return };
    let sandbox = Sandbox::new(python);
    let (mut server, pid) = running(&sandbox);
    let file = sandbox.path().join("endless.py");
    cancel(&mut server, &file);
    wait_until("the end of the candidate", || !is_alive(pid));
    let right = format!("{KERNEL}def kernel_fn(x):\n    return softmax(x) * 2\n");
    server.save(&file, 2, &right);
    while !server.codes().contains(&"mismatch".to_owned()) {}
}

/// Complaint 3: ending a job ends what it should not, up to every window of the editor. Here all that runs a kernel has a
/// process group and a session other than the server's, whose are the editor's.
#[test]
fn what_runs_kernels_is_in_no_group_of_the_editor() {
    let Some(python) = python_or_skip("what_runs_kernels_is_in_no_group") else { return };
    let sandbox = Sandbox::new(python);
    let (mut server, pid) = running(&sandbox);
    let own = server.child.id();
    let (group, session) = group_and_session(own);
    assert_eq!(group_and_session(std::process::id()), (group, session), "as an editor and its server");
    let others: Vec<u32> = sandbox.survivors().into_iter().filter(|other| *other != own).collect();
    assert!(others.contains(&pid), "{others:?}");
    for other in others {
        assert_ne!(group_and_session(other).0, group, "{other} would get the signals of the editor's group");
    }
    cancel(&mut server, &sandbox.path().join("endless.py"));
    wait_until("the end of the candidate", || !is_alive(pid));
    assert!(server.child.try_wait().expect("waitable").is_none(), "the server lives");
}

/// Complaint 12: a helper daemon stays when the last editor is gone. Here nothing that a server started outlives it, also
/// when it was warm and idle.
#[test]
fn a_warm_worker_goes_with_its_server() {
    let Some(python) = python_or_skip("a_warm_worker_goes_with_its_server") else { return };
    let sandbox = Sandbox::new(python);
    let text = format!("{KERNEL}def kernel_fn(x):\n    return softmax(x) * 2\n");
    let file = sandbox.write("k.py", &text);
    let mut server = Server::start(&sandbox);
    server.open_and_save(&file, &text);
    while !server.codes().contains(&"mismatch".to_owned()) {}
    assert!(sandbox.survivors().len() > 1, "a warm worker");
    server.child.kill().expect("SIGKILL");
    server.child.wait().expect("reaped");
    sandbox.assert_alone_within(Duration::from_secs(10));
}

/// A server whose client reads and never answers.
struct Silent {
    server: Server,
}

impl Silent {
    fn start(sandbox: &Sandbox) -> Self {
        Self { server: Server::start(sandbox) }
    }

    /// Whether a request is answered.
    fn answers(&mut self, file: &Path, id: u32) -> bool {
        self.server.send(&json!({"jsonrpc": "2.0", "id": id, "method": "textDocument/codeLens", "params":
            {"textDocument": {"uri": uri(file)}}}));
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.server.hear(deadline.saturating_duration_since(Instant::now())) {
                Some(message) if message["method"].is_null() && message["id"] == json!(id) => return true,
                Some(_) => {}
                None => return false,
            }
        }
    }

    fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.server.child.id())).map_or(0, Iterator::count)
    }
}

/// Complaint 10: after some hours the server answers nothing any more. And complaint 21, in small: what it keeps open, what
/// it starts and what it logs is bounded. Minutes of editing in a few seconds, of a client that saves by itself and never
/// answers a request of the server.
#[test]
fn a_soak_with_a_client_that_never_answers() {
    let Some(python) = python_or_skip("a_soak_with_a_client_that_never_answers") else { return };
    let sandbox = Sandbox::new(python);
    let text = format!("{KERNEL}{RIGHT}");
    let file = sandbox.write("k.py", &text);
    let mut client = Silent::start(&sandbox);
    client.server.open_and_save(&file, &text);
    let mut version = 1;
    let mut edit = |client: &mut Silent, rounds: u32| {
        for round in 0..rounds {
            version += 1;
            // Every third edit is of the code, the others are of a comment.
            let line = if round % 3 == 0 { format!("X = {version}\n") } else { format!("# {version}\n") };
            client.server.save(&file, version, &format!("{line}{text}"));
            std::thread::sleep(Duration::from_millis(25));
        }
    };
    edit(&mut client, 100);
    assert!(client.answers(&file, 1000));
    let before = client.open_files();
    edit(&mut client, 200);
    assert!(client.answers(&file, 1001));
    let after = client.open_files();
    assert!(after <= before + 16, "{before} files were open, now {after}");
    let children = sandbox.survivors().len();
    assert!(children <= 12, "{children} processes");
    let log = sandbox.log().len();
    assert!(log < 1 << 20, "{log} bytes of log");
}

/// Two windows are two servers on one workspace: both judge, and no record is lost.
#[test]
fn two_servers_on_one_workspace_keep_every_record() {
    let Some(python) = python_or_skip("two_servers_on_one_workspace") else { return };
    let sandbox = Sandbox::new(python);
    let mut servers = [Server::start(&sandbox), Server::start(&sandbox)];
    let text = |server: usize, round: usize| {
        format!("{KERNEL}def kernel_fn(x):\n    return softmax(x) * {}\n", 2 + 10 * server + round)
    };
    let files = [sandbox.write("one.py", &text(0, 0)), sandbox.write("two.py", &text(1, 0))];
    let shared = sandbox.write("shared.py", &text(2, 0));
    for (number, server) in servers.iter_mut().enumerate() {
        server.open(&files[number], &text(number, 0));
        server.open(&shared, &text(2, 0));
    }
    for round in 1..4 {
        for (number, server) in servers.iter_mut().enumerate() {
            server.save(&files[number], 1 + i32::try_from(round).expect("few"), &text(number, round));
            server.save(&shared, 1 + i32::try_from(round).expect("few"), &text(2 + number, round));
        }
        for server in &mut servers {
            let is_end = |message: &Value| {
                message["method"] == "textDocument/publishDiagnostics"
                    && message["params"]["diagnostics"].as_array().is_some_and(|found| {
                        !found.is_empty()
                            && found.iter().all(|one| {
                                !one["message"].as_str().unwrap_or("(stale)").starts_with("(stale)")
                            })
                    })
            };
            let mut judged = BTreeSet::new();
            while judged.len() < 2 {
                judged.insert(server.wait_for(is_end)["params"]["uri"].to_string());
            }
        }
    }
    drop(servers);
    let kept = |file: &Path| {
        let output = sandbox.run(&["history", "--json", file.to_str().expect("UTF-8")]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    assert_eq!((kept(&files[0]), kept(&files[1]), kept(&shared)), (3, 3, 6));
    let log = sandbox.log();
    assert!(!log.contains("was not kept") && !log.contains("locked"), "{log}");
}

/// Complaint 16, at rest: a server with an open file and no check does nothing and is small.
#[cfg(target_os = "linux")]
#[test]
fn an_idle_server_does_nothing() {
    let Some(python) = python_or_skip("an_idle_server_does_nothing") else { return };
    let sandbox = Sandbox::new(python);
    let text = format!("{KERNEL}{RIGHT}");
    let file = sandbox.write("k.py", &text);
    let mut client = Silent::start(&sandbox);
    client.server.open(&file, &text);
    assert!(client.answers(&file, 1000));
    let pid = client.server.child.id();
    // Ticks of 10 ms in user and kernel mode.
    let ticks = || -> u64 {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let fields = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned()).unwrap_or_default();
        fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
    };
    // What opening started comes to its end.
    wait_until("rest", || {
        let before = ticks();
        std::thread::sleep(Duration::from_millis(500));
        ticks() == before
    });
    let before = ticks();
    std::thread::sleep(Duration::from_secs(3));
    assert!(ticks() - before <= 1, "{} ticks in 3 s", ticks() - before);
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
    };
    assert!(field("RssAnon:") <= 40 << 10, "{} KiB", field("RssAnon:"));
}
