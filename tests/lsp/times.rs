//! What a time looks like: in the lens, behind the line of the `def`, and in the hover.

use serde_json::{Value, json};
use tower_lsp::ls_types::request::InlayHintRefreshRequest;
use tower_lsp::ls_types::{InlayHint, InlayHintLabel, InlayHintTooltip, Uri};
use warpsmith::judge::timing::{Against, Change, NoTimingCode};
use warpsmith::judge::{Code, NoTiming, OnGpu, Report};

use crate::support::{
    Builder, COPY, Server, case, failing, finding, launched, passed_report, report_of, timing,
};

const PASSED: &str = "✓ AutoKernel copy · torch ref · 2 cases · f32 f16";
/// The time comes before the counts, since editors cut long lines.
const TIMED: &str = "✓ AutoKernel copy · torch ref · 1.83× torch (41.2 ± 0.3 µs · f16 16777216 · 91 % of a copy of these bytes) · \
                     2 cases · f32 f16";
/// 0-based line of `def copy(x):`.
const DEF_LINE: u32 = 12;

fn timed() -> Report {
    Report { timings: vec![timing()], ..passed_report() }
}

fn hints_in(server: &mut Server, uri: &Uri, lines: (u32, u32)) -> Vec<InlayHint> {
    let position = |line| json!({ "line": line, "character": 0 });
    let range = json!({ "start": position(lines.0), "end": position(lines.1) });
    let params = json!({ "textDocument": { "uri": uri }, "range": range });
    let answer = server.raw_request("textDocument/inlayHint", params).expect("an answer");
    serde_json::from_value::<Option<_>>(answer).expect("hints").unwrap_or_default()
}

/// Line, column and words of each hint.
fn hints(server: &mut Server, uri: &Uri) -> Vec<(u32, u32, String)> {
    let words = |label| match label {
        InlayHintLabel::String(words) => words,
        InlayHintLabel::LabelParts(_) => panic!("one label is sent"),
    };
    hints_in(server, uri, (0, 100))
        .into_iter()
        .map(|hint| (hint.position.line, hint.position.character, words(hint.label)))
        .collect()
}

fn check(server: &mut Server, uri: &Uri, report: Report, lens: &str) {
    server.command("warpsmith.check", uri).expect("accepted");
    server.next_check().finish(report);
    server.lens_until(uri, lens);
}

#[test]
fn a_time_stands_in_the_lens_and_behind_the_def() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    assert_eq!(hints(&mut server, &uri), []);
    check(&mut server, &uri, timed(), TIMED);
    assert_eq!(hints(&mut server, &uri), [(DEF_LINE, 12, "1.83× torch · 41.2 µs".to_owned())]);
    assert!(hints_in(&mut server, &uri, (0, DEF_LINE)).is_empty(), "ends before the line");
    let hint = hints_in(&mut server, &uri, (DEF_LINE, DEF_LINE + 1)).remove(0);
    let Some(InlayHintTooltip::MarkupContent(tooltip)) = hint.tooltip else { panic!("Markdown") };
    assert!(tooltip.value.contains("NVIDIA H200"), "{}", tooltip.value);

    // It follows the line, and says when it is of another text.
    server.edit(&uri, 2, (0, 0), (0, 0), "# a comment\n");
    assert_eq!(hints(&mut server, &uri)[0], (DEF_LINE + 1, 12, "1.83× torch · 41.2 µs".to_owned()));
    server.edit(&uri, 3, (0, 0), (0, 0), "import math\n");
    assert_eq!(hints(&mut server, &uri)[0], (DEF_LINE + 2, 12, "1.83× torch · 41.2 µs (stale)".to_owned()));
    assert_eq!(server.lens_titles(&uri), [format!("{TIMED} (stale)")]);
}

#[test]
fn what_changed_stands_in_the_hint() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let mut report = timed();
    report.timings[0].changes =
        vec![Change { against: Against::LastSave, ratio: 1.12, low: 1.10, high: 1.14 }];
    check(&mut server, &uri, report, TIMED);
    assert_eq!(hints(&mut server, &uri)[0].2, "1.83× torch · 41.2 µs · 12 % slower than the last save");
}

#[test]
fn a_time_of_what_is_wrong_or_of_another_text_is_shown_nowhere() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let bad = finding(Code::Mismatch, None, "3 elements differ");
    let cases = vec![failing(launched("copy_kernel", case(17, warpsmith::spec::Dtype::Float16)), bad)];
    let wrong = Report { timings: vec![timing()], ..report_of(cases) };
    check(&mut server, &uri, wrong, "✗ wrong: mismatch · N=17 · f16");
    server.diagnostics();
    assert_eq!(hints(&mut server, &uri), []);

    let mut old = timed();
    old.timings[0].source_hash = "another text".to_owned();
    check(&mut server, &uri, old, PASSED);
    server.diagnostics();
    assert_eq!(hints(&mut server, &uri), []);
}

#[test]
fn without_a_gpu_the_lens_says_so() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let missing = NoTiming::new(None, NoTimingCode::NoGpu, "no driver was found");
    let report = Report { not_timed: vec![missing], ..passed_report() };
    check(&mut server, &uri, report, &format!("{PASSED} · no GPU here"));
    assert_eq!(hints(&mut server, &uri), []);
}

/// A verdict that stands is not taken again, but its time may be: whoever used the GPU may be gone.
#[test]
fn a_save_tries_again_to_time_what_a_busy_gpu_did_not_allow() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let missing = NoTiming::new(None, NoTimingCode::GpuBusy, "python3 (process 7) uses the GPU");
    check(&mut server, &uri, Report { not_timed: vec![missing], ..passed_report() }, PASSED);
    server.save(&uri, Some(COPY));
    server.next_check().finish(timed());
    server.lens_until(&uri, TIMED);
}

#[test]
fn the_hover_shows_all_of_it() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let mut report = timed();
    let (device, name) = ("cuda:0".to_owned(), "NVIDIA H200".to_owned());
    report.provenance.gpu = Some(OnGpu { device, name, ..OnGpu::default() });
    let missing = NoTiming::new(None, NoTimingCode::Failed, "the second size does not fit");
    report.not_timed.push(missing);
    check(&mut server, &uri, report, TIMED);
    let position = json!({ "line": 6, "character": 6 });
    let hover = server
        .raw_request("textDocument/hover", json!({ "textDocument": { "uri": uri }, "position": position }))
        .expect("an answer");
    insta::assert_snapshot!(hover["contents"]["value"].as_str().expect("text"));
}

#[test]
fn hints_are_fetched_again_when_a_time_comes_or_goes() {
    let mut server =
        Builder::default().capability("/workspace/inlayHint/refreshSupport", json!(true)).start();
    let uri = server.open("copy.py", COPY);
    check(&mut server, &uri, passed_report(), PASSED);
    check(&mut server, &uri, timed(), TIMED);
    let (id, ()) = server.client_request::<InlayHintRefreshRequest>();
    server.answer(id, Value::Null);
    check(&mut server, &uri, passed_report(), PASSED);
    let (id, ()) = server.client_request::<InlayHintRefreshRequest>();
    server.answer(id, Value::Null);
}
