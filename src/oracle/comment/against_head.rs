//! Rung 3: nothing says what is right, so the function is compared with its own version at HEAD, on inputs that a
//! comment gives or that the code shows.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::define::{self, Entry};
use super::grammar::ReferenceName;
use super::infer::{infer, same_inputs};
use super::parse::Parsed;
use super::{mappings, miss, same_name};
use crate::oracle::{
    Described, ForeignFile, ForeignReference, HEAD_RUNG, Head, HeadReference, LeftOut, MissKind,
    NO_REFERENCE, Oracle, OracleLabel, OracleMiss, Reference, Variant,
};
use crate::source::{self, LaunchContext, ModuleFunction, SourceModel};

/// The inputs are what the comment says.
pub(super) fn given(
    path: &Path,
    model: &SourceModel,
    parsed: &Parsed,
    entry: &str,
    head: &Head,
) -> Result<Oracle, OracleMiss> {
    let at_head = source::parse(&head.text);
    oracle((model, &at_head), parsed, entry, reference(path, entry, head, false))
}

/// Each module-level function that launches a kernel itself, on inputs that its code shows, at HEAD as now.
pub(in crate::oracle) fn inferred(
    path: &Path,
    text: &str,
    model: &SourceModel,
    head: &Head,
) -> Vec<Described> {
    let at_head = source::parse(&head.text);
    let mut described: Vec<Described> = Vec::new();
    for function in &model.functions {
        let entry = function.name.as_str();
        if !launches_itself(model, entry) || described.iter().any(|one| one.entry.as_deref() == Some(entry)) {
            continue;
        }
        let found = exists(&at_head, entry, &head.commit).and_then(|_| {
            let unknown = |unknown| {
                let (entry, commit) = (entry.to_owned(), head.commit.clone());
                OracleMiss::new(
                    MissKind::InputsUnknown { entry, commit, unknown },
                    Some(function.name_range.clone()),
                )
            };
            let now = infer(text, model, entry).map_err(unknown)?;
            let before = infer(&head.text, &at_head, entry)
                .map_err(|_| unknown(vec!["at HEAD, it does not show enough".to_owned()]))?;
            if !same_inputs(&now, &before) {
                return Err(unknown(vec!["it shows other inputs than at HEAD".to_owned()]));
            }
            oracle((model, &at_head), &now, entry, reference(path, entry, head, true))
        });
        described.push(Described { entry: Some(entry.to_owned()), oracle: found });
    }
    described
}

fn launches_itself(model: &SourceModel, function: &str) -> bool {
    let mut sites = model.kernels.iter().flat_map(|kernel| &kernel.launches);
    sites.any(|site| site.context == LaunchContext::Function && site.function == function)
}

fn reference(path: &Path, entry: &str, head: &Head, inferred: bool) -> HeadReference {
    let file = ForeignFile::Text { path: path.to_owned(), text: head.text.clone() };
    let function = ForeignReference { file, function: entry.to_owned() };
    HeadReference { function, commit: head.commit.clone(), inferred }
}

fn exists<'a>(at_head: &'a SourceModel, entry: &str, commit: &str) -> Result<&'a ModuleFunction, OracleMiss> {
    at_head.function(entry).ok_or_else(|| other_at_head(entry, commit, "there it does not exist".to_owned()))
}

fn other_at_head(entry: &str, commit: &str, why: String) -> OracleMiss {
    let (entry, commit) = (entry.to_owned(), commit.to_owned());
    OracleMiss::new(MissKind::OtherAtHead { entry, commit, why }, None)
}

/// Both versions run with the same helpers, so what changed there does not show.
fn left_out(models: (&SourceModel, &SourceModel)) -> Vec<LeftOut> {
    let modules: BTreeSet<&str> = models.0.unsteady_imports().chain(models.1.unsteady_imports()).collect();
    let of_module = |module: &str| match module {
        "." => "changes in modules that are imported from this package".to_owned(),
        name => format!("changes in `{name}`"),
    };
    let why = "only this file is taken from HEAD; what it imports is that on the disk in both versions";
    modules.into_iter().map(|module| LeftOut::new(of_module(module), why)).collect()
}

/// `models`: now and at HEAD.
fn oracle(
    models: (&SourceModel, &SourceModel),
    parsed: &Parsed,
    entry: &str,
    reference: HeadReference,
) -> Result<Oracle, OracleMiss> {
    let then = exists(models.1, entry, &reference.commit)?;
    let parameters = models.0.function(entry).map(|function| function.parameters.as_slice());
    let given = parsed.comment.items.iter().map(|item| &item.key);
    let is_new =
        |key: &&String| parameters.is_some_and(|now| now.contains(key)) && !then.parameters.contains(key);
    if let Some(new) = given.into_iter().find(is_new) {
        let why = format!("there it has no parameter `{new}`: it takes ({})", then.parameters.join(", "));
        return Err(other_at_head(entry, &reference.commit, why));
    }
    let itself = ReferenceName::SameFile(entry.to_owned());
    let entry_and_reference = Entry { name: entry, parameters, reference: Some(&itself) };
    let (definition, _) = define::define(parsed, &entry_and_reference).map_err(miss)?;
    let in_signature = |name: &String| parameters.is_some_and(|parameters| parameters.contains(name));
    let outputs = definition.outputs.iter().map(|(name, _)| name);
    let destinations = outputs.filter(|name| in_signature(name)).map(same_name(false)).collect();
    Ok(Oracle {
        label: OracleLabel { rung: HEAD_RUNG, label: format!("= HEAD {}{NO_REFERENCE}", reference.commit) },
        entry: entry.to_owned(),
        stated_at: (!reference.inferred).then(|| parsed.range.clone()),
        variants: vec![Variant {
            parameters: mappings(&definition, parsed),
            definition: Arc::new(definition),
        }],
        reference: Reference::Head(reference),
        destinations,
        left_out: left_out(models),
        files: Vec::new(),
    })
}
