//! Documents that no careful client sends, and files that nobody would write by hand.

use serde_json::{Value, json};
use tower_lsp::ls_types::notification::DidOpenTextDocument;
use tower_lsp::ls_types::{DidOpenTextDocumentParams, Position, Range, TextDocumentItem, Uri};

use crate::support::{Builder, COPY, Server, passed_report};

/// [`COPY`] with a range that Triton refuses: a static finding on each text that is looked at.
fn odd() -> String {
    COPY.replace("tl.arange(0, BLOCK)", "tl.arange(0, 96)")
}

fn open_as(server: &mut Server, uri: &str, language: &str, version: i32, text: &str) -> Uri {
    let uri: Uri = uri.parse().expect("a URI");
    server.notify::<DidOpenTextDocument>(DidOpenTextDocumentParams {
        text_document: TextDocumentItem::new(uri.clone(), language.to_owned(), version, text.to_owned()),
    });
    uri
}

/// What is no file cannot be judged: it has findings of its text, no lens, and no check.
#[test]
fn documents_that_are_no_files() {
    let mut server = Server::start();
    for uri in [
        "untitled:Untitled-1",
        "untitled:/kernels/new.py",
        "git:/kernels/copy.py?%7B%22ref%22%3A%22HEAD%22%7D",
        "vscode-notebook-cell:/kernels/a.ipynb#W0sZmlsZQ%3D%3D",
        "vscode-remote://ssh-remote%2Bhost/kernels/copy.py",
        "https://example.com/copy.py",
        "warpsmith-candidate:/kernels/copy.py",
    ] {
        let uri = open_as(&mut server, uri, "python", 1, &odd());
        let shown = server.diagnostics();
        assert_eq!((shown.uri.as_str(), shown.diagnostics.len()), (uri.as_str(), 1));
        assert!(server.lenses(&uri).is_empty(), "{}", uri.as_str());
        server.save(&uri, Some(&odd()));
        let refused = server.command("warpsmith.check", &uri).expect_err("refused");
        assert!(
            refused["message"].as_str().is_some_and(|told| told.contains("save this buffer")),
            "{refused}"
        );
        server.close(&uri);
        assert!(server.diagnostics().diagnostics.is_empty());
    }
}

/// One file, however its URI writes its letters; the URI that comes back is the client's own.
#[test]
fn uris_of_files_are_decoded() {
    let mut server = Server::start();
    for (uri, path) in [
        ("file:///kernels/my%20kernel.py", "/kernels/my kernel.py"),
        ("file:///kernels/gr%C3%B6%C3%9Fe/%E6%BC%A2%F0%9F%98%80.py", "/kernels/größe/漢😀.py"),
        ("file:///kernels/100%25%20%23%3F%5B1%5D.py", "/kernels/100% #?[1].py"),
        ("file:///kernels/a%2Fb/../c.py", "/kernels/a/b/../c.py"),
        ("file://localhost/kernels/local.py", "/kernels/local.py"),
    ] {
        let uri = open_as(&mut server, uri, "python", 1, COPY);
        server.save(&uri, Some(COPY));
        let call = server.next_check();
        assert_eq!(call.request.path.to_str(), Some(path), "{}", uri.as_str());
        call.finish(passed_report());
        server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
        server.close(&uri);
    }
}

/// A file of another name than `.py` counts by its language, and the language of a `.py` does not matter.
#[test]
fn python_is_known_by_its_name_or_its_language() {
    let mut server = Server::start();
    for (uri, language, has_lens) in [
        ("file:///kernels/kernel", "python", true),
        ("file:///kernels/kernel.py", "plaintext", true),
        ("file:///kernels/kernel.PY", "plaintext", false),
        ("file:///kernels/kernel.txt", "plaintext", false),
        ("file:///kernels/kernel.cu", "cuda-cpp", false),
    ] {
        let uri = open_as(&mut server, uri, language, 1, COPY);
        assert_eq!(server.lenses(&uri).len(), usize::from(has_lens), "{} {language}", uri.as_str());
        server.close(&uri);
    }
}

