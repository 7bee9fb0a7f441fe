//! Code actions: what the lenses offer, and quick fixes.

use serde_json::{Value, json};
use tower_lsp::ls_types::Uri;
use warpsmith::judge::Code;
use warpsmith::spec::Dtype;

use crate::support::{Builder, COPY, LOAD_LINE, Server, case, failing, finding, launched, place, report_of};

fn actions(server: &mut Server, uri: &Uri, line: u32, only: Option<&str>) -> Vec<Value> {
    let at = json!({ "line": line, "character": 6 });
    let mut context = json!({ "diagnostics": [] });
    if let Some(only) = only {
        context["only"] = json!([only]);
    }
    let params =
        json!({ "textDocument": { "uri": uri }, "range": { "start": at, "end": at }, "context": context });
    match server.raw_request("textDocument/codeAction", params).expect("an answer") {
        Value::Array(actions) => actions,
        other => panic!("{other}"),
    }
}

fn titles(actions: &[Value]) -> Vec<&str> {
    actions.iter().map(|action| action["title"].as_str().expect("a title")).collect()
}

#[test]
fn every_action_of_a_lens_is_a_code_action() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let found = actions(&mut server, &uri, 7, None);
    assert_eq!(titles(&found), ["Check now"]);
    assert_eq!(found[0]["command"]["command"], "warpsmith.check");
    assert!(actions(&mut server, &uri, 0, None).is_empty(), "nothing outside of kernels");
    assert!(actions(&mut server, &uri, 7, Some("quickfix")).is_empty());

    server.save(&uri, None);
    let call = server.next_check();
    let found = actions(&mut server, &uri, 7, None);
    assert_eq!(titles(&found), ["Cancel the running check"]);
    assert_eq!(found[0]["command"]["command"], "warpsmith.cancel");
    server.command("warpsmith.cancel", &uri).expect("accepted");
    call.finish_cancelled();
}

#[test]
fn a_client_without_literals_gets_commands() {
    let mut server = Builder::default().capabilities(json!({})).start();
    let uri = server.open("copy.py", COPY);
    let found = actions(&mut server, &uri, 7, None);
    assert_eq!(found[0]["command"], "warpsmith.check");
}

#[test]
fn a_tf32_product_can_be_made_ieee() {
    let text = COPY.replace("tl.load(x_ptr + offsets)", "tl.dot(x_ptr, offsets)");
    let mut server = Server::start();
    let uri = server.open("copy.py", &text);
    let tf32 =
        finding(Code::Tf32, Some(place("/kernels/copy.py", LOAD_LINE)), "only TF32 explains the error");
    let report = report_of(vec![failing(launched("copy_kernel", case(16, Dtype::Float32)), tf32)]);
    server.command("warpsmith.check", &uri).expect("accepted");
    server.next_check().finish(report);
    server.diagnostics();

    // The fix follows the text.
    server.edit(&uri, 2, (0, 0), (0, 0), "# above\n");
    server.diagnostics();
    let found = actions(&mut server, &uri, LOAD_LINE, Some("quickfix"));
    assert_eq!(titles(&found), ["Compute this product in IEEE float32 (input_precision=\"ieee\")"]);
    let change = &found[0]["edit"]["documentChanges"][0];
    assert_eq!(change["textDocument"]["version"], 2);
    assert_eq!(change["edits"][0]["newText"], ", input_precision=\"ieee\"");
    let end = text.lines().nth(LOAD_LINE as usize - 1).expect("the line").len() - 1;
    assert_eq!(change["edits"][0]["range"]["start"], json!({ "line": LOAD_LINE, "character": end }));
    assert!(actions(&mut server, &uri, LOAD_LINE + 1, Some("quickfix")).is_empty());
}
