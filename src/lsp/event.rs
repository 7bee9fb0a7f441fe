//! Everything that can reach the main loop.

use tokio::sync::{mpsc, oneshot};
use tower_lsp::jsonrpc;
use tower_lsp::ls_types::*;

use super::outbox::ClientAnswer;
use super::recall::Recalled;
use super::runs::RunUpdate;
use crate::trust::{TrustError, Trusted};

/// Unbounded: a mailbox that waits for room would await before it sends. The client's own pace is the bound.
pub(crate) type EventSender = mpsc::UnboundedSender<Event>;
pub(crate) type EventReceiver = mpsc::UnboundedReceiver<Event>;

/// Where the answer to a request goes. Dropping it answers with an internal error.
pub(crate) type Reply<T> = oneshot::Sender<jsonrpc::Result<T>>;

pub(crate) enum Event {
    Notification(Notification),
    Request(Request),
    /// Something happened in the check with this generation.
    Run {
        generation: u64,
        update: RunUpdate,
    },
    /// What the store has of a file, or whether a verdict still stands.
    Recalled(Recalled),
    /// The client answered a request of ours, or did not in time.
    Answer(ClientAnswer),
    /// What is remembered of trust was read anew.
    TrustRead(Result<Trusted, TrustError>),
    /// What a test wants to happen in a turn.
    #[cfg(test)]
    Planted(Box<dyn FnOnce(&mut super::global_state::GlobalState) + Send>),
    /// The transport is gone: end the checks and the loop.
    Stop,
}

pub(crate) enum Notification {
    Initialized,
    DidOpen(DidOpenTextDocumentParams),
    DidChange(DidChangeTextDocumentParams),
    DidSave(DidSaveTextDocumentParams),
    DidClose(DidCloseTextDocumentParams),
    DidChangeConfiguration(DidChangeConfigurationParams),
    WorkDoneProgressCancel(WorkDoneProgressCancelParams),
}

pub(crate) enum Request {
    Initialize(Box<InitializeParams>, Reply<InitializeResult>),
    Shutdown(Reply<()>),
    CodeLens(CodeLensParams, Reply<Option<Vec<CodeLens>>>),
    Hover(HoverParams, Reply<Option<Hover>>),
    InlayHint(InlayHintParams, Reply<Option<Vec<InlayHint>>>),
    CodeAction(CodeActionParams, Reply<Option<CodeActionResponse>>),
    ExecuteCommand(ExecuteCommandParams, Reply<Option<LSPAny>>),
}

impl Event {
    /// For logs: never the text of a document.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Notification(Notification::Initialized) => "initialized",
            Self::Notification(Notification::DidOpen(_)) => "textDocument/didOpen",
            Self::Notification(Notification::DidChange(_)) => "textDocument/didChange",
            Self::Notification(Notification::DidSave(_)) => "textDocument/didSave",
            Self::Notification(Notification::DidClose(_)) => "textDocument/didClose",
            Self::Notification(Notification::DidChangeConfiguration(_)) => "workspace/didChangeConfiguration",
            Self::Notification(Notification::WorkDoneProgressCancel(_)) => "window/workDoneProgress/cancel",
            Self::Request(Request::Initialize(..)) => "initialize",
            Self::Request(Request::Shutdown(_)) => "shutdown",
            Self::Request(Request::CodeLens(..)) => "textDocument/codeLens",
            Self::Request(Request::Hover(..)) => "textDocument/hover",
            Self::Request(Request::InlayHint(..)) => "textDocument/inlayHint",
            Self::Request(Request::CodeAction(..)) => "textDocument/codeAction",
            Self::Request(Request::ExecuteCommand(..)) => "workspace/executeCommand",
            Self::Run { .. } => "run",
            Self::Recalled(_) => "recalled",
            Self::Answer(_) => "answer",
            Self::TrustRead(_) => "trust",
            #[cfg(test)]
            Self::Planted(_) => "planted",
            Self::Stop => "stop",
        }
    }
    /// What the event may leave half done when its handler panics.
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Self::Notification(notification) => match notification {
                Notification::DidOpen(params) => Subject::Document(params.text_document.uri.clone()),
                Notification::DidChange(params) => Subject::Document(params.text_document.uri.clone()),
                Notification::DidSave(params) => Subject::Document(params.text_document.uri.clone()),
                Notification::DidClose(params) => Subject::Document(params.text_document.uri.clone()),
                _ => Subject::Nothing,
            },
            Self::Run { generation, .. } => Subject::Run(*generation),
            Self::Recalled(recalled) => Subject::Document(recalled.uri.clone()),
            _ => Subject::Nothing,
        }
    }
}

/// See [`Event::subject`].
#[derive(Clone, Debug)]
pub(crate) enum Subject {
    Nothing,
    Document(Uri),
    /// The check of this generation.
    Run(u64),
}
