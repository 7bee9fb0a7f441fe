//! Where truth comes from for the functions of a file, and what to call it.

mod comment;
mod conventions;
mod fingerprint;
mod miss;
mod module;
mod project_file;
mod source_file;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use comment::{Draft, draft};
pub use fingerprint::fingerprint;
pub use miss::{MissKind, OracleMiss};
pub use module::{ModuleReference, ModuleSize};
pub use source_file::{Unreadable, read_source};

use crate::runner::protocol::{Argument, ArgumentSource, Place};
use crate::source::{Kernel, SourceModel, line_of};
use crate::spec::{Definition, Language, Solution};

/// The rung of [`HeadReference`].
pub const HEAD_RUNG: u8 = 3;
/// The end of its label: everywhere but where there is no room, it is said that nobody knows what is right.
const NO_REFERENCE: &str = " (no reference)";

/// The rung of the ladder, and the words that stand beside every verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OracleLabel {
    /// See the table in `ARCHITECTURE.md`.
    pub rung: u8,
    /// `AutoKernel softmax · torch ref`.
    pub label: String,
}

impl OracleLabel {
    /// Not what is right, but what was.
    pub fn is_head(&self) -> bool {
        self.rung == HEAD_RUNG
    }

    /// `= HEAD a1b2c3d`, where there is little room.
    pub fn short(&self) -> &str {
        self.label.strip_suffix(NO_REFERENCE).unwrap_or(&self.label)
    }
}

/// Where truth comes from for one function of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Oracle {
    pub label: OracleLabel,
    /// The function of the file that is called.
    pub entry: String,
    /// The first is what an entry without options stands for. None only with [`Reference::Module`]: what such a
    /// problem looks like is told by its process.
    pub variants: Vec<Variant>,
    pub reference: Reference,
    /// Bytes of the file where it is said what is right.
    pub stated_at: Option<Range<usize>>,
    /// Outputs that the entry writes into an argument, by name; all of them or none. Then what it returns
    /// does not matter.
    pub destinations: Vec<Mapping>,
    /// Cases that are told of but cannot be run.
    pub left_out: Vec<LeftOut>,
    /// Files besides the judged one that say what is right.
    pub files: Vec<PathBuf>,
}

/// A case, or several, that somebody described and that is not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub what: String,
    /// Completes "not run: `what` (`why`)".
    pub why: String,
}

impl LeftOut {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

/// Who computes the expected values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The Definition's own source, run by the judge: it is ours, or calls one named function of torch.
    Ours,
    /// A function that is not ours: it runs in a process of its own, after the candidate, and its outputs
    /// cross like a candidate's.
    Foreign(ForeignReference),
    /// A class of the user's, whose file also makes inputs and weights, in a process of its own.
    Module(ModuleReference),
    /// The same function as it was committed last. It says what was, not what is right.
    Head(HeadReference),
}

/// The version at HEAD, run like a foreign reference, but in the case's own dtype only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadReference {
    pub function: ForeignReference,
    /// Abbreviated.
    pub commit: String,
    /// Nobody said what the inputs are; they were read off the code. Only a clean run of HEAD's version shows
    /// that they suit.
    pub inferred: bool,
}

impl Reference {
    /// What runs in a process of its own.
    pub fn foreign(&self) -> Option<&ForeignReference> {
        match self {
            Self::Ours | Self::Module(_) => None,
            Self::Foreign(foreign) => Some(foreign),
            Self::Head(head) => Some(&head.function),
        }
    }

    /// The version at HEAD, where that is all there is.
    pub fn head(&self) -> Option<&HeadReference> {
        match self {
            Self::Head(head) => Some(head),
            Self::Ours | Self::Foreign(_) | Self::Module(_) => None,
        }
    }
}

/// A function of the user's that says what is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignReference {
    pub file: ForeignFile,
    pub function: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForeignFile {
    /// The judged file.
    Same,
    Other(PathBuf),
    /// A text that comes with the oracle, imported under this file's name.
    Text {
        path: PathBuf,
        text: String,
    },
}

