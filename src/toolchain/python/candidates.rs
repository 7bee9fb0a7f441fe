//! Where interpreters may be, source by source. Each source is asked only when those before it gave
//! nothing usable, so uv is not started without need.

use std::path::{Path, PathBuf};

use super::{Origin, PYTHON_VARIABLE, SearchRequest};
use crate::toolchain::Release;
use crate::toolchain::subprocess::{Limits, run};

type Candidates = Vec<(PathBuf, Origin)>;

/// In the order of the search.
pub(super) const SOURCES: [fn(&SearchRequest<'_>) -> Candidates; 8] =
    [named, active_venv, dot_venv, uv_project, conda, pyenv, on_path, managed];

const UV_LIMIT_S: u64 = 10;
/// Text files that name something are short; anything longer is another kind of file.
const NAMING_FILE_BYTES: u64 = 4 << 10;

fn named(request: &SearchRequest<'_>) -> Candidates {
    let variable = request.surroundings.variable(PYTHON_VARIABLE).map(Path::new);
    let project = Origin::Project { file: request.project.map_or(Path::new(""), |p| p.file).to_owned() };
    let named = [
        (request.flag, Origin::Flag),
        (variable, Origin::Variable),
        (request.setting, Origin::Setting),
        (request.project.map(|project| project.executable), project),
        (request.editor, Origin::Editor),
    ];
    named
        .into_iter()
        .filter_map(|(path, origin)| Some((path?, origin)))
        .filter_map(|(path, origin)| Some((resolve_named(path, &origin, request)?, origin)))
        .collect()
}

/// A named interpreter may be a bare program name, an environment's folder, or a path from the workspace.
/// The editor's bare `python` says nothing more than PATH does, so it is no candidate of its own.
fn resolve_named(path: &Path, origin: &Origin, request: &SearchRequest<'_>) -> Option<PathBuf> {
    let is_bare = path.components().count() == 1 && !path.is_absolute();
    if is_bare && *origin == Origin::Editor {
        return None;
    }
    let text = path.to_string_lossy();
    let found = match (text.strip_prefix("~/"), request.surroundings.home()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ if is_bare => match request.surroundings.find_program(&text) {
            Some(program) => program,
            None => from_workspace(path, request),
        },
        _ => from_workspace(path, request),
    };
    Some(if found.is_dir() { interpreter_in(&found) } else { found })
}

fn from_workspace(path: &Path, request: &SearchRequest<'_>) -> PathBuf {
    request.workspace.map_or_else(|| path.to_owned(), |workspace| workspace.join(path))
}

/// `bin/python` of an environment's folder, else `bin/python3`.
fn interpreter_in(environment: &Path) -> PathBuf {
    let bin = environment.join("bin");
    let python3 = bin.join("python3");
    let python = bin.join("python");
    if !python.exists() && python3.exists() { python3 } else { python }
}

fn active_venv(request: &SearchRequest<'_>) -> Candidates {
    let folder = request.surroundings.absolute_path("VIRTUAL_ENV");
    folder.map(|folder| (interpreter_in(&folder), Origin::ActiveVenv)).into_iter().collect()
}

fn dot_venv(request: &SearchRequest<'_>) -> Candidates {
    folders_upwards(request)
        .filter_map(|folder| {
            let place = folder.join(".venv");
            let environment = if place.is_dir() { place.clone() } else { folder.join(first_line(&place)?) };
            Some((interpreter_in(&environment), Origin::DotVenv { place }))
        })
        .collect()
}

/// All candidates, where no process has to be started to find one; in the place of one that uv would have to be asked
/// for stands `None`.
pub(super) fn without_processes(request: &SearchRequest<'_>) -> Vec<Option<(PathBuf, Origin)>> {
    let before = [named, active_venv, dot_venv].into_iter().flat_map(|source| source(request)).map(Some);
    let after = [conda, pyenv, on_path, managed].into_iter().flat_map(|source| source(request)).map(Some);
    let of_uv = uv_and_project(request).map(|_| None);
    before.chain(of_uv).chain(after).collect()
}

fn uv_and_project<'a>(request: &SearchRequest<'a>) -> Option<(PathBuf, &'a Path)> {
    let project = folders_upwards(request).find(|folder| is_uv_project(folder))?;
    Some((request.surroundings.find_program("uv")?, project))
}

fn uv_project(request: &SearchRequest<'_>) -> Candidates {
    let Some((uv, project)) = uv_and_project(request) else { return vec![] };
    let mut command = request.surroundings.command(uv);
    command.args(["python", "find", "--project"]).arg(project).current_dir(project);
    // A search downloads nothing.
    command.env("UV_PYTHON_DOWNLOADS", "never").env("UV_OFFLINE", "1").env("NO_COLOR", "1");
    let Ok(finished) = run(command, Limits::seconds(UV_LIMIT_S)) else { return vec![] };
    let executable = PathBuf::from(finished.stdout_text().trim());
    if !finished.succeeded() || !executable.is_absolute() {
        return vec![];
    }
    vec![(executable, Origin::Uv { project: project.to_owned() })]
}

fn is_uv_project(folder: &Path) -> bool {
    folder.join("uv.lock").is_file()
        || std::fs::read_to_string(folder.join("pyproject.toml")).is_ok_and(|text| {
            text.lines()
                .map(|line| line.trim_start().trim_start_matches('['))
                .any(|table| table.strip_prefix("tool.uv").is_some_and(|rest| rest.starts_with([']', '.'])))
        })
}

fn conda(request: &SearchRequest<'_>) -> Candidates {
    let folder = request.surroundings.absolute_path("CONDA_PREFIX");
    folder.map(|folder| (interpreter_in(&folder), Origin::Conda)).into_iter().collect()
}

fn pyenv(request: &SearchRequest<'_>) -> Candidates {
    let surroundings = request.surroundings;
    let root = surroundings.absolute_path("PYENV_ROOT");
    let Some(root) = root.or_else(|| surroundings.home().map(|home| home.join(".pyenv"))) else {
        return vec![];
    };
    let versions = root.join("versions");
    folders_upwards(request)
        .filter_map(|folder| {
            let file = folder.join(".python-version");
            let environment = pyenv_version(&versions, &first_line(&file)?)?;
            Some((interpreter_in(&environment), Origin::Pyenv { file }))
        })
        .take(1)
        .collect()
}

/// The installed version of that name, else the newest that it is a prefix of (`3.11` is 3.11.7).
fn pyenv_version(versions: &Path, name: &str) -> Option<PathBuf> {
    let is_plain = !name.split('/').any(|part| part.is_empty() || part == "." || part == "..");
    if !is_plain || name == "system" {
        return None;
    }
    let exact = versions.join(name);
    if exact.is_dir() {
        return Some(exact);
    }
    let prefix = format!("{name}.");
    std::fs::read_dir(versions)
        .ok()?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&prefix)))
        .max_by_key(|path| path.file_name().and_then(|file| Release::parse(&file.to_string_lossy())))
}

fn on_path(request: &SearchRequest<'_>) -> Candidates {
    let found = ["python3", "python"].into_iter().find_map(|name| request.surroundings.find_program(name));
    found.map(|executable| (executable, Origin::Path)).into_iter().collect()
}

fn managed(request: &SearchRequest<'_>) -> Candidates {
    request.managed.map(|executable| (executable.to_owned(), Origin::Managed)).into_iter().collect()
}

/// The document's folder and those above it, up to the workspace if the document lies in it.
fn folders_upwards<'a>(request: &SearchRequest<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
    let start = request.document.and_then(Path::parent).or(request.workspace);
    let end = request.workspace.filter(|end| start.is_some_and(|start| start.starts_with(end)));
    let above = end.and_then(Path::parent);
    let folders = start.into_iter().flat_map(Path::ancestors);
    folders.filter(|folder| folder.is_absolute()).take_while(move |folder| Some(*folder) != above)
}

/// The first line that is neither empty nor a comment, of a short text file.
fn first_line(path: &Path) -> Option<String> {
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
    if metadata.len() > NAMING_FILE_BYTES {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    Some(line.to_owned())
}
