//! From samples to what is published, or to the reason why nothing is.

use super::statistics::{Estimate, median, median_interval, paired_ratio, relative_spread};
use super::{
    Bound, Gpu, Latency, NoTiming, NoTimingCode, Roofline, Speedup, Subject, Timing, Versions, text,
};
use crate::runner::protocol::{Series, TimedSides, TimingMethod};

/// How far the events of the candidate's process may be from the judge's wall clock over the same batch, as a share of
/// the latter. The candidate's process could claim anything; the wall clock it cannot change. Source: `ARCHITECTURE.md`,
/// timing; batches last 20 ms and more, of which clock and wake-up are well below 1 %.
pub const CLAIM_TOLERANCE: f64 = 0.05;
/// With fewer samples no 95 % interval of a median exists: the widest one there is, from the least to the largest of
/// `n`, holds the median with 1 − 2·½ⁿ, which is 94 % for 5 and 88 % for 4.
pub const LEAST_SAMPLES: usize = 5;
/// How much quicker than the batch that was held against the clock a call of a sample may be: the batch runs at the limit
/// of power, where the rate of a product is 1.25 of what it is after a pause (see [`LARGEST_SHARE_OF_PEAK`]). Only that
/// batch has a clock of the judge's, so samples that say something else are worth nothing.
pub const LARGEST_HASTE: f64 = 1.4;
/// What the samples of the shortest calls may be off besides, in µs: they are differences of two graphs.
pub const SAMPLE_SLACK_US: f64 = 1.0;
/// Where the host may take as long as a call of the batch does, the batch took the host's time and says nothing of the
/// GPU's. Hosts differ by as much between a single call and many.
const HOST_MARGIN: f64 = 1.5;
/// A call that takes no more than this beyond two events with nothing in between has done nothing that they enclose:
/// the smallest kernel takes 0.9 µs on an H200.
pub const NOTHING_US: f64 = 0.4;
/// The largest share of a measured bandwidth that is believed, once the interval allows no smaller one. Copies of one
/// size repeat within 2 % on an H200; the rest is room for another clock rate.
pub const LARGEST_SHARE: f64 = 1.05;
/// What a measured copy may take beyond moving its bytes: its launch, and until all of the GPU is busy. On an H200 a
/// copy takes 5 to 8 µs more than its bytes need at the rate of the largest one, at every size from 8 MB to 1 GB, and a
/// better kernel than torch's need not. Below this the bytes forbid nothing.
pub const COPY_OVERHEAD_US: f64 = 10.0;
/// The same of a matrix rate. It is measured while the card is at its limit of power, where a call after a pause is not:
/// data sheets name 989 TFLOP/s for float16 on an H200, of which cuBLAS keeps up 790; 67 and some 52 for float32.
pub const LARGEST_SHARE_OF_PEAK: f64 = 1.3;
/// Warm and cold figures that differ by more than this are both told.
pub const WARM_DIFFERS: f64 = 0.10;

/// What the hardware did in the same run, in plain numbers. `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// Time of a contiguous copy that moves as many bytes as a call (read and written together), taken the same way
    /// (L2 flushed), in µs.
    pub copy_us: Option<Estimate>,
    /// Time of a sum that reads as many bytes, in µs. A kernel that hardly writes may be a little faster than a copy.
    pub read_us: Option<Estimate>,
    /// Of the dtype and precision class that the operation is computed in.
    pub matrix: Option<MatrixPeak>,
}

/// The best rate of a matrix product that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct MatrixPeak {
    /// `float16`, `tf32` …
    pub kind: String,
    /// Floating-point operations in one second.
    pub flops_per_s: f64,
}

/// What a call must do at least, by the Definition. `None` is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    pub bytes: Option<u64>,
    pub flops: Option<u64>,
}

