//! The judge: which cases, which seeds, which tolerances, what the verdict is. Everything here is
//! testable without a GPU or Python; processes belong to `runner/`.

mod assess;
mod assess_trials;
pub mod case;
pub mod check;
mod engine;
mod environment;
mod inputs;
mod layouts;
mod philox;
mod profiles;
pub mod record;
mod run;
mod stages;
mod tolerance;
mod trials;
pub mod verdict;

pub use case::{AGAIN_PROFILE, Case, Coverage, DEFAULT_PROFILE, NEAR_EPSILON_PROFILE, Stage};
pub use engine::{Engine, EngineOptions};
pub use verdict::{BadElement, CaseRecord, Code, Finding, NotRun, Provenance, Report, Timeline, Verdict};
