//! Where truth comes from for one file, and what to call it.

use serde::Serialize;

/// The rung of the ladder, and the words that stand beside every verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OracleLabel {
    /// 0 convention … 6 Python escape hatch (see `ARCHITECTURE.md`).
    pub rung: u8,
    /// `AutoKernel softmax · torch ref`.
    pub label: String,
}
