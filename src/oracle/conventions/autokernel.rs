//! AutoKernel: `KERNEL_TYPE = "softmax"` and a module-level `kernel_fn`, called by keyword.

use std::sync::Arc;

use super::File;
use crate::oracle::{Mapping, MissKind, Oracle, OracleLabel, OracleMiss, Reference, Variant};
use crate::source::SourceModel;
use crate::spec::{Definition, builtin_named};

const TYPE: &str = "KERNEL_TYPE";
const ENTRY: &str = "kernel_fn";

/// The kernel types and the Definitions that stand for them; first the one that is meant when the entry
/// takes no option.
const KNOWN: [(&str, &[&str]); 9] = [
    ("matmul", &["matmul"]),
    ("softmax", &["softmax"]),
    ("layernorm", &["layernorm"]),
    ("rmsnorm", &["rmsnorm"]),
    ("flash_attention", &["flash_attention_causal", "flash_attention_full"]),
    ("fused_mlp", &["fused_mlp_silu", "fused_mlp_gelu", "fused_mlp_relu2"]),
    ("cross_entropy", &["cross_entropy"]),
    ("rotary_embedding", &["rotary_embedding"]),
    (
        "reduce",
        &[
            "reduce_sum_last",
            "reduce_sum_first",
            "reduce_sum_middle",
            "reduce_max_last",
            "reduce_max_first",
            "reduce_max_middle",
        ],
    ),
];

pub(super) fn find(file: &File<'_>) -> Option<Result<Oracle, OracleMiss>> {
    let model = file.model;
    model.bindings.iter().any(|binding| binding.name == TYPE).then(|| read(model))
}

fn read(model: &SourceModel) -> Result<Oracle, OracleMiss> {
    let (kernel_type, range) = kernel_type(model)?;
    let Some((_, names)) = KNOWN.iter().find(|(known, _)| *known == kernel_type) else {
        let known = KNOWN.iter().map(|(known, _)| format!("\"{known}\"")).collect();
        let kind = MissKind::UnknownKernelType { found: kernel_type, known };
        return Err(OracleMiss::new(kind, Some(range)));
    };
    let mut variants = Vec::new();
    for name in *names {
        let missing = || OracleMiss::new(MissKind::NoDefinition((*name).to_owned()), Some(range.clone()));
        let definition = builtin_named(name).ok_or_else(missing)?;
        variants.push(Variant { parameters: mappings(&definition), definition });
    }
    if let Some(variant) = variants.first() {
        check_entry(model, &kernel_type, &variant.definition, &range)?;
    }
    Ok(Oracle {
        label: OracleLabel { rung: 0, label: format!("AutoKernel {kernel_type} · torch ref") },
        entry: ENTRY.to_owned(),
        variants,
        reference: Reference::Ours,
        stated_at: Some(range),
        destinations: Vec::new(),
        left_out: Vec::new(),
        files: Vec::new(),
    })
}

/// The value of `KERNEL_TYPE` and where it stands. Every assignment must say the same: which of several
/// runs is not for us to guess.
fn kernel_type(model: &SourceModel) -> Result<(String, std::ops::Range<usize>), OracleMiss> {
    let bindings: Vec<_> = model.bindings.iter().filter(|binding| binding.name == TYPE).collect();
    let values: Vec<_> = model.string_constants.iter().filter(|constant| constant.name == TYPE).collect();
    let place = bindings.last().map(|binding| binding.range.clone());
    let Some(value) = values.last().filter(|_| values.len() == bindings.len()) else {
        return Err(OracleMiss::new(MissKind::KernelTypeNotLiteral, place));
    };
    if values.iter().any(|other| other.value != value.value) {
        let kind = MissKind::KernelTypeAmbiguous { count: values.len() };
        return Err(OracleMiss::new(kind, place));
    }
    Ok((value.value.clone(), value.range.clone()))
}

/// A `def`, or any other binding of the name: `kernel_fn = softmax`.
fn check_entry(
    model: &SourceModel,
    kernel_type: &str,
    definition: &Definition,
    range: &std::ops::Range<usize>,
) -> Result<(), OracleMiss> {
    let signature = signature(definition);
    let function = model.functions.iter().rfind(|function| function.name == ENTRY);
    if let Some(function) = function {
        let is_kernel = model.kernels.iter().any(|kernel| kernel.name_range == function.name_range);
        let kind = MissKind::KernelFnIsKernel { signature };
        let miss = OracleMiss::new(kind, Some(function.name_range.clone()));
        return if is_kernel { Err(miss) } else { Ok(()) };
    }
    if model.bindings.iter().any(|binding| binding.name == ENTRY) {
        return Ok(());
    }
    let kind = MissKind::NoKernelFn { kernel_type: kernel_type.to_owned(), signature };
    Err(OracleMiss::new(kind, Some(range.clone())))
}

fn signature(definition: &Definition) -> String {
    let parameters: Vec<String> = definition
        .inputs
        .iter()
        .map(|(name, _)| match definition.scalar_default(name) {
            Some(value) => format!("{name}={value}"),
            None => name.clone(),
        })
        .collect();
    format!("def {ENTRY}({}):", parameters.join(", "))
}

/// Parameters are named like the Definition's inputs; scalars are the options.
fn mappings(definition: &Arc<Definition>) -> Vec<Mapping> {
    let inputs = definition.inputs.iter();
    inputs
        .map(|(name, spec)| Mapping {
            input: name.clone(),
            parameter: name.clone(),
            optional: spec.is_scalar() || spec.optional,
        })
        .collect()
}
