//! What is on this machine, what is missing, and what to type.
//!
//! Nothing here imports torch or opens a CUDA context: tools are asked with a deadline, and files are
//! read.

mod gpu;
mod host;
mod interpreter;
#[cfg(test)]
mod tests;
mod tools;

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::python::PythonSearch;
use super::subprocess::{Limits, run};
use super::{Places, Surroundings};
use crate::device::Survey;

/// The `schema` of `warpsmith doctor --json`.
pub const SCHEMA: &str = "warpsmith.doctor/1";

/// How long a tool may take to say its version.
pub const TOOL_LIMIT_S: u64 = 5;

/// One thing that was looked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub state: State,
    pub detail: String,
    /// What to type or change; nothing when there is nothing to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What came of looking for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Found,
    Missing,
    Warning,
    NotApplicable,
}

impl State {
    fn words(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Missing => "missing",
            Self::Warning => "warning",
            Self::NotApplicable => "-",
        }
    }
}

impl Check {
    fn found(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: State::Found, detail: detail.into(), remedy: None }
    }

    fn missing(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: State::Missing, detail: detail.into(), remedy: Some(remedy.into()) }
    }

    fn warning(name: &'static str, detail: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, state: State::Warning, detail: detail.into(), remedy: Some(remedy.into()) }
    }

    fn not_applicable(name: &'static str, detail: impl Into<String>) -> Self {
        Self { name, state: State::NotApplicable, detail: detail.into(), remedy: None }
    }
}

/// Where the doctor looks.
#[derive(Clone, Copy, Debug)]
pub struct DoctorContext<'a> {
    pub surroundings: &'a Surroundings,
    pub places: &'a Places,
    pub search: &'a PythonSearch,
    /// What the driver says of the GPUs.
    pub gpus: &'a Survey,
    /// `/`, except in tests: `proc`, `dev`, `sys`, `usr/local/cuda` and `opt` are looked up below it.
    pub root: &'a Path,
    /// [`TOOL_LIMIT_S`], except in tests.
    pub tool_limit_s: u64,
}

impl DoctorContext<'_> {
    /// Folders of CUDA toolkits, those that were named first.
    fn toolkits(&self) -> Vec<PathBuf> {
        let named = ["CUDA_HOME", "CUDA_PATH"].into_iter();
        let named = named.filter_map(|name| self.surroundings.absolute_path(name));
        named.chain([self.root.join("usr/local/cuda")]).collect()
    }

    /// Stdout of a tool that answered in time and without an error.
    fn ask(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.surroundings.command(program);
        command.args(arguments).current_dir("/");
        let finished = run(command, Limits::seconds(self.tool_limit_s)).map_err(|error| error.to_string())?;
        if finished.succeeded() { Ok(finished.stdout_text()) } else { Err(finished.failure()) }
    }
}

/// All checks, in the order of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub schema: &'static str,
    /// Whether kernels can be checked: an interpreter with torch and triton that fit together.
    pub can_check: bool,
    pub checks: Vec<Check>,
}

/// Looks at everything; takes as long as the slowest tool, at most some ten seconds.
pub fn examine(context: DoctorContext<'_>) -> Report {
    let gpus = gpu::find(&context);
    let groups: [&(dyn Fn() -> Vec<Check> + Sync); 4] = [
        &|| interpreter::checks(&context),
        &|| gpu::checks(&context, &gpus),
        &|| tools::checks(&context, gpus.is_present()),
        &|| host::checks(&context),
    ];
    let checks = std::thread::scope(|scope| {
        let groups = groups.map(|group| scope.spawn(group));
        groups.into_iter().flat_map(|group| group.join().unwrap_or_default()).collect()
    });
    Report { schema: SCHEMA, can_check: context.search.usable().is_ok(), checks }
}

/// The table for people: state, name, detail; below a line what to do about it.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.checks.iter().map(|check| check.name.len()).max().unwrap_or(0);
        for Check { name, state, detail, remedy } in &self.checks {
            writeln!(f, "{:<8} {name:<width$}  {detail}", state.words())?;
            if let Some(remedy) = remedy {
                writeln!(f, "{:<8} {:<width$}  → {remedy}", "", "")?;
            }
        }
        writeln!(f)?;
        let conclusion =
            if self.can_check { "kernels can be checked here" } else { "kernels cannot be checked yet" };
        write!(f, "{conclusion}")
    }
}
