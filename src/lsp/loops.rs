//! Saves that nobody's edit explains: a program that writes what is watched would have a file checked for ever.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use tokio::time::Instant;
use tower_lsp::ls_types::{MessageType, Uri};

use super::global_state::GlobalState;
use super::outbox::Outgoing;
use super::runs::Refusal;

/// Checks of one file in [`WINDOW`] that saves may start while nothing is edited.
const MOST: usize = 5;
const WINDOW: Duration = Duration::from_secs(60);

/// Counts the checks that saves start. It is told the time.
#[derive(Default)]
pub(crate) struct LoopGuard {
    files: HashMap<Uri, Counted>,
}

#[derive(Default)]
struct Counted {
    started: Vec<Instant>,
    is_told: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    Yes,
    No {
        /// The user does not know yet.
        is_news: bool,
    },
}

impl LoopGuard {
    /// Somebody types, so saves have a reason; a file may rest on another one that is edited.
    pub(crate) fn edited(&mut self) {
        self.files.clear();
    }

    pub(crate) fn closed(&mut self, file: &Uri) {
        self.files.remove(file);
    }

    /// Whether a save may start one more check of `file`, which then counts.
    pub(crate) fn allows(&mut self, file: &Uri, now: Instant) -> Allowed {
        let counted = self.files.entry(file.clone()).or_default();
        counted.started.retain(|started| now.duration_since(*started) < WINDOW);
        // Once stopped it stays so until an edit: else it would go on a little slower.
        if counted.is_told {
            return Allowed::No { is_news: false };
        }
        if counted.started.len() >= MOST {
            counted.is_told = true;
            return Allowed::No { is_news: true };
        }
        counted.started.push(now);
        Allowed::Yes
    }
}

impl GlobalState {
    /// A save that no edit explains starts only so many checks; the user is told once.
    pub(crate) fn not_in_a_loop(&mut self, uri: &Uri, path: &Path) -> Result<(), Refusal> {
        match self.loops.allows(uri, Instant::now()) {
            Allowed::Yes => return Ok(()),
            Allowed::No { is_news: false } => {}
            Allowed::No { is_news: true } => {
                let words = format!(
                    "warpsmith stopped checking {}: it was saved and checked again and again within a minute although \
                     nobody edits it. Does a formatter or another program write it? The next edit makes saves count \
                     again, and the command `check` always does",
                    path.file_name().unwrap_or_default().display()
                );
                tracing::warn!(uri = uri.as_str(), "checks without an edit, one after another; stopped");
                self.context.outbox.send(Outgoing::Message(MessageType::WARNING, words));
            }
        }
        Err(Refusal::Looping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(name: &str) -> Uri {
        format!("file:///{name}").parse().expect("a URI")
    }

    #[tokio::test(start_paused = true)]
    async fn the_sixth_check_in_a_minute_without_an_edit_is_refused_and_told_once() {
        let mut guard = LoopGuard::default();
        let (one, two) = (uri("one.py"), uri("two.py"));
        for _ in 0..MOST {
            assert_eq!(guard.allows(&one, Instant::now()), Allowed::Yes);
            tokio::time::advance(Duration::from_secs(10)).await;
        }
        assert_eq!(guard.allows(&one, Instant::now()), Allowed::No { is_news: true });
        assert_eq!(guard.allows(&one, Instant::now()), Allowed::No { is_news: false });
        assert_eq!(guard.allows(&two, Instant::now()), Allowed::Yes, "each file by itself");
        tokio::time::advance(WINDOW).await;
        assert_eq!(guard.allows(&one, Instant::now()), Allowed::No { is_news: false });
        guard.edited();
        assert_eq!(guard.allows(&one, Instant::now()), Allowed::Yes);
    }

    #[tokio::test(start_paused = true)]
    async fn saves_now_and_then_are_no_loop() {
        let mut guard = LoopGuard::default();
        for _ in 0..50 {
            assert_eq!(guard.allows(&uri("one.py"), Instant::now()), Allowed::Yes);
            tokio::time::advance(Duration::from_secs(13)).await;
        }
    }
}
