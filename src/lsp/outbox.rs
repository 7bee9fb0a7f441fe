//! What goes to the client. One task sends, so the order of the messages is the order in which the main
//! loop put them in. Requests to the client are spawned: nobody waits for a client that never answers.

use std::time::Duration;

use tokio::sync::mpsc;
use tower_lsp::Client;
use tower_lsp::ls_types::*;

use super::event::{Event, EventSender};
use super::ext::{ServerStatus, ServerStatusParams};

/// After this long a request of ours counts as refused.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

pub(crate) enum Outgoing {
    Diagnostics(PublishDiagnosticsParams),
    Progress(ProgressParams),
    Status(ServerStatusParams),
    Message(MessageType, String),
    Request(ClientRequest),
}

pub(crate) enum ClientRequest {
    CreateProgress { generation: u64, token: ProgressToken },
    RefreshLenses,
    RefreshHints,
}

pub(crate) enum ClientAnswer {
    ProgressCreated { generation: u64, accepted: bool },
    LensesRefreshed,
    HintsRefreshed,
}

/// Puts messages in; never blocks.
#[derive(Clone)]
pub(crate) struct Outbox(mpsc::UnboundedSender<Outgoing>);

impl Outbox {
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<Outgoing>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub(crate) fn send(&self, message: Outgoing) {
        // Fails only after the transport is gone; then nobody can be told anything.
        let _ = self.0.send(message);
    }

    pub(crate) fn request(&self, request: ClientRequest) {
        self.send(Outgoing::Request(request));
    }
}

/// Sends until every [`Outbox`] is gone.
pub(crate) async fn run(
    client: Client,
    mut messages: mpsc::UnboundedReceiver<Outgoing>,
    events: EventSender,
) {
    while let Some(message) = messages.recv().await {
        match message {
            Outgoing::Diagnostics(params) => {
                client.send_notification::<notification::PublishDiagnostics>(params).await;
            }
            Outgoing::Progress(params) => client.send_notification::<notification::Progress>(params).await,
            Outgoing::Status(params) => client.send_notification::<ServerStatus>(params).await,
            Outgoing::Message(kind, text) => client.show_message(kind, text).await,
            Outgoing::Request(request) => {
                tokio::spawn(ask(client.clone(), request, events.clone()));
            }
        }
    }
}

async fn ask(client: Client, request: ClientRequest, events: EventSender) {
    let answer = match request {
        ClientRequest::CreateProgress { generation, token } => {
            let created = tokio::time::timeout(ANSWER_LIMIT, client.create_work_done_progress(token)).await;
            ClientAnswer::ProgressCreated { generation, accepted: matches!(created, Ok(Ok(()))) }
        }
        ClientRequest::RefreshLenses => {
            if tokio::time::timeout(ANSWER_LIMIT, client.code_lens_refresh()).await.is_err() {
                tracing::warn!("the client did not answer workspace/codeLens/refresh");
            }
            ClientAnswer::LensesRefreshed
        }
        ClientRequest::RefreshHints => {
            if tokio::time::timeout(ANSWER_LIMIT, client.inlay_hint_refresh()).await.is_err() {
                tracing::warn!("the client did not answer workspace/inlayHint/refresh");
            }
            ClientAnswer::HintsRefreshed
        }
    };
    // Fails only when the main loop has ended.
    let _ = events.send(Event::Answer(answer));
}
