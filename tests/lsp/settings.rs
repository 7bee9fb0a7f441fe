//! Where settings come from, and what a change of them changes at once.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tower_lsp::ls_types::DidChangeConfigurationParams;
use tower_lsp::ls_types::notification::{DidChangeConfiguration, ShowMessage};
use tower_lsp::ls_types::request::{RegisterCapability, WorkspaceConfiguration};
use warpsmith::judge::bench::TimingChoice;

use crate::support::{Builder, COPY, Server, passed_report};

fn client_that_is_asked() -> Builder {
    Builder::default().capability("/workspace/configuration", json!(true))
}

/// Takes the server's question for settings; its id.
#[track_caller]
fn question(server: &mut Server) -> Value {
    let (id, params) = server.client_request::<WorkspaceConfiguration>();
    assert_eq!(serde_json::to_value(params.items).expect("JSON"), json!([{ "section": "warpsmith" }]));
    id
}

fn changed(server: &mut Server, settings: Value) {
    server.notify::<DidChangeConfiguration>(DidChangeConfigurationParams { settings });
}

/// [`COPY`] with a range that Triton refuses.
fn odd() -> String {
    COPY.replace("tl.arange(0, BLOCK)", "tl.arange(0, 96)")
}

#[test]
fn what_the_client_answers_counts_before_the_handshake() {
    let initial = json!({ "check": { "onSave": "off" }, "python": { "path": "/initial" } });
    let mut server = client_that_is_asked().settings(initial).start();
    let id = question(&mut server);
    server.answer(id, json!([{ "check": { "onSave": "full" }, "python": { "path": null } }]));
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    let call = server.next_check();
    assert_eq!(call.request.options.timing, TimingChoice::Some);
    assert_eq!(call.request.python.as_deref(), Some(Path::new("/initial")));
    call.finish_cancelled();
}

#[test]
fn a_save_before_the_answer_waits_for_it() {
    let mut server = client_that_is_asked().start();
    let id = question(&mut server);
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    server.lens_until(&uri, "⟳ waiting to check");
    server.answer(
        id,
        json!([{ "warpsmith": { "gpu": { "device": "cpu" } }, "python": { "path": "/of/another" } }]),
    );
    let call = server.next_check();
    assert_eq!((call.request.options.device.to_string().as_str(), &call.request.python), ("cpu", &None));
    call.finish(passed_report());
    server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
    server.ignore_unread();
}

#[test]
fn a_save_that_the_answer_does_not_want_is_forgotten_and_a_command_is_not() {
    let mut server = client_that_is_asked().start();
    let id = question(&mut server);
    let (saved, asked) = (server.open("saved.py", COPY), server.open("asked.py", COPY));
    server.save(&saved, None);
    server.command("warpsmith.check", &asked).expect("accepted");
    server.lens_until(&saved, "⟳ waiting to check");
    server.answer(id, json!([{ "check.onSave": "off" }]));
    let call = server.next_check();
    assert!(call.request.path.ends_with("asked.py"));
    call.finish_cancelled();
    server.lens_until(&saved, "▶ check");
}

#[test]
fn a_client_that_never_answers_holds_up_nothing_for_long() {
    let mut server = client_that_is_asked()
        .timing(|timing| timing.settings_limit = Duration::from_millis(50))
        .settings(json!({ "python": { "path": "/initial" } }))
        .start();
    question(&mut server);
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    let call = server.next_check();
    assert_eq!(call.request.python.as_deref(), Some(Path::new("/initial")));
    call.finish_cancelled();
}

#[test]
fn a_client_that_refuses_to_answer_is_served_as_well() {
    let mut server = client_that_is_asked().start();
    let id = question(&mut server);
    server.refuse(id);
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    server.next_check().finish_cancelled();
}

