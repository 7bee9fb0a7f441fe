//! The Python interpreter and its packages.

use super::{Check, DoctorContext};
use crate::toolchain::managed::{EntryState, entries, in_words, tree_size};
use crate::toolchain::python::{Package, Problem, PythonEnvironment, Rejected};

const SETUP: &str = "run `warpsmith setup`";

pub(super) fn checks(context: &DoctorContext<'_>) -> Vec<Check> {
    let mut checks = vec![];
    match &context.search.chosen {
        Some(chosen) => checks.extend(chosen_checks(chosen)),
        None => checks.push(Check::missing("python", "none with torch and triton", remedy_for_none(context))),
    }
    checks.extend(context.search.rejected.iter().map(passed_over));
    checks.push(managed(context));
    checks
}

fn remedy_for_none(context: &DoctorContext<'_>) -> String {
    match context.search.rejected.iter().find(|rejected| rejected.origin.is_explicit()) {
        Some(named) => named.reason.remedy(&named.executable),
        None => SETUP.to_owned(),
    }
}

fn passed_over(rejected: &Rejected) -> Check {
    let Rejected { executable, origin, reason } = rejected;
    Check::not_applicable("passed over", format!("{} ({origin}): {reason}", executable.display()))
}

fn chosen_checks(chosen: &PythonEnvironment) -> Vec<Check> {
    let detail = format!("{} at {} ({})", chosen.python, chosen.executable.display(), chosen.origin);
    let python = chosen.problems.iter().find(|problem| matches!(problem, Problem::PythonTooOld { .. }));
    let mut checks = vec![judged(chosen, "python", Some(detail), python)];
    let packages = [("torch", &chosen.torch), ("triton", &chosen.triton), ("numpy", &chosen.numpy)];
    for (name, package) in packages {
        let problem = chosen.problems.iter().find(|problem| concerns(problem, name));
        checks.push(judged(chosen, name, package.as_ref().map(describe), problem));
    }
    checks
}

fn describe(package: &Package) -> String {
    match &package.cuda {
        Some(cuda) => format!("{}, built for CUDA {cuda}", package.version),
        None => package.version.clone(),
    }
}

fn concerns(problem: &Problem, package: &str) -> bool {
    match problem {
        Problem::NeitherTorchNorTriton => package != "numpy",
        Problem::NoTorch | Problem::TorchInUserSite { .. } => package == "torch",
        Problem::NoTriton | Problem::TritonTooOld { .. } => package == "triton",
        Problem::NoNumpy | Problem::NumpyTooNew { .. } => package == "numpy",
        Problem::PythonTooOld { .. } => false,
    }
}

/// A version, with what is wrong about it.
fn judged(
    chosen: &PythonEnvironment,
    name: &'static str,
    version: Option<String>,
    problem: Option<&Problem>,
) -> Check {
    let remedy = |problem: &Problem| problem.remedy(&chosen.executable, chosen.mending);
    match (version, problem) {
        (Some(version), None) => Check::found(name, version),
        (Some(version), Some(problem)) => {
            Check::warning(name, format!("{version}: {problem}"), remedy(problem))
        }
        (None, Some(problem)) => Check::missing(name, problem.to_string(), remedy(problem)),
        (None, None) => Check::not_applicable(name, "not installed"),
    }
}

fn managed(context: &DoctorContext<'_>) -> Check {
    let name = "managed environment";
    let entries = entries(context.places);
    let described = entries.iter().map(|entry| {
        let state = match entry.state {
            EntryState::Complete => "complete",
            EntryState::Partial => "interrupted or in the making",
            EntryState::Remains => "remains of a removal",
        };
        let size = in_words(tree_size(&entry.folder).total_bytes());
        format!("{} ({state}, {size})", entry.folder.display())
    });
    let detail = described.collect::<Vec<_>>().join(", ");
    match entries.iter().any(|entry| entry.state != EntryState::Complete) {
        _ if entries.is_empty() => Check::not_applicable(name, "none; only made when it is needed"),
        true => Check::warning(name, detail, "`warpsmith setup` goes on, `warpsmith setup --remove` removes"),
        false => Check::found(name, detail),
    }
}
