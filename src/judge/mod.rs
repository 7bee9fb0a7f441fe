//! The judge: which cases, which seeds, which tolerances, what the verdict is. Everything here is
//! testable without a GPU or Python; processes belong to `runner/`.

pub mod case;
pub mod check;
pub mod verdict;

pub use case::{Case, Coverage, Stage};
pub use verdict::{BadElement, CaseRecord, Code, Finding, NotRun, Provenance, Report, Verdict};
