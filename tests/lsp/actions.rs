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
    assert_eq!(titles(&found), ["Describe this kernel for warpsmith", "Check now"]);
    assert_eq!(found[1]["command"]["command"], "warpsmith.check");
    assert!(actions(&mut server, &uri, 0, None).is_empty(), "nothing outside of kernels");
    assert!(actions(&mut server, &uri, 7, Some("quickfix")).is_empty());

    server.save(&uri, None);
    let call = server.next_check();
    let found = actions(&mut server, &uri, 7, None);
    assert_eq!(titles(&found), ["Describe this kernel for warpsmith", "Cancel the running check"]);
    assert_eq!(found[1]["command"]["command"], "warpsmith.cancel");
    server.command("warpsmith.cancel", &uri).expect("accepted");
    call.finish_cancelled();
}

const SILU: &str = "\
import triton
import triton.language as tl

@triton.jit
def silu_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)

def silu(x):
    y = torch.empty_like(x)
    silu_kernel[(1,)](x, y, x.numel(), BLOCK=128)
    return y
";

#[test]
fn a_comment_is_drafted_where_nothing_says_what_is_right() {
    const TITLE: &str = "Describe this kernel for warpsmith";
    let mut server = Server::start();
    let uri = server.open("silu.py", SILU);
    let found = actions(&mut server, &uri, 5, Some("refactor"));
    assert_eq!(titles(&found), [TITLE]);
    let edit = &found[0]["edit"]["documentChanges"][0]["edits"][0];
    assert_eq!(edit["range"]["start"], json!({ "line": 8, "character": 0 }));
    let draft = "# warpsmith: ref=torch.nn.functional.silu x=f16|f32[M,N] M=1,127 N=255,1000\n";
    assert_eq!(edit["newText"], draft);
    server.edit(&uri, 2, (8, 0), (8, 0), draft);
    assert!(actions(&mut server, &uri, 5, Some("refactor")).is_empty(), "described already");
}

#[test]
fn a_wrong_case_is_written_down_only_for_the_text_that_was_judged() {
    const TITLE: &str = "Write the wrong case down as a Python file";
    let text = SILU.replace("def silu(x)", "# warpsmith: ref=torch.abs x=f32[M,N] M=4 N=16\ndef silu(x)");
    let mut server = Builder::default()
        .capability("/workspace/workspaceEdit/resourceOperations", json!(["create"]))
        .start();
    let uri = server.open("silu.py", &text);
    server.command("warpsmith.check", &uri).expect("accepted");
    let mut wrong =
        failing(launched("silu_kernel", case(16, Dtype::Float32)), finding(Code::Mismatch, None, "off"));
    wrong.case.definition = "silu".to_owned();
    wrong.case.axes = [("M".to_owned(), 4), ("N".to_owned(), 16)].into();
    let mut report = report_of(vec![wrong]);
    report.entry = Some("silu".to_owned());
    report.provenance.source_hash = blake3::hash(text.as_bytes()).to_hex().to_string();
    server.next_check().finish(report);
    server.diagnostics();
    let found = actions(&mut server, &uri, 5, Some("refactor"));
    assert_eq!(titles(&found), [TITLE]);
    let [made, filled] = [0, 1].map(|at| found[0]["edit"]["documentChanges"][at].clone());
    assert_eq!(made["kind"], "create");
    assert!(made["uri"].as_str().is_some_and(|uri| uri.ends_with("/repro_silu.py")), "{made}");
    assert_eq!(made["options"]["overwrite"], false);
    assert!(filled["edits"][0]["newText"].as_str().is_some_and(|text| text.contains("warpsmith found: off")));
    server.edit(&uri, 2, (0, 0), (0, 0), "# changed\n");
    server.diagnostics();
    assert!(actions(&mut server, &uri, 6, Some("refactor")).is_empty());
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
