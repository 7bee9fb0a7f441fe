//! Columns behind characters of several units: whatever stands in the text stands where the user sees it, and edits
//! do what they say, in each encoding of positions.
//!
//! complaint 13: errors stand columns off, fixes destroy the text, or the server panics, in lines with CJK or emoji.
//! (Edits of the client against a naive model, with random texts: `src/text/document_tests.rs`.)

use serde_json::{Value, json};
use tower_lsp::ls_types::{Diagnostic, Uri};
use warpsmith::judge::{Code, Report};
use warpsmith::spec::Dtype;

use crate::support::{
    Builder, COPY, Server, case, failing, finding, launched, passed_report, place, report_of, timing,
};

/// Columns that a letter takes.
type Units = fn(char) -> usize;

const ENCODINGS: [(&str, Units); 3] =
    [("utf-8", char::len_utf8), ("utf-16", char::len_utf16), ("utf-32", |_| 1)];
/// Two, four and one bytes a letter; one of them is two units of UTF-16, one combines with the letter before it.
const WIDE: &str = "ä漢😀e\u{301}";

/// A file with the wide letters before the kernel, on its decorator, and before each place that matters.
fn text() -> String {
    let text = COPY
        .replace(
            "@triton.jit",
            &format!("@triton.autotune(configs=[triton.Config({{'BLOCK': 16}}, pre_hook='{WIDE}')], key=['N'])\n@triton.jit  # {WIDE}"),
        )
        .replace("    x = tl.load(", &format!("    '{WIDE}'; x = tl.dot("))
        .replace("    offsets = ", &format!("    '{WIDE}'; unused = tl.arange(0, 96); offsets = "))
        .replace("tl.arange(0, BLOCK)", "tl.arange(0, 48)")
        .replace("def copy(x):", &format!("def copy(x):  # {WIDE}"));
    format!("# {WIDE}\n'{WIDE}'\n{text}")
}

/// The place of a byte, counted naively.
fn position(text: &str, byte: usize, units: Units) -> Value {
    let before = &text[..byte];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column: usize = before[line_start..].chars().map(units).sum();
    json!({ "line": before.matches('\n').count(), "character": column })
}

fn byte(text: &str, position: &Value, units: Units) -> usize {
    let line = position["line"].as_u64().expect("a line") as usize;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut left = position["character"].as_u64().expect("a column") as usize;
    let mut end = start;
    for letter in text[start..].chars() {
        if left == 0 {
            break;
        }
        left = left.checked_sub(units(letter)).expect("between two letters");
        end += letter.len_utf8();
    }
    end
}

fn range(text: &str, words: &str, units: Units) -> Value {
    let at = text.find(words).unwrap_or_else(|| panic!("no {words:?}"));
    json!({ "start": position(text, at, units), "end": position(text, at + words.len(), units) })
}

/// The text after the edits of an action.
fn applied(text: &str, action: &Value, units: Units) -> String {
    let mut text = text.to_owned();
    let mut edits = action["edit"]["documentChanges"][0]["edits"].as_array().expect("edits").clone();
    edits.sort_by_key(|edit| std::cmp::Reverse(byte(&text, &edit["range"]["start"], units)));
    for edit in edits {
        let [start, end] = ["start", "end"].map(|end| byte(&text, &edit["range"][end], units));
        text.replace_range(start..end, edit["newText"].as_str().expect("a text"));
    }
    text
}

fn action(server: &mut Server, uri: &Uri, at: &Value, title: &str) -> Value {
    let params = json!({ "textDocument": { "uri": uri }, "range": at, "context": { "diagnostics": [] } });
    let found = server.raw_request("textDocument/codeAction", params).expect("an answer");
    let titles: Vec<&Value> =
        found.as_array().expect("a list").iter().map(|action| &action["title"]).collect();
    let fitting = found.as_array().expect("a list").iter().find(|action| action["title"] == title);
    fitting.unwrap_or_else(|| panic!("no {title:?} in {titles:?}")).clone()
}

fn has_code(diagnostic: &Diagnostic, code: &str) -> bool {
    serde_json::to_value(&diagnostic.code).is_ok_and(|found| found == code)
}

#[track_caller]
fn ranges_of(diagnostics: &[Diagnostic], code: &str) -> Vec<Value> {
    let found = diagnostics.iter().filter(|shown| has_code(shown, code));
    found.map(|shown| serde_json::to_value(shown.range).expect("a range")).collect()
}

