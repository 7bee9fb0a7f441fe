//! KernelBench: a class `ModelNew` beside a class `Model` with `get_inputs` and `get_init_inputs`.
//!
//! The reference is named by a comment, stands in the judged file, or in `model.py` or `reference.py` beside it.
//! Whatever the judged file itself says of inputs is not asked when there is another file.

mod problem_file;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;

use self::problem_file::ProblemFile;
use super::File;
use crate::oracle::comment::{ClassLink, CommentError, ReferenceName, class_link};
use crate::oracle::source_file::read_source;
use crate::oracle::{MissKind, ModuleReference, ModuleSize, Oracle, OracleLabel, OracleMiss, Reference};
use crate::spec::{AxisValues, Precision};

const ENTRY: &str = "ModelNew";
const CLASS: &str = "Model";
/// Where a reference is looked for when no comment names it.
const BESIDE: [&str; 2] = ["model.py", "reference.py"];
/// Sizes that one comment may ask for: each has a process of its own.
const MOST_SIZES: usize = 16;

/// A class that comments describe, or why they cannot be used.
pub(in crate::oracle) struct Linked {
    /// The class, where that much is known.
    pub(in crate::oracle) entry: Option<String>,
    /// The class that comments above functions may mean too.
    pub(in crate::oracle) usual: Option<&'static str>,
    pub(in crate::oracle) oracle: Result<Oracle, OracleMiss>,
}

/// A class that a comment describes.
pub(in crate::oracle) fn linked(file: &File<'_>) -> Option<Linked> {
    let usual = file.model.bindings.iter().any(|binding| binding.name == ENTRY).then_some(ENTRY);
    match class_link(file.text, usual) {
        // What is wrong with comments is told by whoever reads those above functions.
        Err(_) if usual.is_none() => None,
        Err(error) => Some(Linked { entry: None, usual, oracle: Err(comment_miss(error)) }),
        Ok(link) => {
            let link = link?;
            Some(Linked { oracle: described(file, &link), entry: Some(link.entry), usual })
        }
    }
}

/// `ModelNew` without a comment.
pub(super) fn find(file: &File<'_>) -> Option<Result<Oracle, OracleMiss>> {
    let entry = file.model.bindings.iter().rfind(|binding| binding.name == ENTRY)?;
    let link = ClassLink {
        entry: ENTRY.to_owned(),
        reference: None,
        constants: Vec::new(),
        eval: false,
        reduction: None,
        precision: Precision::Ieee,
        range: entry.range.clone(),
    };
    Some(described(file, &link))
}

fn comment_miss(error: CommentError) -> OracleMiss {
    OracleMiss::new(MissKind::Comment(error.message), Some(error.range))
}

fn miss(message: String, range: &Range<usize>) -> OracleMiss {
    OracleMiss::new(MissKind::KernelBench(message), Some(range.clone()))
}

/// The reference's file, the class in it, and how that is told.
struct Found {
    file: ProblemFile,
    class: String,
    words: String,
}

fn described(file: &File<'_>, link: &ClassLink) -> Result<Oracle, OracleMiss> {
    let found = match &link.reference {
        Some(name) => named(file, link, name)?,
        None => searched(file, link)?,
    };
    if let Some(problem) = found.file.problem(&found.class) {
        return Err(miss(problem, &link.range));
    }
    let is_same_file = found.file.path == file.path;
    if is_same_file && found.class == link.entry {
        let message =
            format!("`{}` is the class that is judged; name the one that says what is right", found.class);
        return Err(miss(message, &link.range));
    }
    let sizes = sizes(&found.file, link, is_same_file)?;
    let mode = if link.eval { "eval mode" } else { "train mode" };
    Ok(Oracle {
        label: OracleLabel { rung: 0, label: format!("KernelBench · {} · {mode}", found.words) },
        entry: link.entry.clone(),
        variants: Vec::new(),
        reference: Reference::Module(ModuleReference {
            path: found.file.path,
            class: found.class,
            eval: link.eval,
            sizes,
            is_same_file,
            reduction: link.reduction.clone(),
            precision: link.precision,
        }),
        stated_at: Some(link.range.clone()),
        destinations: Vec::new(),
        left_out: Vec::new(),
        files: Vec::new(),
    })
}

