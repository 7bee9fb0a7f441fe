//! The table of cases behind a kernel's name.

use serde_json::{Value, json};
use warpsmith::judge::{Code, NotRun};
use warpsmith::spec::Dtype;

use crate::support::{COPY, LOAD_LINE, Server, case, failing, finding, launched, place, report_of};

fn hover(server: &mut Server, uri: &tower_lsp::ls_types::Uri, line: u32, character: u32) -> Value {
    let position = json!({ "line": line, "character": character });
    server
        .raw_request("textDocument/hover", json!({ "textDocument": { "uri": uri }, "position": position }))
        .expect("an answer")
}

#[test]
fn the_table_and_what_it_rests_on() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    assert_eq!(hover(&mut server, &uri, 6, 6), Value::Null);

    let broken = finding(Code::OutOfBounds, Some(place("/kernels/copy.py", LOAD_LINE)), "reads past x");
    let mut report = report_of(vec![
        launched("copy_kernel", case(16, Dtype::Float32)),
        failing(launched("copy_kernel", case(17, Dtype::Float16)), broken),
        launched("other", case(1, Dtype::Float32)),
    ]);
    report.cases[1].errors.clear();
    report.not_run.push(NotRun { what: "stability".to_owned(), why: "not asked for".to_owned() });
    server.command("warpsmith.check", &uri).expect("accepted");
    server.next_check().finish(report);
    server.diagnostics();

    let on_name = hover(&mut server, &uri, 6, 6);
    assert_eq!(on_name["range"]["start"], json!({ "line": 6, "character": 4 }));
    assert_eq!(on_name["contents"]["kind"], "markdown");
    insta::assert_snapshot!(on_name["contents"]["value"].as_str().expect("text"));
    assert_eq!(hover(&mut server, &uri, 5, 0), on_name);
    assert_eq!(hover(&mut server, &uri, 8, 6), Value::Null);
}
