use super::*;
use crate::judge::timing::samples::subject;

fn series(us: f64) -> Series {
    let around = |us: f64| (0..30).map(|at| us * (1.0 + 0.001 * f64::from(at % 7 - 3))).collect();
    Series {
        cold_us: around(us),
        warm_us: around(us * 0.8),
        empty_us: 1.0,
        host_us: 20.0,
        launches: 3,
        claimed_us: us,
        wall_us: us * 1.01,
        ..Series::default()
    }
}

/// The kernel takes 400 µs, torch 800 and a copy 360.
fn measured() -> Measured {
    Measured {
        subject: subject(),
        sides: TimedSides {
            candidate: series(400.0),
            baseline: Some(series(800.0)),
            baseline_failed: None,
            pool_entries: 4,
            pool_bytes: 1 << 28,
            flush_bytes: 1 << 27,
            outputs: serde_json::Value::Null,
        },
        baseline: Some("torch".to_owned()),
        is_passed: true,
        timed_call_wrong: None,
        limits: Limits {
            copy_us: Some(Estimate::exact(360.0)),
            read_us: Some(Estimate::exact(350.0)),
            matrix: Some(MatrixPeak { kind: "float16".to_owned(), flops_per_s: 700e12 }),
        },
        work: Work { bytes: Some(1_000_000_000), flops: Some(5_000_000_000) },
        gpu: Gpu { name: "NVIDIA H200".to_owned(), uuid: "GPU-1".to_owned() },
        versions: Versions::default(),
        disturbed_by: None,
        conditions: Vec::new(),
        taken_at_s: 1,
        source_hash: String::new(),
        code_hash: "c0de".to_owned(),
        commit: None,
        seed: 7,
    }
}

#[track_caller]
fn code_of(change: impl FnOnce(&mut Measured)) -> NoTimingCode {
    let mut measured = measured();
    change(&mut measured);
    let refused = assess(measured).expect_err("refused");
    assert_eq!(refused.subject.as_deref(), Some(&subject()));
    assert!(!refused.why.is_empty());
    refused.code
}

#[track_caller]
fn published(change: impl FnOnce(&mut Measured)) -> Timing {
    let mut measured = measured();
    change(&mut measured);
    assess(measured).expect("published")
}

#[test]
fn a_good_time_is_published_with_all_that_it_needs() {
    let timing = published(|_| {});
    assert_eq!(timing.baseline.as_deref(), Some("torch"));
    assert_eq!(timing.n, 30);
    let speedup = timing.speedup.expect("a baseline was timed");
    assert_eq!(speedup.cold, Estimate::exact(2.0), "each pair drifts alike");
    assert_eq!(speedup.warm.map(|warm| warm.median), Some(2.0));
    assert!((timing.latency.cold_us.median - 400.0).abs() < 1.0);
    assert!((timing.claim_error - 0.01 / 1.01).abs() < 1e-9);
    assert!((timing.share_of_copy.expect("a copy").median - 0.9).abs() < 0.01);
    let roofline = timing.roofline.expect("all is known");
    assert_eq!((roofline.bound, roofline.limit.as_str()), (Bound::Memory, "a copy of these bytes"));
    assert_eq!(roofline.intensity, 5.0);
    assert!((roofline.ridge - 700e12 * 360e-6 / 1e9).abs() < 1e-9);
}

#[test]
fn products_are_held_against_the_matrix_rate() {
    // 280 GFLOP at 700 TFLOP/s is 400 µs: as fast as is possible.
    let timing = published(|measured| measured.work.flops = Some(280_000_000_000));
    let roofline = timing.roofline.expect("all is known");
    assert_eq!((roofline.bound, roofline.limit.as_str()), (Bound::Compute, "the float16 peak"));
    assert!(roofline.share.contains(1.0));
    // Rested, a card is faster than when its peak was measured.
    published(|measured| measured.work.flops = Some(350_000_000_000));
    let too_much = |measured: &mut Measured| measured.work.flops = Some(370_000_000_000);
    assert_eq!(code_of(too_much), NoTimingCode::FasterThanPossible);
}

