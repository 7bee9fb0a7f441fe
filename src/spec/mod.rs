//! What an operation is and what a case of it is: FlashInfer-Bench's Definition, Workload, Solution and
//! Trace, with our one extra key. Pure data: nothing here runs anything.

mod dtype;

pub use dtype::{Dtype, UnknownDtype};
