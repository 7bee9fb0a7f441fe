//! The server ends when its client does, however that goes, and takes its check with it.

use std::process::Command;

use serde_json::json;
use warpsmith::lsp::StopReason;

use crate::support::{Builder, COPY, Call, Server};

#[track_caller]
fn running_check(server: &mut Server) -> Call {
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check()
}

/// Complaint 11: the server outlives the editor, or the editor hangs when it quits. Here `exit`, the end of the input and
/// the death of the client's process all end it, also in the middle of a check, as the tests of this file say.
#[test]
fn exit_ends_it_with_the_input_left_open() {
    let mut server = Server::start();
    server.shutdown();
    server.exit();
    let stopped = server.ended();
    assert_eq!((stopped.reason, stopped.after_shutdown), (StopReason::Transport, true));
}

#[test]
fn exit_right_after_shutdown_is_a_good_end() {
    let mut server = Server::start();
    server.post("shutdown", json!(null));
    server.exit();
    assert!(server.ended().after_shutdown);
    // Whether the answer to `shutdown` still got through depends on who was faster.
    server.ignore_unread();
}

#[test]
fn exit_without_shutdown_is_told_apart() {
    let mut server = Server::start();
    server.exit();
    assert!(!server.ended().after_shutdown);
}

#[test]
fn the_end_of_the_input_ends_it_and_the_running_check() {
    let mut server = Server::start();
    let call = running_check(&mut server);
    server.close_input();
    server.wait_cancelled(&call);
    call.finish_cancelled();
    assert_eq!(server.ended().reason, StopReason::Transport);
}

#[test]
fn the_end_of_the_input_before_initialize_ends_it() {
    let mut server = Builder::default().connect();
    server.close_input();
    server.ended();
}

#[test]
fn a_check_that_ignores_the_end_is_dropped() {
    let mut server = Server::start();
    let call = running_check(&mut server);
    server.shutdown();
    assert!(call.cancel.is_cancelled());
    server.exit();
    server.ended();
    assert!(call.is_dropped());
}

#[test]
fn requests_after_shutdown_are_refused() {
    let mut server = Server::start();
    server.shutdown();
    let error = server.raw_request(
        "textDocument/hover",
        json!({
            "textDocument": { "uri": "file:///a.py" }, "position": { "line": 0, "character": 0 },
        }),
    );
    assert_eq!(error.expect_err("refused")["code"], -32600);
    server.exit();
    server.ended();
}

#[cfg(unix)]
#[test]
fn the_death_of_the_client_ends_it_with_the_input_left_open() {
    let mut parent = Command::new("sleep").arg("600").spawn().expect("a process");
    let mut server = Builder::default().process_id(parent.id()).start();
    let call = running_check(&mut server);
    parent.kill().expect("killed");
    server.wait_cancelled(&call);
    call.finish_cancelled();
    assert_eq!(server.ended().reason, StopReason::ParentGone);
    parent.wait().expect("collected");
}
