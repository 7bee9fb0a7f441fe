//! What is done when a handler panics or a turn hangs: the server goes on with a state that holds together, and the user
//! is told once.

use std::sync::{Arc, PoisonError};

use tower_lsp::ls_types::{MessageType, Uri};

use super::event::Subject;
use super::ext::{Health, ServerStatusParams};
use super::global_state::GlobalState;
use super::outbox::Outgoing;
use super::watchdog::OnStuck;

impl GlobalState {
    /// After a panic in the handler of `event`: what it may have left half done is given up.
    pub(crate) fn recover(&mut self, event: &'static str, subject: Subject) {
        if !std::mem::replace(&mut self.has_told_of_panic, true) {
            let words = format!(
                "warpsmith failed inside ({event}) and goes on; a file that this concerns is judged again after its next \
                 save. The log says why"
            );
            self.context.outbox.send(Outgoing::Message(MessageType::ERROR, words));
        }
        match subject {
            Subject::Nothing => {}
            Subject::Document(uri) => self.distrust(&uri),
            Subject::Run(generation) => self.give_up_run(generation),
        }
    }

    /// An edit may have been applied by half: no place in the text is known, until a whole text comes.
    fn distrust(&mut self, uri: &Uri) {
        self.cancel_check(uri);
        if let Some(file) = self.files.get_mut(uri) {
            file.distrust();
            self.touched.insert(uri.clone());
        }
    }

    /// For the thread that watches the turns. In tests a turn that hangs ends the process, so that it is known which
    /// one it was.
    pub(crate) fn on_stuck(&self) -> OnStuck {
        let (outbox, limit) = (self.context.outbox.clone(), self.context.timing.stuck_turn);
        let (aborts, last) = (self.context.timing.abort_when_stuck, Arc::clone(&self.context.last_status));
        Box::new(move |event| {
            tracing::error!(event, limit_ms = limit.as_millis(), "a turn of the main loop does not end");
            let last = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(last) = last {
                let message =
                    format!("warpsmith does not answer: it has been busy with {event} for over {limit:?}");
                let (health, quiescent, message) = (Health::Warning, false, Some(message));
                let status = ServerStatusParams { health, quiescent, message, ..last };
                outbox.send(Outgoing::Status(status));
            }
            if aborts {
                // Also where nobody logs.
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "the main loop hangs in {event}");
                std::process::abort();
            }
        })
    }
}