/// One Definition that the entry implements, with the options that choose it.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub definition: Arc<Definition>,
    /// How the convention calls the entry: one item for each input of the Definition, in the order in which a
    /// reference takes them.
    pub parameters: Vec<Mapping>,
}

/// One input of the Definition and the parameter of the entry that takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub input: String,
    pub parameter: String,
    /// Passed only to an entry that has the parameter; its default must then be the Definition's value.
    pub optional: bool,
}

impl Oracle {
    /// Why an entry with these parameters cannot be called, `(name, has a default)` each; `None` when it
    /// can. Checked before the first call, so that a wrong signature is never mistaken for a wrong kernel.
    pub fn signature_problem(&self, parameters: &[(String, bool)]) -> Option<String> {
        let variant = self.variants.first()?;
        let names: Vec<String> = parameters.iter().map(|(name, _)| name.clone()).collect();
        let missing: Vec<&str> = variant
            .parameters
            .iter()
            .chain(&self.destinations)
            .filter(|mapping| !mapping.optional && !mapping.is_taken_by(&names))
            .map(|mapping| mapping.parameter.as_str())
            .collect();
        let unfilled: Vec<&str> = parameters
            .iter()
            .filter(|(name, has_default)| !has_default && !name.starts_with('*'))
            .map(|(name, _)| name.as_str())
            .filter(|name| !variant.fills(name) && !self.destinations.iter().any(|to| to.parameter == *name))
            .collect();
        let problem = match (missing.is_empty(), unfilled.is_empty()) {
            (true, true) => return None,
            (false, _) => format!("has no parameter {}", listed(&missing)),
            (true, false) => format!("needs {}, which nothing fills", listed(&unfilled)),
        };
        let mappings = variant.parameters.iter().chain(&self.destinations);
        let wanted: Vec<String> = mappings.map(Mapping::in_signature).collect();
        Some(format!(
            "`{entry}({})` {problem}; {} calls it by keyword: write `def {entry}({}):`",
            names.join(", "),
            self.label.label.split(" · ").next().unwrap_or_default(),
            wanted.join(", "),
            entry = self.entry,
        ))
    }

    /// Whether an entry with these parameters can be asked for this variant: it has every option of it,
    /// or the variant is the one that the entry stands for anyway.
    pub fn can_choose(&self, variant: &Variant, parameters: &[String]) -> Result<(), String> {
        let Some(standard) = self.variants.first() else { return Ok(()) };
        let missing = variant.definition.options().find(|(name, value)| {
            let is_standard = standard.definition.options().any(|option| option == (*name, *value));
            !is_standard && !parameters.contains(name)
        });
        match missing {
            None => Ok(()),
            Some((name, _)) => Err(format!("`{}` has no parameter `{name}`", self.entry)),
        }
    }
}

impl Oracle {
    /// Where it is said what is right, in the file of this path and text.
    pub fn place(&self, path: &Path, text: &str) -> Option<Place> {
        let at = self.stated_at.as_ref()?;
        Some(Place { file: path.display().to_string(), line: line_of(text, at.start) })
    }

    /// Every file but the judged one on which the answer rests.
    pub fn files_besides(&self) -> impl Iterator<Item = &PathBuf> {
        let reference = match &self.reference {
            Reference::Foreign(ForeignReference { file: ForeignFile::Other(path), .. }) => Some(path),
            Reference::Module(module) if !module.is_same_file => Some(&module.path),
            _ => None,
        };
        self.files.iter().chain(reference)
    }

    /// The outputs that are passed to the entry.
    pub fn destination_arguments(&self) -> impl Iterator<Item = Argument> {
        self.destinations.iter().map(|mapping| Argument {
            parameter: mapping.parameter.clone(),
            source: ArgumentSource::Output { output: mapping.input.clone() },
        })
    }
}

impl Variant {
    /// What is passed, by keyword, to an entry with these parameters (as [`crate::runner::protocol::Opened`]
    /// tells them: `*args` and `**kwargs` keep their stars). Options only go to a parameter of their
    /// name; required inputs go into `**kwargs` too.
    pub fn arguments(&self, parameters: &[String]) -> Vec<Argument> {
        let inputs = self.parameters.iter().filter(|mapping| mapping.is_taken_by(parameters));
        let inputs = inputs.map(|mapping| Argument {
            parameter: mapping.parameter.clone(),
            source: ArgumentSource::Input { input: mapping.input.clone() },
        });
        let options = self.definition.options().filter(|(name, _)| parameters.contains(name));
        let options = options.map(|(name, value)| Argument {
            parameter: name.clone(),
            source: ArgumentSource::Value { value: value.clone() },
        });
        inputs.chain(options).collect()
    }