/// All that [`assess`] goes by.
#[derive(Clone, Debug)]
pub struct Measured {
    pub subject: Subject,
    pub sides: TimedSides,
    /// Name of what the baseline side was or was to be; `None` when the candidate was timed alone. Why there is no time of
    /// it stands in [`TimedSides::baseline_failed`].
    pub baseline: Option<String>,
    /// The verdict on the same bytes of source.
    pub is_passed: bool,
    /// What is wrong with the outputs of the timed call that was kept; `None` when they were compared and right.
    pub timed_call_wrong: Option<String>,
    pub limits: Limits,
    pub work: Work,
    pub gpu: Gpu,
    pub versions: Versions,
    /// A sentence when another process used the GPU meanwhile.
    pub disturbed_by: Option<String>,
    /// Other sentences: throttling, a MIG slice, clocks.
    pub conditions: Vec<String>,
    /// Unix time, in seconds.
    pub taken_at_s: u64,
    pub source_hash: String,
    pub code_hash: String,
    pub commit: Option<String>,
    /// Draws the resamples.
    pub seed: u64,
}

/// Decides what is published of what was measured.
pub fn assess(measured: Measured) -> Result<Timing, NoTiming> {
    decide(&measured).map_err(|(code, why)| NoTiming::new(Some(measured.subject), code, why))
}

type Refusal = (NoTimingCode, String);

fn decide(measured: &Measured) -> Result<Timing, Refusal> {
    allow_at_all(measured)?;
    let candidate = &measured.sides.candidate;
    check_series("the kernel", candidate)?;
    let (compared, baseline_failed) = match baseline(measured)? {
        Baseline::NotAsked => (None, None),
        Baseline::Failed(why) => (None, Some(why)),
        Baseline::Timed(compared) => (Some(compared), None),
    };
    let latency = latency("the kernel", candidate, measured.seed)?;
    believable(measured, &latency.cold_us)?;
    let mut conditions: Vec<String> = measured.disturbed_by.iter().cloned().collect();
    conditions.extend_from_slice(&measured.conditions);
    conditions.extend(compared.as_ref().and_then(|_| host_in_baseline(measured)));
    Ok(Timing {
        subject: measured.subject.clone(),
        baseline: measured.baseline.clone(),
        baseline_failed,
        n: compared.as_ref().map_or(candidate.cold_us.len(), |compared| compared.pairs),
        latency,
        baseline_latency: compared.as_ref().map(|compared| compared.latency),
        speedup: compared.as_ref().map(|compared| compared.speedup),
        method: candidate.method,
        host_us: candidate.host_us,
        is_host_bound: candidate.is_host_bound,
        graph_refused: candidate.graph_refused.clone(),
        claim_error: claim_error(candidate),
        spread: relative_spread(&candidate.cold_us).unwrap_or_default(),
        gpu: measured.gpu.clone(),
        versions: measured.versions.clone(),
        is_disturbed: measured.disturbed_by.is_some(),
        conditions,
        bytes: measured.work.bytes,
        flops: measured.work.flops,
        share_of_copy: known(measured.limits.copy_us).map(|copy| share(&copy, &latency.cold_us)),
        roofline: roofline(&measured.limits, measured.work, &latency.cold_us),
        taken_at_s: measured.taken_at_s,
        source_hash: measured.source_hash.clone(),
        code_hash: measured.code_hash.clone(),
        commit: measured.commit.clone(),
        changes: Vec::new(),
    })
}

/// What came of the baseline.
enum Baseline {
    /// None was asked for.
    NotAsked,
    Failed(String),
    Timed(Compared),
}

struct Compared {
    pairs: usize,
    latency: Latency,
    speedup: Speedup,
}

fn baseline(measured: &Measured) -> Result<Baseline, Refusal> {
    if let Some(why) = &measured.sides.baseline_failed {
        return Ok(Baseline::Failed(why.clone()));
    }
    let Some(name) = &measured.baseline else { return Ok(Baseline::NotAsked) };
    let Some(series) = &measured.sides.baseline else {
        return Ok(Baseline::Failed(format!("no time of {name} came back")));
    };
    check_series(name, series)?;
    let candidate = &measured.sides.candidate;
    let pairs = candidate.cold_us.len().min(series.cold_us.len());
    let latency = latency(name, series, measured.seed)?;
    let speedup = speedup(series, candidate, pairs, measured.seed).ok_or_else(|| bad(name))?;
    Ok(Baseline::Timed(Compared { pairs, latency, speedup }))
}

/// A baseline whose launches the GPU waits for is compared all the same, and that must stand beside the speedup.
fn host_in_baseline(measured: &Measured) -> Option<String> {
    let (name, series) = (measured.baseline.as_ref()?, measured.sides.baseline.as_ref()?);
    let waits = series.is_host_bound && series.method == TimingMethod::Events;
    waits.then(|| format!("the GPU waits for the host in {name}, which cannot be replayed as a CUDA graph"))
}

