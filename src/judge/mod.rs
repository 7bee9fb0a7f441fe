//! The judge: which cases, which seeds, which tolerances, what the verdict is. Everything here is
//! testable without a GPU or Python; processes belong to `runner/`.

mod assess;
pub mod case;
pub mod check;
mod engine;
mod environment;
mod foreign;
mod inputs;
mod philox;
pub mod record;
pub mod repro;
mod run;
mod stages;
mod tolerance;
pub mod verdict;

pub use crate::oracle::Draft;
pub use case::{Case, Coverage, Stage};
pub use engine::{Engine, EngineOptions, draft_comment};
pub use verdict::{BadElement, CaseRecord, Code, Finding, NotRun, Provenance, Report, Timeline, Verdict};