    fn fills(&self, parameter: &str) -> bool {
        let mapped = self.parameters.iter().any(|mapping| mapping.parameter == parameter);
        mapped || self.definition.options().any(|(name, _)| name == parameter)
    }
}

impl Mapping {
    fn is_taken_by(&self, parameters: &[String]) -> bool {
        let named = parameters.contains(&self.parameter);
        named || !self.optional && parameters.iter().any(|name| name.starts_with("**"))
    }

    fn in_signature(&self) -> String {
        if self.optional { format!("{}=…", self.parameter) } else { self.parameter.clone() }
    }
}

fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// Where truth comes from for a packed Solution, whose `solution.json` lies at `path`; `text` is that of its entry's
/// file.
pub fn of_solution(solution: &Solution, path: &Path, text: &str, model: &SourceModel) -> Described {
    let packed = || conventions::flashinfer::packed(solution, path, text, model);
    Described::only(match model.kernels.is_empty() {
        true => Err(no_kernel(text)),
        false => packed().map_err(|kind| OracleMiss::new(kind, None)),
    })
}

/// Whether Solutions in this language can be judged; `path` is the file that says it.
///
/// # Errors
/// They cannot.
pub fn language(language: Language, path: &Path) -> Result<(), MissKind> {
    conventions::flashinfer::language(language, path)
}

/// Why there is nothing to judge in a text without kernels.
fn no_kernel(text: &str) -> OracleMiss {
    let in_string = decorator_outside_comments(text);
    in_string.map_or_else(
        || OracleMiss::new(MissKind::NoKernel, None),
        |range| OracleMiss::new(MissKind::KernelInString, Some(range)),
    )
}

fn decorator_outside_comments(text: &str) -> Option<Range<usize>> {
    const DECORATOR: &str = "@triton.jit";
    let line_before = |at: usize| text[..at].rsplit('\n').next().unwrap_or_default();
    let mut found = text.match_indices(DECORATOR).map(|(at, _)| at);
    let at = found.find(|&at| !line_before(at).trim_start().starts_with('#'))?;
    Some(at..at + DECORATOR.len())
}

/// The judged file as it was committed last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Abbreviated.
    pub commit: String,
    pub text: String,
}

/// One function of a file, and where truth comes from for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// `None` when not even the function is known.
    pub entry: Option<String>,
    pub oracle: Result<Oracle, OracleMiss>,
}

/// Finds where truth comes from, for each function that a comment, `warpsmith.toml` or a convention describes. At
/// least one item. `path` itself is not read, files beside and above it may be. `asked`, a kernel or a function,
/// leaves only what concerns it.
///
/// A comment was written for us and names its function, so it is believed first; a `warpsmith.toml` is believed
/// before a convention. What is believed later only adds functions that nothing has described yet.
pub fn find_all(path: &Path, text: &str, model: &SourceModel, asked: Option<&str>) -> Vec<Described> {
    find_all_or_head(path, text, model, asked, None)
}

/// As [`find_all`]; where nothing says what is right, the version at HEAD is what to compare with.
pub fn find_all_or_head(
    path: &Path,
    text: &str,
    model: &SourceModel,
    asked: Option<&str>,
    head: Option<&Head>,
) -> Vec<Described> {
    let file = conventions::File { path, text, model };
    let mut described = told(&file, head);
    // Of what cannot be read nobody knows which function it speaks of: it may be the one of a convention.
    if described.iter().all(|one| one.entry.is_some()) {
        let miss = add_by_convention(&file, &mut described);
        if let (Some(head), Some(miss)) = (head, &miss)
            && miss.asks_for_head()
        {
            described = comment::inferred(path, text, model, head);
        }
        if let (Some(miss), true) = (miss, described.is_empty()) {
            described.push(Described::only(Err(miss)));
        }
    }
    let Some(asked) = asked else { return described };
    let entries: Vec<String> = described.iter().filter_map(|one| one.entry.clone()).collect();
    // What a single entry launches is seen when it runs; a call that the code does not show counts as well.
    let is_only = described.len() == 1 && model.kernels_named(asked).next().is_some();
    described.retain(|one| is_only || one.concerns(asked, model));
    if described.is_empty() {
        let kind = MissKind::NotDescribed { asked: asked.to_owned(), entries };
        described.push(Described { entry: None, oracle: Err(OracleMiss::new(kind, None)) });
    }
    described
}

