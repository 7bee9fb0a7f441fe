//! Words about classes in the manner of KernelBench: the reference's process makes the inputs and weights, the
//! judge hands them to the candidate's.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CaseId, InputSpec, OutputSpec};

/// How the class of an [`super::Open`] is served.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ModuleRole {
    pub side: ModuleSide,
    /// `eval()` is called on what the class makes; otherwise it stays as it was made.
    pub eval: bool,
    /// A reference whose inputs, parameters and buffers have more elements is not run.
    pub most_elements: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleSide {
    /// Draws when an argument `draw` holds the seeds, says what is right otherwise.
    Reference,
    Candidate,
}

/// What a reference's process tells of itself, without a value.
#[derive(Clone, Debug, Deserialize)]
pub struct Problem {
    /// In the order of `get_inputs`, named like the parameters of `forward`.
    pub inputs: Vec<ProblemValue>,
    /// Parameters and buffers, named as in `state_dict`.
    pub state: Vec<ProblemValue>,
    pub outputs: Vec<ProblemValue>,
    /// What `get_init_inputs` gives, in a form that only the worker reads.
    pub init: String,
    /// Floating-point operations of the products in `forward`.
    #[serde(default)]
    pub flops: Option<u64>,
    /// Some parameters are made with one value, such as the ones and zeros of a norm.
    #[serde(default)]
    pub has_constant_parameters: bool,
}

/// A tensor (`dtype` is there) or a scalar.
#[derive(Clone, Debug, Deserialize)]
pub struct ProblemValue {
    pub name: String,
    #[serde(default)]
    pub dtype: Option<String>,
    #[serde(default)]
    pub shape: Vec<u64>,
    /// In elements.
    #[serde(default)]
    pub strides: Vec<u64>,
    #[serde(default)]
    pub scalar: Value,
}

/// A case whose tensors hold what stands in the outputs of another one, by name.
#[derive(Clone, Debug, Serialize)]
pub struct Take {
    pub case: CaseId,
    pub of: CaseId,
    pub inputs: Vec<InputSpec>,
    pub outputs: Vec<OutputSpec>,
}

/// The same for a case that there is already.
#[derive(Clone, Debug, Serialize)]
pub struct Retake {
    pub case: CaseId,
    pub of: CaseId,
}
