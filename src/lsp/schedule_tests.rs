use super::*;

#[derive(Clone, Debug, PartialEq)]
struct Save(&'static str, u64);

impl Job for Save {
    type File = &'static str;

    fn file(&self) -> &Self::File {
        &self.0
    }

    fn generation(&self) -> u64 {
        self.1
    }

    /// Tests ask for urgent ones by numbers from 100.
    fn is_urgent(&self) -> bool {
        self.1 >= 100
    }
}

use Action::{Abandon, Cancel, Start};

/// The scheduler driven as the main loop drives it, on a paused clock.
struct Driver(Scheduler<Save>);

impl Driver {
    fn new() -> Self {
        Self(Scheduler::new(DEBOUNCE))
    }

    fn save(&mut self, file: &'static str, generation: u64) -> Vec<Action<Save>> {
        self.0.request(Save(file, generation), Instant::now())
    }

    fn finish(&mut self, generation: u64) -> Vec<Action<Save>> {
        self.0.finished(generation, Instant::now())
    }

    /// Sleeps to the next deadline; `None` when there is none.
    async fn next(&mut self) -> Option<Vec<Action<Save>>> {
        tokio::time::sleep_until(self.0.deadline()?).await;
        Some(self.0.tick(Instant::now()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_save_runs_after_the_debounce() {
    let mut driver = Driver::new();
    let began = Instant::now();
    assert_eq!(driver.save("a", 1), []);
    assert_eq!(driver.0.tick(began), []);
    assert_eq!(driver.next().await, Some(vec![Start(Save("a", 1))]));
    assert!(began.elapsed() >= DEBOUNCE);
    assert_eq!(driver.next().await, None);
    assert_eq!(driver.finish(1), []);
    assert!(driver.0.is_idle());
}

#[tokio::test(start_paused = true)]
async fn the_latest_save_wins() {
    let mut driver = Driver::new();
    driver.save("a", 1);
    tokio::time::advance(DEBOUNCE / 2).await;
    driver.save("a", 2);
    assert_eq!(driver.next().await, Some(vec![Start(Save("a", 2))]));
    // The running check is cancelled before the debounce of the new one, and only once.
    assert_eq!(driver.save("a", 3), [Cancel(2)]);
    assert_eq!(driver.save("a", 4), []);
    tokio::time::advance(DEBOUNCE).await;
    assert_eq!(driver.finish(2), [Start(Save("a", 4))]);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_in_the_debounce_wins() {
    let mut driver = Driver::new();
    driver.save("a", 1);
    assert_eq!(driver.0.cancel(&"a", Instant::now()), []);
    assert_eq!(driver.next().await, None);
    assert!(driver.0.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_that_hangs_is_abandoned() {
    let mut driver = Driver::new();
    driver.save("a", 1);
    driver.next().await;
    assert_eq!(driver.0.cancel(&"a", Instant::now()), [Cancel(1)]);
    driver.save("a", 2);
    assert_eq!(driver.next().await, Some(vec![Abandon(1), Start(Save("a", 2))]));
    // Its late end must not free the place of the new run.
    assert_eq!(driver.finish(1), []);
    assert!(!driver.0.is_idle());
    assert_eq!(driver.save("a", 3), [Cancel(2)]);
}

#[tokio::test(start_paused = true)]
async fn other_files_wait_for_their_turn() {
    let mut driver = Driver::new();
    driver.save("a", 1);
    assert_eq!(driver.next().await, Some(vec![Start(Save("a", 1))]));
    assert_eq!(driver.save("b", 2), []);
    assert_eq!(driver.save("c", 3), []);
    tokio::time::advance(DEBOUNCE).await;
    assert_eq!(driver.0.tick(Instant::now()), []);
    assert_eq!(driver.finish(1), [Start(Save("b", 2))]);
    // The end of a run and a save of its file in the same moment: the save is not lost.
    assert_eq!(driver.save("b", 4), [Cancel(2)]);
    assert_eq!(driver.finish(2), [Start(Save("c", 3))]);
    tokio::time::advance(DEBOUNCE).await;
    assert_eq!(driver.finish(3), [Start(Save("b", 4))]);
}

/// Saves at every pause of the typing: after two checks that came to nothing, the saves must stop for a moment.
#[tokio::test(start_paused = true)]
async fn saves_that_come_faster_than_checks_end_wait_for_quiet() {
    let mut driver = Driver::new();
    driver.save("a", 1);
    assert_eq!(driver.next().await, Some(vec![Start(Save("a", 1))]));
    for generation in 2..4 {
        assert_eq!(driver.save("a", generation), [Cancel(generation - 1)]);
        assert_eq!(driver.finish(generation - 1), []);
        let saved = Instant::now();
        assert_eq!(driver.next().await, Some(vec![Start(Save("a", generation))]));
        let is_held_back = saved.elapsed() >= QUIET;
        assert_eq!(is_held_back, generation == 3, "{generation}");
    }
    // Whoever asks for a check gets it at once, and so does another file.
    assert_eq!(driver.save("a", 100), [Cancel(3)]);
    assert_eq!(driver.finish(3), []);
    let asked = Instant::now();
    assert_eq!(driver.next().await, Some(vec![Start(Save("a", 100))]));
    assert!(asked.elapsed() < QUIET);
    // Once a check comes to its end, all is as before.
    assert_eq!(driver.finish(100), []);
    let saved = Instant::now();
    driver.save("a", 5);
    assert_eq!(driver.next().await, Some(vec![Start(Save("a", 5))]));
    assert!(saved.elapsed() < QUIET);
}
