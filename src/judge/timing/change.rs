//! Faster or slower than an earlier version of the same code.

use serde::{Deserialize, Serialize};

use super::Timing;
use super::statistics::independent_ratio;

/// A change that is not sure to be larger than this is not told: clocks of two saves differ by about as much.
const LEAST_CHANGE: f64 = 0.01;

/// What a time is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Against {
    /// The last version that passed and was timed, of other code.
    LastSave,
    /// The version at HEAD.
    Head,
}

/// A sure change of the cold latency.
///
/// Samples of two saves were not taken in pairs, so the interval is that of the ratio of two independent medians
/// ([`independent_ratio`]); it is wider than that of a speedup, and drift between the two saves is in it as an error
/// that nobody can see.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    pub against: Against,
    /// Time now over time then: above 1 is slower.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl Change {
    /// `None` unless both can be compared and the interval excludes 1 by more than 1 %.
    pub fn between(earlier: &Timing, now: &Timing, against: Against) -> Option<Self> {
        if !are_comparable(earlier, now) {
            return None;
        }
        let ratio = independent_ratio(&now.latency.cold_us, &earlier.latency.cold_us)?;
        let is_sure = ratio.low > 1.0 + LEAST_CHANGE || ratio.high < 1.0 - LEAST_CHANGE;
        is_sure.then_some(Self { against, ratio: ratio.median, low: ratio.low, high: ratio.high })
    }
}

/// The same work on the same GPU, driver, torch and Triton, taken the same way, with nobody else on the GPU.
fn are_comparable(earlier: &Timing, now: &Timing) -> bool {
    let is_known = |timing: &Timing| {
        let versions = &timing.versions;
        !timing.gpu.uuid.is_empty()
            && versions.driver.is_some()
            && versions.torch.is_some()
            && versions.triton.is_some()
    };
    let work = |timing: &Timing| {
        (timing.subject.definition.clone(), timing.subject.axes.clone(), timing.subject.dtype)
    };
    is_known(earlier)
        && is_known(now)
        && work(earlier) == work(now)
        && earlier.gpu.uuid == now.gpu.uuid
        && earlier.versions == now.versions
        && earlier.method == now.method
        && !earlier.is_disturbed
        && !now.is_disturbed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::timing::Estimate;
    use crate::judge::timing::samples::timing;

    fn lasting(median: f64, half: f64) -> Timing {
        let mut timing = timing();
        timing.latency.cold_us = Estimate { median, low: median - half, high: median + half };
        timing
    }

    #[test]
    fn only_sure_changes_are_told() {
        let change = |then, now| Change::between(&then, &now, Against::LastSave);
        let slower = change(lasting(100.0, 1.0), lasting(112.0, 1.0)).expect("sure");
        assert!((slower.ratio - 1.12).abs() < 1e-12 && slower.low > 1.09 && slower.high < 1.15, "{slower:?}");
        assert!(change(lasting(112.0, 1.0), lasting(100.0, 1.0)).is_some_and(|faster| faster.high < 0.95));
        assert_eq!(change(lasting(100.0, 3.0), lasting(103.0, 3.0)), None);
        assert_eq!(change(lasting(100.0, 0.01), lasting(100.9, 0.01)), None, "below what clocks differ by");
    }

    #[test]
    fn other_circumstances_are_not_compared() {
        let now = lasting(200.0, 1.0);
        let changes: [fn(&mut Timing); 7] = [
            |then| then.gpu.uuid = "GPU-2".to_owned(),
            |then| then.versions.driver = Some("590.1".to_owned()),
            |then| then.versions.torch = Some("2.12".to_owned()),
            |then| then.versions.triton = None,
            |then| then.is_disturbed = true,
            |then| then.method = crate::runner::protocol::TimingMethod::Graph,
            |then| then.subject.axes.clear(),
        ];
        assert!(Change::between(&lasting(100.0, 1.0), &now, Against::Head).is_some());
        for change in changes {
            let mut then = lasting(100.0, 1.0);
            change(&mut then);
            assert_eq!(Change::between(&then, &now, Against::Head), None);
        }
        let mut unknown = lasting(100.0, 1.0);
        unknown.gpu.uuid.clear();
        assert_eq!(Change::between(&unknown.clone(), &unknown, Against::Head), None);
    }
}
