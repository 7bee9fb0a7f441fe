//! Solution: source that claims to implement a Definition.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

use super::locate::Locations;
use super::problem::{JsonPath, Problem, SpecError};

/// Source that claims to implement a Definition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Solution {
    pub name: String,
    /// The name of the Definition.
    pub definition: String,
    pub author: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub spec: BuildSpec,
    pub sources: Vec<SourceFile>,
}

/// How the sources are built and called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildSpec {
    pub language: Language,
    /// At least one; free text such as `LOCAL` or `NVIDIA_H100`.
    pub target_hardware: Vec<String>,
    /// `<relative file>::<function>`.
    pub entry_point: String,
    #[serde(default)]
    pub dependencies: Vec<String>,
    /// Called as `f(*inputs, *outputs)`; otherwise it returns the outputs.
    #[serde(default = "default_true")]
    pub destination_passing_style: bool,
    /// For C++ and CUDA; absent means tvm-ffi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<Binding>,
}

fn default_true() -> bool {
    true
}

/// What the sources are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    Python,
    Triton,
    Cpp,
    Cuda,
    Tilelang,
}

impl Language {
    fn suffixes(self) -> &'static [&'static str] {
        match self {
            Self::Python | Self::Triton | Self::Tilelang => &["py"],
            Self::Cpp => &["cpp", "cc", "cxx", "c"],
            Self::Cuda => &["cu"],
        }
    }
}

/// How a compiled entry is called from Python.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Binding {
    TvmFfi,
    Torch,
}

/// One file of a Solution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Relative, without `..`, unique in the Solution.
    pub path: String,
    pub content: String,
}

impl Solution {
    /// Reads a Solution from the text of a file.
    ///
    /// # Errors
    /// A text that has not the shape of a Solution, or all rules that a well-shaped one breaks.
    pub fn from_json(text: &str, file_name: &str) -> Result<Self, SpecError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let solution: Self =
            serde_json::from_str(text).map_err(|error| SpecError::from_json_error(file_name, &error))?;
        let mut problems = solution.problems();
        if problems.is_empty() {
            return Ok(solution);
        }
        let locations = Locations::scan(text);
        for problem in &mut problems {
            problem.position = locations.value(&problem.path);
        }
        Err(SpecError { file: file_name.to_owned(), problems })
    }

    /// The file and the function of the entry point.
    pub fn entry(&self) -> Option<(&str, &str)> {
        let (file, function) = self.spec.entry_point.split_once("::")?;
        (!file.is_empty() && !function.is_empty() && !function.contains("::")).then_some((file, function))
    }

    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut add = |path: JsonPath, message: String, fix: &str| {
            problems.push(Problem { path, position: None, message, fix: fix.to_owned() });
        };
        let root = JsonPath::default();
        for (key, value) in [("name", &self.name), ("definition", &self.definition), ("author", &self.author)]
        {
            if value.trim().is_empty() {
                add(root.key(key), "is empty".to_owned(), "give it a name");
            }
        }
        let spec = root.key("spec");
        if self.spec.target_hardware.is_empty() {
            let fix = "name at least one target, such as \"LOCAL\"";
            add(spec.key("target_hardware"), "is empty".to_owned(), fix);
        }
        self.check_entry(&spec.key("entry_point"), &mut add);
        if self.spec.binding.is_some() && !matches!(self.spec.language, Language::Cpp | Language::Cuda) {
            let message = "only belongs to the languages cpp and cuda".to_owned();
            add(spec.key("binding"), message, "remove it");
        }
        if self.sources.is_empty() {
            add(root.key("sources"), "is empty".to_owned(), "add the file of the entry point");
        }
        let mut seen = BTreeSet::new();
        for (index, source) in self.sources.iter().enumerate() {
            let path = root.key("sources").index(index).key("path");
            if !is_inside(&source.path) {
                let fix = "write a relative path without `..`";
                add(path, format!("`{}` leaves the Solution", source.path), fix);
            } else if !seen.insert(source.path.as_str()) {
                add(path, format!("`{}` is there twice", source.path), "give each file its own path");
            }
        }
        problems
    }

    fn check_entry(&self, path: &JsonPath, add: &mut impl FnMut(JsonPath, String, &str)) {
        let entry_point = &self.spec.entry_point;
        let Some((file, _)) = self.entry() else {
            let message = format!("`{entry_point}` is no entry point");
            add(path.clone(), message, "write `<file>::<function>`, such as \"kernel.py::run\"");
            return;
        };
        if !self.sources.iter().any(|source| source.path == file) {
            let message = format!("names the file `{file}`, which is not among `sources`");
            add(path.clone(), message, "add the file, or name one that is there");
        }
        let suffix = Path::new(file).extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        let suffixes = self.spec.language.suffixes();
        if !suffixes.contains(&suffix) {
            let message = format!("`{file}` does not suit the language");
            add(path.clone(), message, &format!("name a file ending in .{}", suffixes.join(" or .")));
        }
    }
}

fn is_inside(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}
