//! The words that Rust and the Python supervisor exchange: JSON, one object a line.
//!
//! Rust decides what is run and what it means; Python runs it. Every request carries an `id` and gets
//! exactly one [`Reply`] with that id; events carry no id. The Python side lives in `runner/python` and
//! is written against this file.
//!
//! **Invariant:** no message of a process that ran user code carries a verdict. A candidate may say
//! "done" or "raised"; what is compared is memory that the judge runner owns. Findings of the
//! interpreter do come from the candidate's process, so a CPU verdict assumes an honest author.
//!
//! Unknown fields are ignored in both directions. Non-finite numbers travel as the strings `"NaN"`,
//! `"Infinity"` and `"-Infinity"` (see [`Number`]).

mod compare;
mod device;
mod module;
mod run;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::compare::*;
pub use self::device::*;
pub use self::module::{ModuleRole, ModuleSide, Problem, ProblemValue, Retake, Take};
pub use self::run::*;
use crate::spec::Dtype;
pub use crate::spec::{Fill, Number, Profile};

/// Version of this protocol; the supervisor says its own in [`Event::Ready`].
pub const PROTOCOL_VERSION: u32 = 1;

/// Names one code runner (a process that serves one Solution). Chosen by Rust, unique per supervisor.
pub type RunnerId = String;
/// Names one prepared case (its inputs, outputs and reference). Chosen by Rust, unique per supervisor.
pub type CaseId = String;

/// A request with its id, as it stands on the line.
#[derive(Debug, Serialize)]
pub struct Envelope<'a> {
    pub id: u64,
    #[serde(flatten)]
    pub request: &'a Request,
}

/// What Rust may ask of the supervisor.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Request {
    /// Gives the judge runner a reference to compile. Done: `{}`.
    Define(Define),
    /// Takes a warm runner and loads one Solution into it. Done: [`Opened`].
    Open(Open),
    /// The judge makes the inputs (a private copy and one memfd each). Done: [`CaseMade`].
    Prepare(Prepare),
    /// The judge makes another case from a prepared one, for a reference that is not ours.
    /// Done: [`CaseMade`].
    Derive(Derive),
    /// The judge makes a case from values that a reference of the user's drew. Done: [`CaseMade`].
    Take(Take),
    /// The judge puts other such values into the same memory of a case that does not run. Done: `{}`.
    Retake(Retake),
    /// The candidate runs on a prepared case. Done: [`Ran`].
    Run(Run),
    /// A candidate meets a case without a call of its own being judged. Done: `{}`.
    Compile(Compile),
    /// The judge compares what the candidate left in the output memory with the reference, which it
    /// computes only now. Done: [`Compared`].
    Compare(Compare),
    /// The candidate copies what it holds (see [`Run::hold`]) into the case's outputs once more.
    /// Done: `{"copied": [bool]}`.
    Recopy(Recopy),
    /// The judge draws other values into the same memory of a case that does not run. Done: `{}`.
    Redraw(Redraw),
    /// The judge keeps the bytes of the outputs when this is asked of a case for the first time, and
    /// compares with them ever after. Done: [`Repeated`].
    Repeat { case: CaseId },
    /// Frees a case's memory in every process. Done: `{}`.
    Release { case: CaseId },
    /// How much memory the GPU has left. Done: [`DeviceState`].
    DeviceState,
    /// What the GPU reaches at best. Done: [`MeasuredCeilings`].
    Ceilings(MeasureCeilings),
    /// Times a candidate on a case that passed. Done: [`TimedSides`].
    Time(Time),
    /// Kills a code runner and its whole process group. A pending [`Request::Run`] or
    /// [`Request::Open`] on it is answered with [`Outcome::Died`], reason `killed`. Done: `{}`.
    Close { runner: RunnerId },
}

/// A reference that is ours: the Python source of a Definition, which defines `run`.
#[derive(Clone, Debug, Serialize)]
pub struct Define {
    /// Key for later requests: the Definition's name.
    pub definition: String,
    pub reference: String,
    /// A float64 reference of its own; without it, `run` is called on float64 inputs under a mode that
    /// turns casts to float32 into casts to float64.
    pub reference_f64: Option<String>,
    /// A user named it, so nobody has looked at how it rounds: in the case's dtypes it must be near its float64 values.
    pub is_named: bool,
    /// Wall clock after which the judge runner is ended and started anew, in seconds.
    pub wall_s: f64,
}

