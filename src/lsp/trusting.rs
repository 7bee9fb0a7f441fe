//! Asking for trust: when, how often, and what an answer changes. Nothing here lets code run; see [`super::gate`].

use std::path::Path;

use tower_lsp::ls_types::{MessageType, Uri};

use super::event::Event;
use super::gate::{Authority, NOT_TRUSTED};
use super::global_state::GlobalState;
use super::outbox::{ClientRequest, Outgoing, TrustAnswer};
use super::runs::{Cause, CheckJob};
use crate::trust::{Place, TrustError, Trusted, shown};

/// Why no question was sent.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAsked {
    #[error("{NOT_TRUSTED}; trust this workspace in your editor")]
    EditorDecides,
    #[error(
        "{NOT_TRUSTED}; the question whether {0} is trusted still waits for its answer. On the command line: {1}"
    )]
    InFlight(Place, String),
}

impl GlobalState {
    /// A check ran nothing. After a save the user is asked once, after a command each time.
    pub(crate) fn on_not_trusted(&mut self, job: &CheckJob, cause: Cause) {
        let place = self.context.gate.place_of(&job.path);
        let was_declined =
            self.context.gate.questions.get(&place).is_some_and(|question| question.is_declined);
        if was_declined && cause != Cause::Command {
            return;
        }
        let asked = self.ask_for_trust(place, Some(&job.path), Some(&job.uri));
        if let (Err(why), Cause::Command) = (asked, cause) {
            self.say(MessageType::WARNING, why.to_string());
        }
    }

    /// Asks whether a place is trusted; the check of `waiting` runs if it is.
    pub(crate) fn ask_for_trust(
        &mut self,
        place: Place,
        file: Option<&Path>,
        waiting: Option<&Uri>,
    ) -> Result<(), NotAsked> {
        let gate = &mut self.context.gate;
        if let Authority::Editor { .. } = gate.authority() {
            return Err(NotAsked::EditorDecides);
        }
        let question = gate.questions.entry(place.clone()).or_default();
        if let Some(uri) = waiting.filter(|uri| !question.waiting.contains(uri)) {
            question.waiting.push(uri.clone());
        }
        if std::mem::replace(&mut question.in_flight, true) {
            return Err(NotAsked::InFlight(place.clone(), command_line(&place)));
        }
        let words = words(&place, file);
        let remember = gate.file().cloned();
        self.context.outbox.request(ClientRequest::AskTrust { place, words, remember });
        Ok(())
    }

    pub(crate) fn on_trust_answer(&mut self, place: &Place, answer: TrustAnswer) {
        let waiting = match self.context.gate.questions.get_mut(place) {
            Some(question) => {
                question.in_flight = false;
                question.is_declined = !matches!(answer, TrustAnswer::Granted(_));
                std::mem::take(&mut question.waiting)
            }
            None => Vec::new(),
        };
        tracing::info!(%place, ?answer, "trust");
        match answer {
            TrustAnswer::Granted(Ok(trusted)) => self.context.gate.remember(trusted),
            TrustAnswer::Granted(Err(why)) => {
                self.context.gate.grant_for_session(place.clone());
                let words =
                    format!("{place}: trusted until the server ends. That cannot be remembered: {why}");
                self.say(MessageType::WARNING, words);
            }
            TrustAnswer::NotNow => return,
            TrustAnswer::Nothing => {
                // Some clients show no questions, and answer at once that nothing was chosen.
                let words = format!("{NOT_TRUSTED}. To trust {place}: {}", command_line(place));
                self.say(MessageType::INFO, words);
                return;
            }
        }
        self.show_trust();
        for uri in waiting {
            if let Err(refusal) = self.request_check(&uri, Cause::Command) {
                tracing::debug!(uri = uri.as_str(), %refusal, "no check although its folder is trusted now");
            }
        }
    }

    /// Reads anew what is remembered, on a worker: the command line has changed it.
    pub(crate) fn reload_trust(&self) {
        let Some(file) = self.context.gate.file().cloned() else { return };
        let events = self.context.events.clone();
        self.context.workers.spawn_blocking(move || {
            // Fails only when the main loop has ended.
            let _ = events.send(Event::TrustRead(file.read()));
        });
    }

    pub(crate) fn on_trust_read(&mut self, read: Result<Trusted, TrustError>) {
        match read {
            Ok(trusted) => self.context.gate.remember(trusted),
            Err(error) => {
                self.context.gate.remember(Trusted::default());
                self.say_once(error.to_string());
            }
        }
        self.show_trust();
    }

    /// Brings what the files show up to date.
    fn show_trust(&mut self) {
        for (uri, file) in &mut self.files {
            let is_trusted = file.path.as_ref().is_none_or(|path| self.context.gate.is_open_for(path));
            if std::mem::replace(&mut file.is_trusted, is_trusted) != is_trusted {
                self.touched.insert(uri.clone());
                self.refresh.want(tokio::time::Instant::now());
            }
        }
    }

    pub(crate) fn say(&self, kind: MessageType, words: String) {
        self.context.outbox.send(Outgoing::Message(kind, format!("warpsmith: {words}")));
    }
}

fn words(place: &Place, file: Option<&Path>) -> String {
    let name = file.and_then(Path::file_name).map(|name| shown(Path::new(name)));
    let what = name.unwrap_or_else(|| "a file".to_owned());
    let folder = shown(&place.folder);
    let question = if place.below {
        format!("Do you trust {folder} and everything below it?")
    } else {
        format!("Do you trust the files in {folder} (not those in folders below it)?")
    };
    format!("warpsmith: checking {what} runs its code. {question}")
}

/// What grants it without an editor.
fn command_line(place: &Place) -> String {
    let folder = place.folder.display().to_string();
    let only = if place.below { "" } else { "--files-only " };
    if shown(&place.folder) != folder || folder.contains('`') {
        // It may be pasted, so it holds nothing that looks like something else.
        return format!("`warpsmith trust {only}.` in that folder");
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let word =
        if folder.chars().all(is_plain) { folder } else { format!("'{}'", folder.replace('\'', r"'\''")) };
    format!("`warpsmith trust {only}{word}`")
}
