//! References that are classes: KernelBench's `Model` with `get_inputs` and `get_init_inputs`.

use std::path::PathBuf;

use crate::spec::{AxisExpr, AxisValues, Precision};

/// A class that says what is right, and the functions of its file that make its arguments and inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleReference {
    pub path: PathBuf,
    /// `Model`
    pub class: String,
    /// `eval()` is called on both objects; otherwise they stay as they were made, as in KernelBench.
    pub eval: bool,
    /// At least one.
    pub sizes: Vec<ModuleSize>,
    /// The judged file is the reference's own, so its constants are those of the first size as well.
    pub is_same_file: bool,
    /// As the comment says it: the longest sum behind one element of an output.
    pub reduction: Option<AxisExpr>,
    pub precision: Precision,
}

/// The reference's file with some of its module-level numbers replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleSize {
    /// Those numbers and the others that decide over sizes, by name.
    pub constants: AxisValues,
    pub text: String,
}
