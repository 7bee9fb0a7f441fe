//! Verdicts of the store: shown at once, never as fresh ones, and never when something they rest on has changed.

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tower_lsp::ls_types::Uri;
use warpsmith::judge::check::Earlier;
use warpsmith::judge::{Code, Report};
use warpsmith::spec::Dtype;

use crate::lenses::with_kernels;
use crate::support::{
    Builder, COPY, LOAD_LINE, Server, case, failing, finding, launched, passed_report, place, report_of,
    timing,
};

const FRESH: &str = "✓ AutoKernel copy · torch ref · 2 cases · f32 f16";
const MINUTES_14: &str =
    "▶ check · passed, checked 14 min ago · AutoKernel copy · torch ref · 2 cases · f32 f16";

/// Its lenses change when a verdict comes, for which it is told.
fn with_earlier(report: Report) -> Server {
    let server = Server::start();
    remember(&server, report, Duration::from_secs(14 * 60 + 20));
    server
}

fn remember(server: &Server, report: Report, age: Duration) {
    let since = (SystemTime::now() - age).duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    *server.memory.earlier.lock().expect("nobody panics with it") =
        Some(Earlier { report, judged_at_s: since.as_secs() });
}

fn wrong() -> Report {
    let at = Some(place("/kernels/copy.py", LOAD_LINE));
    let out_of_bounds = finding(Code::OutOfBounds, at, "reads element 16 of x, which has 16");
    report_of(vec![failing(launched("copy_kernel", case(17, Dtype::Float16)), out_of_bounds)])
}

fn hover(server: &mut Server, uri: &Uri) -> String {
    let position = json!({ "line": 6, "character": 5 });
    let params = json!({ "textDocument": { "uri": uri }, "position": position });
    let found: Value = server.raw_request("textDocument/hover", params).expect("an answer");
    found["contents"]["value"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn an_opened_file_shows_its_earlier_verdict_with_its_age() {
    let mut server = with_earlier(passed_report());
    let uri = server.open("copy.py", COPY);
    server.lens_until(&uri, MINUTES_14);
    let told = hover(&mut server, &uri);
    assert!(told.contains("From the store: checked 14 min ago"), "{told}");
    assert!(told.contains("UTC"), "{told}");
}

/// The one lens of many kernels says it as well, once.
#[test]
fn the_row_of_many_kernels_has_the_age() {
    let text = with_kernels(8);
    let mut record = launched("copy_kernel", case(16, Dtype::Float32));
    let others = (0..8).map(|number| format!("k{number}"));
    record.launches.extend(others.flat_map(|name| launched(&name, case(16, Dtype::Float32)).launches));
    let mut server = with_earlier(report_of(vec![record.clone()]));
    let uri = server.open("copy.py", &text);
    server.lens_until(&uri, "▶ check · passed, checked 14 min ago · 9 kernels: 9 passed");
    let mut server = with_earlier(report_of(vec![failing(record, finding(Code::Mismatch, None, "off"))]));
    let uri = server.open("copy.py", &text);
    assert_eq!(server.diagnostics().diagnostics.len(), 1);
    server
        .lens_until(&uri, "✗ checked 14 min ago · 9 kernels: 9 wrong (mismatch in copy_kernel · N=16 · f32)");
}

#[test]
fn an_old_verdict_has_its_day() {
    let mut server = Server::start();
    remember(&server, passed_report(), Duration::from_secs(40 * 24 * 3600));
    let uri = server.open("copy.py", COPY);
    let title = (0..2000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        server.lens_titles(&uri).pop().filter(|title| title.contains("passed"))
    });
    let title = title.expect("it comes");
    assert!(
        title.starts_with("▶ check · passed, checked on 20")
            && title.ends_with(" · AutoKernel copy · torch ref · 2 cases · f32 f16")
    );
}

#[test]
fn earlier_findings_stand_in_the_text_and_say_that_they_are_earlier() {
    let mut server = with_earlier(wrong());
    let uri = server.open("copy.py", COPY);
    let published = server.diagnostics();
    let [found] = published.diagnostics.as_slice() else { panic!("{published:?}") };
    assert!(found.message.starts_with("(from an earlier check) reads element 16"), "{}", found.message);
    assert_eq!(found.range.start.line, LOAD_LINE - 1);
    server.lens_until(&uri, "✗ checked 14 min ago · wrong: out-of-bounds · N=17 · f16");
    // A check of now takes its place, mark and all.
    server.command("warpsmith.check", &uri).expect("accepted");
    server.next_check().finish(passed_report());
    assert_eq!(server.diagnostics().diagnostics, []);
    server.lens_until(&uri, FRESH);
}

#[test]
fn a_time_of_an_earlier_check_says_so() {
    let mut report = passed_report();
    report.timings = vec![timing()];
    let mut server = with_earlier(report);
    let uri = server.open("copy.py", COPY);
    let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 99, "character": 0 } });
    let params = json!({ "textDocument": { "uri": uri }, "range": range });
    let hints = (0..2000).find_map(|_| {
        let found = server.raw_request("textDocument/inlayHint", params.clone()).expect("an answer");
        std::thread::sleep(Duration::from_millis(5));
        found.as_array().filter(|hints| !hints.is_empty()).cloned()
    });
    let label = hints.expect("a hint comes")[0]["label"].as_str().unwrap_or_default().to_owned();
    assert!(label.ends_with(" (earlier check)"), "{label}");
}

