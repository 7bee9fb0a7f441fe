//! How servers and checks end: cleanly, and alone.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::bad_inputs::KERNEL;
use crate::harness::{Sandbox, python_or_skip};
use crate::server::Server;

const ENDLESS: &str = r#"
import torch
import triton
import triton.language as tl

KERNEL_TYPE = "softmax"


@triton.jit
def softmax_kernel(x, y, BLOCK: tl.constexpr):
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + tl.arange(0, BLOCK)))


def kernel_fn(x):
    y = torch.empty_like(x)
    softmax_kernel[(1,)](x, y, BLOCK=4)
    while True:
        pass
"#;

/// A server in the middle of an endless check: the candidate is running.
fn server_in_the_middle_of_a_check(sandbox: &Sandbox) -> Server {
    let file = sandbox.write("endless.py", ENDLESS);
    let mut server = Server::start(sandbox);
    server.open_and_save(&file, ENDLESS);
    server.wait_for(|message| {
        message["method"] == "$/progress" && message["params"]["value"]["kind"] == "report"
    });
    // Supervisor, zygote, judge runner and code runner besides the server itself.
    let deadline = Instant::now() + Duration::from_secs(30);
    while sandbox.survivors().len() < 5 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(sandbox.survivors().len() >= 5, "only {:?} run", sandbox.survivors());
    server
}

#[test]
fn a_killed_server_leaves_no_orphan() {
    let Some(python) = python_or_skip("a_killed_server_leaves_no_orphan") else { return };
    let sandbox = Sandbox::new(python);
    let mut server = server_in_the_middle_of_a_check(&sandbox);
    server.child.kill().expect("SIGKILL");
    server.child.wait().expect("reaped");
    sandbox.assert_alone_within(Duration::from_secs(3));
}

#[test]
fn exit_ends_a_running_check_though_stdin_stays_open() {
    let Some(python) = python_or_skip("exit_ends_a_running_check") else { return };
    let sandbox = Sandbox::new(python);
    let mut server = server_in_the_middle_of_a_check(&sandbox);
    server.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "shutdown"}));
    server.wait_for(|message| message["id"] == 2);
    server.send(&json!({"jsonrpc": "2.0", "method": "exit"}));
    assert_eq!(server.status_within(Duration::from_secs(5)), Some(0));
    sandbox.assert_alone_within(Duration::from_secs(3));
    let log = sandbox.log();
    for words in ["initialize", "check requested", "the session ended"] {
        assert!(log.contains(words), "no {words:?} in the log:\n{log}");
    }
    assert!(!log.contains("softmax_kernel"), "the text of a document is in the log:\n{log}");
}

#[test]
fn the_end_of_stdin_ends_the_server() {
    let Some(python) = python_or_skip("the_end_of_stdin_ends_the_server") else { return };
    let sandbox = Sandbox::new(python);
    let mut server = server_in_the_middle_of_a_check(&sandbox);
    server.stdin = None;
    // Nobody asked it to end.
    assert_eq!(server.status_within(Duration::from_secs(5)), Some(1));
    sandbox.assert_alone_within(Duration::from_secs(3));
}

/// One server through every kind of bad save, and after each of them a right kernel is judged right.
#[test]
fn the_server_lives_and_the_next_save_works() {
    let Some(python) = python_or_skip("the_server_lives_and_the_next_save_works") else { return };
    let sandbox = Sandbox::new(python);
    // Its kernel indexes as if rows followed one another, which the edge stage would find.
    let right = format!("{KERNEL}def kernel_fn(x):\n    return softmax(x.contiguous())\n");
    let file = sandbox.write("kernel.py", &right);
    let mut server = Server::start(&sandbox);
    server.open(&file, &right);
    let bad = [
        ("syntax-error", "", "def kernel_fn(x):\n    return softmax(x))\n"),
        ("import-error", "import a_package_that_nobody_has\n", "def kernel_fn(x):\n    return softmax(x)\n"),
        ("crashed", "import ctypes\n", "def kernel_fn(x):\n    ctypes.string_at(0)\n"),
        ("exited", "import os\n", "def kernel_fn(x):\n    os._exit(0)\n"),
        ("raised", "import unittest\n", "def kernel_fn(x):\n    raise unittest.SkipTest('no')\n"),
        (
            "mismatch",
            "",
            "def kernel_fn(x):\n    print('{\"id\": 1, \"done\": {}}' * 1_000_000)\n    return softmax(x) * 2\n",
        ),
        ("crashed-at-import", "import os\nos.abort()\n", "def kernel_fn(x):\n    return softmax(x)\n"),
    ];
    for (version, (code, imports, entry)) in (1..).zip(bad) {
        server.save(&file, 2 * version, &format!("{imports}{KERNEL}{entry}"));
        let codes = server.codes();
        assert!(codes.iter().any(|found| found == code), "no {code}: {codes:?}");
        // The finding is marked as old by the edit, and goes with the verdict on the right text.
        server.save(&file, 2 * version + 1, &right);
        while !server.codes().is_empty() {}
    }
}

/// Ctrl-C on the command line: processes end, exit 130, and the summary says "cancelled".
#[test]
fn an_interrupted_check_cleans_up() {
    let Some(python) = python_or_skip("an_interrupted_check_cleans_up") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("endless.py", ENDLESS);
    let child = sandbox
        .warpsmith()
        .args(["check", "--json", "--no-setup", "--stage", "smoke"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let deadline = Instant::now() + Duration::from_secs(30);
    while sandbox.survivors().len() < 5 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{stdout}");
    assert!(stdout.lines().last().is_some_and(|line| line.contains("\"cancelled\"")), "{stdout}");
    sandbox.assert_alone_within(Duration::from_secs(3));
}

#[test]
fn a_command_line_that_makes_no_sense_exits_64() {
    let Some(python) = python_or_skip("a_command_line_that_makes_no_sense") else { return };
    let sandbox = Sandbox::new(python);
    assert_eq!(sandbox.run(&["check"]).status.code(), Some(64));
    assert_eq!(sandbox.run(&["check", "--dtype", "half", "x.py"]).status.code(), Some(64));
    assert_eq!(sandbox.run(&["--version"]).status.code(), Some(0));
    assert_eq!(sandbox.run(&["check", "/nowhere/kernel.py"]).status.code(), Some(2));
}
