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

mod module;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::module::{ModuleRole, ModuleSide, Problem, ProblemValue, Retake, Take};
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
    /// The judge compares what the candidate left in the output memory with the reference, which it
    /// computes only now. Done: [`Compared`].
    Compare(Compare),
    /// The candidate copies what it holds (see [`Run::hold`]) into the case's outputs once more.
    /// Done: `{"copied": [bool]}`.
    Recopy(Recopy),
    /// The judge draws other values into the same memory of a case that does not run. Done: `{}`.
    Redraw { case: CaseId, seed: u64 },
    /// The judge keeps the bytes of the outputs when this is asked of a case for the first time, and
    /// compares with them ever after. Done: [`Repeated`].
    Repeat { case: CaseId },
    /// Frees a case's memory in every process. Done: `{}`.
    Release { case: CaseId },
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
    /// An immutable copy of the saved text with the same file name; what is really imported.
    pub text_path: String,
    /// The function to call.
    pub entry: String,
    /// Folders *appended* to `sys.path` (the file's own folder is always appended).
    pub search_paths: Vec<String>,
    /// Environment variables set in the runner before the import.
    pub environment: BTreeMap<String, String>,
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

/// One call of the entry on a prepared case.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub runner: RunnerId,
    pub case: CaseId,
    /// Arguments by keyword.
    pub arguments: Vec<Argument>,
    /// Wall clock after which the runner is killed, in seconds.
    pub wall_s: f64,
    pub interpreter: InterpreterOptions,
    /// Keep what the entry returns alive, until another call says so.
    pub hold: bool,
    /// Casts to float32 become casts to float64, and what is returned is handed over in float64.
    pub widened: bool,
}

#[derive(Clone, Debug, Serialize)]
pub struct Recopy {
    pub runner: RunnerId,
    pub case: CaseId,
    /// Wall clock after which the runner is killed, in seconds.
    pub wall_s: f64,
}

/// One argument of the call.
#[derive(Clone, Debug, Serialize)]
pub struct Argument {
    /// The parameter of the entry.
    pub parameter: String,
    #[serde(flatten)]
    pub source: ArgumentSource,
}

/// What is passed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum ArgumentSource {
    /// The tensor or scalar of this input of the case.
    Input { input: String },
    /// The memory of this output of the case: the entry writes into it (destination passing).
    Output { output: String },
    /// An option that the reference has built in.
    Value { value: Value },
}

/// How Triton launches are interpreted in one call.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InterpreterOptions {
    /// Run at most this many programs of each launch: all corners of the grid, then random ones.
    /// `None` runs all.
    pub max_programs: Option<u32>,
    /// Whether the values of the outputs matter. `false`: only offsets are checked, outputs are not
    /// copied, and nothing may touch whole tensors.
    pub compare_values: bool,
    /// Draws the random programs. Derived from the check's seed, and not the seed of any input.
    pub sampling_seed: u64,
    pub program_order: ProgramOrder,
    pub autotune: Autotune,
    /// Fill fresh memory with large ordinary values instead of NaN.
    pub other_poison: bool,
}

/// In which order the programs of a launch run, one after another. Any is right for a right kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramOrder {
    #[default]
    Forward,
    Reverse,
    Random,
}

/// Which configuration of autotuned kernels runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Autotune {
    /// One, drawn from what the kernel is called with; it has run once before it is chosen.
    #[default]
    Drawn,
    /// A kernel that is not tuned yet runs every configuration once before the first, as on a GPU.
    Trial,
    /// The configuration of this index alone, of those that are left after pruning. Kernels that have
    /// fewer run their first.
    Only(u32),
}

/// Answer to [`Request::Repeat`], for each output.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Repeated {
    pub outputs: Vec<RepeatedOutput>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct RepeatedOutput {
    pub name: String,
    pub elements: u64,
    /// Elements whose bits are not those of the first time.
    pub differing: u64,
    /// The first of them.
    pub first: Option<Vec<u64>>,
}

/// Answer to [`Request::Run`].
#[derive(Clone, Debug, Deserialize)]
pub struct Ran {
    /// What the entry returned, flattened (tuple, list, or one tensor); a claim until compared.
    pub outputs: Vec<ReturnedValue>,
    pub launches: Vec<Launch>,
    pub findings: Vec<WorkerFinding>,
    /// Set when a feature was met that the interpreter cannot check.
    pub unsupported: Option<Unsupported>,
    #[serde(default)]
    pub autotuned: Vec<Autotuned>,
    pub run_ms: f64,
}

/// An autotuned kernel that was launched.
#[derive(Clone, Debug, Deserialize)]
pub struct Autotuned {
    pub kernel: String,
    /// `BLOCK=128 STAGES=2` for each configuration that pruning left, in order; see [`Autotune::Only`].
    pub configurations: Vec<String>,
}

