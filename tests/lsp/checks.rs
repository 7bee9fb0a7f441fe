//! Which checks run, on what, and which results count.

use serde_json::json;
use warpsmith::judge::Code;
use warpsmith::lsp::ext::{Health, ServerStatus};
use warpsmith::oracle::{self, OracleLabel};
use warpsmith::source;
use warpsmith::spec::Dtype;

use crate::support::{
    Builder, COPY, Server, case, could_not_run, failing, launched, mismatch, passed_report, report_of,
};

const PASSED: &str = "✓ AutoKernel copy · torch ref · 2 cases · f32 f16";

fn version(number: usize) -> String {
    COPY.replace("BLOCK=16", &format!("BLOCK={}", 1 << number))
}

#[test]
fn the_latest_save_wins() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(&version(1)));
    let first = server.next_check();
    server.save(&uri, Some(&version(2)));
    server.save(&uri, Some(&version(3)));
    server.wait_cancelled(&first);
    // The old check finds its bug all the same; nobody awaits that any more.
    first.finish(report_of(vec![failing(launched("copy_kernel", case(16, Dtype::Float32)), mismatch())]));
    let last = server.next_check();
    assert_eq!(&*last.request.text, version(3));
    last.finish(passed_report());
    server.lens_until(&uri, PASSED);
}

#[test]
fn an_unchanged_save_runs_nothing_unless_asked() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    let call = server.next_check();
    // While it runs, the same code is not started again, whoever asks.
    server.save(&uri, Some(COPY));
    assert_eq!(server.command("warpsmith.check", &uri), Ok(json!({ "run": 1 })));
    call.finish(passed_report());
    server.lens_until(&uri, PASSED);
    server.save(&uri, Some(COPY));
    server.save(&uri, Some(&format!("# comment\n{COPY}")));
    server.lens_until(&uri, &format!("{PASSED} · same code, not run again"));
    assert_eq!(server.command("warpsmith.check", &uri), Ok(json!({ "run": 2 })));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
}

/// A helper in another file may have changed: the verdict on this text is not known to stand.
#[test]
fn an_unchanged_save_runs_again_when_the_file_imports_the_users_own() {
    for import in ["from .helpers import tile", "import my_helpers", "from ops.tiles import tile"] {
        let text = format!("{import}\n{COPY}");
        let mut server = Server::start();
        let uri = server.open("copy.py", &text);
        server.save(&uri, Some(&text));
        server.next_check().finish(passed_report());
        server.lens_until(&uri, PASSED);
        server.save(&uri, Some(&text));
        server.next_check().finish(passed_report());
        server.lens_until(&uri, PASSED);
    }
}

/// A verdict must not outlive the helper that it rests on.
#[test]
fn the_save_of_a_helper_checks_the_open_files_that_may_use_it() {
    for (import, helper) in [
        ("from my_helpers import tile", "my_helpers.py"),
        ("from . import tiles", "tiles.py"),
        ("import ops.tiles", "ops/tiles.py"),
    ] {
        let text = format!("{import}\n{COPY}");
        let mut server = Server::start();
        let uri = server.open("copy.py", &text);
        server.save(&uri, Some(&text));
        server.next_check().finish(passed_report());
        server.lens_until(&uri, PASSED);
        let helper = server.open(helper, "tile = 1\n");
        server.save(&helper, Some("tile = 2\n"));
        let again = server.next_check();
        assert_eq!(&*again.request.text, text, "{import}");
        again.finish(passed_report());
        server.lens_until(&uri, PASSED);
        // A relative import may reach anything below.
        if !import.contains('.') {
            let other = server.open("unrelated/other.py", "tile = 1\n");
            server.save(&other, Some("tile = 2\n"));
            assert_eq!(server.lens_titles(&uri), [PASSED], "{import}");
        }
    }
}

/// A new file may say what is right, where before another did or none.
#[test]
fn an_unchanged_save_runs_again_when_it_is_described_in_another_way() {
    let described_as = |told: String| {
        let mut report = passed_report();
        report.provenance.described_as = Some(told);
        report
    };
    let path = std::path::Path::new("/kernels/copy.py");
    let as_now = oracle::fingerprint(&oracle::find_all(path, COPY, &source::parse(COPY), None));
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(described_as("otherwise".to_owned()));
    server.lens_until(&uri, PASSED);
    server.save(&uri, Some(COPY));
    server.next_check().finish(described_as(as_now));
    server.lens_until(&uri, PASSED);
    server.save(&uri, Some(COPY));
    server.save(&uri, Some(&format!("# comment\n{COPY}")));
    server.lens_until(&uri, &format!("{PASSED} · same code, not run again"));
    assert_eq!(server.command("warpsmith.check", &uri), Ok(json!({ "run": 3 })), "nothing ran in between");
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
}

