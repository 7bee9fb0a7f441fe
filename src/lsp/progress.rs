//! Work-done progress of one check: nothing for short work, `create` answered before `begin`, few
//! reports, always an `end` after a `begin`. A state machine that is told the time.

use std::time::Duration;

use tokio::time::Instant;
use tower_lsp::ls_types::{
    ProgressParams, ProgressParamsValue, ProgressToken, WorkDoneProgress, WorkDoneProgressBegin,
    WorkDoneProgressEnd, WorkDoneProgressReport,
};

/// Checks shorter than this show no progress.
pub(crate) const PROGRESS_DELAY: Duration = Duration::from_millis(300);
/// At most one report in this time.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) struct Progress {
    token: ProgressToken,
    title: String,
    message: Option<String>,
    percentage: u32,
    state: State,
}

enum State {
    /// Not shown, and never will be.
    Closed,
    Delayed {
        until: Instant,
    },
    /// The client was asked to create the token.
    Creating,
    Open {
        /// The client has not seen the newest message.
        changed: bool,
        next_report: Instant,
    },
}

#[derive(Debug, PartialEq)]
pub(crate) enum ProgressStep {
    Create(ProgressToken),
    Send(ProgressParams),
}

impl Progress {
    /// `unique` goes into the token; tokens are never used twice. `shown` is false for a client that
    /// does not support progress.
    pub(crate) fn new(unique: u64, title: String, shown: bool, show_at: Instant) -> Self {
        Self {
            token: ProgressToken::String(format!("warpsmith-check-{unique}")),
            title,
            message: None,
            percentage: 0,
            state: if shown { State::Delayed { until: show_at } } else { State::Closed },
        }
    }

    pub(crate) fn token(&self) -> &ProgressToken {
        &self.token
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Delayed { until } => Some(until),
            State::Open { changed: true, next_report } => Some(next_report),
            _ => None,
        }
    }

    /// What the next report says. The percentage never falls.
    pub(crate) fn update(&mut self, message: String, percentage: u32) {
        let percentage = percentage.min(100).max(self.percentage);
        let same = self.message.as_ref() == Some(&message) && self.percentage == percentage;
        self.message = Some(message);
        self.percentage = percentage;
        if let State::Open { changed, .. } = &mut self.state {
            *changed |= !same;
        }
    }

    pub(crate) fn tick(&mut self, now: Instant) -> Option<ProgressStep> {
        match &mut self.state {
            State::Delayed { until } if *until <= now => {
                self.state = State::Creating;
                Some(ProgressStep::Create(self.token.clone()))
            }
            State::Open { changed, next_report } if *changed && *next_report <= now => {
                *changed = false;
                *next_report = now + REPORT_INTERVAL;
                Some(self.say(WorkDoneProgress::Report(WorkDoneProgressReport {
                    cancellable: Some(true),
                    message: self.message.clone(),
                    percentage: Some(self.percentage),
                })))
            }
            _ => None,
        }
    }

    /// The client answered `create`.
    pub(crate) fn created(&mut self, accepted: bool, now: Instant) -> Option<ProgressStep> {
        if !matches!(self.state, State::Creating) {
            return None;
        }
        if !accepted {
            self.state = State::Closed;
            return None;
        }
        self.state = State::Open { changed: false, next_report: now + REPORT_INTERVAL };
        Some(self.say(WorkDoneProgress::Begin(WorkDoneProgressBegin {
            title: self.title.clone(),
            cancellable: Some(true),
            message: self.message.clone(),
            percentage: Some(self.percentage),
        })))
    }

    pub(crate) fn end(&mut self, message: &str) -> Option<ProgressStep> {
        let open = matches!(self.state, State::Open { .. });
        self.state = State::Closed;
        open.then(|| {
            self.say(WorkDoneProgress::End(WorkDoneProgressEnd { message: Some(message.to_owned()) }))
        })
    }

    fn say(&self, value: WorkDoneProgress) -> ProgressStep {
        let value = ProgressParamsValue::WorkDone(value);
        ProgressStep::Send(ProgressParams { token: self.token.clone(), value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(shown: bool) -> Progress {
        Progress::new(7, "check softmax.py".to_owned(), shown, Instant::now() + PROGRESS_DELAY)
    }

    fn kind(step: Option<ProgressStep>) -> &'static str {
        match step {
            None => "nothing",
            Some(ProgressStep::Create(_)) => "create",
            Some(ProgressStep::Send(ProgressParams {
                value: ProgressParamsValue::WorkDone(value), ..
            })) => match value {
                WorkDoneProgress::Begin(_) => "begin",
                WorkDoneProgress::Report(_) => "report",
                WorkDoneProgress::End(_) => "end",
            },
        }
    }

    #[tokio::test(start_paused = true)]
    async fn short_work_shows_nothing() {
        let mut progress = progress(true);
        assert_eq!(kind(progress.tick(Instant::now())), "nothing");
        assert_eq!(kind(progress.end("passed")), "nothing");
        tokio::time::advance(PROGRESS_DELAY).await;
        assert_eq!(kind(progress.tick(Instant::now())), "nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn begin_waits_for_the_answer_and_reports_are_few() {
        let mut progress = progress(true);
        tokio::time::sleep_until(progress.deadline().expect("a deadline")).await;
        assert_eq!(kind(progress.tick(Instant::now())), "create");
        assert_eq!(progress.deadline(), None);
        progress.update("1/9".to_owned(), 11);
        assert_eq!(kind(progress.tick(Instant::now())), "nothing");
        assert_eq!(kind(progress.created(true, Instant::now())), "begin");
        progress.update("2/9".to_owned(), 22);
        progress.update("3/9".to_owned(), 33);
        assert_eq!(kind(progress.tick(Instant::now())), "nothing");
        tokio::time::sleep_until(progress.deadline().expect("a deadline")).await;
        assert_eq!(kind(progress.tick(Instant::now())), "report");
        progress.update("3/9".to_owned(), 20);
        assert_eq!(progress.deadline(), None);
        assert_eq!(kind(progress.end("cancelled")), "end");
        assert_eq!(kind(progress.end("cancelled")), "nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_token_is_never_used() {
        let mut progress = progress(true);
        tokio::time::advance(PROGRESS_DELAY).await;
        progress.tick(Instant::now());
        assert_eq!(kind(progress.created(false, Instant::now())), "nothing");
        progress.update("1/2".to_owned(), 50);
        assert_eq!(progress.deadline(), None);
        assert_eq!(kind(progress.end("passed")), "nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_after_the_end_begins_nothing() {
        let mut progress = progress(true);
        tokio::time::advance(PROGRESS_DELAY).await;
        progress.tick(Instant::now());
        progress.end("passed");
        assert_eq!(kind(progress.created(true, Instant::now())), "nothing");
    }
}
