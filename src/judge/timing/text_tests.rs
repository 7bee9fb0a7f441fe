use super::*;
use crate::judge::timing::TimingMethod;
use crate::judge::timing::samples::{subject, timing};

fn estimate(median: f64, half: f64) -> Estimate {
    Estimate { median, low: median - half, high: median + half }
}

/// A product held back by the matrix rate, against two baselines, with all that can be said.
fn product() -> Timing {
    let mut product = timing();
    product.subject.entry = "matmul".to_owned();
    product.subject.shape = "M=4096 N=4096 K=512".to_owned();
    product.latency.warm_us = Some(estimate(301.0, 2.0));
    if let Some(roofline) = &mut product.roofline {
        roofline.bound = Bound::Compute;
        roofline.limit = "the float16 peak".to_owned();
        roofline.intensity = 819.2;
        roofline.limit_us = 292.6;
        roofline.share = estimate(0.71, 0.01);
    }
    product
}

#[test]
fn titles() {
    let with = |change: fn(&mut Timing)| {
        let mut timing = timing();
        change(&mut timing);
        title(&timing)
    };
    let slower = |timing: &mut Timing| {
        if let Some(speedup) = &mut timing.speedup {
            speedup.cold = estimate(0.66, 0.01);
        }
    };
    let same = |timing: &mut Timing| {
        if let Some(speedup) = &mut timing.speedup {
            speedup.cold = Estimate { median: 1.0, low: 0.99, high: 1.02 };
        }
    };
    let titles = [
        title(&timing()),
        title(&product()),
        with(slower),
        with(same),
        with(|timing| timing.is_host_bound = true),
        with(|timing| (timing.is_host_bound, timing.method) = (true, TimingMethod::Graph)),
        with(|timing| timing.speedup = None),
        with(|timing| (timing.roofline, timing.share_of_copy) = (None, None)),
        with(|timing| timing.roofline = None),
        with(|timing| timing.is_disturbed = true),
        with(|timing| timing.baseline = Some("HEAD a1b2c3d".to_owned())),
    ];
    insta::assert_snapshot!(titles.join("\n"));
}

#[test]
fn hints_and_lines_tell_what_changed() {
    let mut timing = timing();
    assert_eq!(hint(&timing), "1.83× torch · 412 µs");
    timing.changes = vec![
        Change { against: Against::LastSave, ratio: 1.12, low: 1.10, high: 1.14 },
        Change { against: Against::Head, ratio: 0.8, low: 0.79, high: 0.81 },
    ];
    assert_eq!(hint(&timing), "1.83× torch · 412 µs · 12 % slower than the last save");
    insta::assert_snapshot!(
        line(&timing),
        @"softmax: 1.83× torch (412 ± 3 µs · f16 4096×4096 · 91 % of a copy of these bytes) · 1.81–1.85× (95 %) · 30 pairs · NVIDIA H200 · 12 % slower than the last save · 20 % faster than HEAD"
    );
    timing.changes.clear();
    (timing.speedup, timing.baseline_failed) = (None, Some("it ran out\nof memory".to_owned()));
    insta::assert_snapshot!(
        line(&timing),
        @"softmax: 412 ± 3 µs (f16 4096×4096 · 91 % of a copy of these bytes) · 30 samples · NVIDIA H200 · no speedup: it ran out of memory"
    );
}

#[test]
fn a_missing_time_says_why() {
    let missing = |subject, code| not_timed(&NoTiming::new(subject, code, "the worker\nended"));
    assert_eq!(missing(None, NoTimingCode::NoGpu), "no GPU here");
    assert_eq!(missing(None, NoTimingCode::Failed), "not timed: the worker ended");
    assert_eq!(
        missing(Some(subject()), NoTimingCode::Failed),
        "not timed softmax f16 4096×4096: the worker ended"
    );
}

#[test]
fn the_long_text() {
    let mut compiled = product();
    compiled.baseline = Some("torch.compile".to_owned());
    compiled.baseline_latency = None;
    compiled.speedup = None;
    compiled.baseline_failed = Some("the compiler | raised".to_owned());
    let mut small = timing();
    small.subject.shape = "8×8".to_owned();
    small.method = TimingMethod::Graph;
    small.latency.cold_us = estimate(2.304, 0.004);
    small.roofline = None;
    small.is_host_bound = true;
    small.graph_refused = "it calls the host".to_owned();
    small.conditions = vec!["Another process used the GPU meanwhile.".to_owned()];
    small.changes = vec![Change { against: Against::LastSave, ratio: 1.12, low: 1.10, high: 1.14 }];
    let missing = NoTiming::new(Some(subject()), NoTimingCode::ClaimRefused, "its clock was wrong");
    insta::assert_snapshot!(long(&[product(), compiled, small], &[missing]));
    assert_eq!(long(&[], &[]), "");
}

#[test]
fn times_have_three_figures_and_a_fitting_unit() {
    let shown: Vec<String> = [0.0123, 0.9996, 1.0, 2.304, 41.25, 412.4, 999.4, 999.6, 3071.0, 2.5e6, 1.2e9]
        .into_iter()
        .map(time)
        .collect();
    assert_eq!(
        shown,
        [
            "12.3 ns", "1.00 µs", "1.00 µs", "2.30 µs", "41.2 µs", "412 µs", "999 µs", "1.00 ms", "3.07 ms",
            "2.50 s", "1200 s"
        ]
    );
    assert_eq!(time_with_error(&estimate(412.0, 0.3)), "412 ± 0.3 µs");
    assert_eq!(time_with_error(&estimate(2.304, 0.012)), "2.30 ± 0.01 µs");
    assert_eq!(time_with_error(&Estimate::exact(5.0)), "5.00 ± 0.00 µs");
}

#[test]
fn an_interval_that_holds_one_is_no_speedup() {
    for (low, high, claims) in [(0.99, 1.02, false), (1.0, 1.02, false), (1.001, 1.02, true)] {
        let mut timing = timing();
        if let Some(speedup) = &mut timing.speedup {
            speedup.cold = Estimate { median: f64::midpoint(low, high), low, high };
        }
        assert_eq!(!title(&timing).starts_with('≈'), claims, "{low}–{high}");
    }
}