impl Described {
    fn only(oracle: Result<Oracle, OracleMiss>) -> Self {
        Self { entry: oracle.as_ref().ok().map(|oracle| oracle.entry.clone()), oracle }
    }

    /// See [`OracleMiss::asks_for_head`].
    pub fn asks_for_head(&self) -> bool {
        self.oracle.as_ref().is_err_and(OracleMiss::asks_for_head)
    }

    /// Whether its verdict says something of this kernel or function.
    fn concerns(&self, asked: &str, model: &SourceModel) -> bool {
        let Some(entry) = &self.entry else { return true };
        let launches = model.function(entry).map(|function| function.launches.as_slice()).unwrap_or_default();
        entry == asked || model.kernels_named(asked).any(|kernel| launches.contains(&kernel.id))
    }
}

/// The first of [`find_all`].
///
/// # Errors
/// Why nothing was found, and what to do next.
pub fn find(path: &Path, text: &str, model: &SourceModel, asked: Option<&str>) -> Result<Oracle, OracleMiss> {
    let first = find_all(path, text, model, asked).into_iter().next();
    first.map_or_else(|| Err(OracleMiss::new(MissKind::NoConvention, None)), |one| one.oracle)
}

/// What was written for us: comments above classes and functions, then `warpsmith.toml`.
fn told(file: &conventions::File<'_>, head: Option<&Head>) -> Vec<Described> {
    // What is said of it is true of a kernel that cannot be run from here.
    if file.model.kernels.is_empty() && decorator_outside_comments(file.text).is_some() {
        return Vec::new();
    }
    let judged = comment::Judged { path: file.path, text: file.text, model: file.model };
    let link = conventions::linked_class(file);
    let of_functions = comment::find_all(&judged, head, link.as_ref().map(|link| link.usual));
    let of_class = link.map(|link| Described { entry: link.entry, oracle: link.oracle });
    let of_project = project_file::find_all(&judged);
    let mut described: Vec<Described> = Vec::new();
    for one in of_class.into_iter().chain(of_functions).chain(of_project) {
        let is_known = match &one.entry {
            Some(entry) => describes(&described, entry),
            None => described.contains(&one),
        };
        if !is_known {
            described.push(one);
        }
    }
    described
}

fn describes(described: &[Described], entry: &str) -> bool {
    described.iter().any(|one| one.entry.as_deref() == Some(entry))
}

/// Adds the functions of conventions that nothing describes yet. Where that leaves none at all, why.
fn add_by_convention(file: &conventions::File<'_>, described: &mut Vec<Described>) -> Option<OracleMiss> {
    let model = file.model;
    if described.is_empty() && model.kernels.is_empty() {
        return Some(no_kernel(file.text));
    }
    for convention in conventions::ALL {
        match convention(file) {
            Some(Ok(oracle)) if !describes(described, &oracle.entry) => {
                described.push(Described::only(Ok(oracle)));
            }
            Some(Err(miss)) if described.is_empty() => return Some(miss),
            _ => {}
        }
    }
    if !described.is_empty() {
        return None;
    }
    let lonely = |kernel: &&Kernel| model.is_lonely(kernel);
    let kernels: Vec<String> =
        model.kernels.iter().filter(lonely).map(|kernel| kernel.id.0.clone()).collect();
    let kind = match model.kernels.iter().any(Kernel::is_launched) {
        false if !kernels.is_empty() => MissKind::LaunchedElsewhere { kernels },
        _ => MissKind::NoConvention,
    };
    Some(OracleMiss::new(kind, None))
}
