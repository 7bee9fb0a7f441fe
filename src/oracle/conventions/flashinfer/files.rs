//! Where Solutions, Definitions and Workloads lie: beside the kernel, in the layout of the contest's starter
//! kit, in a data set.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::spec::{Definition, Language, builtin_named};

/// Names the data set whose `definitions/` and `workloads/` are looked through, as for FlashInfer-Bench.
const DATASET_VARIABLE: &str = "FIB_DATASET_PATH";
/// Larger files are no Definitions that anybody wrote.
const MOST_BYTES: u64 = 16 << 20;
/// More JSON files in one folder are a data set, not what lies beside a kernel.
const MOST_FILES: usize = 64;
/// Folders above a kernel that are looked at.
const MOST_LEVELS: usize = 12;

/// A Definition and where it was found.
#[derive(Clone, Debug)]
pub(in crate::oracle) struct Stated {
    pub(in crate::oracle) definition: Arc<Definition>,
    /// `None`: inside this binary.
    pub(in crate::oracle) path: Option<PathBuf>,
}

/// What a `config.toml` or a `solution.json` says of the kernel beside or below it.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) path: PathBuf,
    pub(super) definition: String,
    pub(super) language: Language,
    pub(super) entry: String,
    pub(super) destination_passing: bool,
}

/// The two tables of the starter kit's `config.toml` that matter here.
#[derive(Deserialize)]
struct Config {
    solution: ConfigSolution,
    build: Build,
}

#[derive(Deserialize)]
struct ConfigSolution {
    definition: String,
}

#[derive(Deserialize)]
struct Build {
    language: Language,
    entry_point: String,
    #[serde(default = "yes")]
    destination_passing_style: bool,
}

/// A `solution.json`, packed or written by hand: its sources may be missing, the kernel lies beside it.
#[derive(Deserialize)]
struct Packed {
    definition: String,
    spec: Build,
    #[serde(default)]
    sources: Vec<PackedSource>,
}

#[derive(Deserialize)]
struct PackedSource {
    path: String,
}

fn yes() -> bool {
    true
}

/// The folders above a file, up to that of its repository.
fn folders_above(file: &Path) -> Vec<&Path> {
    let mut folders = Vec::new();
    for folder in file.ancestors().skip(1).take(MOST_LEVELS) {
        folders.push(folder);
        if folder.join(".git").exists() {
            break;
        }
    }
    folders
}