/// What says what is right stands in another file, and that one changed.
#[test]
fn an_unchanged_save_runs_again_when_the_description_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let description = folder.path().join("warpsmith.toml");
    let write = |text: &str| std::fs::write(&description, text).expect("written");
    let with_hash = |text: &str| {
        write(text);
        let mut report = passed_report();
        let hash = blake3::hash(text.as_bytes()).to_hex().to_string();
        report.provenance.described_by.insert(description.clone(), hash);
        report
    };
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(with_hash("one"));
    server.lens_until(&uri, PASSED);
    server.save(&uri, Some(COPY));
    server.lens_until(&uri, &format!("{PASSED} · same code, not run again"));
    write("two");
    server.save(&uri, Some(COPY));
    server.next_check().finish(with_hash("two"));
    server.lens_until(&uri, PASSED);
}

/// What the reference imports may have changed while neither file did.
#[test]
fn an_unchanged_save_runs_again_when_the_reference_is_in_another_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = folder.path().join("model.py");
    std::fs::write(&model, "").expect("written");
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    for _ in 0..2 {
        server.save(&uri, Some(COPY));
        let mut report = passed_report();
        let label = "KernelBench · ./model.py::Model · train mode".to_owned();
        report.oracle = report.oracle.map(|oracle| OracleLabel { label, ..oracle });
        let hash = blake3::hash(b"").to_hex().to_string();
        report.provenance.described_by.insert(model.clone(), hash);
        server.next_check().finish(report);
        server.lens_until(&uri, "✓ KernelBench · ./model.py::Model · train mode · 2 cases · f32 f16");
    }
}

#[test]
fn what_could_not_run_is_tried_again_on_the_next_save() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(could_not_run(Code::Timeout, "too slow"));
    server.lens_until(&uri, "– could not run: too slow");
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
}

#[test]
fn the_command_cancels_and_the_old_verdict_stands_again() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    let call = server.next_check();
    server.command("warpsmith.cancel", &uri).expect("accepted");
    server.wait_cancelled(&call);
    assert_eq!(server.lens_titles(&uri), ["▶ check · last check was cancelled"]);
    call.finish_cancelled();

    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
    server.command("warpsmith.check", &uri).expect("accepted");
    let call = server.next_check();
    // Without an argument the running check is meant.
    let cancel = json!({ "command": "warpsmith.cancel", "arguments": [] });
    server.raw_request("workspace/executeCommand", cancel).expect("accepted");
    server.wait_cancelled(&call);
    call.finish_cancelled();
    assert_eq!(server.lens_titles(&uri), [PASSED]);
}

#[test]
fn closing_ends_the_check_and_drops_its_result() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    let call = server.next_check();
    server.close(&uri);
    server.wait_cancelled(&call);
    call.finish(report_of(vec![failing(launched("copy_kernel", case(16, Dtype::Float32)), mismatch())]));
    // Reopened, the file knows nothing of it: no diagnostic comes, which the end of the test makes sure of.
    let uri = server.open("copy.py", COPY);
    assert_eq!(server.lens_titles(&uri), ["▶ check"]);
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
}

#[test]
fn a_panic_in_the_checker_is_said_and_the_server_lives() {
    let mut server =
        Builder::default().capability("/experimental/serverStatusNotification", json!(true)).start();
    let first = server.notification::<ServerStatus>();
    assert_eq!((first.health, first.quiescent), (Health::Ok, true));
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().panic();
    server.lens_until(&uri, "– could not run: warpsmith itself failed: on purpose");
    expect_statuses(&mut server, [(Health::Ok, false), (Health::Error, true)]);
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
    expect_statuses(&mut server, [(Health::Error, false), (Health::Ok, true)]);
}

/// The next two, whether each is quiescent. They are awaited before anything else is done: what happens in one turn of
/// the server has one status.
#[track_caller]
fn expect_statuses(server: &mut Server, expected: [(Health, bool); 2]) {
    for (health, quiescent) in expected {
        let status = server.notification::<ServerStatus>();
        assert_eq!((status.health, status.quiescent), (health, quiescent));
        assert_eq!(status.message.is_some(), health != Health::Ok);
    }
}

/// Complaint 7, with two files.
#[test]
fn one_check_runs_at_a_time_and_files_take_turns() {
    let mut server = Server::start();
    let one = server.open("one.py", COPY);
    let two = server.open("two.py", COPY);
    server.save(&one, None);
    let first = server.next_check();
    server.save(&two, None);
    server.lens_until(&two, "⟳ waiting to check");
    assert!(!first.cancel.is_cancelled());
    first.finish(passed_report());
    let second = server.next_check();
    assert_eq!(second.request.path.to_str(), Some("/kernels/two.py"));
    second.finish(passed_report());
    server.lens_until(&two, PASSED);
    server.lens_until(&one, PASSED);
}

#[test]
fn unknown_commands_and_arguments_are_refused() {
    let mut server = Server::start();
    for params in [
        json!({ "command": "warpsmith.unknown", "arguments": [] }),
        json!({ "command": "warpsmith.check", "arguments": [] }),
        json!({ "command": "warpsmith.check", "arguments": [7] }),
    ] {
        let error = server.raw_request("workspace/executeCommand", params).expect_err("refused");
        assert_eq!(error["code"], -32602);
    }
}
