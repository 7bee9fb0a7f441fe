//! The `LanguageServer` implementation: a mailbox and nothing else.
//!
//! **Invariant:** every method sends its event before its first `.await`. That is the only thing that
//! keeps messages in order on this transport (futures are first polled in order of arrival).

use std::time::Duration;

use tokio::sync::oneshot;
use tower_lsp::ls_types::*;
use tower_lsp::{LanguageServer, jsonrpc};

use super::event::{Event, EventSender, Notification, Reply, Request};

/// How long `shutdown` waits for the main loop before it answers all the same.
const SHUTDOWN_ANSWER: Duration = Duration::from_secs(1);

pub(crate) struct Backend {
    events: EventSender,
}

impl Backend {
    pub(crate) fn new(events: EventSender) -> Self {
        Self { events }
    }

    fn notify(&self, notification: Notification) {
        if self.events.send(Event::Notification(notification)).is_err() {
            tracing::error!("a notification came after the main loop ended");
        }
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> jsonrpc::Result<T> {
        self.answered(|reply| Event::Request(request(reply))).await
    }

    /// Sends an event that holds the place for an answer, and waits for it.
    pub(crate) async fn answered<T>(&self, event: impl FnOnce(Reply<T>) -> Event) -> jsonrpc::Result<T> {
        let (reply, answer) = oneshot::channel();
        let sent = self.events.send(event(reply));
        match (sent, answer.await) {
            (Ok(()), Ok(result)) => result,
            _ => Err(jsonrpc::Error {
                message: "warpsmith failed on this request; its log says why".into(),
                ..jsonrpc::Error::internal_error()
            }),
        }
    }

    /// `window/workDoneProgress/cancel`, which the framework does not route itself.
    pub(crate) async fn work_done_progress_cancel(&self, params: WorkDoneProgressCancelParams) {
        self.notify(Notification::WorkDoneProgressCancel(params));
    }
}

impl LanguageServer for Backend {
    async fn initialize(&self, params: InitializeParams) -> jsonrpc::Result<InitializeResult> {
        self.ask(|reply| Request::Initialize(Box::new(params), reply)).await
    }

    async fn initialized(&self, _: InitializedParams) {
        self.notify(Notification::Initialized);
    }

    /// Succeeds even when the main loop is stuck or gone.
    async fn shutdown(&self) -> jsonrpc::Result<()> {
        if tokio::time::timeout(SHUTDOWN_ANSWER, self.ask(Request::Shutdown)).await.is_err() {
            tracing::error!("the main loop did not answer shutdown in time");
        }
        Ok(())
    }

    async fn did_open(&self, params: DidOpenTextDocumentParams) {
        self.notify(Notification::DidOpen(params));
    }

    async fn did_change(&self, params: DidChangeTextDocumentParams) {
        self.notify(Notification::DidChange(params));
    }

    async fn did_save(&self, params: DidSaveTextDocumentParams) {
        self.notify(Notification::DidSave(params));
    }

    async fn did_close(&self, params: DidCloseTextDocumentParams) {
        self.notify(Notification::DidClose(params));
    }

    async fn did_change_configuration(&self, params: DidChangeConfigurationParams) {
        self.notify(Notification::DidChangeConfiguration(params));
    }

    async fn code_lens(&self, params: CodeLensParams) -> jsonrpc::Result<Option<Vec<CodeLens>>> {
        self.ask(|reply| Request::CodeLens(params, reply)).await
    }

    async fn hover(&self, params: HoverParams) -> jsonrpc::Result<Option<Hover>> {
        self.ask(|reply| Request::Hover(params, reply)).await
    }

    async fn inlay_hint(&self, params: InlayHintParams) -> jsonrpc::Result<Option<Vec<InlayHint>>> {
        self.ask(|reply| Request::InlayHint(params, reply)).await
    }

    async fn code_action(&self, params: CodeActionParams) -> jsonrpc::Result<Option<CodeActionResponse>> {
        self.ask(|reply| Request::CodeAction(params, reply)).await
    }

    async fn execute_command(&self, params: ExecuteCommandParams) -> jsonrpc::Result<Option<LSPAny>> {
        self.ask(|reply| Request::ExecuteCommand(params, reply)).await
    }
}
