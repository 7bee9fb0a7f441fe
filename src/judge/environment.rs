//! Which Python a check uses, and the code of the finding when there is none.

use std::path::{Path, PathBuf};

use super::{Code, Finding};
use crate::project::{self, ProjectFile};
use crate::toolchain::managed::{self, Dialogue, EnvironmentPolicy, Requirements, SetupContext};
use crate::toolchain::python::{
    PYTHON_VARIABLE, ProbeCache, Problem, ProjectPython, PythonEnvironment, PythonSearch, Rejection,
    SearchRequest, Standing, find_python,
};
use crate::toolchain::{Places, Surroundings};

/// Where and how to look.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pub(super) file: PathBuf,
    /// `--python`.
    pub(super) named: Option<PathBuf>,
    /// `python.path` of the editor's settings.
    pub(super) setting: Option<PathBuf>,
    pub(super) policy: EnvironmentPolicy,
}

/// The interpreter for a file; made, if the policy allows it. Blocks: probes are processes.
pub(super) fn find_python_for(
    search: &Search,
    surroundings: &Surroundings,
    places: &Places,
    probes: &ProbeCache,
    dialogue: &mut dyn Dialogue,
) -> Result<PythonEnvironment, Box<Finding>> {
    let project = project_of(search, surroundings)?;
    let request = request(search, surroundings, project.as_ref());
    let context = SetupContext { surroundings, places, probes };
    managed::find_or_make_python(context, &request, search.policy, dialogue)
        // Probes are cached: asking again why costs nothing.
        .map_err(|text| Box::new(Finding::plain(code_of(&find_python(&request, probes)), text)))
}

fn request<'a>(
    search: &'a Search,
    surroundings: &'a Surroundings,
    project: Option<&'a ProjectFile>,
) -> SearchRequest<'a> {
    let project = project.and_then(|project| {
        Some(ProjectPython { executable: project.python.as_deref()?, file: &project.path })
    });
    SearchRequest {
        document: Some(&search.file),
        project,
        flag: search.named.as_deref(),
        setting: search.setting.as_deref(),
        ..SearchRequest::new(surroundings)
    }
}

/// What the search that ended with `chosen` rested on; `None` where that cannot be looked at again.
pub(super) fn standing(
    search: &Search,
    (surroundings, places): (&Surroundings, &Places),
    probes: &ProbeCache,
    chosen: &PythonEnvironment,
) -> Option<Standing> {
    with_request(search, (surroundings, places), |request| Standing::of(request, chosen, probes))?
}

/// Whether a search now would end in the same way. Starts no process.
pub(super) fn still_stands(
    search: &Search,
    (surroundings, places): (&Surroundings, &Places),
    standing: &Standing,
) -> bool {
    with_request(search, (surroundings, places), |request| standing.holds(request)).unwrap_or(false)
}

/// `None` when the project's file cannot be read.
fn with_request<T>(
    search: &Search,
    (surroundings, places): (&Surroundings, &Places),
    ask: impl FnOnce(&SearchRequest<'_>) -> T,
) -> Option<T> {
    let project = project_of(search, surroundings).ok()?;
    let made = managed::installed(places, &Requirements::of(surroundings));
    let managed = made.as_ref().map(|made| &*made.executable);
    Some(ask(&SearchRequest { managed, ..request(search, surroundings, project.as_ref()) }))
}

/// The project's file, unless somebody names an interpreter who is believed before it.
fn project_of(search: &Search, surroundings: &Surroundings) -> Result<Option<ProjectFile>, Box<Finding>> {
    let is_named = search.named.is_some()
        || search.setting.is_some()
        || surroundings.variable(PYTHON_VARIABLE).is_some();
    if is_named {
        return Ok(None);
    }
    project::find(&search.file).map_err(|error| {
        let message = format!("{error}; it may name the Python to use, so none is looked for");
        Box::new(Finding::plain(Code::UnusablePython, message))
    })
}

fn code_of(search: &PythonSearch) -> Code {
    if let Some(chosen) = &search.chosen {
        return chosen.problems.first().map_or(Code::JudgeFailed, code_of_problem);
    }
    let named = search.rejected.iter().find(|rejected| rejected.origin.is_explicit());
    let reasons: Vec<&Rejection> = match named {
        Some(named) => vec![&named.reason],
        None => search.rejected.iter().map(|rejected| &rejected.reason).collect(),
    };
    let unusable = reasons.into_iter().find_map(|reason| match reason {
        Rejection::Unusable { problem, .. } => Some(code_of_problem(problem)),
        _ => None,
    });
    unusable.unwrap_or(Code::NoPython)
}

fn code_of_problem(problem: &Problem) -> Code {
    match problem {
        Problem::NeitherTorchNorTriton
        | Problem::NoTorch
        | Problem::TorchInUserSite { .. }
        | Problem::NoTriton
        | Problem::NoNumpy => Code::NoTorch,
        Problem::TritonTooOld { .. } => Code::TritonTooOld,
        Problem::PythonTooOld { .. } | Problem::NumpyTooNew { .. } => Code::UnusablePython,
    }
}

/// Asks nobody and shows nothing: for editors, where nothing is made without `warpsmith setup`.
pub(super) struct Silent;

impl Dialogue for Silent {
    fn consents(&mut self, _plan: &managed::Plan) -> bool {
        false
    }

    fn note(&mut self, _text: &str) {}

    fn progress(&mut self, _progress: &managed::Progress) {}

    fn is_cancelled(&self) -> bool {
        false
    }
}

/// The nearest folder above the file that looks like a project's root.
pub(super) fn project_root(file: &Path) -> Option<PathBuf> {
    const MARKERS: [&str; 5] = ["warpsmith.toml", "pyproject.toml", "setup.py", "setup.cfg", ".git"];
    file.ancestors()
        .skip(1)
        .find(|folder| MARKERS.iter().any(|marker| folder.join(marker).exists()))
        .map(Path::to_path_buf)
}