/// complaint 14: strict clients drop diagnostics whose version is not that of their text. Each publish has the version
/// that the client gave last, whatever it was: also one that jumps, goes backwards or comes from a second open.
#[test]
fn diagnostics_have_the_version_of_the_client() {
    let mut server = Server::start();
    let uri = server.open("copy.py", &odd());
    assert_eq!(server.diagnostics().version, Some(1));
    for version in [7, 1_000_000, 3, 3, 0, -5, i32::MAX, 2] {
        server.edit(&uri, version, (0, 0), (0, 0), "# above\n");
        let shown = server.diagnostics();
        assert_eq!((shown.version, shown.diagnostics.len()), (Some(version), 1));
    }
    // Findings of a run come with the version of the text that they stand in, not of the one that was judged.
    server.save(&uri, None);
    let call = server.next_check();
    server.edit(&uri, 40, (0, 0), (0, 0), "# above\n");
    assert_eq!(server.diagnostics().version, Some(40));
    let wrong = warpsmith::judge::Code::Mismatch;
    let finding = crate::support::finding(wrong, None, "off");
    let record =
        crate::support::launched("copy_kernel", crate::support::case(16, warpsmith::spec::Dtype::Float32));
    call.finish(crate::support::report_of(vec![crate::support::failing(record, finding)]));
    let shown = server.diagnostics();
    assert_eq!((shown.version, shown.diagnostics.len()), (Some(40), 2));

    let again = open_as(&mut server, uri.as_str(), "python", 9, &odd());
    assert_eq!(again, uri);
    let shown = server.diagnostics();
    assert_eq!((shown.version, shown.diagnostics.len()), (Some(9), 1), "opened twice, it starts anew");
    server.close(&uri);
    assert_eq!(server.diagnostics().version, None, "what is closed has no version");
}

/// Ranges that cannot be: all but the impossible ones are clamped, and after those nothing is guessed.
#[test]
fn ranges_outside_of_the_text() {
    let whole = |line, character| Position::new(line, character);
    let clamped = [
        (Range::new(whole(0, 99_999), whole(0, u32::MAX)), "import torch!\n".len()),
        (Range::new(whole(0, 12), whole(u32::MAX, u32::MAX)), "import torch!".len()),
    ];
    for (range, length) in clamped {
        let mut server = Server::start();
        let uri = server.open("copy.py", COPY);
        server.change(&uri, 2, Some(range), "!");
        server.command("warpsmith.check", &uri).expect("accepted");
        let call = server.next_check();
        assert!(call.request.text.starts_with("import torch!"), "{:?}", call.request.text);
        assert!(call.request.text.len() >= length);
        call.finish(passed_report());
    }
    let impossible = [
        Range::new(whole(u32::MAX, 0), whole(u32::MAX, 0)),
        Range::new(whole(500, 0), whole(501, 0)),
        Range::new(whole(2, 0), whole(1, 0)),
    ];
    for range in impossible {
        let mut server = Server::start();
        let uri = server.open("copy.py", COPY);
        server.change(&uri, 2, Some(range), "x");
        let told = server.notification::<tower_lsp::ls_types::notification::ShowMessage>();
        assert!(told.message.contains("lost track"), "{}", told.message);
        server.change(&uri, 3, None, COPY);
        server.command("warpsmith.check", &uri).expect("accepted");
        let call = server.next_check();
        assert_eq!(&*call.request.text, COPY);
        call.finish(passed_report());
    }
}

/// Messages without what they must have are refused, and the next one works.
#[test]
fn messages_of_the_wrong_shape() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    for (method, params) in [
        ("textDocument/didOpen", json!({ "textDocument": { "uri": "no uri at all", "text": 3 } })),
        ("textDocument/didChange", json!({ "textDocument": { "uri": uri }, "contentChanges": "all" })),
        ("textDocument/didSave", json!([])),
        ("textDocument/didClose", Value::Null),
        ("workspace/didChangeConfiguration", json!({ "settings": null })),
        ("workspace/didChangeWatchedFiles", json!({ "changes": [] })),
        ("$/setTrace", json!({ "value": "verbose" })),
        ("$/nobody/knows/this", json!({})),
        ("window/workDoneProgress/cancel", json!({ "token": {} })),
    ] {
        server.send_text(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }
    for (method, params) in [
        ("textDocument/codeLens", json!({ "textDocument": {} })),
        (
            "textDocument/hover",
            json!({ "textDocument": { "uri": uri }, "position": { "line": -1, "character": 0 } }),
        ),
        ("textDocument/completion", json!({ "textDocument": { "uri": uri } })),
    ] {
        assert!(server.raw_request(method, params).is_err(), "{method}");
    }
    let far = json!({ "line": u32::MAX, "character": u32::MAX });
    let hover = json!({ "textDocument": { "uri": uri }, "position": far });
    assert_eq!(server.raw_request("textDocument/hover", hover).expect("an answer"), Value::Null);
    let range = json!({ "start": far, "end": { "line": 0, "character": 0 } });
    for method in ["textDocument/codeAction", "textDocument/inlayHint"] {
        let params =
            json!({ "textDocument": { "uri": uri }, "range": range, "context": { "diagnostics": [] } });
        server.raw_request(method, params).expect("an answer");
    }
    assert_eq!(server.lens_titles(&uri), ["▶ check"]);
    server.ignore_unread();
}

