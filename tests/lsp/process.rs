//! The server on real standard input and output, in a process of its own.
//!
//! This test binary starts itself again, as the ignored test below, which becomes the server. What the
//! test harness prints before it is noise that the client here never reads.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{COPY, Server, idle_checker};

const AS_SERVER: &str = "WARPSMITH_TEST_AS_SERVER";
const LIMIT: Duration = Duration::from_secs(20);

#[test]
#[ignore = "is the server of the tests in this file"]
fn become_the_server() {
    if std::env::var_os(AS_SERVER).is_some() {
        let code = warpsmith::lsp::run_stdio(idle_checker()).expect("the session ends well");
        // `ExitCode` can only be compared by its words.
        let success = format!("{code:?}") == format!("{:?}", std::process::ExitCode::SUCCESS);
        std::process::exit(if success { 40 } else { 41 });
    }
}

fn start() -> (Child, ChildStdin) {
    let mut child = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "process::become_the_server", "--ignored", "--nocapture"])
        .env(AS_SERVER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test binary starts");
    let mut input = child.stdin.take().expect("piped");
    send(&mut input, r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}"#);
    (child, input)
}

fn send(input: &mut ChildStdin, body: &str) {
    write!(input, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("written");
    input.flush().expect("written");
}

/// The exit status of a child that ends by itself.
#[track_caller]
fn status(mut child: Child) -> Option<i32> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("waited") {
            return status.code();
        }
        if began.elapsed() > LIMIT {
            child.kill().expect("killed");
            child.wait().expect("collected");
            panic!("the process lives on");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn exit_ends_the_process_with_stdin_left_open() {
    let (child, mut input) = start();
    // The answer to `initialize` is not read; a little later the server takes `shutdown`.
    std::thread::sleep(Duration::from_millis(500));
    send(&mut input, r#"{"jsonrpc":"2.0","id":2,"method":"shutdown"}"#);
    send(&mut input, r#"{"jsonrpc":"2.0","method":"exit"}"#);
    assert_eq!(status(child), Some(40));
    drop(input);
}

#[test]
fn the_end_of_stdin_ends_the_process_and_a_hanging_check() {
    let (child, mut input) = start();
    std::thread::sleep(Duration::from_millis(500));
    let open = serde_json::json!({
        "jsonrpc": "2.0", "method": "textDocument/didOpen",
        "params": { "textDocument":
            { "uri": Server::uri("copy.py"), "languageId": "python", "version": 1, "text": COPY } },
    });
    send(&mut input, &open.to_string());
    let save = serde_json::json!({
        "jsonrpc": "2.0", "method": "textDocument/didSave",
        "params": { "textDocument": { "uri": Server::uri("copy.py") }, "text": COPY },
    });
    send(&mut input, &save.to_string());
    std::thread::sleep(Duration::from_millis(200));
    drop(input);
    assert_eq!(status(child), Some(41));
}
