//! FlashInfer-Bench: a Definition beside a Solution. Its `reference` is foreign code and runs in a process of its
//! own.

mod call;
mod files;
mod sizes;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use self::sizes::Settled;
use super::File;
use crate::oracle::{
    ForeignFile, ForeignReference, LeftOut, MissKind, Oracle, OracleLabel, OracleMiss, Reference, Variant,
};
use crate::source::SourceModel;
use crate::spec::{AxisExpr, AxisValues, Definition, Dtype, FillSpec, Language, Precision};

pub(in crate::oracle) use self::call::call;
pub(in crate::oracle) use self::files::{Stated, file_name, read};
pub(in crate::oracle) use self::sizes::{named, violated};

/// The function of a Solution of which nobody says how it is called.
const ENTRY: &str = "run";

/// What a Solution is, as found beside its kernel or told by a comment.
pub(in crate::oracle) struct Solution<'a> {
    pub(in crate::oracle) stated: Stated,
    pub(in crate::oracle) entry: &'a str,
    /// `None` when nothing says whether outputs are passed; the entry's parameters tell.
    pub(in crate::oracle) destination_passing: Option<bool>,
    pub(in crate::oracle) told: Told,
}

/// What the user says beyond the Definition.
#[derive(Clone, Debug, Default)]
pub(in crate::oracle) struct Told {
    /// Shapes; empty when nobody told any.
    pub(in crate::oracle) sizes: Vec<(String, AxisValues)>,
    /// Values of scalar inputs, the first of each.
    pub(in crate::oracle) args: BTreeMap<String, Value>,
    /// Further values of scalar inputs.
    pub(in crate::oracle) vary: BTreeMap<String, Vec<Value>>,
    pub(in crate::oracle) fills: BTreeMap<String, FillSpec>,
    pub(in crate::oracle) reduction: Option<AxisExpr>,
    pub(in crate::oracle) precision: Option<Precision>,
    pub(in crate::oracle) left_out: Vec<LeftOut>,
}

pub(super) fn find(file: &File<'_>) -> Option<Result<Oracle, OracleMiss>> {
    let found = beside(file).transpose()?;
    Some(found.map_err(|kind| OracleMiss::new(kind, None)))
}

fn beside(file: &File<'_>) -> Result<Option<Oracle>, MissKind> {
    let Some(manifest) = files::manifest(file.path).map_err(MissKind::Described)? else {
        let Some(stated) = beside_without_manifest(file.path)? else { return Ok(None) };
        let solution = Solution { stated, entry: ENTRY, destination_passing: None, told: Told::default() };
        return oracle(solution, file.text, file.model).map(Some);
    };
    language(manifest.language, &manifest.path)?;
    let stated =
        files::named(&manifest.definition, file.path, &manifest.path).map_err(MissKind::Described)?;
    let solution = Solution {
        stated,
        entry: &manifest.entry,
        destination_passing: Some(manifest.destination_passing),
        told: Told::default(),
    };
    let mut oracle = oracle(solution, file.text, file.model)?;
    oracle.files.push(manifest.path);
    Ok(Some(oracle))
}

/// Of the languages those that launch Triton kernels from Python can be judged.
pub(in crate::oracle) fn language(language: Language, manifest: &Path) -> Result<(), MissKind> {
    let name = match language {
        Language::Triton | Language::Python => return Ok(()),
        Language::Cuda => "cuda",
        Language::Cpp => "cpp",
        Language::Tilelang => "tilelang",
    };
    Err(MissKind::NotJudged(format!(
        "{} says that this Solution is written in {name}, which this version does not judge yet; it judges the \
         languages triton and python",
        manifest.display()
    )))
}

/// The Definition in the kernel's own folder, or above in the starter kit's `solution/<language>/`.
fn beside_without_manifest(kernel: &Path) -> Result<Option<Stated>, MissKind> {
    let stem = kernel.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let is_solution = |folder: &Path| folder.file_name().is_some_and(|name| name == "solution");
    let own = kernel.parent().unwrap_or(Path::new(""));
    let above = own.ancestors().take(2).find(|folder| is_solution(folder)).and_then(Path::parent);
    for folder in [Some(own), above].into_iter().flatten() {
        if let Some(stated) = files::beside(folder, stem).map_err(MissKind::Described)? {
            return Ok(Some(stated));
        }
    }
    Ok(None)
}

/// The oracle of a Solution that lies with its sources in one file at `path`; `text` is its entry's file.
pub(in crate::oracle) fn packed(
    solution: &crate::spec::Solution,
    path: &Path,
    text: &str,
    model: &SourceModel,
) -> Result<Oracle, MissKind> {
    language(solution.spec.language, path)?;
    let stated = files::named(&solution.definition, path, path).map_err(MissKind::Described)?;
    let entry = solution.entry().map_or(ENTRY, |(_, function)| function);
    let destination_passing = Some(solution.spec.destination_passing_style);
    oracle(Solution { stated, entry, destination_passing, told: Told::default() }, text, model)
}