/// A file to load into a runner of its own.
#[derive(Clone, Debug, Serialize)]
pub struct Open {
    pub runner: RunnerId,
    /// The user's file: goes into tracebacks and findings.
    pub path: String,
    /// A copy of the saved text with the same file name, for whoever looks for one.
    pub text_path: String,
    /// What is really imported, whatever the copy holds by then: judged code may write there as its user may.
    pub text: String,
    /// The function to call.
    pub entry: String,
    /// Folders *appended* to `sys.path` (the file's own folder is always appended).
    pub search_paths: Vec<String>,
    /// Environment variables set in the runner before the import.
    pub environment: BTreeMap<String, String>,
    /// On a GPU: the host waits for every launch, so that an error is told at the launch it belongs to.
    pub blocking: bool,
    /// It is to be timed, or timed against: no other process is started in place of the spare that it takes until it is
    /// closed, because the context that opens would be waited for.
    pub for_timing: bool,
    pub limits: Limits,
    /// The entry is a class of a KernelBench problem.
    pub module: Option<ModuleRole>,
}

/// Limits of one code runner.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limits {
    /// Wall clock for the import, in seconds.
    pub import_wall_s: f64,
    /// RLIMIT_AS of the runner, in bytes.
    pub address_space_bytes: u64,
    /// Resident memory (whole process group) above which the supervisor kills it, in bytes.
    pub resident_bytes: u64,
    /// Memory of the GPU that the runner may allocate, in bytes; of no meaning without one.
    pub device_bytes: u64,
    /// Bytes of stdout and stderr kept, the newest; the rest is read and dropped.
    pub output_tail_bytes: u64,
}

/// Answer to [`Request::Open`].
#[derive(Clone, Debug, Deserialize)]
pub struct Opened {
    /// Names of the entry's parameters, in order. `**kwargs` stands as `**kwargs`, `*args` as `*args`.
    pub parameters: Vec<Parameter>,
    pub import_ms: f64,
    /// Told by the process of a KernelBench reference.
    #[serde(default)]
    pub problem: Option<Problem>,
}

/// One parameter of the entry.
#[derive(Clone, Debug, Deserialize)]
pub struct Parameter {
    pub name: String,
    /// Whether the parameter has a default value.
    pub has_default: bool,
}

/// A case whose inputs are to be made.
#[derive(Clone, Debug, Serialize)]
pub struct Prepare {
    pub case: CaseId,
    /// `None` when the expected values are computed by a process of their own (see [`ForeignTruth`]).
    pub definition: Option<String>,
    /// Key of the Philox generator. Secret until the verdict.
    pub seed: u64,
    /// In the Definition's order.
    pub inputs: Vec<InputSpec>,
    /// In the Definition's order; what the reference's outputs must look like.
    pub outputs: Vec<OutputSpec>,
    /// As [`Define::wall_s`]; every prepared case is lost with the judge runner.
    pub wall_s: f64,
    /// The reference is asked, without values, what it returns; `outputs` is empty then.
    pub infer_outputs: bool,
}

/// Answer to [`Request::Prepare`] and [`Request::Derive`].
#[derive(Clone, Debug, Deserialize)]
pub struct CaseMade {
    /// `false` when the inputs cannot be changed that way (no floats to make coarser); there is no case then.
    #[serde(default)]
    pub possible: bool,
    /// Given or inferred.
    #[serde(default)]
    pub outputs: Vec<OutputSpec>,
}

/// A case for a reference that is not ours: the inputs of another one, in memory of its own.
#[derive(Clone, Debug, Serialize)]
pub struct Derive {
    pub case: CaseId,
    pub of: CaseId,
    pub change: Change,
    /// Which of the draws of [`Change::Perturbed`], from 0; of no use otherwise.
    pub draw: u32,
    /// As those of `of`; all but with [`Change::Same`] floats become float64.
    pub outputs: Vec<OutputSpec>,
}

/// What happens to the inputs of a derived case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Same,
    /// The same values in float64.
    Widened,
    /// Drawn from another seed, in float64.
    OtherSeed,
    /// Rounded to a coarser mantissa, in float64.
    CoarseInputs,
    /// Each float off by one rounding to float32, up or down, in float64.
    Perturbed,
}

