//! When the client is asked to fetch the lenses again: at the start and the end of a check, now and then
//! while it runs, never for an edit, and never while the last request is unanswered.

use std::time::Duration;

use tokio::time::Instant;

/// Between two refreshes that only move the count of finished cases.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct LensRefresh {
    wanted_at: Option<Instant>,
    in_flight: bool,
    sent_at: Option<Instant>,
}

impl LensRefresh {
    /// The verdict or the kind of a lens changed.
    pub(crate) fn want(&mut self, now: Instant) {
        self.wanted_at = Some(now);
    }

    /// Only a count changed.
    pub(crate) fn want_count(&mut self, now: Instant) {
        let earliest = self.sent_at.map_or(now, |sent| (sent + COUNT_INTERVAL).max(now));
        self.wanted_at.get_or_insert(earliest);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.wanted_at.filter(|_| !self.in_flight)
    }

    /// Whether to send the request now.
    pub(crate) fn tick(&mut self, now: Instant) -> bool {
        let due = self.deadline().is_some_and(|at| at <= now);
        if due {
            *self = Self { wanted_at: None, in_flight: true, sent_at: Some(now) };
        }
        due
    }

    pub(crate) fn answered(&mut self) {
        self.in_flight = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_request_at_a_time_and_counts_are_slow() {
        let mut refresh = LensRefresh::default();
        assert!(!refresh.tick(Instant::now()));
        refresh.want(Instant::now());
        assert!(refresh.tick(Instant::now()));
        refresh.want(Instant::now());
        assert_eq!(refresh.deadline(), None);
        assert!(!refresh.tick(Instant::now()));
        refresh.answered();
        assert!(refresh.tick(Instant::now()));
        refresh.answered();
        refresh.want_count(Instant::now());
        assert!(!refresh.tick(Instant::now()));
        tokio::time::sleep_until(refresh.deadline().expect("a deadline")).await;
        assert!(refresh.tick(Instant::now()));
    }
}
