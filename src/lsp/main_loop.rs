//! The loop that owns all state, on a thread of its own: reader, writer and every handler future share
//! one task on the transport's side, and nothing here may hold them up.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tower_lsp::jsonrpc;
use tower_lsp::ls_types::Uri;

use super::event::{Event, EventReceiver, Notification, Reply, Request, Subject};
use super::global_state::{Context, GlobalState, Snapshot};
use super::handlers::{
    code_action, code_lens, did_change, did_change_configuration, did_close, did_open, did_save,
    execute_command, hover, initialize, initialized, inlay_hint, shutdown, work_done_progress_cancel,
};
use super::runs::panic_words;
use super::watchdog::Watchdog;

/// A turn longer than this is logged.
const SLOW_TURN: Duration = Duration::from_millis(100);
/// Messages that wait are taken together for at most this long before the client is told anything.
const COALESCE: Duration = Duration::from_millis(50);

/// Starts the loop. The receiver fails if the loop panicked.
pub(crate) fn spawn(context: Context, events: EventReceiver) -> std::io::Result<oneshot::Receiver<()>> {
    let (done, ended) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let state = GlobalState::new(context);
    let (watchdog, _) = Watchdog::start(state.context.timing.stuck_turn, state.on_stuck())?;
    std::thread::Builder::new().name("warpsmith-main-loop".to_owned()).spawn(move || {
        runtime.block_on(run(state, events, &watchdog));
        // Fails only when nobody waits any more.
        let _ = done.send(());
    })?;
    Ok(ended)
}

async fn run(mut state: GlobalState, mut events: EventReceiver, watchdog: &Watchdog) {
    while let Some(event) = next(&state, &mut events).await {
        let mut turn = Turn::new(watchdog);
        let mut current = event;
        while let Some(event) = current {
            let (name, subject) = (event.name(), event.subject());
            if matches!(event, Event::Stop) {
                watchdog.rest();
                stop(&mut state, &mut events).await;
                return;
            }
            if !turn.step(name, || handle(&mut state, event)) {
                turn.step("recovery", || state.recover(name, subject));
            }
            current = if turn.began.elapsed() < COALESCE { events.try_recv().ok() } else { None };
        }
        if !turn.step("settle", || state.settle()) {
            turn.step("recovery", || state.recover("settle", Subject::Nothing));
            // What the panic kept from being told; if it panics again, the next event tries once more.
            turn.step("settle", || state.settle());
        }
        if turn.end() {
            state.forget_status();
        }
    }
}

/// One turn of the loop: what waits is handled, then the client is told.
struct Turn<'a> {
    watchdog: &'a Watchdog,
    began: Instant,
    /// The part that took longest so far.
    slowest: (&'static str, Duration),
}

impl<'a> Turn<'a> {
    fn new(watchdog: &'a Watchdog) -> Self {
        Self { watchdog, began: Instant::now(), slowest: ("nothing", Duration::ZERO) }
    }

    /// Runs a part of the turn. Whether it came to its end: a handler that panics loses its answer (the client gets an
    /// error) and what it was about.
    fn step(&mut self, name: &'static str, body: impl FnOnce()) -> bool {
        let began = Instant::now();
        self.watchdog.begin(name);
        let outcome = catch_unwind(AssertUnwindSafe(body));
        if let Err(panic) = &outcome {
            tracing::error!(event = name, "a handler panicked: {}", panic_words(&**panic));
        }
        if began.elapsed() > self.slowest.1 {
            self.slowest = (name, began.elapsed());
        }
        outcome.is_ok()
    }

    /// Whether somebody was told that it is stuck.
    fn end(self) -> bool {
        let was_stuck = self.watchdog.rest();
        let (turn_ms, (event, took)) = (self.began.elapsed().as_millis(), self.slowest);
        if self.began.elapsed() > SLOW_TURN {
            tracing::warn!(event, event_ms = took.as_millis(), turn_ms, "slow turn of the main loop");
        }
        was_stuck
    }
}