#[test]
fn an_empty_file_becomes_a_kernel_and_back() {
    let mut server = Server::start();
    let uri = server.open("copy.py", "");
    assert!(server.lenses(&uri).is_empty());
    server.save(&uri, Some(""));
    server.change(&uri, 2, Some(Range::new(Position::new(0, 0), Position::new(0, 0))), COPY);
    assert_eq!(server.lens_titles(&uri), ["▶ check"]);
    server.change(&uri, 3, None, "");
    assert!(server.lenses(&uri).is_empty());
}

/// More text than anybody writes: kept in step, quick to answer, and not looked at.
#[test]
fn a_file_of_five_megabytes() {
    let filler = "# what somebody's generator wrote, sixty letters of it, again\n".repeat(85_000);
    let text = format!("{}{filler}", odd());
    assert!(text.len() > 5 << 20);
    let mut server = Server::start();
    let uri = server.open("long.py", &text);
    for version in 2..7 {
        server.edit(&uri, version, (0, 0), (0, 0), "# above\n");
    }
    assert!(server.lenses(&uri).is_empty());
    let refused = server.command("warpsmith.check", &uri);
    let call = server.next_check();
    assert!(refused.is_ok() && call.request.text.len() == text.len() + 5 * "# above\n".len());
    call.finish_cancelled();
    // Cut down to a sensible size it is looked at.
    server.change(&uri, 60, None, &odd());
    assert_eq!(server.diagnostics().diagnostics.len(), 1);
    assert_eq!(server.lenses(&uri).len(), 1);
    server.close(&uri);
    server.diagnostics();
}

/// complaint 15: an edit of the server is applied to a text that is newer than the one it was made for. Ours go out
/// with the version of that text, and are made from the text that the client had when it asked.
#[test]
fn edits_are_of_the_text_that_was_asked_about() {
    let text = COPY.replace(
        "@triton.jit",
        "@triton.autotune(configs=[triton.Config({'BLOCK': b}) for b in (1, 2)], key=['N'])\n@triton.jit",
    );
    let mut server = Server::start();
    let uri = server.open("copy.py", &text);
    server.diagnostics();
    let ask = |server: &mut Server, line: u32| {
        let at = |character: u32| json!({ "line": line, "character": character });
        let params = json!({ "textDocument": { "uri": uri }, "range": { "start": at(0), "end": at(120) },
            "context": { "diagnostics": [], "only": ["quickfix"] } });
        server.post("textDocument/codeAction", params)
    };
    // Asked before the edit and answered after it: of version 1, though the server knows version 2 by then.
    let before = ask(&mut server, 5);
    server.edit(&uri, 2, (0, 0), (0, 0), "# above\n");
    let after = ask(&mut server, 6);
    for (id, version, line) in [(before, 1, 5), (after, 2, 6)] {
        let found = server.response(id).expect("an answer");
        let change = &found[0]["edit"]["documentChanges"][0];
        assert_eq!(change["textDocument"]["version"], version);
        assert_eq!(change["edits"][0]["range"]["start"]["line"], line);
    }
    server.diagnostics();
    server.close(&uri);
    server.diagnostics();
    // Nobody asked for an edit, and none was sent: `workspace/applyEdit` would be unread at the end of this test.
}

/// complaint 17: a server that watches everything takes all of the system's watches, or makes the editor stutter.
/// Ours asks for no watching at all, also where the client would watch for it.
#[test]
fn nothing_is_watched() {
    let mut server = Builder::default()
        .capability(
            "/workspace/didChangeWatchedFiles",
            json!({ "dynamicRegistration": true, "relativePatternSupport": true }),
        )
        .start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
    assert!(server.initialize_result["capabilities"]["workspace"]["fileOperations"].is_null());
    for request in server.take_unread("client/registerCapability") {
        for registration in request["params"]["registrations"].as_array().expect("a list") {
            assert_ne!(registration["method"], "workspace/didChangeWatchedFiles", "{registration}");
        }
    }
}
