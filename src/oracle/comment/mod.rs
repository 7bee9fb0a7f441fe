//! Rung 4: one comment above the function says what is right.
//!
//! ```python
//! # warpsmith: ref=torch.nn.functional.silu x=f16|bf16[M,N] M=1,127,4096 N=1000,4096
//! def silu(x): ...
//! ```

mod define;
mod draft;
mod grammar;
mod parse;
mod place;
#[cfg(test)]
mod properties;
mod reference;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use self::define::Entry;
pub use self::draft::{Draft, draft};
use self::grammar::{ReferenceName, Value};
use self::parse::{CommentError, Parsed};
use self::place::Block;
use super::{
    ForeignFile, ForeignReference, Mapping, MissKind, Oracle, OracleLabel, OracleMiss, Reference, Variant,
};
use crate::source::SourceModel;
use crate::spec::Definition;

/// `None`: the file has no comment for us that names a reference. `asked`: the kernel that the user wants
/// to see judged, when there are several comments.
pub(super) fn find(
    path: &Path,
    text: &str,
    model: &SourceModel,
    asked: Option<&str>,
) -> Option<Result<Oracle, OracleMiss>> {
    let found = described(text, model, asked).transpose()?;
    Some(found.and_then(|(parsed, entry)| oracle(path, model, &parsed, &entry)).map_err(miss))
}

fn miss(error: CommentError) -> OracleMiss {
    OracleMiss::new(MissKind::Comment(error.message), Some(error.range))
}

/// The comment to use and the function that it describes.
fn described(
    text: &str,
    model: &SourceModel,
    asked: Option<&str>,
) -> Result<Option<(Parsed, String)>, CommentError> {
    let mut found: Vec<(Parsed, String, Block)> = Vec::new();
    for block in place::blocks(text)? {
        let lines: Vec<parse::Line<'_>> =
            block.lines.iter().map(|line| (line.start, text.get(line.clone()).unwrap_or_default())).collect();
        let parsed = parse::parse(&lines, block.range.clone())?;
        if parsed.comment.items.iter().any(|item| matches!(item.value, Value::Definition(_))) {
            continue;
        }
        let entry = block.entry(model)?;
        found.push((parsed, entry, block));
    }
    if found.len() > 1
        && let Some(asked) = asked
    {
        found.retain(|(_, entry, block)| concerns(model, entry, block, asked));
    }
    match found.len() {
        0 => Ok(None),
        1 => Ok(found.pop().map(|(parsed, entry, _)| (parsed, entry))),
        count => {
            let entries: Vec<String> = found.iter().map(|(_, entry, _)| format!("`{entry}`")).collect();
            let message = format!(
                "{count} comments describe {}; one is judged at a time: choose it with `--kernel NAME`",
                entries.join(", ")
            );
            let range = found.last().map(|(parsed, _, _)| parsed.range.clone()).unwrap_or_default();
            Err(CommentError::new(message, range))
        }
    }
}

fn concerns(model: &SourceModel, entry: &str, block: &Block, asked: &str) -> bool {
    let launched = model
        .kernels
        .iter()
        .filter(|kernel| kernel.name == asked || kernel.id.0 == asked)
        .any(|kernel| kernel.launches.iter().any(|site| site.function == entry));
    launched || block.function.as_deref() == Some(asked)
}

fn oracle(path: &Path, model: &SourceModel, parsed: &Parsed, entry: &str) -> Result<Oracle, CommentError> {
    let function = model.functions.iter().rfind(|function| function.name == entry);
    let parameters = function.map(|function| function.parameters.as_slice());
    let (definition, name) = define::define(parsed, &Entry { name: entry, parameters })?;
    let (reference, told) = referred(path, model, parsed, entry, &name)?;
    let in_signature = |name: &String| parameters.is_some_and(|parameters| parameters.contains(name));
    let outputs = definition.outputs.iter().map(|(name, _)| name);
    let destinations = outputs.filter(|name| in_signature(name)).map(same_name(false)).collect();
    Ok(Oracle {
        label: OracleLabel { rung: 4, label: format!("comment · {told}") },
        entry: entry.to_owned(),
        variants: vec![Variant {
            parameters: mappings(&definition, parsed),
            definition: Arc::new(definition),
        }],
        reference,
        stated_at: Some(reference_range(parsed)),
        destinations,
    })
}

fn same_name(optional: bool) -> impl Fn(&String) -> Mapping {
    move |name| Mapping { input: name.clone(), parameter: name.clone(), optional }
}

/// In the comment's order, by the entry's names; scalars go only to a parameter of their name.
fn mappings(definition: &Definition, parsed: &Parsed) -> Vec<Mapping> {
    let keys = parsed.comment.items.iter().map(|item| &item.key);
    keys.filter_map(|key| Some(same_name(definition.input(key)?.is_scalar())(key))).collect()
}

/// Who computes the expected values, and how that is told.
fn referred(
    path: &Path,
    model: &SourceModel,
    parsed: &Parsed,
    entry: &str,
    name: &ReferenceName,
) -> Result<(Reference, String), CommentError> {
    let foreign =
        |file, function: &String| Reference::Foreign(ForeignReference { file, function: function.clone() });
    match name {
        ReferenceName::Torch(name) => Ok((Reference::Ours, name.clone())),
        ReferenceName::SameFile(function) => {
            if function == entry {
                let message = format!(
                    "`ref={function}` names the function that is judged; name the one that says what is right"
                );
                return Err(CommentError::new(message, reference_range(parsed)));
            }
            let is_known = model.functions.iter().any(|known| known.name == *function)
                || model.bindings.iter().any(|binding| binding.name == *function);
            if !is_known {
                let message = format!(
                    "`ref={function}`: this file has no function `{function}`; functions of torch are written in full, \
                     such as `torch.nn.functional.silu`"
                );
                return Err(CommentError::new(message, reference_range(parsed)));
            }
            Ok((foreign(ForeignFile::Same, function), format!("{function} · ref from the same file")))
        }
        ReferenceName::OtherFile { path: relative, function } => {
            let file: PathBuf = path.parent().unwrap_or(Path::new("")).join(relative);
            Ok((foreign(ForeignFile::Other(file), function), format!("{relative}::{function}")))
        }
    }
}

fn reference_range(parsed: &Parsed) -> std::ops::Range<usize> {
    let items = parsed.comment.items.iter().zip(&parsed.ranges);
    let found = items.into_iter().find(|(item, _)| matches!(item.value, Value::Reference(_)));
    found.map_or_else(|| parsed.range.clone(), |(_, range)| range.clone())
}
