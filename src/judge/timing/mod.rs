//! What a measured time means, how it is said, and what it was before. Measuring itself belongs to the worker.
//!
//! # How to use it
//!
//! ```text
//! let measured = Measured {
//!     subject: Subject::new(entry, &definition, &axes, dtype),
//!     sides,                              // `TimedSides`, as the worker answered
//!     baseline: Some("torch".into()),     // or `torch.compile`, `HEAD a1b2c3d`; None: the candidate alone
//!     is_passed, timed_call_wrong,        // the verdict on these bytes; what the outputs of the timed call were
//!     limits, work, gpu, versions,        // plain numbers, see their types
//!     disturbed_by, conditions,           // sentences
//!     taken_at_s, source_hash, code_hash, commit, seed,
//! };
//! match assess(measured) {
//!     Ok(timing) => report.timings.push(timing),
//!     Err(no_timing) => report.not_timed.push(no_timing),   // or NoTiming::new(Some(subject), NoTimingCode::NoGpu, "…")
//! }
//! ```
//!
//! - [`assess`]`(Measured) -> Result<Timing, NoTiming>`: pure; every threshold is a constant of [`outcome`].
//! - [`Timing`] is what is published of one function, Definition, axes, dtype and baseline; [`NoTiming`] says why
//!   nothing is. Timings of one subject against several baselines are several [`Timing`]s.
//! - [`text::title`]`(&Timing) -> String`, [`text::hint`]`(&Timing) -> String`, [`text::line`]`(&Timing) -> String`,
//!   [`text::long`]`(&[Timing], &[NoTiming]) -> String` (Markdown), [`timing_json`]`(&Timing) -> Value`,
//!   [`not_timed_json`]`(&NoTiming) -> Value`.
//! - [`statistics`]: `median`, `median_interval(values, seed)`, `paired_ratio(baseline, candidate, seed)`,
//!   `independent_ratio(&Estimate, &Estimate)`, `relative_spread`.
//! - [`Change::between`]`(earlier: &Timing, now: &Timing, Against) -> Option<Change>`: only where the two can be
//!   compared and the change is sure.
//! - [`TimingHistory`]`::new(store)`, over the one store of a process; then, of each published time,
//!   `history.settle(file, &mut timing, head_hash: Option<&str>).await` fills `timing.changes` and keeps the time;
//!   `history.recent(file, n).await -> Vec<Timing>`; `history.complaint()`.
//!
//! A report shows its times only when it passed and `source_hash` is that of its provenance
//! ([`crate::judge::Report::published`]); set both.
//!
//! A speedup is published only with a named baseline, shape, dtype, GPU, number of pairs, interval, and a passed
//! verdict on the same bytes of source. Cold figures are the main ones: L2 was flushed before each call.

mod change;
mod history;
pub mod outcome;
#[cfg(test)]
pub(crate) mod samples;
pub mod statistics;
pub mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::spec::{Definition, Dtype};

pub use crate::runner::protocol::TimingMethod;
pub use change::{Against, Change};
pub use history::TimingHistory;
pub use outcome::{Limits, MatrixPeak, Measured, Work, assess};
pub use statistics::Estimate;

/// What was timed: one function on one shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Subject {
    /// The function that was called.
    pub entry: String,
    /// The Definition's name.
    pub definition: String,
    /// Values of the Definition's variable axes, by name.
    pub axes: BTreeMap<String, u64>,
    pub dtype: Option<Dtype>,
    /// The axes as people read them: `4096×4096`, or `M=4096 N=4096 K=512` where one tensor does not have them all.
    pub shape: String,
}

/// Median times of one side, in µs a call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// L2 flushed before each call.
    pub cold_us: Estimate,
    /// A call right after another; `None` when too few were taken.
    pub warm_us: Option<Estimate>,
}

/// How many times faster than the baseline: medians of paired ratios, above 1 is faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    pub cold: Estimate,
    /// `None` when too few warm pairs were taken.
    pub warm: Option<Estimate>,
}

/// The GPU that a time was taken on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// `NVIDIA H200`.
    pub name: String,
    /// `GPU-…` or `MIG-…`; empty when nobody tells it, and then no two times are compared.
    pub uuid: String,
}

/// Versions that a time depends on; `None` is unknown, and then no two times are compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    /// The display driver: `580.82.07`.
    pub driver: Option<String>,
    /// CUDA that torch was built for: `13.0`.
    pub cuda: Option<String>,
    pub torch: Option<String>,
    pub triton: Option<String>,
}

/// What holds a time down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    Memory,
    Compute,
}

/// A time held against what the hardware was measured to do in the same run.
///
/// Source of the model: Williams, Waterman, Patterson, "Roofline", CACM 52 (4), 2009; here the memory side is a copy of
/// as many bytes and not the largest bandwidth, which small tensors never reach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    /// Floating-point operations for each byte moved.
    pub intensity: f64,
    /// Intensity above which the matrix rate is the limit, at these bytes.
    pub ridge: f64,
    pub bound: Bound,
    /// What the limit is, as it completes "71 % of": `a copy of these bytes`, `the float16 peak`.
    pub limit: String,
    /// Time that the limit allows, in µs.
    pub limit_us: f64,
    /// `limit_us` over the measured time.
    pub share: Estimate,
}