/// Nothing is published of what is not right.
fn allow_at_all(measured: &Measured) -> Result<(), Refusal> {
    if let Some(why) = &measured.timed_call_wrong {
        let why = format!("the outputs of a timed call are not right: {why}");
        return Err((NoTimingCode::TimedCallWrong, why));
    }
    // It was judged with its launches seen; a function may behave otherwise when they are not.
    if measured.sides.candidate.launches == 0 {
        let why = "it launched no Triton kernel while it was timed, so no kernel was timed".to_owned();
        return Err((NoTimingCode::TimedCallWrong, why));
    }
    if !measured.is_passed {
        let why = "no time is published without a passed verdict on the same source".to_owned();
        return Err((NoTimingCode::NotPassed, why));
    }
    Ok(())
}

fn bad(side: &str) -> Refusal {
    (NoTimingCode::BadSamples, format!("a sample of {side} is no time"))
}

fn enough(side: &str, count: usize) -> Result<(), Refusal> {
    if count >= LEAST_SAMPLES {
        return Ok(());
    }
    let why = format!("{count} samples of {side} say nothing; {LEAST_SAMPLES} are needed");
    Err((NoTimingCode::TooFewSamples, why))
}

fn check_series(side: &str, series: &Series) -> Result<(), Refusal> {
    let is_time = |time: &f64| time.is_finite() && *time > 0.0;
    if let Some(sample) = series.cold_us.iter().chain(&series.warm_us).find(|time| !is_time(time)) {
        return Err((
            NoTimingCode::BadSamples,
            format!("a sample of {side} is {sample} µs, which is no time"),
        ));
    }
    enough(side, series.cold_us.len())?;
    let error = claim_error(series);
    if error.is_nan() || error > CLAIM_TOLERANCE {
        let why = format!(
            "the process of {side} recorded {:.2} µs a call where the judge's clock says {:.2}; more than {:.0} % \
             apart, no figure of it is believed",
            series.claimed_us,
            series.wall_us,
            CLAIM_TOLERANCE * 100.0
        );
        return Err((NoTimingCode::ClaimRefused, why));
    }
    let is_paced = series.method == TimingMethod::Events && series.host_us * HOST_MARGIN >= series.wall_us;
    for (samples, which) in [(&series.cold_us, "cold"), (&series.warm_us, "warm")] {
        let Some(sample) = median(samples).filter(|_| !is_paced) else { continue };
        if sample * LARGEST_HASTE + SAMPLE_SLACK_US < series.wall_us {
            let why = format!(
                "{which} samples of {side} take {sample:.2} µs, while a call of the batch that the judge's own clock \
                 measured takes {:.2}: no figure of it is believed",
                series.wall_us
            );
            return Err((NoTimingCode::ClaimRefused, why));
        }
    }
    Ok(())
}

/// NaN when there is no clock to hold the claim against.
fn claim_error(series: &Series) -> f64 {
    if !(series.wall_us > 0.0 && series.claimed_us > 0.0) {
        return f64::NAN;
    }
    (series.claimed_us - series.wall_us).abs() / series.wall_us
}

fn latency(side: &str, series: &Series, seed: u64) -> Result<Latency, Refusal> {
    let warm_us = Some(&series.warm_us).filter(|warm| warm.len() >= LEAST_SAMPLES);
    Ok(Latency {
        cold_us: median_interval(&series.cold_us, seed).ok_or_else(|| bad(side))?,
        warm_us: warm_us.and_then(|warm| median_interval(warm, seed)),
    })
}

fn speedup(baseline: &Series, candidate: &Series, pairs: usize, seed: u64) -> Option<Speedup> {
    let warm = baseline.warm_us.len().min(candidate.warm_us.len());
    let is_alike = baseline.method == candidate.method;
    // What events take themselves is in a sample by events and in none by a graph.
    let bare = |series: &Series| -> Vec<f64> {
        let events_us = if is_alike || series.method == TimingMethod::Graph { 0.0 } else { series.empty_us };
        series.cold_us[..pairs].iter().map(|cold| cold - events_us.min(cold / 2.0)).collect()
    };
    Some(Speedup {
        cold: paired_ratio(&bare(baseline), &bare(candidate), seed)?,
        warm: (warm >= LEAST_SAMPLES)
            .then(|| paired_ratio(&baseline.warm_us[..warm], &candidate.warm_us[..warm], seed))
            .flatten(),
    })
}

