//! The loop with a planted fault: what becomes of the request, of the user, and of the next event.

use std::sync::{Arc, mpsc};

use tokio::runtime::Runtime;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;
use tower_lsp::LanguageServer;
use tower_lsp::ls_types::*;

use super::*;
use crate::judge::Report;
use crate::judge::check::{BoxFuture, CheckEvent, CheckRequest, Checker, Earlier};
use crate::lsp::Timing;
use crate::lsp::backend::Backend;
use crate::lsp::event::EventSender;
use crate::lsp::ext::{Health, ServerStatusParams};
use crate::lsp::gate::Gate;
use crate::lsp::outbox::{Outbox, Outgoing};

struct NoChecks;

impl Checker for NoChecks {
    fn check<'a>(
        &'a self,
        _: CheckRequest,
        _: tokio::sync::mpsc::UnboundedSender<CheckEvent>,
        _: tokio_util::sync::CancellationToken,
    ) -> BoxFuture<'a, Report> {
        Box::pin(std::future::pending())
    }

    fn recall(&self, _: CheckRequest) -> BoxFuture<'_, Option<Earlier>> {
        Box::pin(std::future::ready(None))
    }

    fn still_stands(&self, _: CheckRequest, _: Arc<Report>) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(true))
    }
}

/// A loop without a transport.
struct Loop {
    runtime: Runtime,
    events: EventSender,
    messages: UnboundedReceiver<Outgoing>,
    ended: Option<oneshot::Receiver<()>>,
}

impl Loop {
    fn start(change: impl FnOnce(&mut Timing)) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (events, received) = tokio::sync::mpsc::unbounded_channel();
        let (outbox, messages) = Outbox::new();
        let mut timing = Timing { stuck_turn: Duration::from_secs(3600), ..Timing::default() };
        change(&mut timing);
        let context = Context {
            events: events.clone(),
            outbox,
            workers: runtime.handle().clone(),
            gate: Gate::new(Arc::new(NoChecks), None),
            timing,
            parent_gone: tokio_util::sync::CancellationToken::new(),
            last_status: Arc::default(),
        };
        let ended = spawn(context, received).expect("a thread");
        let experimental = serde_json::json!({"serverStatusNotification": true, "workspaceTrust": true});
        let capabilities = serde_json::json!({"experimental": experimental});
        let capabilities = serde_json::from_value(capabilities).expect("capabilities");
        let mut this = Self { runtime, events, messages, ended: Some(ended) };
        let initialization_options = Some(serde_json::json!({"untrustedWorkspace": false}));
        let params = InitializeParams { capabilities, initialization_options, ..InitializeParams::default() };
        this.ask(|backend| async move { backend.initialize(params).await }).expect("it answers");
        this.send(Event::Notification(Notification::Initialized));
        assert!(matches!(this.next(), Outgoing::Status(_)), "the first status");
        this
    }

    fn send(&self, event: Event) {
        assert!(self.events.send(event).is_ok(), "the loop lives");
    }

    fn ask<T, F: Future<Output = T>>(&mut self, question: impl FnOnce(Backend) -> F) -> T {
        self.runtime.block_on(question(Backend::new(self.events.clone())))
    }

    fn next(&mut self) -> Outgoing {
        self.runtime.block_on(self.messages.recv()).expect("the loop lives")
    }

    fn open(&self, uri: &Uri, version: i32, text: &str) {
        let document = TextDocumentItem::new(uri.clone(), "python".to_owned(), version, text.to_owned());
        let params = DidOpenTextDocumentParams { text_document: document };
        self.send(Event::Notification(Notification::DidOpen(params)));
    }

    /// Waits until everything before is handled.
    fn lenses(&mut self, uri: &Uri) -> usize {
        let params = serde_json::json!({"textDocument": {"uri": uri}});
        let params = serde_json::from_value(params).expect("params");
        let found = self.ask(|backend| async move { backend.code_lens(params).await });
        found.expect("an answer").map_or(0, |lenses| lenses.len())
    }

    fn stop(&mut self) {
        self.send(Event::Stop);
        if let Some(ended) = self.ended.take() {
            self.runtime.block_on(ended).expect("the loop ends well");
        }
    }
}

fn planted(fault: impl FnOnce(&mut GlobalState) + Send + 'static) -> Event {
    Event::Planted(Box::new(fault))
}

const KERNEL: &str = "import triton\n@triton.jit\ndef k(x): pass\ndef f(x): k[(1,)](x)\n";

fn uri(name: &str) -> Uri {
    format!("file:///kernels/{name}").parse().expect("a URI")
}