/// The nearest file that says of this kernel which Solution it is.
pub(super) fn manifest(kernel: &Path) -> Result<Option<Manifest>, String> {
    for folder in folders_above(kernel) {
        let found = match of_config(&folder.join("config.toml"), kernel)? {
            None => of_packed(&folder.join("solution.json"), kernel)?,
            found => found,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn of_config(path: &Path, kernel: &Path) -> Result<Option<Manifest>, String> {
    let Some(text) = read_if_there(path)? else { return Ok(None) };
    // Many tools have a file of this name.
    let has = |table: &str| text.lines().any(|line| line.trim_start().starts_with(table));
    if !has("[solution]") || !has("[build]") {
        return Ok(None);
    }
    let config: Config = toml::from_str(&text).map_err(|error| {
        let at =
            error.span().map_or_else(String::new, |span| format!(":{}", line_and_column(&text, span.start)));
        format!("{}{at}: {}", path.display(), error.message())
    })?;
    let Config { solution, build } = config;
    concerning(path, kernel, solution.definition, build, &[])
}

fn of_packed(path: &Path, kernel: &Path) -> Result<Option<Manifest>, String> {
    let Some(text) = read_if_there(path)? else { return Ok(None) };
    let name = kernel.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    // One that does not speak of this file is none of its business, readable or not.
    if !text.contains("entry_point") || !text.contains(name) {
        return Ok(None);
    }
    let Packed { definition, spec, sources } =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    let others: Vec<String> = sources.into_iter().map(|source| source.path).collect();
    concerning(path, kernel, definition, spec, &others)
}

/// The manifest, if it speaks of this kernel: as the file of the entry point, or, where it names no file, as
/// one in the folder of the sources.
fn concerning(
    path: &Path,
    kernel: &Path,
    definition: String,
    build: Build,
    others: &[String],
) -> Result<Option<Manifest>, String> {
    let root = path.parent().unwrap_or(Path::new(""));
    let language = match build.language {
        Language::Python => "python",
        Language::Triton => "triton",
        Language::Cpp => "cpp",
        Language::Cuda => "cuda",
        Language::Tilelang => "tilelang",
    };
    let folders = [root.join("solution").join(language), root.join("solution"), root.to_owned()];
    let entry_point = build.entry_point.as_str();
    let (file, function) = match entry_point.split_once("::") {
        Some((file, function)) => (Some(file), function),
        None => (None, entry_point),
    };
    let is_entry = match file {
        Some(file) => folders.iter().any(|folder| folder.join(file) == kernel),
        None => folders.iter().any(|folder| kernel.parent() == Some(folder)),
    };
    if is_entry {
        return Ok(Some(Manifest {
            path: path.to_owned(),
            definition,
            language: build.language,
            entry: function.to_owned(),
            destination_passing: build.destination_passing_style,
        }));
    }
    let is_source = kernel.starts_with(&folders[0])
        || others.iter().any(|other| folders.iter().any(|folder| folder.join(other) == kernel));
    match file {
        Some(file) if is_source => Err(format!(
            "{} says that this file is part of a Solution whose entry is `{entry_point}`; check `{file}` instead",
            path.display()
        )),
        _ => Ok(None),
    }
}

/// The Definition of this name, near the manifest or in a data set; `Err` says what was found instead.
pub(super) fn named(name: &str, from: &Path, manifest: &Path) -> Result<Stated, String> {
    let root = manifest.parent().unwrap_or(Path::new(""));
    let mut others = Vec::new();
    let between = from.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    for folder in between.chain([root]) {
        for path in [folder.join(format!("{name}.json")), folder.join("definition.json")] {
            if !path.is_file() {
                continue;
            }
            let stated = read(&path)?;
            if stated.definition.name == name {
                return Ok(stated);
            }
            others.push(format!("{} defines `{}`", path.display(), stated.definition.name));
        }
    }
    let dataset = std::env::var_os(DATASET_VARIABLE).map(PathBuf::from);
    for path in folders_above(manifest).into_iter().map(Path::to_owned).chain(dataset) {
        if let Some(path) = in_dataset(&path, name) {
            return read(&path);
        }
    }
    if let Some(definition) = builtin_named(name) {
        return Ok(Stated { definition, path: None });
    }
    others.dedup();
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join("; ")) };
    Err(format!(
        "{} names the Definition `{name}`, which is not there{others}; put `{name}.json` beside it, or the data set's \
         folder in ${DATASET_VARIABLE}",
        manifest.display()
    ))
}

/// `<root>/definitions/<op_type>/<name>.json`
fn in_dataset(root: &Path, name: &str) -> Option<PathBuf> {
    let kinds = fs::read_dir(root.join("definitions")).ok()?;
    kinds.flatten().map(|kind| kind.path().join(format!("{name}.json"))).find(|path| path.is_file())
}

/// The Definition that lies in this folder for a kernel of this name: `definition.json`, the one named like the
/// kernel, or the only one.
pub(super) fn beside(folder: &Path, stem: &str) -> Result<Option<Stated>, String> {
    let preferred = folder.join("definition.json");
    if preferred.is_file() {
        return read(&preferred).map(Some);
    }
    let alike = folder.join(format!("{stem}.json"));
    if alike.is_file() && is_definition(&alike) {
        return read(&alike).map(Some);
    }
    let Ok(entries) = fs::read_dir(folder) else { return Ok(None) };
    let mut files: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .take(MOST_FILES + 1)
        .collect();
    if files.len() > MOST_FILES {
        return Ok(None);
    }
    files.retain(|path| is_definition(path));
    files.sort();
    match files.as_slice() {
        [] => Ok(None),
        [only] => read(only).map(Some),
        several => Err(format!(
            "{} Definitions lie beside this file: {}; say which one above the function, such as `# warpsmith: \
             definition=./{}`",
            several.len(),
            several.iter().map(|path| file_name(path)).collect::<Vec<_>>().join(", "),
            several.first().map(|path| file_name(path)).unwrap_or_default(),
        )),
    }
}

/// Whether a JSON file is meant to be a Definition, however broken.
fn is_definition(path: &Path) -> bool {
    const KEYS: [&str; 4] = ["axes", "inputs", "outputs", "reference"];
    let Ok(Some(text)) = read_if_there(path) else { return false };
    match serde_json::from_str::<Value>(&text) {
        Ok(value) => KEYS.iter().all(|key| value.get(key).is_some()),
        Err(_) => KEYS.iter().all(|key| text.contains(&format!("\"{key}\""))),
    }
}

/// Reads a Definition.
pub(in crate::oracle) fn read(path: &Path) -> Result<Stated, String> {
    let text = read_if_there(path)?.ok_or_else(|| format!("there is no file {}", path.display()))?;
    let definition =
        Definition::from_json(&text, &path.display().to_string()).map_err(|error| error.to_string())?;
    Ok(Stated { definition: Arc::new(definition), path: Some(path.to_owned()) })
}

/// The file of Workloads of a Definition at this place.
pub(super) fn workloads_of(definition: &Definition, path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    let file = format!("{}.jsonl", definition.name);
    let below = |root: &Path| root.join("workloads").join(&definition.op_type).join(&file);
    let mut candidates = vec![
        path.with_extension("jsonl"),
        folder.join(&file),
        below(folder),
        folder.join("workloads").join(&file),
    ];
    // In a data set: `definitions/<op_type>/` beside `workloads/`.
    candidates.extend(folder.ancestors().nth(2).map(below));
    candidates.into_iter().find(|path| path.is_file())
}

/// A text file of a sensible size; `None` when there is none.
pub(super) fn read_if_there(path: &Path) -> Result<Option<String>, String> {
    let Ok(metadata) = fs::metadata(path) else { return Ok(None) };
    if !metadata.is_file() {
        return Ok(None);
    }
    if metadata.len() > MOST_BYTES {
        return Err(format!(
            "{} has {} bytes; at most {MOST_BYTES} are read",
            path.display(),
            metadata.len()
        ));
    }
    fs::read_to_string(path).map(Some).map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

pub(in crate::oracle) fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// `3:7`, both 1-based; the column counts characters.
fn line_and_column(text: &str, byte: usize) -> String {
    let before = text.get(..byte).unwrap_or(text);
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{}:{column}", crate::source::line_of(text, byte))
}
