use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tower_lsp::jsonrpc::{Error, ErrorCode, Result};
use tower_lsp::ls_types::{Command, ExecuteCommandParams, LSPAny, MessageType, Uri};

use crate::lsp::convert::path_from;
use crate::lsp::global_state::GlobalState;
use crate::lsp::runs::Cause;

/// Checks a file now. Argument: [`Target`]. Answers `{"run": number}` at once.
pub(crate) const CHECK: &str = "warpsmith.check";
/// Ends the check of a file, or the running one when no argument is given. Argument: [`Target`].
pub(crate) const CANCEL: &str = "warpsmith.cancel";
/// Asks whether the folder of a file is trusted, or the first of the editor's folders when no argument is given.
/// Argument: [`Target`].
pub(crate) const TRUST: &str = "warpsmith.trust";
/// All that there are.
pub(crate) const COMMANDS: [&str; 3] = [CHECK, CANCEL, TRUST];

/// The one argument of our commands.
#[derive(Serialize, Deserialize)]
pub(crate) struct Target {
    uri: Uri,
    /// The kernel whose lens it was. The whole file is judged all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
}

/// A command on `uri` as lenses and code actions carry it.
pub(crate) fn command(command: &str, title: String, uri: &Uri, kernel: Option<&str>) -> Command {
    let target = Target { uri: uri.clone(), kernel: kernel.map(str::to_owned) };
    let arguments = serde_json::to_value(target).ok().map(|target| vec![target]);
    Command { title, command: command.to_owned(), arguments }
}

pub(crate) fn execute_command(
    state: &mut GlobalState,
    params: &ExecuteCommandParams,
) -> Result<Option<LSPAny>> {
    match params.command.as_str() {
        CHECK => {
            let target = target(params)?.ok_or_else(|| Error::invalid_params("expected {\"uri\": …}"))?;
            let run = state.request_check(&target.uri, Cause::Command).map_err(refused)?;
            Ok(Some(serde_json::json!({ "run": run })))
        }
        CANCEL => {
            let uri = target(params)?.map(|target| target.uri).or_else(|| state.file_of_active_run());
            if let Some(uri) = uri {
                state.cancel_check(&uri);
            }
            Ok(None)
        }
        TRUST => {
            let target = target(params)?;
            let file = target.as_ref().and_then(|target| path_from(&target.uri));
            let place = match &file {
                Some(file) => Some(state.context.gate.place_of(file)),
                None => state.context.gate.first_folder(),
            };
            let place = place.ok_or_else(|| Error::invalid_params("no file and no folder is open"))?;
            let is_open = file.as_ref().map_or_else(
                || state.context.gate.is_open_for_workspace(),
                |file| state.context.gate.is_open_for(file),
            );
            if is_open {
                state.say(MessageType::INFO, format!("{place}: trusted already"));
            } else {
                state.ask_for_trust(place, file.as_deref(), None).map_err(refused)?;
            }
            Ok(None)
        }
        other => Err(Error::invalid_params(format!("unknown command `{other}`"))),
    }
}

fn target(params: &ExecuteCommandParams) -> Result<Option<Target>> {
    let Some(argument) = params.arguments.first() else { return Ok(None) };
    serde_json::from_value(argument.clone())
        .map(Some)
        .map_err(|error| Error::invalid_params(format!("expected {{\"uri\": …}}: {error}")))
}

fn refused(refusal: impl std::fmt::Display) -> Error {
    Error { message: Cow::Owned(refusal.to_string()), ..Error::new(ErrorCode::InvalidRequest) }
}
