//! Rung 4: one comment above the function says what is right.
//!
//! ```python
//! # warpsmith: ref=torch.nn.functional.silu x=f16|bf16[M,N] M=1,127,4096 N=1000,4096
//! def silu(x): ...
//! ```

mod against_head;
mod class;
mod define;
mod definition;
mod draft;
mod evidence;
mod grammar;
mod infer;
#[cfg(test)]
mod infer_tests;
mod parse;
mod place;
#[cfg(test)]
mod properties;
mod reference;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use self::against_head::inferred;
pub(super) use self::class::{ClassLink, class_link};
use self::define::Entry;
pub use self::draft::{Draft, draft};
pub(super) use self::grammar::ReferenceName;
use self::grammar::Value;
pub(super) use self::parse::CommentError;
use self::parse::Parsed;
pub(super) use self::parse::Parsed as Items;
use super::{
    Described, ForeignFile, ForeignReference, Head, Mapping, MissKind, Oracle, OracleLabel, OracleMiss,
    Reference, Variant,
};
use crate::source::SourceModel;
use crate::spec::Definition;

/// Each function that a comment for us describes, in order; empty when there is no such comment.
/// `head` is what to compare with where a comment says what the inputs are and names no reference. `linked`: comments
/// that describe a class were read already, with this class as the usual one.
pub(super) fn find_all(
    judged: &Judged<'_>,
    head: Option<&Head>,
    linked: Option<Option<&str>>,
) -> Vec<Described> {
    let Judged { path, text, model } = *judged;
    let base = path.parent().unwrap_or(Path::new(""));
    let failed = |entry, error| Described { entry, oracle: Err(miss(error)) };
    let blocks = match place::blocks(text) {
        Ok(blocks) => blocks,
        Err(error) => return vec![failed(None, error)],
    };
    let mut described: Vec<Described> = Vec::new();
    for block in blocks {
        if linked.is_some_and(|usual| class::is_of_class(text, &block, usual)) {
            continue;
        }
        let lines: Vec<parse::Line<'_>> =
            block.lines.iter().map(|line| (line.start, text.get(line.clone()).unwrap_or_default())).collect();
        let parsed = parse::parse(&lines, block.range.clone());
        let entry = block.entry(model);
        let known =
            described.iter_mut().find(|one| one.entry.is_some() && one.entry.as_ref() == entry.as_ref().ok());
        if let (Some(known), Ok(entry)) = (known, &entry) {
            let message = format!("more than one comment describes `{entry}`; keep one");
            known.oracle = Err(miss(CommentError::new(message, block.range)));
            continue;
        }
        described.push(match (parsed, entry) {
            (Err(error), entry) => failed(entry.ok(), error),
            (Ok(_), Err(error)) => failed(None, error),
            (Ok(parsed), Ok(entry)) => {
                let statement = Statement { parsed: &parsed, entry: &entry, base };
                let oracle = match head {
                    _ if says_what_is_right(&parsed) => oracle_of(&statement, judged),
                    Some(head) => against_head::given(path, model, &parsed, &entry, head),
                    None => Err(OracleMiss::new(MissKind::NoReference, Some(parsed.range.clone()))),
                };
                Described { entry: Some(entry), oracle }
            }
        });
    }
    described
}

/// A comment, or what says the same elsewhere, and where names of files in it start from.
pub(super) struct Statement<'a> {
    pub(super) parsed: &'a Items,
    /// The function that it describes.
    pub(super) entry: &'a str,
    pub(super) base: &'a Path,
}

/// The file that is judged.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    pub(super) model: &'a SourceModel,
}

/// Where truth comes from by these items, whether a Definition or a reference is named.
pub(super) fn oracle_of(statement: &Statement<'_>, judged: &Judged<'_>) -> Result<Oracle, OracleMiss> {
    match definition::named(statement.parsed) {
        Some(_) => definition::oracle(statement, judged),
        None => oracle(statement, judged.model).map_err(miss),
    }
}

fn says_what_is_right(parsed: &Parsed) -> bool {
    let says = |value: &Value| matches!(value, Value::Reference(_) | Value::Definition(_));
    parsed.comment.items.iter().any(|item| says(&item.value))
}

fn miss(error: CommentError) -> OracleMiss {
    OracleMiss::new(MissKind::Comment(error.message), Some(error.range))
}

fn oracle(statement: &Statement<'_>, model: &SourceModel) -> Result<Oracle, CommentError> {
    let Statement { parsed, entry, base } = *statement;
    let function = model.functions.iter().rfind(|function| function.name == entry);
    let parameters = function.map(|function| function.parameters.as_slice());
    let (definition, name) = define::define(parsed, &Entry { name: entry, parameters, reference: None })?;
    let (reference, told) = referred(base, model, parsed, entry, &name)?;
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
        left_out: Vec::new(),
        files: Vec::new(),
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
    base: &Path,
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
            let file: PathBuf = base.join(relative);
            Ok((foreign(ForeignFile::Other(file), function), format!("{relative}::{function}")))
        }
    }
}

fn reference_range(parsed: &Parsed) -> std::ops::Range<usize> {
    let items = parsed.comment.items.iter().zip(&parsed.ranges);
    let found = items.into_iter().find(|(item, _)| matches!(item.value, Value::Reference(_)));
    found.map_or_else(|| parsed.range.clone(), |(_, range)| range.clone())
}