#[test]
fn what_is_not_right_has_no_time() {
    assert_eq!(code_of(|measured| measured.is_passed = false), NoTimingCode::NotPassed);
    let wrong = |measured: &mut Measured| measured.timed_call_wrong = Some("3 elements".to_owned());
    assert_eq!(code_of(wrong), NoTimingCode::TimedCallWrong);
}

#[test]
fn samples_must_be_times_and_enough() {
    for sample in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(code_of(|m| m.sides.candidate.cold_us[3] = sample), NoTimingCode::BadSamples);
        assert_eq!(code_of(|m| m.sides.candidate.warm_us[3] = sample), NoTimingCode::BadSamples);
        let of_baseline = |m: &mut Measured| {
            if let Some(baseline) = &mut m.sides.baseline {
                baseline.cold_us[3] = sample;
            }
        };
        assert_eq!(code_of(of_baseline), NoTimingCode::BadSamples);
    }
    let cut = |count| move |m: &mut Measured| m.sides.candidate.cold_us.truncate(count);
    assert_eq!(code_of(cut(LEAST_SAMPLES - 1)), NoTimingCode::TooFewSamples);
    assert_eq!(published(cut(LEAST_SAMPLES)).n, LEAST_SAMPLES, "of the baseline only the pairs count");
    let timing = published(|m| m.sides.candidate.warm_us.truncate(2));
    assert_eq!((timing.latency.warm_us, timing.speedup.and_then(|speedup| speedup.warm)), (None, None));
}

#[test]
fn claims_are_held_against_the_clock_on_both_sides() {
    let claim = |factor: f64| {
        move |m: &mut Measured| m.sides.candidate.claimed_us = m.sides.candidate.wall_us * factor
    };
    for factor in [0.94, 1.06, 0.0, f64::NAN] {
        assert_eq!(code_of(claim(factor)), NoTimingCode::ClaimRefused, "{factor}");
    }
    published(claim(0.96));
    published(claim(1.04));
    assert_eq!(code_of(|m| m.sides.candidate.wall_us = 0.0), NoTimingCode::ClaimRefused);
    let of_baseline = |m: &mut Measured| {
        if let Some(baseline) = &mut m.sides.baseline {
            baseline.claimed_us *= 2.0;
        }
    };
    assert_eq!(code_of(of_baseline), NoTimingCode::ClaimRefused);
}

#[test]
fn nothing_is_faster_than_reading_its_bytes() {
    let bytes_in = |copy: f64, read: Option<f64>| {
        move |m: &mut Measured| {
            m.limits.copy_us = Some(Estimate::exact(copy));
            m.limits.read_us = read.map(Estimate::exact);
        }
    };
    assert_eq!(code_of(bytes_in(440.0, None)), NoTimingCode::FasterThanPossible);
    published(bytes_in(425.0, None));
    // A sum that hardly writes may be faster than a copy, and not faster than reading.
    published(bytes_in(440.0, Some(410.0)));
    let wide = Estimate { median: 440.0, low: 400.0, high: 450.0 };
    published(|m| (m.limits.copy_us, m.limits.read_us) = (Some(wide), None));
    let unknown = published(|m| m.limits = Limits::default());
    assert_eq!((unknown.share_of_copy, unknown.roofline), (None, None));
    for no_time in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
        let unknown = published(bytes_in(no_time, None));
        assert_eq!((unknown.share_of_copy, unknown.roofline), (None, None), "{no_time}");
    }
    // Of a small copy most is launch: who is quicker need not have left anything out.
    let small = |m: &mut Measured| {
        (m.sides.candidate, m.sides.baseline) = (series(3.0), None);
        m.limits.copy_us = Some(Estimate::exact(9.0));
        m.work.flops = Some(1_000_000);
    };
    published(small);
}

#[test]
fn without_a_baseline_there_is_a_latency_and_no_speedup() {
    let failed = published(|m| m.sides.baseline_failed = Some("torch raised".to_owned()));
    assert_eq!(failed.speedup, None);
    assert_eq!(failed.baseline_failed.as_deref(), Some("torch raised"));
    let missing = published(|m| m.sides.baseline = None);
    assert_eq!((missing.speedup, missing.baseline_failed.is_some()), (None, true));
    let unnamed = published(|m| {
        (m.sides.baseline, m.baseline) = (None, None);
        m.sides.baseline_failed = Some("torch.compile: it raised".to_owned());
    });
    assert_eq!(unnamed.baseline_failed.as_deref(), Some("torch.compile: it raised"));
    let alone = published(|m| (m.sides.baseline, m.baseline) = (None, None));
    assert_eq!((alone.baseline, alone.baseline_failed, alone.n), (None, None, 30));
}

