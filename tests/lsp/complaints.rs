//! What users of other language servers complain of, each in our words with its number, and a test that it does not
//! happen here. The rest of the list stands at the tests that there were before (search for `complaint`), and in
//! `tests/process/complaints_life.rs`.

use serde_json::json;
use tower_lsp::ls_types::Uri;
use tower_lsp::ls_types::notification::ShowMessage;
use warpsmith::judge::{Code, Report};
use warpsmith::spec::Dtype;

use crate::support::{
    Builder, COPY, LOAD_LINE, Server, case, could_not_run, failing, finding, launched, mismatch,
    passed_report, place, report_of,
};

const PASSED: &str = "✓ AutoKernel copy · torch ref · 2 cases · f32 f16";

fn wrong() -> Report {
    let at = Some(place("/kernels/copy.py", LOAD_LINE));
    let out_of_bounds = finding(Code::OutOfBounds, at, "reads element 16 of x, which has 16");
    report_of(vec![failing(launched("copy_kernel", case(17, Dtype::Float16)), out_of_bounds)])
}

fn with_block(size: u32) -> String {
    COPY.replace("BLOCK=16", &format!("BLOCK={size}"))
}

/// A file whose error is shown, and was edited since.
fn found_wrong_and_edited() -> (Server, Uri) {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(wrong());
    assert_eq!(server.diagnostics().diagnostics.len(), 1);
    server.change(&uri, 2, None, &with_block(32));
    (server, uri)
}

/// Complaint 4: an error stays after it was mended, above all when the check of the mended text was cancelled midway.
/// Here the next check that comes to its end clears it.
#[test]
fn an_error_goes_with_the_next_whole_check_also_after_a_cancelled_one() {
    let (mut server, uri) = found_wrong_and_edited();
    assert!(server.diagnostics().diagnostics[0].message.starts_with("(stale) "));
    server.save(&uri, None);
    let cancelled = server.next_check();
    server.command("warpsmith.cancel", &uri).expect("accepted");
    server.wait_cancelled(&cancelled);
    cancelled.finish_cancelled();
    server.save(&uri, None);
    server.next_check().finish(passed_report());
    let cleared = server.diagnostics();
    assert_eq!((cleared.version, cleared.diagnostics.len()), (Some(2), 0));
}

/// Complaint 5: old problems vanish seconds before the new ones come. Here they stay, marked as old, and are replaced in
/// one step: while the new check runs, nothing is published.
#[test]
fn old_findings_stand_until_the_new_ones_take_their_place() {
    let (mut server, uri) = found_wrong_and_edited();
    server.diagnostics();
    server.save(&uri, None);
    let running = server.next_check();
    server.lens_until(&uri, "⟳ checking");
    let differs = failing(launched("copy_kernel", case(16, Dtype::Float32)), mismatch());
    running.finish(report_of(vec![differs]));
    let [found] = &server.diagnostics().diagnostics[..] else { panic!("the old one is replaced at once") };
    assert!(found.message.starts_with("12 of 16 elements differ"), "{}", found.message);
    // That nothing else was published is what the end of the test makes sure of.
}

/// Complaint 6: a finding that belongs to no package is cleared with those of another, or never. Here every finding
/// belongs to the check of a file: its next check replaces it, and no check of another file touches it.
#[test]
fn a_finding_without_a_kernel_belongs_to_its_file() {
    let mut server = Server::start();
    let one = server.open("one.py", COPY);
    let two = server.open("two.py", COPY);
    let of_no_kernel = || could_not_run(Code::ImportError, "No module named 'helpers'");
    for uri in [&one, &two] {
        server.save(uri, None);
        server.next_check().finish(of_no_kernel());
        assert_eq!(server.diagnostics().diagnostics.len(), 1);
    }
    server.save(&one, None);
    server.next_check().finish(passed_report());
    let cleared = server.diagnostics();
    assert_eq!((&cleared.uri, cleared.diagnostics.len()), (&one, 0));
    server.lens_until(&two, "– could not run: No module named 'helpers'");
    server.save(&two, None);
    server.next_check().finish(passed_report());
    let cleared = server.diagnostics();
    assert_eq!((&cleared.uri, cleared.diagnostics.len()), (&two, 0));
}