/// One published time. See the module's documentation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    #[serde(flatten)]
    pub subject: Subject,
    /// `torch`, `torch.compile`, `HEAD a1b2c3d`; `None` when nothing else was timed.
    pub baseline: Option<String>,
    /// Why a baseline that was asked for has no time.
    pub baseline_failed: Option<String>,
    /// Paired cold samples, or samples of the candidate when it was timed alone.
    pub n: usize,
    pub latency: Latency,
    pub baseline_latency: Option<Latency>,
    pub speedup: Option<Speedup>,
    pub method: TimingMethod,
    /// Time until a call returns on the host, in µs.
    pub host_us: f64,
    pub is_host_bound: bool,
    /// Why short calls are not replayed as a CUDA graph; empty otherwise.
    pub graph_refused: String,
    /// How far what the candidate's process recorded is from the judge's clock, as a share of the latter.
    pub claim_error: f64,
    /// Distance of the quartiles of the cold samples over their median.
    pub spread: f64,
    pub gpu: Gpu,
    pub versions: Versions,
    /// Something else used the GPU meanwhile.
    pub is_disturbed: bool,
    /// Whole sentences: what a reader must know of how the GPU was.
    pub conditions: Vec<String>,
    /// Bytes that a call must move at least; `None` when the Definition does not tell.
    pub bytes: Option<u64>,
    /// Floating-point operations of a call; `None` when the Definition does not tell.
    pub flops: Option<u64>,
    /// Time of a copy of as many bytes, over the time of a call; 1 is as fast as a copy.
    pub share_of_copy: Option<Estimate>,
    pub roofline: Option<Roofline>,
    /// Unix time, in seconds.
    pub taken_at_s: u64,
    /// blake3 of the text that passed and was timed, as [`crate::judge::Provenance::source_hash`] has it. A report shows
    /// no time of another text.
    pub source_hash: String,
    /// [`crate::source::code_hash`] of the same text, in hexadecimal: what the history goes by.
    pub code_hash: String,
    /// The commit whose version this is, if it is that of a commit.
    pub commit: Option<String>,
    /// Sure changes against earlier versions.
    #[serde(default)]
    pub changes: Vec<Change>,
}

/// A time that is not published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoTiming {
    /// `None` when nothing of the file was timed.
    pub subject: Option<Box<Subject>>,
    pub code: NoTimingCode,
    /// One or two sentences.
    pub why: String,
}

/// Why a time is not published. Stable names: they stand in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoTimingCode {
    /// The candidate's clock and the judge's differ too much.
    ClaimRefused,
    TooFewSamples,
    /// A sample is not a positive number.
    BadSamples,
    /// The work cannot have been done in this time.
    FasterThanPossible,
    /// The outputs of a timed call are not right.
    TimedCallWrong,
    /// The verdict on these bytes of source is not `passed`.
    NotPassed,
    /// There is no GPU here.
    NoGpu,
    /// Another process has the GPU.
    GpuBusy,
    /// The worker could not measure.
    Failed,
}

impl NoTimingCode {
    pub const ALL: [Self; 9] = [
        Self::ClaimRefused,
        Self::TooFewSamples,
        Self::BadSamples,
        Self::FasterThanPossible,
        Self::TimedCallWrong,
        Self::NotPassed,
        Self::NoGpu,
        Self::GpuBusy,
        Self::Failed,
    ];

    /// The name in records: `claim-refused`.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::String(name)) => name,
            _ => format!("{self:?}"),
        }
    }
}

impl NoTiming {
    pub fn new(subject: Option<Subject>, code: NoTimingCode, why: impl Into<String>) -> Self {
        Self { subject: subject.map(Box::new), code, why: why.into() }
    }
}

impl Subject {
    /// `axes` are the values of the Definition's variable axes.
    pub fn new(entry: &str, definition: &Definition, axes: &BTreeMap<String, u64>, dtype: Dtype) -> Self {
        Self {
            entry: entry.to_owned(),
            definition: definition.name.clone(),
            axes: axes.clone(),
            dtype: Some(dtype),
            shape: shape_of(definition, axes),
        }
    }

    /// `f16 4096×4096`.
    pub fn label(&self) -> String {
        let dtype = self.dtype.map_or("", Dtype::short);
        let parts = [dtype, self.shape.as_str()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// The lengths of the first input that has every variable axis: a shape as torch prints it says all of the case then.
fn shape_of(definition: &Definition, axes: &BTreeMap<String, u64>) -> String {
    let values = definition.all_axes(axes);
    let variable = definition.var_axes();
    let lengths = definition.inputs.iter().find_map(|(_, input)| {
        let names = input.shape.as_ref()?;
        let has_all = variable.iter().all(|axis| names.iter().any(|name| name == axis));
        let lengths = names.iter().map(|name| values.get(name).map(u64::to_string));
        (has_all && !names.is_empty()).then(|| lengths.collect::<Option<Vec<String>>>()).flatten()
    });
    let named = |name: &&str| Some(format!("{name}={}", axes.get(*name)?));
    lengths.map_or_else(
        || variable.iter().filter_map(named).collect::<Vec<_>>().join(" "),
        |lengths| lengths.join("×"),
    )
}

/// The value of a record's `timing` and of one entry of a summary's `timings`. Never fails: what is not finite was
/// refused before.
pub fn timing_json(timing: &Timing) -> Value {
    serde_json::to_value(timing).unwrap_or(Value::Null)
}

/// One entry of a summary's `not_timed`.
pub fn not_timed_json(missing: &NoTiming) -> Value {
    serde_json::to_value(missing).unwrap_or(Value::Null)
}