#[test]
fn static_findings_come_and_go_with_the_settings() {
    let mut server = client_that_is_asked().start();
    let id = question(&mut server);
    server.answer(id, json!([null]));
    server.open("copy.py", &odd());
    assert_eq!(server.diagnostics().diagnostics.len(), 1);
    for off in
        [json!({ "lint": { "disable": ["arange-power-of-two"] } }), json!({ "lint": { "enable": false } })]
    {
        for (answer, shown) in [(off, 0), (json!({ "lint": { "disable": ["int32-offset"] } }), 1)] {
            changed(&mut server, Value::Null);
            let id = question(&mut server);
            server.answer(id, json!([answer]));
            assert_eq!(server.diagnostics().diagnostics.len(), shown);
        }
    }
}

#[test]
fn only_the_newest_answer_counts() {
    let mut server = client_that_is_asked().start();
    let first = question(&mut server);
    changed(&mut server, Value::Null);
    let second = question(&mut server);
    server.answer(second, json!([{ "lint": { "enable": false } }]));
    server.answer(first, json!([{ "lint": { "enable": true } }]));
    let uri = server.open("copy.py", &odd());
    server.edit(&uri, 2, (0, 0), (0, 0), "# moved\n");
    assert_eq!(server.lens_titles(&uri), ["▶ check"]);
}

#[test]
fn a_client_that_can_only_tell_is_listened_to() {
    let mut server = Server::start();
    server.open("copy.py", &odd());
    assert_eq!(server.diagnostics().diagnostics.len(), 1);
    changed(&mut server, Value::Null);
    changed(&mut server, json!({ "warpsmith": { "lint": { "enable": false } } }));
    assert_eq!(server.diagnostics().diagnostics.len(), 0);
}

#[test]
fn a_client_is_asked_to_tell_of_changes() {
    let mut server = client_that_is_asked()
        .capability("/workspace/didChangeConfiguration/dynamicRegistration", json!(true))
        .start();
    let (id, params) = server.client_request::<RegisterCapability>();
    let [registration] = &params.registrations[..] else { panic!("not one: {params:?}") };
    assert_eq!(registration.method, "workspace/didChangeConfiguration");
    assert_eq!(registration.register_options, Some(json!({ "section": "warpsmith" })));
    server.refuse(id);
    question(&mut server);
}

#[test]
fn other_settings_are_a_reason_for_another_verdict() {
    let mut server = client_that_is_asked().start();
    let id = question(&mut server);
    server.answer(id, json!([{}]));
    let uri = server.open("copy.py", COPY);
    server.save(&uri, None);
    server.next_check().finish(passed_report());
    server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
    // Nothing changed, so nothing starts.
    server.save(&uri, None);
    changed(&mut server, Value::Null);
    let id = question(&mut server);
    // What is told shows that the answer was taken.
    server.answer(id, json!([{ "gpu": { "device": "cpu" }, "unheardOf": 1 }]));
    server.notification::<ShowMessage>();
    server.save(&uri, None);
    let call = server.next_check();
    assert_eq!(call.request.options.device.to_string(), "cpu");
    call.finish_cancelled();
}

#[test]
fn what_makes_no_sense_is_told_once() {
    let wrong = json!({ "check": { "onSave": "never" }, "chekc": { "onSave": "off" } });
    let mut server = client_that_is_asked().settings(wrong.clone()).start();
    let told = [server.notification::<ShowMessage>().message, server.notification::<ShowMessage>().message];
    assert_eq!(
        told,
        [
            "warpsmith: the setting `check.onSave` is \"never\"; write \"off\", \"static\", \"quick\" or \"full\"",
            "warpsmith: there is no setting `chekc.onSave`; docs/settings.md lists all",
        ]
    );
    let id = question(&mut server);
    server.answer(id, json!([wrong]));
    changed(&mut server, Value::Null);
    let id = question(&mut server);
    server.answer(id, json!([{ "check": { "onSave": 1 } }]));
    let told = server.notification::<ShowMessage>().message;
    assert!(told.contains("`check.onSave` is 1"), "{told}");
}
