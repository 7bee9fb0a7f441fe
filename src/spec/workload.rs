//! Workload: one concrete case of a Definition.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::axes::AxisValues;
use super::definition::{AxisKind, Definition};
use super::number::Scalar;
use super::problem::{JsonPath, Problem};

/// One concrete case of a Definition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Values of the variable axes; 0 is allowed.
    pub axes: AxisValues,
    pub inputs: BTreeMap<String, WorkloadInput>,
    pub uuid: String,
}

/// Where an input of a Workload comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum WorkloadInput {
    Random,
    Scalar {
        value: Scalar,
    },
    Safetensors {
        /// Relative to the root of the data set.
        path: String,
        tensor_key: String,
    },
}

impl Workload {
    /// What keeps this Workload from being a case of the Definition; paths start at the Workload.
    pub fn problems(&self, definition: &Definition) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |section: &str, name: &str, message: String, fix: &str| {
            let path = JsonPath::default().key(section).key(name);
            problems.push(Problem { path, position: None, message, fix: fix.to_owned() });
        };
        let vars = definition.var_axes();
        let name = &definition.name;
        for axis in vars.iter().filter(|axis| !self.axes.contains_key(**axis)) {
            add("axes", axis, "is missing".to_owned(), "give the value of this variable axis");
        }
        let is_variable = |axis: &str| definition.axis(axis).is_some_and(|axis| axis.kind == AxisKind::Var);
        for axis in self.axes.keys().filter(|axis| !is_variable(axis)) {
            add("axes", axis, format!("is no variable axis of `{name}`"), "remove it");
        }
        for (input, spec) in &definition.inputs {
            match self.inputs.get(input) {
                None if !spec.optional => {
                    add("inputs", input, "is missing".to_owned(), "say how it is made");
                }
                Some(WorkloadInput::Scalar { .. }) if !spec.is_scalar() => {
                    let fix = "write {\"type\": \"random\"} or a safetensors file";
                    add("inputs", input, "is a scalar for a tensor".to_owned(), fix);
                }
                _ => {}
            }
        }
        for input in self.inputs.keys().filter(|input| definition.input(input).is_none()) {
            add("inputs", input, format!("is no input of `{name}`"), "remove it");
        }
        problems
    }
}
