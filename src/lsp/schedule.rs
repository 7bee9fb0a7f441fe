//! Which check runs when. A state machine without clock, tasks or I/O: it is told the time and what
//! happened, and says what to do.
//!
//! At most one check runs. A request replaces the waiting request of the same file and cancels its
//! running check at once; then it waits a moment for a still newer one, and for the running check to end.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How long a request waits for a newer one of the same file.
pub(crate) const DEBOUNCE: Duration = Duration::from_millis(50);
/// How long a cancelled check may take to end before it is abandoned.
pub(crate) const CANCEL_GRACE: Duration = Duration::from_secs(3);

/// What can be scheduled: something that belongs to one file and has a number of its own.
pub(crate) trait Job {
    type File: PartialEq;
    fn file(&self) -> &Self::File;
    fn generation(&self) -> u64;
    /// Somebody waits for it: it is not held back for a still newer one.
    fn is_urgent(&self) -> bool;
}

#[derive(Debug, PartialEq)]
pub(crate) enum Action<J> {
    Start(J),
    /// Ask this run to end.
    Cancel(u64),
    /// It did not end in time: drop it.
    Abandon(u64),
}

/// Checks of a file in a row that a newer save replaced before their end: then saves come faster than checks end, as
/// those of an editor that saves at every pause do.
const REPLACED: u32 = 2;
/// How long such saves must have stopped.
pub(crate) const QUIET: Duration = Duration::from_millis(1500);

pub(crate) struct Scheduler<J: Job> {
    /// In order of arrival, one per file.
    waiting: VecDeque<(J, Instant)>,
    running: Option<Running<J::File>>,
    debounce: Duration,
    /// The file whose checks a newer save replaced last, and how many in a row.
    replaced: Option<(J::File, u32)>,
}

struct Running<F> {
    generation: u64,
    file: F,
    /// Set when the run was told to end: when we stop waiting for it.
    give_up_at: Option<Instant>,
}

impl<J: Job> Scheduler<J>
where
    J::File: Clone,
{
    pub(crate) fn new(debounce: Duration) -> Self {
        Self { waiting: VecDeque::new(), running: None, debounce, replaced: None }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_none()
    }

    /// The newest request of a file wins.
    pub(crate) fn request(&mut self, job: J, now: Instant) -> Vec<Action<J>> {
        let actions = self.cancel(job.file(), now);
        if !actions.is_empty() {
            let before = self.replaced.take_if(|(file, _)| file == job.file()).map_or(0, |(_, count)| count);
            self.replaced = Some((job.file().clone(), before + 1));
        }
        let is_flooded =
            self.replaced.as_ref().is_some_and(|(file, count)| file == job.file() && *count >= REPLACED);
        let wait = if is_flooded && !job.is_urgent() { QUIET.max(self.debounce) } else { self.debounce };
        self.waiting.push_back((job, now + wait));
        actions
    }

    /// Forgets the waiting request of `file` and ends its running check.
    pub(crate) fn cancel(&mut self, file: &J::File, now: Instant) -> Vec<Action<J>> {
        self.waiting.retain(|(waiting, _)| waiting.file() != file);
        match &mut self.running {
            Some(running) if running.file == *file && running.give_up_at.is_none() => {
                running.give_up_at = Some(now + CANCEL_GRACE);
                vec![Action::Cancel(running.generation)]
            }
            _ => Vec::new(),
        }
    }

    /// A run ended, by itself or not. Ends of runs that were given up are ignored.
    pub(crate) fn finished(&mut self, generation: u64, now: Instant) -> Vec<Action<J>> {
        if let Some(ended) = self.running.take_if(|running| running.generation == generation)
            && ended.give_up_at.is_none()
        {
            // It came to its end in time.
            self.replaced.take_if(|(file, _)| *file == ended.file);
        }
        self.tick(now)
    }

    /// When [`Self::tick`] must be called next, if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match &self.running {
            Some(running) => running.give_up_at,
            None => self.waiting.iter().map(|(_, ready_at)| *ready_at).min(),
        }
    }

    pub(crate) fn tick(&mut self, now: Instant) -> Vec<Action<J>> {
        let mut actions = Vec::new();
        if let Some(running) = self.running.take_if(|running| running.give_up_at.is_some_and(|at| at <= now))
        {
            actions.push(Action::Abandon(running.generation));
        }
        if self.running.is_none()
            && let Some(index) = self.waiting.iter().position(|(_, ready_at)| *ready_at <= now)
            && let Some((job, _)) = self.waiting.remove(index)
        {
            let running =
                Running { generation: job.generation(), file: job.file().clone(), give_up_at: None };
            self.running = Some(running);
            actions.push(Action::Start(job));
        }
        actions
    }
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