/// The next event, `Some(None)` at a deadline, `None` when no event can come any more.
async fn next(state: &GlobalState, events: &mut EventReceiver) -> Option<Option<Event>> {
    let deadline = state.deadline();
    let due = async {
        match deadline {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        event = events.recv() => event.map(Some),
        () = due => Some(None),
    }
}

fn handle(state: &mut GlobalState, event: Event) {
    match event {
        Event::Notification(notification) => notify(state, notification),
        Event::Request(request) => answer(state, request),
        Event::Run { generation, update } => state.on_run_update(generation, update),
        Event::Recalled(recalled) => state.on_recalled(recalled),
        Event::Answer(answer) => state.on_answer(answer),
        Event::TrustRead(read) => state.on_trust_read(read),
        #[cfg(test)]
        Event::Planted(planted) => planted(state),
        Event::Stop => {}
    }
}

fn notify(state: &mut GlobalState, notification: Notification) {
    match notification {
        Notification::Initialized => initialized::initialized(state),
        Notification::DidOpen(params) => did_open::did_open(state, params),
        Notification::DidChange(params) => did_change::did_change(state, params),
        Notification::DidSave(params) => did_save::did_save(state, params),
        Notification::DidClose(params) => did_close::did_close(state, &params),
        Notification::DidChangeConfiguration(params) => {
            did_change_configuration::did_change_configuration(state, params);
        }
        Notification::WorkDoneProgressCancel(params) => {
            work_done_progress_cancel::work_done_progress_cancel(state, &params);
        }
    }
}

fn answer(state: &mut GlobalState, request: Request) {
    match request {
        Request::Initialize(params, reply) => respond(reply, Ok(initialize::initialize(state, &params))),
        Request::Shutdown(reply) => {
            shutdown::shutdown(state);
            respond(reply, Ok(()));
        }
        Request::ExecuteCommand(params, reply) => {
            let result = execute_command::execute_command(state, &params);
            respond(reply, result);
        }
        Request::CodeLens(params, reply) => {
            let uri = params.text_document.uri.clone();
            read(state, &uri, reply, move |snapshot| code_lens::code_lens(snapshot, &params));
        }
        Request::Hover(params, reply) => {
            let uri = params.text_document_position_params.text_document.uri.clone();
            read(state, &uri, reply, move |snapshot| hover::hover(snapshot, &params));
        }
        Request::InlayHint(params, reply) => {
            let uri = params.text_document.uri.clone();
            read(state, &uri, reply, move |snapshot| inlay_hint::inlay_hint(snapshot, &params));
        }
        Request::CodeAction(params, reply) => {
            let uri = params.text_document.uri.clone();
            read(state, &uri, reply, move |snapshot| code_action::code_action(snapshot, &params));
        }
    }
}

/// Answers a read-only request on a worker, from what the loop knows now. Nothing is done for a request
/// that was cancelled meanwhile.
fn read<T: Send + 'static>(
    state: &mut GlobalState,
    uri: &Uri,
    reply: Reply<T>,
    handler: impl FnOnce(&Snapshot) -> T + Send + 'static,
) {
    let snapshot = state.snapshot(uri);
    state.context.workers.spawn_blocking(move || {
        if !reply.is_closed() {
            respond(reply, Ok(handler(&snapshot)));
        }
    });
}

fn respond<T>(reply: Reply<T>, result: jsonrpc::Result<T>) {
    // Fails only when the request was cancelled.
    let _ = reply.send(result);
}

/// Ends the running check within the limit; a check that does not end is dropped.
async fn stop(state: &mut GlobalState, events: &mut EventReceiver) {
    state.cancel_all_checks();
    let limit = state.context.timing.stop_limit;
    if tokio::time::timeout(limit, drain(state, events)).await.is_err() {
        tracing::error!("a check did not end with the session and was dropped");
        state.abort_active_run();
        // Its processes are killed when its future is dropped; that takes a moment of the workers' time.
        let _ = tokio::time::timeout(limit / 4, drain(state, events)).await;
    }
}

async fn drain(state: &mut GlobalState, events: &mut EventReceiver) {
    while state.has_active_run() {
        match events.recv().await {
            Some(Event::Run { generation, update }) => state.on_run_update(generation, update),
            Some(_) => {}
            None => return,
        }
    }
}

#[cfg(test)]
#[path = "main_loop_tests.rs"]
mod tests;
