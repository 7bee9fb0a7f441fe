//! `warpsmith doctor`: what is on this machine, what is missing, what to type.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use crate::toolchain::doctor::{DoctorContext, TOOL_LIMIT_S, examine};
use crate::toolchain::managed::{Requirements, installed};
use crate::toolchain::python::{ProbeCache, SearchRequest, find_python};
use crate::toolchain::{Places, Surroundings};

/// Looks for the Python environment, the GPU, compilers and profilers, and says how to get what is missing.
#[derive(Clone, Debug, Args)]
pub(super) struct DoctorArgs {
    /// The kernel file, or folder, that the Python environment is looked for (default: this folder)
    pub(super) path: Option<PathBuf>,
    /// Look at this Python interpreter
    #[arg(long, value_name = "PATH")]
    pub(super) python: Option<PathBuf>,
    /// One JSON object instead of the table
    #[arg(long)]
    pub(super) json: bool,
}

/// Exit code 0 if kernels can be checked, 2 otherwise.
///
/// # Errors
/// There is no place for our files, or the current folder is gone.
#[allow(clippy::print_stdout, reason = "a verb's own output; the language server does not come here")]
pub(super) fn run(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let surroundings = Surroundings::of_this_process();
    let places = Places::of(&surroundings)?;
    let here = std::env::current_dir()?;
    let path = args.path.as_ref().map_or_else(|| here.clone(), |path| here.join(path));
    // The search starts in the folder that holds the document, which need not exist.
    let document = if path.is_dir() { path.join("kernel.py") } else { path };
    let flag = args.python.as_ref().map(|python| here.join(python));
    let made = installed(&places, &Requirements::of(&surroundings));
    let request = SearchRequest {
        document: Some(&document),
        flag: flag.as_deref(),
        managed: made.as_ref().map(|made| &*made.executable),
        ..SearchRequest::new(&surroundings)
    };
    let search = find_python(&request, &ProbeCache::default());
    let report = examine(DoctorContext {
        surroundings: &surroundings,
        places: &places,
        search: &search,
        root: Path::new("/"),
        tool_limit_s: TOOL_LIMIT_S,
    });
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{report}");
    }
    Ok(ExitCode::from(if report.can_check { 0 } else { 2 }))
}
