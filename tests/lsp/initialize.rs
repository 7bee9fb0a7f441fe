//! What the server says about itself to clients of different make.

use serde_json::{Value, json};
use tower_lsp::ls_types::InitializedParams;
use tower_lsp::ls_types::notification::{Initialized, ShowMessage};

use crate::support::{Builder, COPY, Server};

#[track_caller]
fn snapshot(name: &str, capabilities: Value) {
    let server = Builder::default().capabilities(capabilities).start();
    let mut result = server.initialize_result.clone();
    assert!(result["serverInfo"]["version"].is_string());
    result["serverInfo"]["version"] = json!("[version]");
    insta::assert_json_snapshot!(name, result);
}

#[test]
fn vscode() {
    snapshot(
        "vscode",
        json!({
            "general": { "positionEncodings": ["utf-16"] },
            "window": { "workDoneProgress": true },
            "workspace": { "codeLens": { "refreshSupport": true }, "workspaceEdit": { "documentChanges": true } },
            "textDocument": {
                "publishDiagnostics": { "relatedInformation": true, "versionSupport": false },
                "codeAction": { "codeActionLiteralSupport": { "codeActionKind": { "valueSet": ["quickfix"] } } },
            },
        }),
    );
}

#[test]
fn neovim() {
    snapshot(
        "neovim",
        json!({
            "general": { "positionEncodings": ["utf-8", "utf-16", "utf-32"] },
            "window": { "workDoneProgress": true },
            "textDocument": {
                "publishDiagnostics": { "relatedInformation": true },
                "codeAction": { "codeActionLiteralSupport": { "codeActionKind": { "valueSet": ["quickfix"] } } },
            },
        }),
    );
}

#[test]
fn emacs() {
    snapshot("emacs", json!({ "general": { "positionEncodings": ["utf-32", "utf-16"] } }));
}

#[test]
fn minimal() {
    snapshot("minimal", json!({}));
}

#[test]
fn requests_before_initialize_are_refused() {
    let mut server = Builder::default().connect();
    let error =
        server.raw_request("textDocument/codeLens", json!({ "textDocument": { "uri": "file:///a.py" } }));
    assert_eq!(error.expect_err("refused")["code"], -32002);
    server.raw_request("initialize", json!({ "capabilities": {} })).expect("initialize succeeds");
}

#[test]
fn a_document_opened_before_initialized_is_kept() {
    let mut server = Builder::default().without_initialized().start();
    let uri = server.open("copy.py", COPY);
    server.notify::<Initialized>(InitializedParams {});
    assert_eq!(server.lens_titles(&uri), ["▶ check"]);
}

#[test]
fn a_second_initialize_is_refused() {
    let mut server = Server::start();
    server.raw_request("initialize", json!({ "capabilities": {} })).expect_err("refused");
}

#[test]
fn the_interpreter_of_the_settings_reaches_the_check() {
    let settings = json!({ "python": { "path": "/venv/bin/python" } });
    let mut server = Builder::default().settings(settings).start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    let call = server.next_check();
    assert_eq!(call.request.python.as_deref(), Some(std::path::Path::new("/venv/bin/python")));
    call.finish_cancelled();
}

#[test]
fn a_save_starts_nothing_when_the_settings_say_so() {
    let mut server = Builder::default().settings(json!({ "check": { "onSave": "off" } })).start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    assert_eq!(server.lens_titles(&uri), ["▶ check"]);
    server.command("warpsmith.check", &uri).expect("a check that is asked for runs");
    server.next_check().finish_cancelled();
}

#[test]
fn a_setting_that_makes_no_sense_is_told_once() {
    let mut server = Builder::default().settings(json!({ "check": { "onSave": true } })).start();
    let told = server.notification::<ShowMessage>().message;
    assert!(told.contains("`check.onSave` is true") && told.contains("\"quick\""), "{told}");
}