/// The oracle of a Solution.
///
/// # Errors
/// What keeps it from being judged, and what to do about it.
pub(in crate::oracle) fn oracle(
    solution: Solution<'_>,
    text: &str,
    model: &SourceModel,
) -> Result<Oracle, MissKind> {
    let Solution { stated, entry, destination_passing, told } = solution;
    let mut definition = Arc::unwrap_or_clone(stated.definition);
    let name = definition.name.clone();
    let call = call(&definition, entry, text, model, destination_passing)
        .map_err(|why| MissKind::Described(format!("as a Solution of `{name}`: {why}")))?;
    let mut left_out = told.left_out.clone();
    let mut files: Vec<PathBuf> = stated.path.iter().cloned().collect();
    apply(&told, &mut definition);
    if let Some(why) = not_judged(&definition) {
        return Err(MissKind::NotJudged(why));
    }
    if let Some(path) = &stated.path {
        let workloads = files::workloads_of(&definition, path);
        let settled = match &workloads {
            _ if !told.sizes.is_empty() => Settled { sizes: told.sizes, ..Settled::default() },
            Some(file) => sizes::of_workloads(&definition, file).map_err(MissKind::Described)?,
            None if !definition.extras.sizes.is_empty() => {
                Settled { sizes: definition.extras.sizes.clone(), ..Settled::default() }
            }
            None => sizes::small(&definition).map_err(MissKind::Described)?,
        };
        files.extend(workloads);
        left_out.extend(settle(settled, &mut definition));
    } else if !told.sizes.is_empty() {
        definition.extras.sizes = told.sizes;
        definition.extras.only_sizes = true;
    }
    if let Some(why) = without_values(&definition) {
        return Err(MissKind::Described(why));
    }
    let (reference, whose) = match &stated.path {
        None => (Reference::Ours, "torch ref".to_owned()),
        Some(path) => (foreign(&definition, path), format!("reference of {}", file_name(path))),
    };
    Ok(Oracle {
        label: OracleLabel { rung: 0, label: format!("FlashInfer-Bench {name} · {whose}") },
        entry: entry.to_owned(),
        variants: vec![Variant { definition: Arc::new(definition), parameters: call.inputs }],
        reference,
        stated_at: None,
        destinations: call.destinations,
        left_out,
        files,
    })
}

fn apply(told: &Told, definition: &mut Definition) {
    let extras = &mut definition.extras;
    extras.args.extend(told.args.clone());
    for name in told.args.keys() {
        extras.vary.remove(name);
    }
    extras.vary.extend(told.vary.clone());
    extras.inputs.extend(told.fills.clone());
    if let Some(reduction) = &told.reduction {
        extras.tolerance.reduction = Some(reduction.clone());
    }
    if let Some(precision) = told.precision {
        extras.precision = precision;
    }
}

/// Only these sizes are judged: nobody says that the entry takes others, and what a foreign reference makes of
/// ill-conditioned values cannot be measured.
fn settle(settled: Settled, definition: &mut Definition) -> Vec<LeftOut> {
    let axes: Vec<&str> = definition.axes.iter().map(|(name, _)| name.as_str()).collect();
    // More than the longest sum behind any one element.
    let all_axes = AxisExpr::parse(&axes.join(" + ")).ok();
    let extras = &mut definition.extras;
    extras.tolerance.reduction = extras.tolerance.reduction.take().or(all_axes);
    for (name, value) in settled.args {
        extras.args.entry(name).or_insert(value);
    }
    extras.sizes = settled.sizes;
    extras.size_scalars = settled.scalars;
    extras.only_sizes = true;
    settled.left_out
}

/// Why no process of ours could say what is right, whatever the inputs.
fn not_judged(definition: &Definition) -> Option<String> {
    let name = &definition.name;
    if definition.op_type == "sampling" {
        return Some(format!(
            "`{name}` draws its results at random, so no two right kernels agree; this version does not judge \
             distributions"
        ));
    }
    if name.starts_with("dsa_topk_indexer") {
        return Some(format!(
            "`{name}` leaves the order of its results free; this version compares element by element and does not \
             judge it"
        ));
    }
    let tensors = definition.inputs.iter().chain(&definition.outputs);
    let four_bits = tensors.into_iter().find(|(_, spec)| spec.dtype == Dtype::Float4E2m1);
    four_bits.map(|(tensor, spec)| {
        format!("`{tensor}` of `{name}` is {}, which this version does not judge", spec.dtype)
    })
}

/// The first input that nobody gives values.
fn without_values(definition: &Definition) -> Option<String> {
    definition.inputs.iter().find_map(|(name, spec)| {
        if !spec.is_scalar() {
            return sizes::not_drawn(definition, name, spec.dtype);
        }
        let is_given = definition.scalar_default(name).is_some() || spec.optional;
        (!is_given).then(|| {
            format!(
                "the scalar `{name}` of `{definition}` has no value, and none is made up; give it one in a comment \
                 (`# warpsmith: definition={definition} {name}=0.5`), in a Workload, or in the Definition under \
                 `\"warpsmith\": {{\"args\": …}}`",
                definition = definition.name
            )
        })
    })
}

/// The Definition's own source, imported as if it lay beside it.
fn foreign(definition: &Definition, path: &Path) -> Reference {
    let file = format!("{}.reference.py", definition.name);
    Reference::Foreign(ForeignReference {
        file: ForeignFile::Text {
            path: path.parent().unwrap_or(Path::new("")).join(file),
            text: definition.reference.clone(),
        },
        function: "run".to_owned(),
    })
}
