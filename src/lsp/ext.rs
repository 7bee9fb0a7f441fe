//! Messages beyond the protocol.

use serde::{Deserialize, Serialize};
use tower_lsp::ls_types::notification::Notification;

/// `experimental/serverStatus`, sent when the client's experimental capabilities hold
/// `serverStatusNotification: true`: the state that an editor shows in a status item.
pub enum ServerStatus {}

impl Notification for ServerStatus {
    type Params = ServerStatusParams;
    const METHOD: &'static str = "experimental/serverStatus";
}

/// The whole state; each message replaces the one before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerStatusParams {
    pub health: Health,
    /// No check runs or waits.
    pub quiescent: bool,
    /// Why the health is not `ok`, or that nothing is run, in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether code of the open kernels may be run.
    pub trusted: bool,
}

/// Whether kernels can be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Health {
    Ok,
    /// Kernels cannot be judged here: no Python, no torch, Triton too old.
    Warning,
    /// warpsmith itself failed.
    Error,
}
