//! The text that is judged is the text that the client has.

use serde_json::json;
use tower_lsp::ls_types::{Position, Range};

use crate::support::{Builder, COPY, Server, passed_report};

/// Saves without a text, so that the server judges its own.
#[track_caller]
fn judged_text(server: &mut Server, uri: &tower_lsp::ls_types::Uri) -> String {
    server.save(uri, None);
    let call = server.next_check();
    let text = call.request.text.to_string();
    call.finish(passed_report());
    text
}

#[test]
fn a_thousand_edits_arrive_in_order() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let mut expected = String::new();
    for index in 0..1000i32 {
        let text = format!("# {index}\n");
        server.edit(&uri, index + 2, (0, 0), (0, 0), &text);
        expected.insert_str(0, &text);
    }
    expected.push_str(COPY);
    assert_eq!(judged_text(&mut server, &uri), expected);
}

#[test]
fn columns_are_counted_in_the_agreed_encoding() {
    let line = "s = '漢😀e\u{301}|'\r\n";
    let before_bar = &line[..line.find('|').expect("a bar")];
    let columns = [
        (json!(["utf-8"]), before_bar.len()),
        (json!(["utf-16", "utf-32"]), before_bar.chars().count()),
        (json!(["utf-16"]), before_bar.encode_utf16().count()),
        (json!(null), before_bar.encode_utf16().count()),
    ];
    for (encodings, column) in columns {
        let mut server = Builder::default().capability("/general/positionEncodings", encodings).start();
        let text = format!("{line}{COPY}");
        let uri = server.open("copy.py", &text);
        let column = u32::try_from(column).expect("small");
        server.edit(&uri, 2, (0, column), (0, column + 1), "!");
        assert_eq!(judged_text(&mut server, &uri), text.replace('|', "!"));
    }
}

#[test]
fn a_whole_text_replaces_the_old_one() {
    let mut server = Server::start();
    let uri = server.open("copy.py", "nothing");
    server.change(&uri, 2, None, COPY);
    assert_eq!(judged_text(&mut server, &uri), COPY);
}

#[test]
fn an_impossible_edit_stops_judging_until_the_saved_text_comes() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.change(&uri, 2, Some(Range::new(Position::new(3, 2), Position::new(3, 1))), "x");
    let told = server.notification::<tower_lsp::ls_types::notification::ShowMessage>();
    assert!(told.message.contains("lost track"), "{}", told.message);
    server.edit(&uri, 3, (0, 0), (0, 0), "# dropped\n");
    server.save(&uri, None);
    let refused = server.command("warpsmith.check", &uri).expect_err("refused");
    assert!(refused["message"].as_str().expect("words").contains("lost track"));

    let saved = format!("# healed\n{COPY}");
    server.save(&uri, Some(&saved));
    let call = server.next_check();
    assert_eq!(&*call.request.text, saved);
    call.finish(passed_report());
}

#[test]
fn the_saved_text_wins_over_the_edited_one() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let saved = COPY.replace("BLOCK=16", "BLOCK=32");
    server.save(&uri, Some(&saved));
    let call = server.next_check();
    assert_eq!(&*call.request.text, saved);
    assert_eq!(call.request.path.to_str(), Some("/kernels/copy.py"));
    call.finish(passed_report());
    server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
}

#[test]
fn messages_about_unknown_documents_do_no_harm() {
    let mut server = Server::start();
    let uri = Server::uri("never_opened.py");
    server.edit(&uri, 2, (0, 0), (0, 0), "x");
    server.save(&uri, Some("x"));
    server.close(&uri);
    assert!(server.lenses(&uri).is_empty());
    server.command("warpsmith.check", &uri).expect_err("refused");
}

#[test]
fn half_a_surrogate_pair_does_no_harm() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    let change = r##"{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///kernels/copy.py","version":2},"contentChanges":[{"range":{"start":{"line":0,"character":0},"end":{"line":0,"character":0}},"text":"# \ud83d\n"}]}}"##;
    server.send_text(change);
    assert_eq!(judged_text(&mut server, &uri), format!("# \u{fffd}\n{COPY}"));
}

#[test]
fn a_message_that_is_no_json_does_no_harm() {
    let mut server = Server::start();
    let uri = server.open("copy.py", COPY);
    server.send_text("{");
    assert_eq!(judged_text(&mut server, &uri), COPY);
}