/// One input of one case.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum InputSpec {
    Tensor(TensorInput),
    /// A Python scalar, the same for candidate and reference. `value: null` is `None`.
    Scalar {
        name: String,
        value: Value,
    },
}

/// A tensor, how it lies in memory and how it is drawn.
#[derive(Clone, Debug, Serialize)]
pub struct TensorInput {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    /// In elements, like torch; 0 repeats along an axis. The storage ends with the last element that the
    /// strides reach.
    pub strides: Vec<u64>,
    /// Elements of the storage before the first of the tensor.
    pub offset: u64,
    pub fill: Fill,
}

/// What one output must look like. Outputs are contiguous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSpec {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
}

/// One line from the supervisor.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Line {
    Reply(Reply),
    Event(Event),
}

/// The one answer to a request; exactly one of the fields is present.
#[derive(Clone, Debug, Deserialize)]
pub struct Reply {
    pub id: u64,
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What became of a request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Done(Value),
    /// User code (or, for `define`, the reference) raised.
    Raised(Raised),
    /// The runner ended before it answered.
    Died(Died),
    /// The request could not be served: unknown case, no memory for the buffers, a fault of ours.
    Failed {
        code: String,
        message: String,
    },
}

/// An exception, described.
#[derive(Clone, Debug, Deserialize)]
pub struct Raised {
    /// Class of the exception, without module: `ModuleNotFoundError`.
    pub exception: String,
    pub message: String,
    /// `syntax-error`, `import-error`, `out-of-memory`, `unsupported`, `compile-error`, or `raised`. On a GPU also
    /// `out-of-resources` (a launch asks for more shared memory or registers than there are) and `cuda-error` (the
    /// driver refused a launch); and, after which the runner ends with status 17 because its context is of no more
    /// use, `illegal-access`, `misaligned-access`, `illegal-instruction`, `device-assert`, `launch-timeout`,
    /// `launch-failed` and `device-lost`.
    pub code: String,
    /// For `import-error`: the missing package.
    pub missing: Option<String>,
    /// Innermost line in the user's files.
    pub place: Option<Place>,
    /// 1-based column, when the exception knows it (syntax errors).
    pub column: Option<u32>,
    /// Outer lines in the user's files, nearest first.
    #[serde(default)]
    pub called_from: Vec<Place>,
    /// The formatted traceback, at most 8 KiB, its end.
    #[serde(default)]
    pub traceback: String,
    /// Launches and findings up to the exception (only from `run`).
    #[serde(default)]
    pub launches: Vec<Launch>,
    #[serde(default)]
    pub findings: Vec<WorkerFinding>,
}

/// The end of a process that still owed an answer.
#[derive(Clone, Debug, Deserialize)]
pub struct Died {
    pub reason: DeathReason,
    pub signal: Option<i32>,
    pub status: Option<i32>,
    /// The end of what it printed.
    #[serde(default)]
    pub output: String,
}

/// Why a process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeathReason {
    /// Ended by itself without answering, also with status 0.
    Exit,
    Signal,
    /// Ran past its wall clock and was killed by us.
    Timeout,
    /// Grew past its resident limit and was killed by us.
    Memory,
    /// [`Request::Close`].
    Killed,
}

/// What the supervisor says unasked.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "ev", rename_all = "kebab-case")]
pub enum Event {
    /// The first line. Versions are read from package metadata, nothing is imported yet.
    Ready {
        protocol: u32,
        pid: u32,
        python: String,
        torch: Option<String>,
        triton: Option<String>,
        numpy: Option<String>,
        /// `cuda:N` when it was started for a GPU.
        #[serde(default)]
        device: Option<String>,
    },
    /// torch and Triton are imported; runners can be forked from now on (requests before it wait).
    Warm {
        import_ms: f64,
        resident_bytes: u64,
        #[serde(default)]
        device: Option<WarmDevice>,
    },
    /// The environment cannot be used; every request is answered `failed` with this code. Those of a GPU are
    /// `no-driver`, `no-device` and `device-unusable`.
    Unavailable { code: String, message: String },
    /// Programs interpreted so far in a running case, at most ten a second.
    Progress { case: CaseId, programs_done: u64, programs: u64 },
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
