//! What an operation is and what a case of it is: FlashInfer-Bench's Definition, Workload, Solution and
//! Trace, with our one extra key. Pure data: nothing here runs anything.

mod axes;
mod builtin;
mod constraint;
mod definition;
mod dtype;
mod extras;
mod fill;
mod load;
mod load_extras;
mod locate;
mod number;
mod problem;
mod python;
mod reader;
mod solution;
#[cfg(test)]
mod tests;
mod trace;
mod workload;

pub use axes::{AxisError, AxisExpr, AxisExprError, AxisValues};
pub use builtin::{builtin, builtin_named};
pub use definition::{Axis, AxisKind, Definition, ITEMSIZE, InferError, TensorSpec};
pub use dtype::{Dtype, UnknownDtype};
pub use extras::{AxisRange, Extras, Precision, ToleranceExtras};
pub use fill::{Fill, FillSpec, Profile};
pub use number::{Number, Scalar};
pub use problem::{JsonPath, Position, Problem, SpecError};
pub use solution::{Binding, BuildSpec, Language, Solution, SourceFile};
pub use trace::{Correctness, Environment, Evaluation, Performance, Status, Trace};
pub use workload::{Workload, WorkloadInput};
