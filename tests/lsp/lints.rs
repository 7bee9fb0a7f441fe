//! Static findings in the editor: there before any run, gone with their cause, mended by an edit.

use serde_json::{Value, json};
use tower_lsp::ls_types::{Diagnostic, DiagnosticSeverity, NumberOrString, PublishDiagnosticsParams};
use warpsmith::judge::Code;
use warpsmith::spec::Dtype;

use crate::support::{COPY, Server, case, failing, launched, mismatch, report_of};

/// [`COPY`] with a range that Triton refuses.
fn odd() -> String {
    COPY.replace("tl.arange(0, BLOCK)", "tl.arange(0, 96)")
}

/// Zero-based line of the range.
const LINE: u32 = 7;

#[track_caller]
fn only(published: &PublishDiagnosticsParams) -> &Diagnostic {
    let [diagnostic] = &published.diagnostics[..] else { panic!("not one: {published:#?}") };
    diagnostic
}

fn rule(diagnostic: &Diagnostic) -> Option<&str> {
    match &diagnostic.code {
        Some(NumberOrString::String(code)) => Some(code),
        _ => None,
    }
}

#[test]
fn a_finding_is_there_on_open_follows_the_text_and_goes_with_its_cause() {
    let mut server = Server::start();
    let uri = server.open("copy.py", &odd());
    let published = server.diagnostics();
    assert_eq!(published.version, Some(1));
    let diagnostic = only(&published);
    assert_eq!(rule(diagnostic), Some("arange-power-of-two"));
    assert_eq!(diagnostic.severity, Some(DiagnosticSeverity::WARNING));
    assert_eq!(diagnostic.source.as_deref(), Some("warpsmith"));
    assert_eq!(diagnostic.code_description, None);
    let range = diagnostic.range;
    assert_eq!((range.start.line, range.start.character, range.end.character), (LINE, 41, 57));

    server.edit(&uri, 2, (0, 0), (0, 0), "# above\n");
    let moved = server.diagnostics();
    assert_eq!((moved.version, only(&moved).range.start.line), (Some(2), LINE + 1));

    server.change(&uri, 3, None, COPY);
    let cleared = server.diagnostics();
    assert_eq!((cleared.version, cleared.diagnostics.len()), (Some(3), 0));
}

#[test]
fn findings_of_a_run_stand_beside_it_and_only_they_grow_stale() {
    let mut server = Server::start();
    let text = odd();
    let uri = server.open("copy.py", &text);
    server.diagnostics();
    server.command("warpsmith.check", &uri).expect("accepted");
    server
        .next_check()
        .finish(report_of(vec![failing(launched("copy_kernel", case(17, Dtype::Float16)), mismatch())]));
    let both = server.diagnostics();
    let codes: Vec<_> = both.diagnostics.iter().filter_map(rule).collect();
    assert_eq!(codes, [Code::Mismatch.name().as_str(), "arange-power-of-two"]);
    server.change(
        &uri,
        2,
        None,
        &text.replace("tl.store(y_ptr + offsets, x)", "tl.store(y_ptr + offsets, -x)"),
    );
    let stale = server.diagnostics();
    let is_stale: Vec<bool> =
        stale.diagnostics.iter().map(|shown| shown.message.starts_with("(stale)")).collect();
    assert_eq!(is_stale, [true, false]);
    server.close(&uri);
    assert!(server.diagnostics().diagnostics.is_empty());
}

#[test]
fn a_fix_is_an_edit_of_this_version() {
    let text = COPY.replace(
        "@triton.jit",
        "@triton.autotune(configs=[triton.Config({'BLOCK': b}) for b in (1, 2)], key=['N'])\n@triton.jit",
    );
    let mut server = Server::start();
    let uri = server.open("copy.py", &text);
    let shown = only(&server.diagnostics()).clone();
    assert_eq!(rule(&shown), Some("autotune-unknown-name"));
    let range = shown.range;
    let context = json!({ "diagnostics": [shown], "only": ["quickfix"] });
    let params = json!({ "textDocument": { "uri": uri }, "range": range, "context": context });
    let found = server.raw_request("textDocument/codeAction", params).expect("an answer");
    let titles: Vec<&Value> =
        found.as_array().expect("a list").iter().map(|action| &action["title"]).collect();
    assert_eq!(titles, ["Write `n`", "Remove `N` from `key`"]);
    let change = &found[0]["edit"]["documentChanges"][0];
    assert_eq!(change["textDocument"]["version"], 1);
    assert_eq!(change["edits"][0]["newText"], "n");
    assert_eq!(found[0]["diagnostics"][0]["code"], "autotune-unknown-name");
    let elsewhere = json!({ "line": 0, "character": 0 });
    let params = json!({ "textDocument": { "uri": uri }, "range": { "start": elsewhere, "end": elsewhere },
        "context": { "diagnostics": [], "only": ["quickfix"] } });
    assert_eq!(server.raw_request("textDocument/codeAction", params).expect("an answer"), json!([]));
}

#[test]
fn the_page_of_a_rule_is_behind_its_finding() {
    let mut server = Server::start();
    let uri = server.open("copy.py", &odd());
    server.diagnostics();
    let mut hover = |character: u32| {
        let position = json!({ "line": LINE, "character": character });
        let params = json!({ "textDocument": { "uri": uri }, "position": position });
        server.raw_request("textDocument/hover", params).expect("an answer")
    };
    let page = hover(45);
    let text = page["contents"]["value"].as_str().expect("text").to_owned();
    assert!(text.starts_with("**arange-power-of-two** (warning)"), "{text}");
    assert!(text.contains("What to do: take the next power of two"), "{text}");
    assert_eq!(hover(6), Value::Null);
}

#[test]
fn a_comment_with_a_reason_allows_a_finding() {
    let mut server = Server::start();
    let uri = server.open("copy.py", &odd());
    server.diagnostics();
    server.edit(
        &uri,
        2,
        (LINE, 0),
        (LINE, 0),
        "    # warpsmith: allow(arange-power-of-two) never compiled\n",
    );
    assert!(server.diagnostics().diagnostics.is_empty());
}

/// A long text is looked at with every edit: what is not edited is known.
#[test]
fn a_long_text_is_looked_at_with_every_edit() {
    let mut server = Server::start();
    let filler: String = (0..3_000).map(|i| format!("def f{i}(x):\n    return x + {i}\n")).collect();
    let uri = server.open("long.py", &format!("{}\n{filler}", odd()));
    let first = only(&server.diagnostics()).clone();
    for version in 2..6 {
        server.edit(&uri, version, (0, 0), (0, 0), "# above\n");
        let moved = server.diagnostics();
        assert_eq!(moved.version, Some(version));
        assert_eq!(only(&moved).range.start.line + 1, first.range.start.line + version as u32);
    }
}

/// A statement that takes longer to parse than a keystroke is looked at once the typing pauses, and then as it is.
#[test]
fn a_long_statement_is_looked_at_when_the_typing_pauses() {
    let mut server = Server::start();
    let uri = server.open("long.py", &format!("TABLE = [\n{}]\n{}", "    1,\n".repeat(8_000), odd()));
    let first = only(&server.diagnostics()).clone();
    // The first edit shows how long the statement is.
    for version in 2..12 {
        server.edit(&uri, version, (1, 0), (1, 0), "    2,\n");
        if version == 2 {
            assert_eq!(server.diagnostics().version, Some(2));
        }
    }
    let moved = server.diagnostics();
    assert_eq!(moved.version, Some(11), "one look for all edits");
    assert_eq!(only(&moved).range.start.line, first.range.start.line + 10);
    assert_eq!(server.ignore_unread(), 0);
}