#[test]
fn a_disturbed_time_is_published_and_says_so() {
    let sentence = "another process used the GPU meanwhile".to_owned();
    let timing = published(|m| {
        m.disturbed_by = Some(sentence.clone());
        m.conditions = vec!["the clock was lowered for heat".to_owned()];
    });
    assert!(timing.is_disturbed);
    assert_eq!(timing.conditions.len(), 2);
    assert_eq!(timing.conditions.first(), Some(&sentence));
}

#[test]
fn a_timing_survives_its_record() {
    let timing = published(|_| {});
    let written = crate::judge::timing::timing_json(&timing);
    assert_eq!(written["definition"], "softmax");
    assert_eq!(serde_json::from_value::<Timing>(written).expect("reads its own record"), timing);
}

/// The clock of the judge measures one batch only; samples that say something else are no times.
#[test]
fn samples_are_held_against_the_batch_that_the_clock_measured() {
    fn short(times: &mut [f64], factor: f64) {
        times.iter_mut().for_each(|time| *time *= factor);
    }
    assert_eq!(code_of(|m| short(&mut m.sides.candidate.cold_us, 0.5)), NoTimingCode::ClaimRefused);
    assert_eq!(code_of(|m| short(&mut m.sides.candidate.warm_us, 0.5)), NoTimingCode::ClaimRefused);
    let of_baseline = |m: &mut Measured| {
        if let Some(baseline) = &mut m.sides.baseline {
            short(&mut baseline.cold_us, 0.5);
        }
    };
    assert_eq!(code_of(of_baseline), NoTimingCode::ClaimRefused);
    // After a pause a card is quicker than at its limit of power.
    published(|m| short(&mut m.sides.candidate.cold_us, 0.95));
    // Where the host sets the pace, the batch says nothing of the GPU.
    published(|m| {
        m.limits = Limits::default();
        m.sides.candidate.host_us = m.sides.candidate.wall_us;
        short(&mut m.sides.candidate.cold_us, 0.5);
    });
}

/// Work on a stream that nobody waits for: the host sets the pace of the batch, and the events enclose nothing.
#[test]
fn a_call_that_takes_what_nothing_takes_has_no_time() {
    let unseen = |cold: f64| {
        move |m: &mut Measured| {
            m.limits = Limits::default();
            m.sides.candidate = series(cold);
            (m.sides.candidate.claimed_us, m.sides.candidate.wall_us) = (12.0, 12.0);
        }
    };
    assert_eq!(code_of(unseen(1.1)), NoTimingCode::FasterThanPossible);
    published(unseen(2.2));
}

#[test]
fn what_events_take_is_no_part_of_a_speedup_over_a_graph() {
    let timing = published(|m| {
        m.limits = Limits::default();
        m.sides.candidate = Series { method: TimingMethod::Graph, ..series(10.0) };
        m.sides.baseline = Some(series(21.0));
    });
    let speedup = timing.speedup.expect("a baseline was timed");
    assert!((speedup.cold.median - 2.0).abs() < 0.01, "{speedup:?}");
    assert!(timing.conditions.is_empty());
    let waiting = published(|m| {
        m.sides.baseline = Some(Series { is_host_bound: true, ..series(800.0) });
    });
    assert_eq!(waiting.conditions.len(), 1);
    assert!(waiting.conditions[0].contains("waits for the host in torch"), "{:?}", waiting.conditions);
}

/// What was judged launched kernels; a function that does not once nobody looks is torch.
#[test]
fn a_function_that_launches_nothing_while_it_is_timed_has_no_time() {
    assert_eq!(code_of(|measured| measured.sides.candidate.launches = 0), NoTimingCode::TimedCallWrong);
    // The baseline is torch.
    let mut plain = measured();
    plain.sides.baseline.as_mut().expect("two sides").launches = 0;
    assert!(assess(plain).is_ok());
}