/// Complaint 7: many folders are many checkers at once, each telling the same. Here one check runs at a time, whatever
/// was saved, and one finding of many cases is told once.
#[test]
fn ten_saved_files_are_one_check_at_a_time() {
    let mut server = Server::start();
    let files: Vec<_> = (0..10).map(|number| server.open(&format!("k{number}.py"), COPY)).collect();
    for uri in &files {
        server.save(uri, None);
    }
    for uri in &files {
        let call = server.next_check();
        for other in files.iter().filter(|other| *other != uri) {
            assert!(!server.lens_titles(other)[0].starts_with("⟳ checking"), "one at a time");
        }
        let same = |n| failing(launched("copy_kernel", case(n, Dtype::Float32)), mismatch());
        call.finish(report_of((1..6).map(same).collect()));
        assert_eq!(server.diagnostics().diagnostics.len(), 1);
    }
}

/// Complaint 8: the check touches what is watched, and checks again without end. Here a file that is saved again and
/// again without an edit is left alone after a few checks, and the user is told; an edit ends that, and the command
/// always runs.
#[test]
fn a_loop_of_saves_without_an_edit_is_stopped_and_told() {
    // The user's own module may have changed, so each save is a reason to check.
    let text = format!("import my_helpers\n{COPY}");
    let mut server = Server::start();
    let uri = server.open("copy.py", &text);
    for _ in 0..5 {
        server.save(&uri, Some(&text));
        server.next_check().finish(passed_report());
        server.lens_until(&uri, PASSED);
    }
    for _ in 0..3 {
        server.save(&uri, Some(&text));
    }
    let told = server.notification::<ShowMessage>();
    assert!(told.message.contains("copy.py") && told.message.contains("edit"), "{}", told.message);
    server.command("warpsmith.check", &uri).expect("the command always runs");
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
    server.edit(&uri, 2, (0, 0), (0, 0), "# a comment\n");
    server.save(&uri, None);
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
}

/// Complaint 8, the other half: nothing of ours is watched, as nothing is: no folder is named to the client.
#[test]
fn nothing_is_watched() {
    let mut server = Builder::default()
        .capability("/workspace/didChangeWatchedFiles", json!({ "dynamicRegistration": true }))
        .start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
    // A request to register anything would be unread at the end, which fails the test.
}

/// Complaint 9: an editor that saves by itself has everything checked at each pause, also after an edit of a comment.
/// Here a comment starts nothing.
#[test]
fn a_comment_starts_no_check_however_often_it_is_saved() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    server.next_check().finish(passed_report());
    server.lens_until(&uri, PASSED);
    for version in 2..30 {
        server.edit(&uri, version, (0, 0), (0, 0), "# note\n");
        server.save(&uri, None);
    }
    server.lens_until(&uri, &format!("{PASSED} · same code, not run again"));
}

/// Complaint 9, the other half: saves that come faster than checks end start ever fewer of them (how few, a test of the
/// scheduler says), and the last one is judged.
#[test]
fn the_last_of_many_automatic_saves_is_judged() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let mut last = None;
    for version in 2..5 {
        server.change(&uri, version, None, &with_block(1 << version));
        server.save(&uri, None);
        if let Some(replaced) = last.take() {
            server.wait_cancelled(&replaced);
            replaced.finish_cancelled();
        }
        last = Some(server.next_check());
    }
    let last = last.expect("three were started");
    assert_eq!(&*last.request.text, with_block(16));
    last.finish(passed_report());
    server.lens_until(&uri, PASSED);
}
