//! The judge: which cases, which seeds, which tolerances, what the verdict is. Everything here is
//! testable without a GPU or Python; processes belong to `runner/`.

mod ahead;
mod assess;
mod assess_trials;
pub mod bench;
mod beside;
pub mod calendar;
mod candidate_step;
pub mod case;
pub mod check;
mod comparison;
mod delegation;
mod device_faults;
mod devices;
mod ends;
mod engine;
mod environment;
mod foreign;
mod foundation;
mod head;
pub mod history;
mod inputs;
mod layouts;
mod load;
pub mod means;
mod module;
mod obstacles;
mod packed;
mod philox;
mod profiles;
mod recall;
pub mod record;
mod report;
pub mod repro;
mod run;
mod sources;
mod stages;
mod start;
pub mod timing;
mod tolerance;
mod trials;
mod unstated;
pub mod verdict;
mod workers;

pub use crate::oracle::Draft;
pub use case::{
    AGAIN_PROFILE, Case, Coverage, DEFAULT_PROFILE, NEAR_EPSILON_PROFILE, RANDOM_AFFINE_PROFILE, Stage,
};
pub use engine::{Engine, EngineOptions, draft_comment};
pub use foundation::Foundation;
pub use means::OnGpu;
pub use obstacles::unknown_name;
pub use report::Report;
pub use timing::{NoTiming, Timing};
pub(crate) use verdict::real_path;
pub use verdict::{BadElement, CaseRecord, Code, Finding, NotJudged, NotRun, Provenance, Timeline, Verdict};