/// `limit` over `time`, from the least to the most that both intervals allow.
fn share(limit: &Estimate, time: &Estimate) -> Estimate {
    Estimate { median: limit.median / time.median, low: limit.low / time.high, high: limit.high / time.low }
}

/// Time that the matrix rate allows for this work, in µs.
fn matrix_us(limits: &Limits, work: Work) -> Option<(&MatrixPeak, f64)> {
    let peak = known_peak(limits)?;
    let flops = work.flops.filter(|flops| *flops > 0)?;
    Some((peak, flops as f64 / peak.flops_per_s * 1e6))
}

/// A time that the hardware cannot reach means work that was not done, whatever the outputs look like.
fn believable(measured: &Measured, time: &Estimate) -> Result<(), Refusal> {
    let candidate = &measured.sides.candidate;
    if candidate.method == TimingMethod::Events && time.median < candidate.empty_us + NOTHING_US {
        let why = format!(
            "a call took {}, which is what nothing takes: its work is not on the stream that was timed, or there is none",
            text::time(time.median)
        );
        return Err((NoTimingCode::FasterThanPossible, why));
    }
    let limits = &measured.limits;
    let moving = [known(limits.copy_us), known(limits.read_us)].into_iter().flatten();
    let moving = moving.min_by(|one, other| one.median.total_cmp(&other.median)).map(|fastest| {
        let least = |us: f64| (us - COPY_OVERHEAD_US).max(0.0);
        let (median, low, high) = (least(fastest.median), least(fastest.low), least(fastest.high));
        (Estimate { median, low, high }, LARGEST_SHARE, "moving these bytes".to_owned())
    });
    let product = matrix_us(limits, measured.work).map(|(peak, us)| {
        (Estimate::exact(us), LARGEST_SHARE_OF_PEAK, format!("this work at the {} peak", peak.kind))
    });
    for (limit, largest, what) in moving.into_iter().chain(product) {
        if share(&limit, time).low > largest {
            let why = format!(
                "a call took {}, while {what}, as measured on this GPU, takes {} at least: the work cannot have been \
                 done",
                text::time(time.median),
                text::time(limit.median)
            );
            return Err((NoTimingCode::FasterThanPossible, why));
        }
    }
    Ok(())
}

/// A limit that is a time.
fn known(limit: Option<Estimate>) -> Option<Estimate> {
    limit
        .filter(|limit| limit.low > 0.0 && limit.low <= limit.median && limit.median <= limit.high)
        .filter(|limit| limit.high.is_finite())
}

fn known_peak(limits: &Limits) -> Option<&MatrixPeak> {
    limits.matrix.as_ref().filter(|peak| peak.flops_per_s.is_finite() && peak.flops_per_s > 0.0)
}

/// `None` unless bytes, operations, a copy and a matrix rate are known.
fn roofline(limits: &Limits, work: Work, time: &Estimate) -> Option<Roofline> {
    let copy_us = known(limits.copy_us)?;
    let bytes = work.bytes.filter(|bytes| *bytes > 0)? as f64;
    let flops = work.flops? as f64;
    let peak = known_peak(limits)?;
    let matrix_us = flops / peak.flops_per_s * 1e6;
    let (bound, limit, limit_us) = if matrix_us > copy_us.median {
        (Bound::Compute, format!("the {} peak", peak.kind), Estimate::exact(matrix_us))
    } else {
        (Bound::Memory, "a copy of these bytes".to_owned(), copy_us)
    };
    Some(Roofline {
        intensity: flops / bytes,
        ridge: peak.flops_per_s * copy_us.median * 1e-6 / bytes,
        bound,
        limit,
        limit_us: limit_us.median,
        share: share(&limit_us, time),
    })
}

/// Whether two medians are so far apart that both are told.
pub(super) fn differ(cold: f64, warm: f64) -> bool {
    (cold - warm).abs() > WARM_DIFFERS * cold
}

impl Timing {
    /// The calls were so short that a graph replayed them.
    pub fn is_of_graph(&self) -> bool {
        self.method == TimingMethod::Graph
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
mod tests;
