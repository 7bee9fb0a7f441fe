//! Work-done progress of a check.

use std::time::Duration;

use serde_json::json;
use tower_lsp::ls_types::notification::{Progress, WorkDoneProgressCancel};
use tower_lsp::ls_types::request::WorkDoneProgressCreate;
use tower_lsp::ls_types::{
    ProgressParamsValue, ProgressToken, Uri, WorkDoneProgress, WorkDoneProgressBegin,
    WorkDoneProgressCancelParams,
};
use warpsmith::judge::check::CheckEvent;
use warpsmith::oracle::OracleLabel;
use warpsmith::spec::Dtype;

use crate::support::{Builder, COPY, Call, Server, case, launched, passed_report};

#[track_caller]
fn next(server: &mut Server) -> WorkDoneProgress {
    let ProgressParamsValue::WorkDone(value) = server.notification::<Progress>().value;
    value
}

/// A check whose progress the client shows.
struct Shown {
    server: Server,
    uri: Uri,
    call: Call,
    token: ProgressToken,
    begin: WorkDoneProgressBegin,
}

#[track_caller]
fn shown_check() -> Shown {
    let mut server = Builder::default().progress().start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    let call = server.next_check();
    let (id, params) = server.client_request::<WorkDoneProgressCreate>();
    server.answer(id, json!(null));
    let WorkDoneProgress::Begin(begin) = next(&mut server) else { panic!("not a begin") };
    Shown { server, uri, call, token: params.token, begin }
}

#[test]
fn create_begin_report_end() {
    let Shown { mut server, call, token, begin, .. } = shown_check();
    assert_eq!(serde_json::to_value(token).expect("a token"), json!("warpsmith-check-1"));
    assert_eq!((&*begin.title, begin.cancellable), ("check copy.py", Some(true)));

    let oracle = OracleLabel { rung: 0, label: "AutoKernel copy".to_owned() };
    call.event(CheckEvent::Planned { oracle, cases: 4 });
    let record = || std::sync::Arc::new(launched("copy_kernel", case(16, Dtype::Float32)));
    call.event(CheckEvent::CaseFinished { index: 0, record: record() });
    call.event(CheckEvent::CaseStarted { index: 1, label: "N=17 · f32".to_owned() });
    let mut last = None;
    while last.as_deref() != Some("1/4 · N=17 · f32") {
        let WorkDoneProgress::Report(report) = next(&mut server) else { panic!("not a report") };
        assert_eq!(report.cancellable, Some(true));
        last = report.message;
    }
    call.finish(passed_report());
    let WorkDoneProgress::End(end) = next(&mut server) else { panic!("not an end") };
    assert_eq!(end.message.as_deref(), Some("passed"));
}

#[test]
fn a_flood_of_events_is_few_reports() {
    let began = std::time::Instant::now();
    let Shown { mut server, call, .. } = shown_check();
    for programs_done in 0..20_000 {
        call.event(CheckEvent::CaseProgress { index: 0, programs_done, programs: 20_000 });
    }
    call.finish(passed_report());
    let mut reports = 0;
    while let WorkDoneProgress::Report(_) = next(&mut server) {
        reports += 1;
    }
    // However slow this machine is: ten a second.
    assert!(reports <= began.elapsed().as_millis() / 100, "{reports} reports");
}

#[test]
fn short_checks_show_nothing() {
    let hour = |timing: &mut warpsmith::lsp::Timing| timing.progress_delay = Duration::from_secs(3600);
    let mut server = Builder::default().progress().timing(hour).start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    server.next_check().finish(passed_report());
    server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
}

#[test]
fn cancelled_from_the_progress() {
    let Shown { mut server, uri, call, token, .. } = shown_check();
    server.notify::<WorkDoneProgressCancel>(WorkDoneProgressCancelParams { token });
    server.wait_cancelled(&call);
    call.finish_cancelled();
    let end = loop {
        match next(&mut server) {
            WorkDoneProgress::End(end) => break end,
            WorkDoneProgress::Report(report) => assert_eq!(report.message.as_deref(), Some("cancelling")),
            WorkDoneProgress::Begin(_) => panic!("begun twice"),
        }
    };
    assert_eq!(end.message.as_deref(), Some("cancelled"));
    assert_eq!(server.lens_titles(&uri), ["▶ check · last check was cancelled"]);
}

#[test]
fn a_refused_token_is_not_used() {
    let mut server = Builder::default().progress().start();
    let uri = server.open("copy.py", COPY);
    server.save(&uri, Some(COPY));
    let call = server.next_check();
    let (id, _) = server.client_request::<WorkDoneProgressCreate>();
    server.refuse(id);
    call.event(CheckEvent::Preparing("starting".to_owned()));
    call.finish(passed_report());
    server.lens_until(&uri, "✓ AutoKernel copy · torch ref · 2 cases · f32 f16");
}

#[test]
fn a_panic_ends_the_progress() {
    let Shown { mut server, call, .. } = shown_check();
    call.panic();
    let WorkDoneProgress::End(_) = next(&mut server) else { panic!("not an end") };
}

/// complaint 20: "Progress handler already registered". Every check has a token of its own, and it is a text, which every
/// client takes; also one that was cancelled, or asked for while the client has not yet answered for the one before.
#[test]
fn every_check_has_a_token_of_its_own() {
    let mut server = Builder::default().progress().start();
    let uri = server.open("copy.py", COPY);
    let mut tokens = std::collections::BTreeSet::new();
    for round in 0..4 {
        server.command("warpsmith.check", &uri).expect("accepted");
        let call = server.next_check();
        let (id, params) = server.client_request::<WorkDoneProgressCreate>();
        let ProgressToken::String(token) = params.token else { panic!("a number") };
        assert!(tokens.insert(token.clone()), "{token} a second time");
        match round {
            0 => server.answer(id, json!(null)),
            1 => server.refuse(id),
            _ => {}
        }
        if round == 2 {
            server.command("warpsmith.cancel", &uri).expect("accepted");
            call.finish_cancelled();
        } else {
            call.finish(passed_report());
        }
        while server.lens_titles(&uri)[0].starts_with('⟳') {}
    }
    server.take_unread("$/progress");
}