#[test]
fn a_panic_is_told_once_and_the_loop_goes_on() {
    let mut main_loop = Loop::start(|_| {});
    let (one, two) = (uri("one.py"), uri("two.py"));
    main_loop.open(&one, 1, KERNEL);
    main_loop.send(planted(|_| panic!("on purpose")));
    main_loop.send(planted(|_| panic!("on purpose, once more")));
    let Outgoing::Message(MessageType::ERROR, words) = main_loop.next() else { panic!("no message") };
    assert!(words.contains("planted") && words.contains("log"), "{words}");
    assert_eq!(main_loop.lenses(&one), 1);
    main_loop.open(&two, 1, KERNEL);
    assert_eq!(main_loop.lenses(&two), 1);
    assert!(matches!(main_loop.messages.try_recv(), Err(TryRecvError::Empty)), "told once only");
    main_loop.stop();
}

/// The request of the handler that panicked gets one clear error, and the next one its answer.
#[test]
fn a_request_whose_handler_panics_is_answered_with_an_error() {
    let mut main_loop = Loop::start(|_| {});
    let file = uri("k.py");
    main_loop.open(&file, 1, KERNEL);
    let lost = |reply: Reply<()>| {
        planted(move |_| {
            let _lost = reply;
            panic!("on purpose");
        })
    };
    let error = main_loop.ask(|backend| async move { backend.answered(lost).await }).expect_err("an error");
    assert!(error.message.contains("log"), "{}", error.message);
    assert!(matches!(main_loop.next(), Outgoing::Message(MessageType::ERROR, _)));
    assert_eq!(main_loop.lenses(&file), 1);
    main_loop.stop();
}

/// An edit by half leaves a text that nobody can trust: nothing of it is judged until a whole text comes.
#[test]
fn after_a_panic_a_document_is_not_judged_before_its_next_whole_text() {
    let mut main_loop = Loop::start(|_| {});
    let file = uri("k.py");
    main_loop.open(&file, 1, KERNEL);
    let subject = crate::lsp::event::Subject::Document(file.clone());
    main_loop.send(planted(move |state| state.recover("textDocument/didChange", subject)));
    let check = |uri: &Uri| {
        let arguments = vec![serde_json::json!({"uri": uri})];
        ExecuteCommandParams {
            command: "warpsmith.check".to_owned(),
            arguments,
            work_done_progress_params: WorkDoneProgressParams::default(),
        }
    };
    let params = check(&file);
    let refused = main_loop.ask(|backend| async move { backend.execute_command(params).await });
    assert!(refused.expect_err("refused").message.contains("lost track"));
    main_loop.send(Event::Notification(Notification::DidSave(DidSaveTextDocumentParams {
        text_document: TextDocumentIdentifier::new(file.clone()),
        text: Some(KERNEL.to_owned()),
    })));
    let params = check(&file);
    main_loop
        .ask(|backend| async move { backend.execute_command(params).await })
        .expect("it is judged again");
    main_loop.stop();
}

/// A panic while a result is taken over must not leave the one lane of checks occupied.
#[test]
fn after_a_panic_over_a_result_the_next_check_starts() {
    let mut main_loop = Loop::start(|timing| timing.debounce = Duration::ZERO);
    let (one, two) = (uri("one.py"), uri("two.py"));
    main_loop.open(&one, 1, KERNEL);
    main_loop.open(&two, 1, KERNEL);
    let check = |uri: Uri| {
        planted(move |state| {
            state.request_check(&uri, crate::lsp::runs::Cause::Command).expect("accepted");
        })
    };
    main_loop.send(check(one.clone()));
    main_loop.send(check(two.clone()));
    let running = |main_loop: &mut Loop| {
        let (sender, receiver) = mpsc::channel();
        main_loop.send(planted(move |state| sender.send(state.file_of_active_run()).expect("it waits")));
        receiver.recv().expect("an answer")
    };
    while running(&mut main_loop) != Some(one.clone()) {}
    main_loop.send(planted(|state| state.recover("run", crate::lsp::event::Subject::Run(1))));
    while running(&mut main_loop) != Some(two.clone()) {}
    main_loop.stop();
}

#[test]
fn a_turn_that_hangs_is_named_in_the_status_and_the_true_status_comes_after_it() {
    let mut main_loop = Loop::start(|timing| timing.stuck_turn = Duration::from_millis(20));
    let (release, held) = mpsc::channel::<()>();
    main_loop.send(planted(move |_| {
        // Fails when it is released.
        let _ = held.recv();
    }));
    let Outgoing::Status(ServerStatusParams { health, message, .. }) = main_loop.next() else {
        panic!("no status")
    };
    assert_eq!(health, Health::Warning);
    assert!(message.is_some_and(|words| words.contains("planted")));
    drop(release);
    let Outgoing::Status(after) = main_loop.next() else { panic!("no status") };
    assert_eq!((after.health, after.message), (Health::Ok, None));
    main_loop.stop();
}

/// Names of events go to logs and to the status: they are constants, whatever a document holds.
#[test]
fn names_of_events_hold_no_text_of_a_document() {
    let opened = DidOpenTextDocumentParams {
        text_document: TextDocumentItem::new(uri("secret.py"), "python".to_owned(), 1, "secret".to_owned()),
    };
    let event = Event::Notification(Notification::DidOpen(opened));
    assert_eq!(event.name(), "textDocument/didOpen");
}
