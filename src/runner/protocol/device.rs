//! What is asked of a worker on a GPU: its state, its ceilings, the time of a Solution. Measurements, no verdict.
//!
//! A device record on [`Event::Warm`](super::Event::Warm) says that the worker runs on a GPU. The other requests are
//! the same there; what differs in them is told where it differs.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Argument, CaseId, RunnerId};

/// The GPU that a worker was started on, once it is warm.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct WarmDevice {
    /// As torch numbers it: `cuda:0`.
    pub device: String,
    /// `NVIDIA H200`.
    pub name: String,
    /// `GPU-…` or `MIG-…`, as NVML writes it; empty when torch does not tell.
    pub uuid: String,
    /// Compute capability, major and minor.
    pub capability: [u32; 2],
    /// CUDA version that torch was built for: `13.0`.
    pub torch_cuda: String,
    /// How tensors cross between the judge and a candidate.
    pub transport: Transport,
    /// Why it is not the better one; empty when it is.
    #[serde(default)]
    pub transport_reason: String,
    /// From the fork of the judge to its open context, in milliseconds.
    pub judge_start_ms: f64,
}

/// How tensors cross between processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// One allocation of the judge, opened in the candidate by CUDA IPC.
    #[default]
    Ipc,
    /// Memory files on the host, copied to and from the GPU outside of what is judged.
    Host,
}

/// Answer to [`Request::DeviceState`](super::Request::DeviceState).
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct DeviceState {
    pub free_bytes: u64,
    pub total_bytes: u64,
}

/// Asks for the ceilings of the GPU, measured by the judge while nothing of the user's runs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MeasureCeilings {
    /// Wall clock for all of it, in seconds; what does not fit is left out.
    pub wall_s: f64,
    /// Only a copy and a read that move this many bytes; `None` measures everything.
    pub bytes: Option<u64>,
}

/// Answer to [`Request::Ceilings`](super::Request::Ceilings): medians, each with what it was measured on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCeilings {
    /// A contiguous copy, by bytes moved (read and written together).
    pub copy: Vec<BandwidthPoint>,
    /// A sum over a contiguous tensor, by bytes read.
    pub read: Vec<BandwidthPoint>,
    /// The largest square product that was tried, by dtype.
    pub matrix: Vec<MatrixRate>,
    /// Device time of an empty kernel in a CUDA graph, in µs a launch; `None` when it could not be measured.
    pub launch_floor_us: Option<f64>,
    /// How long measuring took, in seconds.
    pub took_s: f64,
}

/// One size of a bandwidth measurement; L2 was flushed before each call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandwidthPoint {
    /// Bytes that moved.
    pub bytes: u64,
    /// Median time of one call, in µs.
    pub time_us: f64,
}

/// The best rate of a matrix product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixRate {
    /// `float16`, `bfloat16`, `tf32`, `float32`, `float64`.
    pub kind: String,
    /// Floating-point operations in one second.
    pub flops_per_s: f64,
    /// Side of the square product.
    pub side: u64,
}

/// Times a Solution, interleaved with a baseline, on the inputs of a prepared case. Nothing is compiled or tuned
/// inside: each side is called before the first sample until nothing new is compiled.
#[derive(Clone, Debug, Serialize)]
pub struct Time {
    pub case: CaseId,
    pub candidate: Timed,
    /// `None` times the candidate alone.
    pub baseline: Option<Timed>,
    /// Paired samples to take; fewer are taken when `wall_s` does not allow them.
    pub pairs: u32,
    /// Draws the order of each pair and which call's output is kept.
    pub seed: u64,
    /// Wall clock for all of it, in seconds.
    pub wall_s: f64,
}

/// One side of a timing: a runner that has a function loaded, and what to call it with.
#[derive(Clone, Debug, Serialize)]
pub struct Timed {
    pub runner: RunnerId,
    pub arguments: Vec<Argument>,
}

/// Answer to [`Request::Time`](super::Request::Time).
///
/// The outputs of one timed call of the candidate, drawn by the seed, lie in the memory of the case afterwards: they
/// are to be compared like those of a run before anything is published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct TimedSides {
    pub candidate: Series,
    pub baseline: Option<Series>,
    /// Why there is no time of the baseline although one was asked for.
    #[serde(default)]
    pub baseline_failed: Option<String>,
    /// Pool entries that the calls rotated over, and bytes of all of them.
    pub pool_entries: u32,
    pub pool_bytes: u64,
    /// Bytes written and read between cold calls to empty L2.
    pub flush_bytes: u64,
    /// What the candidate said of the outputs of the call that was kept, as in [`Ran::outputs`](super::Ran::outputs).
    #[serde(default)]
    pub outputs: Value,
}

/// The samples of one side, all in the order in which they were taken: sample `i` of one side was taken next to
/// sample `i` of the other. A sample is the mean of a batch of calls.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Series {
    pub method: TimingMethod,
    /// Time of a call with L2 flushed before it, in µs.
    pub cold_us: Vec<f64>,
    /// Time of a call right after another, in µs.
    pub warm_us: Vec<f64>,
    /// What lies around a call, in µs: by graphs the flush, already taken off the cold samples; by events two
    /// events with nothing in between, which stay inside as they do in other benchmarks.
    pub empty_us: f64,
    /// Time until a call returns on the host, in µs.
    pub host_us: f64,
    /// Whether the GPU waited for the host, so that a time without a graph would be the host's.
    #[serde(default)]
    pub is_host_bound: bool,
    /// Why the calls are not replayed as a CUDA graph although they are short; empty otherwise.
    #[serde(default)]
    pub graph_refused: String,
    /// Triton launches of the calls that warmed it up.
    #[serde(default)]
    pub launches: u64,
    /// Mean time of a call in the batch that was held against the clock, by what the runner recorded, in µs.
    pub claimed_us: f64,
    /// The same batch by the supervisor's clock, an empty batch taken off, in µs a call.
    pub wall_us: f64,
}

/// How a sample was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimingMethod {
    /// CUDA events around each call.
    #[default]
    Events,
    /// One CUDA graph of several calls with flushes between them.
    Graph,
}