/// The command always runs.
#[test]
fn asked_for_it_runs_whatever_the_store_says() {
    let mut server = with_earlier(passed_report());
    let uri = server.open("copy.py", COPY);
    server.lens_until(&uri, MINUTES_14);
    server.command("warpsmith.check", &uri).expect("accepted");
    server.next_check().finish(passed_report());
    server.lens_until(&uri, FRESH);
}

/// Of this session: what the store said of an opened file is no reason to leave a check out.
#[test]
fn a_save_of_the_same_code_runs_nothing_and_says_so() {
    let mut server = with_earlier(passed_report());
    let uri = server.open("copy.py", COPY);
    server.lens_until(&uri, MINUTES_14);
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, FRESH);
    server.save(&uri, Some(COPY));
    server.lens_until(&uri, &format!("{FRESH} · same code, not run again"));
}

/// torch was replaced, another device is there: the text is the same and the verdict is not one on it any more.
#[test]
fn a_save_of_the_same_code_runs_when_the_environment_has_changed() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, FRESH);
    server.memory.has_changed.store(true, Ordering::Relaxed);
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, FRESH);
}

/// The answer of the store comes after the first keystroke: it is of another text.
#[test]
fn an_edit_makes_an_earlier_verdict_stale() {
    let mut server = with_earlier(passed_report());
    let uri = server.open("copy.py", COPY);
    server.lens_until(&uri, MINUTES_14);
    server.change(&uri, 2, None, &COPY.replace("BLOCK=16", "BLOCK=32"));
    server.lens_until(&uri, &format!("{MINUTES_14} (stale)"));
    server.save(&uri, None);
    server.next_check().finish(passed_report());
    server.lens_until(&uri, FRESH);
}

#[test]
fn a_client_that_can_is_asked_to_fetch_the_lenses() {
    let mut server = Builder::default().lens_refresh().start();
    remember(&server, passed_report(), Duration::from_secs(14 * 60 + 20));
    let uri = server.open("copy.py", COPY);
    let (id, ()) = server.client_request::<tower_lsp::ls_types::request::CodeLensRefresh>();
    server.answer(id, Value::Null);
    assert_eq!(server.lens_titles(&uri), [MINUTES_14]);
}

/// A file without kernels is nobody's business.
#[test]
fn nothing_is_asked_of_a_file_without_kernels() {
    let mut server = with_earlier(wrong());
    let uri = server.open("plain.py", "x = 1\n");
    assert_eq!(server.lens_titles(&uri), Vec::<String>::new());
}