#[test]
fn what_stands_in_the_text_stands_where_it_is_seen() {
    let text = text();
    for (encoding, units) in ENCODINGS {
        let mut server =
            Builder::default().capability("/general/positionEncodings", json!([encoding])).start();
        let uri = server.open("copy.py", &text);
        let range = |words: &str| range(&text, words, units);
        let shown = server.diagnostics().diagnostics;
        assert_eq!(ranges_of(&shown, "autotune-unknown-name"), [range("'N'")], "{encoding}");
        let ranges = [range("tl.arange(0, 96)"), range("tl.arange(0, 48)")];
        assert_eq!(ranges_of(&shown, "arange-power-of-two"), ranges, "{encoding}");

        let lens = serde_json::to_value(server.lenses(&uri)[0].range).expect("a range");
        let decorator = text.lines().find(|line| line.starts_with("@triton.autotune")).expect("a decorator");
        assert_eq!(lens, range(decorator), "{encoding}");

        let load_line =
            text.lines().position(|line| line.contains("tl.dot(")).expect("the product") as u32 + 1;
        let tf32 = finding(Code::Tf32, Some(place("/kernels/copy.py", load_line)), "only TF32 explains it");
        let wrong = report_of(vec![failing(launched("copy_kernel", case(16, Dtype::Float32)), tf32)]);
        server.command("warpsmith.check", &uri).expect("accepted");
        server.next_check().finish(wrong);
        let line = text.lines().find(|line| line.contains("tl.dot(")).expect("the product").trim();
        assert_eq!(ranges_of(&server.diagnostics().diagnostics, "tf32"), [range(line)], "{encoding}");

        // The edits of the quick fixes, asked for at the very place; the second of two on a line, too.
        let fixed = |server: &mut Server, words: &str, title: &str| {
            applied(&text, &action(server, &uri, &range(words), title), units)
        };
        let ieee = "Compute this product in IEEE float32 (input_precision=\"ieee\")";
        assert_eq!(
            fixed(&mut server, "tl.dot(x_ptr + offsets)", ieee),
            text.replace("tl.dot(x_ptr + offsets)", "tl.dot(x_ptr + offsets, input_precision=\"ieee\")")
        );
        assert_eq!(fixed(&mut server, "'N'", "Write `n`"), text.replace("'N'", "'n'"));

        let hover = json!({ "textDocument": { "uri": uri }, "position": range("arange(0, 48)")["start"] });
        let page = server.raw_request("textDocument/hover", hover).expect("an answer");
        assert_eq!(page["range"], range("tl.arange(0, 48)"), "{encoding}");

        let mut timed = passed_report();
        timed.provenance.source_hash = blake3::hash(text.as_bytes()).to_hex().to_string();
        let source_hash = timed.provenance.source_hash.clone();
        timed = Report {
            entry: Some("copy".to_owned()),
            timings: vec![warpsmith::judge::Timing { source_hash, ..timing() }],
            ..timed
        };
        server.command("warpsmith.check", &uri).expect("accepted");
        server.next_check().finish(timed);
        while !ranges_of(&server.diagnostics().diagnostics, "tf32").is_empty() {}
        let whole = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 99, "character": 0 } });
        let hints = server
            .raw_request("textDocument/inlayHint", json!({ "textDocument": { "uri": uri }, "range": whole }))
            .expect("hints");
        assert_eq!(hints[0]["position"], range(&format!("def copy(x):  # {WIDE}"))["end"], "{encoding}");
        server.close(&uri);
        server.diagnostics();
    }
}

/// The same places after an edit in the middle of wide letters, of which the client counts the columns.
#[test]
fn places_follow_an_edit_among_wide_letters() {
    for (encoding, units) in ENCODINGS {
        let text = text();
        let mut server =
            Builder::default().capability("/general/positionEncodings", json!([encoding])).start();
        let uri = server.open("copy.py", &text);
        server.diagnostics();
        let at = range(&text, "; unused", units);
        let edit: tower_lsp::ls_types::Range =
            serde_json::from_value(json!({ "start": at["start"], "end": at["start"] })).expect("a range");
        server.change(&uri, 2, Some(edit), &format!("; '{WIDE}'"));
        let text = text.replace("; unused", &format!("; '{WIDE}'; unused"));
        let shown = server.diagnostics();
        assert_eq!(shown.version, Some(2));
        let ranges = ["tl.arange(0, 96)", "tl.arange(0, 48)"].map(|words| range(&text, words, units));
        assert_eq!(ranges_of(&shown.diagnostics, "arange-power-of-two"), ranges, "{encoding}");
        server.close(&uri);
        server.diagnostics();
    }
}
