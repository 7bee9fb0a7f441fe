//! Verdicts that were not reached now: those of the store when a file is opened, and those that still stand when the same
//! code is saved again. Both are looked up on a worker and come back as an event.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tower_lsp::ls_types::Uri;

use super::event::Event;
use super::file_state::{FileState, Outcome};
use super::global_state::GlobalState;
use super::runs::{Cause, check_request};
use crate::config::Settings;
use crate::judge::Report;
use crate::judge::calendar::minute;
use crate::judge::check::Earlier;
use crate::source::SourceModel;

const MINUTE_S: u64 = 60;
const HOUR_S: u64 = 60 * MINUTE_S;
const DAY_S: u64 = 24 * HOUR_S;

/// An answer to what was looked up.
pub(crate) struct Recalled {
    pub(crate) uri: Uri,
    /// Of the text that was asked about.
    pub(crate) text_hash: blake3::Hash,
    pub(crate) answer: Answer,
}

pub(crate) enum Answer {
    /// What the store has of an opened file.
    Earlier { earlier: Box<Earlier>, settings: Settings },
    /// Whether the verdict with this report stands for the code that was saved again.
    Stands { report: Arc<Report>, stands: bool },
}

impl GlobalState {
    /// Asks the store for a verdict on a file that was just opened. Nothing is run.
    pub(crate) fn ask_store(&mut self, uri: &Uri) {
        let Some(file) = self.files.get(uri).filter(|file| file.kernels.launched().next().is_some()) else {
            return;
        };
        let Some(path) = &file.path else { return };
        let text = file.document.text();
        let request = check_request(path, &text, &self.settings);
        let settings = self.settings.clone();
        let (executor, events, uri) =
            (self.context.gate.executor(), self.context.events.clone(), uri.clone());
        self.context.workers.spawn(async move {
            let Some(earlier) = executor.recall(request).await else { return };
            let answer = Answer::Earlier { earlier: Box::new(earlier), settings };
            let text_hash = blake3::hash(text.as_bytes());
            // Fails only when the main loop has ended.
            let _ = events.send(Event::Recalled(Recalled { uri, text_hash, answer }));
        });
    }

    /// The same code was saved again: is the verdict on it still one on what is there now? Files are read to know, so it
    /// is asked on a worker.
    pub(crate) fn ask_whether_it_stands(&self, uri: &Uri) {
        let Some(file) = self.files.get(uri) else { return };
        let (Some(path), Some(outcome)) = (&file.path, &file.outcome) else { return };
        let text = file.document.text();
        let request = check_request(path, &text, &self.settings);
        let (report, model) = (Arc::clone(&outcome.report), Arc::clone(&file.model));
        let (executor, events, uri) =
            (self.context.gate.executor(), self.context.events.clone(), uri.clone());
        self.context.workers.spawn(async move {
            let looked = (Arc::clone(&report), request.clone());
            let described =
                tokio::task::spawn_blocking(move || is_still_described(&looked.0, &looked.1, &model));
            let stands =
                described.await.unwrap_or(false) && executor.still_stands(request, Arc::clone(&report)).await;
            let (text_hash, answer) = (blake3::hash(text.as_bytes()), Answer::Stands { report, stands });
            let _ = events.send(Event::Recalled(Recalled { uri, text_hash, answer }));
        });
    }

    pub(crate) fn on_recalled(&mut self, recalled: Recalled) {
        let Recalled { uri, text_hash, answer } = recalled;
        let is_of_now = |file: &FileState| {
            file.run.is_none() && blake3::hash(file.document.text().as_bytes()) == text_hash
        };
        let Some(file) = self.files.get_mut(&uri).filter(|file| is_of_now(file)) else { return };
        match answer {
            Answer::Earlier { earlier, settings }
                if file.outcome.is_none() && settings.judge_like(&self.settings) =>
            {
                tracing::info!(
                    uri = uri.as_str(),
                    judged_at = minute(earlier.judged_at_s),
                    "a verdict of the store"
                );
                file.take_earlier(*earlier, settings);
                if file.has_times() {
                    self.hint_refresh.want(Instant::now());
                }
                self.touched.insert(uri);
                self.refresh.want(Instant::now());
            }
            Answer::Earlier { .. } => {}
            Answer::Stands { report, stands } => {
                let outcome = file.outcome.as_mut().filter(|outcome| Arc::ptr_eq(&outcome.report, &report));
                let Some(outcome) = outcome else { return };
                if stands {
                    outcome.is_confirmed = true;
                    tracing::info!(uri = uri.as_str(), "the same code was saved; nothing was run");
                    self.refresh.want(Instant::now());
                } else if let Err(refusal) = self.request_check(&uri, Cause::Changed) {
                    tracing::debug!(uri = uri.as_str(), %refusal, "no check although something changed");
                }
            }
        }
    }

    /// When the age that a lens shows should be told anew.
    pub(crate) fn age_deadline(&self) -> Option<Instant> {
        self.age_told_at.filter(|_| self.client.lens_refresh).map(|at| at + AGE_INTERVAL)
    }

    pub(crate) fn tick_age(&mut self, now: Instant) {
        let shows_age =
            self.files.values().any(|file| file.outcome.as_ref().is_some_and(Outcome::is_earlier));
        if self.age_deadline().is_some_and(|due| due <= now) && shows_age {
            self.refresh.want(now);
            self.age_told_at = Some(now);
        }
        match (shows_age, self.age_told_at) {
            (true, None) => self.age_told_at = Some(now),
            (false, _) => self.age_told_at = None,
            (true, Some(_)) => {}
        }
    }
}

/// Between two refreshes of lenses that show how old a verdict is.
const AGE_INTERVAL: Duration = Duration::from_secs(10 * MINUTE_S);

fn is_still_described(
    report: &Report,
    request: &crate::judge::check::CheckRequest,
    model: &SourceModel,
) -> bool {
    report.provenance.is_still_described(&request.path, &request.text, model)
}

/// How long ago a verdict was reached: `checked 14 min ago`, and its day when it is older than one.
pub(crate) fn age(judged_at_s: u64, now: SystemTime) -> String {
    let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    match now_s.checked_sub(judged_at_s) {
        Some(age_s) if age_s < HOUR_S => format!("checked {} min ago", (age_s / MINUTE_S).max(1)),
        Some(age_s) if age_s < DAY_S => format!("checked {} h ago", age_s / HOUR_S),
        // Older, or of a clock that was set back since.
        _ => format!("checked on {}", &minute(judged_at_s)[..10]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_told_in_words_that_stay_true_for_a_while() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_796_115_600);
        let told = |seconds: u64| age(1_796_115_600 - seconds, now);
        assert_eq!(told(0), "checked 1 min ago");
        assert_eq!(told(14 * MINUTE_S + 59), "checked 14 min ago");
        assert_eq!(told(3 * HOUR_S), "checked 3 h ago");
        assert_eq!(told(2 * DAY_S), "checked on 2026-11-29");
        assert_eq!(age(1_796_115_600 + HOUR_S, now), "checked on 2026-12-01");
    }
}
