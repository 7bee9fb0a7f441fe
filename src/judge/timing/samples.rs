//! Times for tests: made up, and only here.

use super::{Bound, Estimate, Gpu, Latency, Roofline, Speedup, Subject, Timing, TimingMethod, Versions};
use crate::spec::Dtype;

pub(crate) fn subject() -> Subject {
    Subject {
        entry: "softmax".to_owned(),
        definition: "softmax".to_owned(),
        axes: [("M".to_owned(), 4096), ("N".to_owned(), 4096)].into(),
        dtype: Some(Dtype::Float16),
        shape: "4096×4096".to_owned(),
    }
}

/// Bound by memory, 1.83 times as fast as torch.
pub(crate) fn timing() -> Timing {
    let estimate = |median: f64, half: f64| Estimate { median, low: median - half, high: median + half };
    Timing {
        subject: subject(),
        baseline: Some("torch".to_owned()),
        baseline_failed: None,
        n: 30,
        latency: Latency { cold_us: estimate(412.0, 3.0), warm_us: Some(estimate(405.0, 2.0)) },
        baseline_latency: Some(Latency { cold_us: estimate(754.0, 4.0), warm_us: None }),
        speedup: Some(Speedup { cold: estimate(1.83, 0.02), warm: Some(estimate(1.84, 0.02)) }),
        method: TimingMethod::Events,
        host_us: 21.0,
        is_host_bound: false,
        graph_refused: String::new(),
        claim_error: 0.01,
        spread: 0.02,
        gpu: Gpu { name: "NVIDIA H200".to_owned(), uuid: "GPU-1".to_owned() },
        versions: Versions {
            driver: Some("580.82.07".to_owned()),
            cuda: Some("13.0".to_owned()),
            torch: Some("2.11.0".to_owned()),
            triton: Some("3.6.0".to_owned()),
        },
        is_disturbed: false,
        conditions: Vec::new(),
        bytes: Some(67_108_864),
        flops: Some(83_886_080),
        share_of_copy: Some(estimate(0.91, 0.01)),
        roofline: Some(Roofline {
            intensity: 1.25,
            ridge: 312.0,
            bound: Bound::Memory,
            limit: "a copy of these bytes".to_owned(),
            limit_us: 375.0,
            share: estimate(0.91, 0.01),
        }),
        taken_at_s: 1_796_000_000,
        source_hash: String::new(),
        code_hash: "c0de".to_owned(),
        commit: None,
        changes: Vec::new(),
    }
}
