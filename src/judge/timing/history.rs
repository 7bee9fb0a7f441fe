//! Times of earlier versions of the same code, and what changed since.

use std::path::Path;

use super::{Against, Change, Subject, Timing};
use crate::judge::verdict::real_path;
use crate::store::{Entry, History, Key};

/// The history as the judge sees it. Clones share one file and one thread.
#[derive(Clone)]
pub struct TimingHistory {
    store: History,
}

impl TimingHistory {
    /// Times in this store.
    pub fn new(store: History) -> Self {
        Self { store }
    }

    /// See [`History::open`]: no I/O yet, and nothing that goes wrong with the file fails a check.
    pub fn open(path: &Path) -> Self {
        Self::new(History::open(path))
    }

    /// See [`History::complaint`].
    pub fn complaint(&self) -> Option<String> {
        self.store.complaint()
    }

    /// Puts into `timing.changes` what is sure to have changed since the last save of other code and since HEAD, then
    /// keeps the time. `head_hash` is the [`crate::source::code_hash`] of the file at HEAD, in hexadecimal.
    ///
    /// A disturbed time and one of a GPU without a UUID are compared with nothing, so they are not kept either.
    pub async fn settle(&self, file: &Path, timing: &mut Timing, head_hash: Option<&str>) {
        if timing.is_disturbed || timing.gpu.uuid.is_empty() {
            return;
        }
        let key = key(file, timing);
        let last = self.store.last_of_other_code(key.clone(), timing.code_hash.clone()).await;
        // Against HEAD as a baseline the speedup itself says more: it is of pairs.
        let is_head_timed = timing.speedup.is_some()
            && timing.baseline.as_ref().is_some_and(|baseline| baseline.starts_with("HEAD"));
        let head = match head_hash.filter(|hash| *hash != timing.code_hash && !is_head_timed) {
            Some(hash) => self.store.of_code(key.clone(), hash.to_owned()).await,
            None => None,
        };
        let earlier = [(Against::LastSave, last), (Against::Head, head)];
        timing.changes = earlier
            .into_iter()
            .filter_map(|(against, entry)| Change::between(&read(&entry?)?, timing, against))
            .collect();
        let entry = Entry {
            key,
            code_hash: timing.code_hash.clone(),
            commit: timing.commit.clone(),
            taken_at_s: timing.taken_at_s,
            record: super::timing_json(timing).to_string(),
        };
        self.store.remember(entry).await;
    }

    /// The newest times of a file, the newest first. One that this version cannot read is left out.
    pub async fn recent(&self, file: &Path, count: usize) -> Vec<Timing> {
        self.store.recent(&real_path(file), count).await.iter().filter_map(read).collect()
    }
}

fn read(entry: &Entry) -> Option<Timing> {
    serde_json::from_str(&entry.record).ok()
}

fn key(file: &Path, timing: &Timing) -> Key {
    let Subject { entry, definition, axes, dtype, .. } = &timing.subject;
    Key {
        file: real_path(file),
        entry: entry.clone(),
        definition: definition.clone(),
        // Sorted by name, as a `BTreeMap` is.
        axes: serde_json::to_string(axes).unwrap_or_default(),
        dtype: dtype.map_or("", crate::spec::Dtype::name).to_owned(),
        gpu_uuid: timing.gpu.uuid.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::timing::Estimate;
    use crate::judge::timing::samples::timing;

    fn lasting(us: f64, code: &str) -> Timing {
        let mut timing = timing();
        timing.latency.cold_us = Estimate { median: us, low: us - 1.0, high: us + 1.0 };
        timing.code_hash = code.to_owned();
        timing
    }

    async fn changes(history: &TimingHistory, mut timing: Timing, head: Option<&str>) -> Vec<(Against, f64)> {
        history.settle(Path::new("/k.py"), &mut timing, head).await;
        timing.changes.iter().map(|change| (change.against, change.ratio)).collect()
    }

    #[tokio::test]
    async fn each_save_is_held_against_the_one_before_and_head() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = TimingHistory::open(&folder.path().join("history.sqlite"));
        assert_eq!(changes(&history, lasting(100.0, "head"), Some("head")).await, []);
        assert_eq!(
            changes(&history, lasting(200.0, "one"), Some("head")).await,
            [(Against::LastSave, 2.0), (Against::Head, 2.0)]
        );
        // The same code again is compared with what was before it.
        assert_eq!(changes(&history, lasting(220.0, "one"), None).await, [(Against::LastSave, 2.2)]);
        assert_eq!(
            changes(&history, lasting(110.0, "two"), Some("head")).await,
            [(Against::LastSave, 0.5), (Against::Head, 1.1)]
        );
        let mut paired = lasting(55.0, "three");
        paired.baseline = Some("HEAD a1b2c3d".to_owned());
        assert_eq!(changes(&history, paired, Some("head")).await, [(Against::LastSave, 0.5)]);
        let recent = history.recent(Path::new("/k.py"), 2).await;
        let codes: Vec<&str> = recent.iter().map(|timing| timing.code_hash.as_str()).collect();
        assert_eq!(codes, ["three", "two"]);
        assert!(recent[0].changes.iter().any(|change| change.against == Against::LastSave));
    }

    #[tokio::test]
    async fn a_disturbed_time_is_not_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let history = TimingHistory::open(&folder.path().join("history.sqlite"));
        let mut disturbed = lasting(100.0, "one");
        disturbed.is_disturbed = true;
        assert_eq!(changes(&history, disturbed, None).await, []);
        assert_eq!(changes(&history, lasting(200.0, "two"), None).await, []);
        assert_eq!(history.recent(Path::new("/k.py"), 9).await.len(), 1);
    }
}