/// One returned value, as the candidate describes it: a claim until it was compared.
#[derive(Clone, Debug, Deserialize)]
pub struct ReturnedValue {
    /// `torch.Tensor`, `float`, `MyTensorSubclass` …: the exact type.
    pub type_name: String,
    /// Of an exact `torch.Tensor`; `None` for anything else.
    pub dtype: Option<String>,
    #[serde(default)]
    pub shape: Vec<u64>,
    #[serde(default)]
    pub strides: Vec<i64>,
    /// The storage overlaps that of this input.
    pub aliases_input: Option<String>,
    /// The storage is one that an earlier call returned: that result has changed meanwhile.
    #[serde(default)]
    pub returned_before: bool,
    /// Every element of the storage that holds a value was stored by one interpreted launch, and that
    /// launch was the only one. Only then may a sampled run be compared.
    #[serde(default)]
    pub written_by_single_launch: bool,
    /// The bytes were copied to the judge's memory (dtype and shape agree with [`OutputSpec`]).
    #[serde(default)]
    pub copied: bool,
}

/// One interpreted launch.
#[derive(Clone, Debug, Deserialize)]
pub struct Launch {
    /// Name of the `@triton.jit` function.
    pub kernel: String,
    pub file: String,
    /// 1-based line of the kernel's `def`.
    pub line: u32,
    pub grid: [u64; 3],
    pub programs: u64,
    pub programs_run: u64,
    /// `tl.dot` calls on float32 that ran as TF32: `(file, 1-based line)`.
    #[serde(default)]
    pub tf32_dots: Vec<Place>,
    #[serde(default)]
    pub ms: f64,
}

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Place {
    pub file: String,
    /// 1-based.
    pub line: u32,
}

/// Something the interpreter saw happen.
#[derive(Clone, Debug, Deserialize)]
pub struct WorkerFinding {
    pub kind: WorkerFindingKind,
    pub kernel: Option<String>,
    /// The innermost line in the user's own files.
    pub place: Place,
    /// Outer lines when the innermost is in a helper, nearest first.
    #[serde(default)]
    pub called_from: Vec<Place>,
    /// One sentence for people, with numbers: element, tensor, program, how many lanes.
    pub message: String,
    pub program: Option<[u64; 3]>,
    /// How often the same kind met the same line.
    #[serde(default)]
    pub occurrences: u64,
}

/// What kinds of things the interpreter sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerFindingKind {
    OutOfBoundsLoad,
    OutOfBoundsStore,
    OutOfBoundsAtomic,
    /// Two programs of one launch touch the same element, at least one stores, none atomically, and
    /// the stored values differ.
    Race,
    /// As [`Self::Race`], but every store left the same bytes: legal on hardware, worth knowing.
    BenignRace,
    /// One store names the same element from several lanes with different values.
    DuplicateStore,
    IntegerOverflow,
    DeviceAssert,
    UninitialisedRead,
    /// An error of Triton's front end (undefined name, shape mismatch, `tl.arange` not a power of two).
    CompileError,
}

/// A feature that the interpreter lacks: inline assembly, libdevice, a newer builtin.
#[derive(Clone, Debug, Deserialize)]
pub struct Unsupported {
    /// `inline-asm`, `libdevice`, `interpreter`.
    pub code: String,
    pub message: String,
    pub place: Option<Place>,
}

/// How the outputs of a case that ran are to be compared.
#[derive(Clone, Debug, Serialize)]
pub struct Compare {
    pub case: CaseId,
    /// One for each output.
    pub tolerances: Vec<ToleranceSpec>,
    /// Only elements that do not hold the poison pattern are compared (sampled runs).
    pub written_only: bool,
    /// Also compare null candidates (zeros, the reference's mean, the reference of another seed, the
    /// reference on coarser inputs): a tolerance that accepts one is worthless.
    pub null_candidates: bool,
    /// As [`Prepare::wall_s`]. The references run in this time.
    pub wall_s: f64,
    /// Where the reference in the case's dtype equals the float64 one in every element, the operation is
    /// exact on these inputs, and so must be the candidate.
    pub exact_if_agree: bool,
    /// Where a reference that is not ours left its values; `None` when the judge computes them.
    pub truth: Option<ForeignTruth>,
}

/// Cases that a reference that is not ours ran on.
#[derive(Clone, Debug, Serialize)]
pub struct ForeignTruth {
    /// [`Change::Widened`].
    pub float64: CaseId,
    /// [`Change::Same`].
    pub in_dtype: CaseId,
    /// [`Change::Widened`] once more; only with null candidates.
    pub again: Option<CaseId>,
    /// [`Change::Perturbed`], one for each draw; only where a tolerance asks for the condition.
    pub perturbed: Vec<CaseId>,
    /// Only for null candidates.
    pub other_seed: Option<CaseId>,
    pub coarse_inputs: Option<CaseId>,
}

