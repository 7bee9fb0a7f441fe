//! Everything that can reach the main loop.

use tokio::sync::{mpsc, oneshot};
use tower_lsp::jsonrpc;
use tower_lsp::ls_types::*;

use super::outbox::ClientAnswer;
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
    /// The client answered a request of ours, or did not in time.
    Answer(ClientAnswer),
    /// What is remembered of trust was read anew.
    TrustRead(Result<Trusted, TrustError>),
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
            Self::Answer(_) => "answer",
            Self::TrustRead(_) => "trust",
            Self::Stop => "stop",
        }
    }
}
