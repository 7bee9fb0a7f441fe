//! What goes to the client. One task sends, so the order of the messages is the order in which the main
//! loop put them in. Requests to the client are spawned: nobody waits for a client that never answers.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tower_lsp::Client;
use tower_lsp::ls_types::*;

use super::event::{Event, EventSender};
use super::ext::{ServerStatus, ServerStatusParams};
use crate::trust::{Place, TrustFile, Trusted};

/// After this long a request of ours counts as refused.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
const SECTION: &str = "warpsmith";
const TRUST: &str = "Trust";
const NOT_NOW: &str = "Not now";

pub(crate) enum Outgoing {
    Diagnostics(PublishDiagnosticsParams),
    Progress(ProgressParams),
    Status(ServerStatusParams),
    Message(MessageType, String),
    Request(ClientRequest),
}

pub(crate) enum ClientRequest {
    CreateProgress {
        generation: u64,
        token: ProgressToken,
    },
    RefreshLenses,
    RefreshHints,
    PullSettings {
        number: u64,
        /// After this long the main loop is told that the answer is late.
        limit: Duration,
    },
    /// To be told of changes of them.
    RegisterSettings,
    AskTrust {
        place: Place,
        words: String,
        remember: Option<TrustFile>,
    },
}

pub(crate) enum ClientAnswer {
    ProgressCreated {
        generation: u64,
        accepted: bool,
    },
    LensesRefreshed,
    HintsRefreshed,
    /// `None` when it refused.
    Settings {
        number: u64,
        answer: Option<Value>,
    },
    /// The answer has not come yet; it may.
    SettingsLate,
    Trust {
        place: Place,
        answer: TrustAnswer,
    },
}

/// What the user said, and what came of it.
#[derive(Debug)]
pub(crate) enum TrustAnswer {
    /// All that is remembered now, or why it cannot be.
    Granted(Result<Trusted, String>),
    NotNow,
    /// The client closed the question, or never showed it.
    Nothing,
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
        ClientRequest::PullSettings { number, limit } => {
            ClientAnswer::Settings { number, answer: pull_settings(&client, &events, limit).await }
        }
        ClientRequest::RegisterSettings => {
            register_settings(&client).await;
            return;
        }
        ClientRequest::AskTrust { place, words, remember } => {
            let answer = ask_trust(&client, &place, words, remember).await;
            ClientAnswer::Trust { place, answer }
        }
    };
    // Fails only when the main loop has ended.
    let _ = events.send(Event::Answer(answer));
}

async fn pull_settings(client: &Client, events: &EventSender, limit: Duration) -> Option<Value> {
    let item = ConfigurationItem { scope_uri: None, section: Some(SECTION.to_owned()) };
    let mut answer = std::pin::pin!(client.configuration(vec![item]));
    let answer = match tokio::time::timeout(limit, &mut answer).await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::warn!("the client has not answered workspace/configuration yet");
            // Fails only when the main loop has ended.
            let _ = events.send(Event::Answer(ClientAnswer::SettingsLate));
            answer.await
        }
    };
    match answer {
        Ok(mut values) if !values.is_empty() => Some(values.swap_remove(0)),
        Ok(_) => None,
        Err(error) => {
            tracing::warn!("the client does not tell its settings: {error}");
            None
        }
    }
}

async fn register_settings(client: &Client) {
    let registration = Registration {
        id: "warpsmith.settings".to_owned(),
        method: "workspace/didChangeConfiguration".to_owned(),
        register_options: Some(serde_json::json!({ "section": SECTION })),
    };
    let registered = client.register_capability(vec![registration]);
    match tokio::time::timeout(ANSWER_LIMIT, registered).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!("changes of settings are not told: {error}"),
        Err(_) => tracing::warn!("the client did not answer client/registerCapability"),
    }
}

/// Without a limit: people think.
async fn ask_trust(
    client: &Client,
    place: &Place,
    words: String,
    remember: Option<TrustFile>,
) -> TrustAnswer {
    let action = |title: &str| MessageActionItem { title: title.to_owned(), properties: Default::default() };
    let actions = vec![action(TRUST), action(NOT_NOW)];
    match client.show_message_request(MessageType::WARNING, words, Some(actions)).await {
        Ok(Some(chosen)) if chosen.title == TRUST => {
            TrustAnswer::Granted(grant(place.clone(), remember).await)
        }
        Ok(Some(_)) => TrustAnswer::NotNow,
        Ok(None) => TrustAnswer::Nothing,
        Err(error) => {
            tracing::warn!("the client does not ask: {error}");
            TrustAnswer::Nothing
        }
    }
}

async fn grant(place: Place, remember: Option<TrustFile>) -> Result<Trusted, String> {
    let Some(file) = remember else { return Err("there is no folder for it; set HOME".to_owned()) };
    let granted = tokio::task::spawn_blocking(move || file.grant(&place)).await;
    granted.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}