/// Allowed error of one element `i` in a row `r` (the last dimension) of an output, see
/// `judge/tolerance.rs` for where the factors come from:
///
/// `reference_factor · max_r |reference_in_dtype − reference_in_f64| + max(absolute_ulp · |expected_i|, smallest subnormal)
/// + row_rms_factor · rms_r(expected) + condition_factor · rms over draws of max_r |reference of perturbed inputs − reference_in_f64|`
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ToleranceSpec {
    pub reference_factor: f64,
    /// Times the magnitude of the element: rounding of the output itself.
    pub absolute_ulp: f64,
    /// Times the root mean square of the row: rounding of the accumulation.
    pub row_rms_factor: f64,
    /// The same sum with TF32 rounding of products added; tells `tf32` from `mismatch`.
    pub tf32_row_rms_factor: f64,
    /// Times the largest change in the row when every float input is off by a relative 2⁻²³, up or down:
    /// what no float32 computation can know better. 0: not measured.
    pub condition_factor: f64,
}

/// Answer to [`Request::Compare`]: measurements, no verdict.
#[derive(Clone, Debug, Deserialize)]
pub struct Compared {
    pub outputs: Vec<OutputErrors>,
    /// Inputs whose bytes are no longer those that the judge made.
    pub inputs_changed: Vec<String>,
}

/// What was measured on one output, against the float64 reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OutputErrors {
    pub name: String,
    pub elements: u64,
    pub elements_compared: u64,
    /// Elements that still hold the poison pattern.
    pub unwritten: u64,
    pub first_unwritten: Option<Vec<u64>>,
    pub last_unwritten: Option<Vec<u64>>,
    /// Elements where one side is NaN or infinite and the other is not the same.
    pub non_finite_mismatches: u64,
    pub first_non_finite: Option<Sample>,
    /// Elements where the reference in the case's dtype is NaN or infinite and the float64 one is not the
    /// same (nor out of the dtype's range): the reference does not define them.
    pub undefined: u64,
    /// Integers that roundings of the inputs change, and that hold none of the values so found: neither right nor wrong.
    #[serde(default)]
    pub undecided: u64,
    /// Nothing but equality was allowed: integers, or [`Compare::exact_if_agree`].
    pub exact: bool,
    /// Elements over the tolerance (non-finite mismatches not counted).
    pub violations: u64,
    /// Elements over the tolerance of a TF32 product.
    pub tf32_violations: u64,
    /// The first violation in row-major order.
    pub first: Option<Sample>,
    /// The element with the largest error over tolerance, also when all are within it.
    pub worst: Option<Sample>,
    pub max_absolute_error: Number,
    pub max_relative_error: Number,
    /// Largest error of the reference run in the case's own dtypes, for comparison.
    pub reference_max_absolute_error: Number,
    pub expected_rms: Number,
    /// Bytes equal to an input's: a candidate that hands back its input.
    pub null_candidates: Vec<NullCandidate>,
}

/// One element: where, what was expected, what stood there, what was allowed.
#[derive(Clone, Debug, Deserialize)]
pub struct Sample {
    pub index: Vec<u64>,
    pub expected: Number,
    pub got: Number,
    pub allowed: Number,
    /// The summands of `allowed`; `None` where only equality will do.
    #[serde(default)]
    pub terms: Option<ToleranceTerms>,
}

/// What the allowed error of one element is the sum of; see [`ToleranceSpec`].
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct ToleranceTerms {
    /// PyTorch's own error in the row.
    pub reference: Number,
    /// Rounding to the output's dtype.
    pub rounding: Number,
    /// Rounding of the sums behind the row.
    pub accumulation: Number,
    /// Sensitivity to the last bit of the inputs.
    pub conditioning: Number,
}

impl ToleranceTerms {
    /// The name of the largest term: what decided how much was allowed.
    pub fn deciding(&self) -> &'static str {
        let terms = [
            ("reference", self.reference),
            ("rounding", self.rounding),
            ("accumulation", self.accumulation),
            ("conditioning", self.conditioning),
        ];
        let largest = terms.into_iter().reduce(|a, b| if b.1.0 > a.1.0 { b } else { a });
        largest.map_or("rounding", |(name, _)| name)
    }
}

/// What the comparison says of an answer that is surely wrong.
#[derive(Clone, Debug, Deserialize)]
pub struct NullCandidate {
    /// `zeros`, `mean`, `other-seed`, `coarse-inputs`.
    pub name: String,
    /// Elements over the tolerance; 0 means that the tolerance accepts this impostor.
    pub violations: u64,
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
    /// `syntax-error`, `import-error`, `out-of-memory`, `unsupported`, `compile-error`, or `raised`.
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
    },
    /// torch and Triton are imported; runners can be forked from now on (requests before it wait).
    Warm { import_ms: f64, resident_bytes: u64 },
    /// The environment cannot be used; every request is answered `failed` with this code.
    Unavailable { code: String, message: String },
    /// Programs interpreted so far in a running case, at most ten a second.
    Progress { case: CaseId, programs_done: u64, programs: u64 },
}

#[cfg(test)]
#[path = "protocol_tests.rs"]
mod tests;