fn named(file: &File<'_>, link: &ClassLink, name: &ReferenceName) -> Result<Found, OracleMiss> {
    match name {
        ReferenceName::OtherFile { path: relative, function: class } => {
            let path = file.path.parent().unwrap_or(Path::new("")).join(relative);
            let text = read_source(&path).map_err(|error| {
                miss(format!("the reference's file cannot be used: {error}"), &link.range)
            })?;
            let words = format!("{relative}::{class}");
            Ok(Found { file: ProblemFile::new(path, text), class: class.clone(), words })
        }
        ReferenceName::SameFile(class) | ReferenceName::Torch(class) => Ok(in_same_file(file, class)),
    }
}

fn in_same_file(file: &File<'_>, class: &str) -> Found {
    Found {
        file: ProblemFile::new(file.path.to_owned(), file.text.to_owned()),
        class: class.to_owned(),
        words: format!("{class} · ref from the same file"),
    }
}

/// The judged file itself, or the one file beside it that holds a problem.
fn searched(file: &File<'_>, link: &ClassLink) -> Result<Found, OracleMiss> {
    let same = in_same_file(file, CLASS);
    let imports_it = file.model.imports.iter().any(|name| BESIDE.contains(&format!("{name}.py").as_str()));
    if same.file.has_class(CLASS) && !(imports_it && same.file.problem(CLASS).is_some()) {
        return Ok(same);
    }
    let folder = file.path.parent().unwrap_or(Path::new(""));
    let beside = BESIDE.iter().map(|name| folder.join(name)).filter(|path| *path != file.path);
    let mut found: Vec<ProblemFile> = beside
        .filter_map(|path| {
            let text = read_source(&path).ok()?;
            let problem = ProblemFile::new(path, text);
            (problem.has_class(CLASS) && problem.has_function("get_inputs")).then_some(problem)
        })
        .collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => {
            let words = format!("{}::{CLASS} (beside)", only.name());
            Ok(Found { file: only, class: CLASS.to_owned(), words })
        }
        (Some(_), false) => Err(miss(
            format!(
                "{} beside this file hold a `{CLASS}` each; say which is meant above `{}`: `# warpsmith: ref=./model.py::{CLASS}`",
                BESIDE.join(" and "),
                link.entry
            ),
            &link.range,
        )),
        (None, _) => Err(miss(
            format!(
                "nothing says what `{}` should compute: this file has no class `{CLASS}` with `get_inputs` and \
                 `get_init_inputs`, and neither has {} beside it; name the reference above the class: \
                 `# warpsmith: ref=./model.py::{CLASS}`",
                link.entry,
                BESIDE.join(" or ")
            ),
            &link.range,
        )),
    }
}

/// Every combination of the numbers that the comment lists; counted before any is made.
fn sizes(file: &ProblemFile, link: &ClassLink, is_same_file: bool) -> Result<Vec<ModuleSize>, OracleMiss> {
    for (name, _, range) in &link.constants {
        if let Some(problem) = file.why_not_replaceable(name) {
            return Err(miss(problem, range));
        }
    }
    let counts = link.constants.iter().map(|(_, values, _)| values.len());
    let count = counts.fold(1_usize, usize::saturating_mul);
    let several = link.constants.iter().find(|(_, values, _)| values.len() > 1);
    if let (true, Some((name, _, range))) = (is_same_file, several) {
        let message = format!(
            "`{name}` has several values, but reference and `{}` share one file and so one value; keep one, or put the \
             reference into a file of its own",
            link.entry
        );
        return Err(miss(message, range));
    }
    if count > MOST_SIZES {
        let message = format!(
            "the lists ask for {count} sizes; at most {MOST_SIZES} are run, each with a process of its own: shorten the lists"
        );
        return Err(miss(message, &link.range));
    }
    let mut combinations: Vec<AxisValues> = vec![AxisValues::new()];
    for (name, values, _) in &link.constants {
        let with = |known: &AxisValues, value: u64| {
            let mut changed = known.clone();
            changed.insert(name.clone(), value);
            changed
        };
        combinations = combinations
            .iter()
            .flat_map(|known| values.iter().map(move |&value| with(known, value)))
            .collect();
    }
    let mut sizes: Vec<ModuleSize> = Vec::new();
    for replaced in combinations {
        let mut constants: AxisValues = file.sizes();
        let text = file.with(&replaced);
        constants.extend(replaced);
        let size = ModuleSize { constants, text };
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    Ok(sizes)
}
