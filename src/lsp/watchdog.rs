//! Notices a turn of the main loop that does not end. It only looks: nobody can end a turn from outside, but a log and a
//! status item that name what hangs are worth more than silence.
//!
//! An idle server is not woken: the watchdog sleeps until a turn begins, and again once nothing happened for a while.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// What is done about a turn that does not end: told its name.
pub(crate) type OnStuck = Box<dyn Fn(&'static str) + Send>;

/// Looks in the time that a turn may take. More than one, so that a turn is told about soon after its time is up.
const LOOKS: u32 = 4;

/// The main loop's end: says what it is about to do.
pub(crate) struct Watchdog {
    shared: Arc<Mutex<Shared>>,
    thread: Thread,
}

#[derive(Default)]
struct Shared {
    turn: Option<Turn>,
    /// Since the loop waited last.
    has_told: bool,
    /// The thread waits to be woken by the next turn.
    is_parked: bool,
    has_ended: bool,
}

struct Turn {
    name: &'static str,
    began: Instant,
    is_told: bool,
}

impl Watchdog {
    /// Starts the thread. `on_stuck` runs on it, once for each turn that lasts longer than `limit`.
    pub(crate) fn start(limit: Duration, on_stuck: OnStuck) -> std::io::Result<(Self, JoinHandle<()>)> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        let watched = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("warpsmith-watchdog".to_owned())
            .spawn(move || watch(&watched, limit, &on_stuck))?;
        Ok((Self { shared, thread: thread.thread().clone() }, thread))
    }

    /// A turn of this name begins; it ends with the next one or with [`Self::rest`].
    pub(crate) fn begin(&self, name: &'static str) {
        let mut shared = lock(&self.shared);
        shared.turn = Some(Turn { name, began: Instant::now(), is_told: false });
        if std::mem::take(&mut shared.is_parked) {
            self.thread.unpark();
        }
    }

    /// The loop waits for the next event. Whether it was told to be stuck since it waited last.
    pub(crate) fn rest(&self) -> bool {
        let mut shared = lock(&self.shared);
        shared.turn = None;
        std::mem::take(&mut shared.has_told)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        lock(&self.shared).has_ended = true;
        self.thread.unpark();
    }
}

fn lock(shared: &Mutex<Shared>) -> std::sync::MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(shared: &Mutex<Shared>, limit: Duration, on_stuck: &OnStuck) {
    let mut idle_looks = 0;
    loop {
        let stuck = {
            let mut shared = lock(shared);
            if shared.has_ended {
                return;
            }
            idle_looks = if shared.turn.is_some() { 0 } else { idle_looks + 1 };
            shared.is_parked = idle_looks > LOOKS;
            let turn = shared.turn.as_mut().filter(|turn| !turn.is_told && turn.began.elapsed() >= limit);
            let name = turn.map(|turn| {
                turn.is_told = true;
                turn.name
            });
            shared.has_told |= name.is_some();
            name
        };
        // Without the lock: the loop must be able to go on while this is told.
        if let Some(name) = stuck {
            on_stuck(name);
        }
        if idle_looks > LOOKS {
            std::thread::park();
        } else {
            std::thread::park_timeout(limit / LOOKS);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn started(limit: Duration) -> (Watchdog, JoinHandle<()>, mpsc::Receiver<&'static str>) {
        let (told, names) = mpsc::channel();
        let (watchdog, thread) =
            Watchdog::start(limit, Box::new(move |name| told.send(name).expect("the test listens")))
                .expect("a thread");
        (watchdog, thread, names)
    }

    #[test]
    fn a_turn_that_does_not_end_is_told_once_with_its_name() {
        let (watchdog, thread, names) = started(Duration::from_millis(20));
        watchdog.begin("textDocument/didSave");
        assert_eq!(names.recv().expect("it is told"), "textDocument/didSave");
        // The same turn is not told again, the next one is.
        watchdog.begin("settle");
        assert_eq!(names.recv().expect("it is told"), "settle");
        assert!(watchdog.rest());
        drop(watchdog);
        thread.join().expect("it ends with the loop");
        assert!(names.try_recv().is_err());
    }

    #[test]
    fn a_parked_watchdog_wakes_for_the_next_turn() {
        let (watchdog, thread, names) = started(Duration::from_millis(4));
        // No turn for longer than it looks around.
        while !lock(&watchdog.shared).is_parked {
            std::thread::yield_now();
        }
        watchdog.begin("textDocument/hover");
        assert_eq!(names.recv().expect("it is told"), "textDocument/hover");
        drop(watchdog);
        thread.join().expect("it ends with the loop");
    }

    #[test]
    fn turns_that_end_are_not_told() {
        let (watchdog, thread, names) = started(Duration::from_secs(3600));
        for _ in 0..100 {
            watchdog.begin("textDocument/didChange");
            assert!(!watchdog.rest());
        }
        drop(watchdog);
        thread.join().expect("it ends with the loop");
        assert!(names.try_recv().is_err());
    }
}
