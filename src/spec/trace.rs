//! Trace: one Solution judged on one Workload, one JSON object a line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::number::Number;
use super::problem::{JsonPath, Position, Problem, SpecError};
use super::workload::Workload;

/// One line of a Workload or Trace file. A Workload line has neither solution nor evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The name of the Definition.
    pub definition: String,
    pub workload: Workload,
    /// The name of the Solution.
    pub solution: Option<String>,
    pub evaluation: Option<Evaluation>,
}

/// What came of running a Solution on a Workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    pub status: Status,
    pub environment: Environment,
    /// ISO 8601.
    pub timestamp: String,
    #[serde(default)]
    pub log: String,
    pub correctness: Option<Correctness>,
    pub performance: Option<Performance>,
}

/// FlashInfer-Bench's words for how an evaluation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    Passed,
    IncorrectShape,
    IncorrectDtype,
    IncorrectNumerical,
    RuntimeError,
    CompileError,
    Timeout,
}

/// What the Solution was judged on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub hardware: String,
    /// Versions by name.
    #[serde(default)]
    pub libs: BTreeMap<String, String>,
}

/// How far the outputs were off.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Correctness {
    pub max_relative_error: Number,
    pub max_absolute_error: Number,
    #[serde(default)]
    pub extra: Option<Map<String, Value>>,
}

/// How long a call took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    pub latency_ms: Number,
    pub reference_latency_ms: Number,
    pub speedup_factor: Number,
}

impl Trace {
    /// Reads one line; `line` is its 1-based number in the file.
    ///
    /// # Errors
    /// A line that is no Trace, or one whose parts contradict its status.
    pub fn from_json_line(text: &str, file: &str, line: u32) -> Result<Self, SpecError> {
        let trace: Self = serde_json::from_str(text).map_err(|error| {
            let mut told = SpecError::from_json_error(file, &error);
            for problem in &mut told.problems {
                let column = problem.position.map_or(1, |position| position.column);
                problem.position = Some(Position { line, column });
            }
            told
        })?;
        let problems = trace.problems(line);
        if problems.is_empty() { Ok(trace) } else { Err(SpecError { file: file.to_owned(), problems }) }
    }

    /// Reads a whole file, blank lines left out. A bad line costs only itself.
    pub fn read_lines(text: &str, file: &str) -> (Vec<Self>, Vec<SpecError>) {
        let mut traces = Vec::new();
        let mut errors = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            if text.trim().is_empty() {
                continue;
            }
            match Self::from_json_line(text, file, line) {
                Ok(trace) => traces.push(trace),
                Err(error) => errors.push(error),
            }
        }
        (traces, errors)
    }

    /// The line, without its end.
    ///
    /// # Errors
    /// None of these types can fail; serde's signature says it could.
    pub fn to_json_line(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }

    fn problems(&self, line: u32) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |path: JsonPath, message: String, fix: &str| {
            let position = Some(Position { line, column: 1 });
            problems.push(Problem { path, position, message, fix: fix.to_owned() });
        };
        let root = JsonPath::default();
        let Some(evaluation) = &self.evaluation else {
            if self.solution.is_some() {
                let message = "is missing although a solution is named".to_owned();
                add(root.key("evaluation"), message, "add the evaluation, or remove the solution");
            }
            return problems;
        };
        if self.solution.is_none() {
            let message = "is missing although there is an evaluation".to_owned();
            add(root.key("solution"), message, "name the solution that was evaluated");
        }
        let path = root.key("evaluation");
        let (correctness, performance) = evaluation.status.requires();
        for (part, present, required) in [
            ("correctness", evaluation.correctness.is_some(), correctness),
            ("performance", evaluation.performance.is_some(), performance),
        ] {
            let status = evaluation.status.name();
            if required && !present {
                add(path.key(part), format!("is missing for status {status}"), "add it");
            } else if present && !required {
                add(path.key(part), format!("cannot be there for status {status}"), "remove it");
            }
        }
        problems
    }
}

impl Status {
    /// Whether correctness and performance belong to this status.
    fn requires(self) -> (bool, bool) {
        match self {
            Self::Passed => (true, true),
            Self::IncorrectNumerical => (true, false),
            _ => (false, false),
        }
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::IncorrectShape => "INCORRECT_SHAPE",
            Self::IncorrectDtype => "INCORRECT_DTYPE",
            Self::IncorrectNumerical => "INCORRECT_NUMERICAL",
            Self::RuntimeError => "RUNTIME_ERROR",
            Self::CompileError => "COMPILE_ERROR",
            Self::Timeout => "TIMEOUT",
        }
    }
}
