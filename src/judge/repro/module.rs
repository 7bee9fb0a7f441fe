//! Repros of problems that draw their inputs: both texts, the seeds, and how far each dtype may be off.

use std::path::Path;

use serde_json::{Value, json};

use super::{BODY, ReproError, docless, heading, literal, python, raised};
use crate::judge::tolerance::{ErrorSources, tolerance};
use crate::judge::{CaseRecord, RANDOM_AFFINE_PROFILE, module};
use crate::oracle::{ModuleReference, Oracle};
use crate::spec::{Dtype, Precision};

/// What comes after [`BODY`].
const MODULE_BODY: &str = include_str!("module_body.py");
/// What stands above this line there is for its readers.
const DIVIDER: &str = "# What stands above is in the other part already.\n";

pub(super) fn script(
    path: &Path,
    text: &str,
    record: &CaseRecord,
    (oracle, reference): (&Oracle, &ModuleReference),
) -> Result<String, ReproError> {
    let is_only = reference.sizes.len() == 1;
    let is_size = |definition: &str| definition == record.case.definition;
    let size = reference
        .sizes
        .iter()
        .find(|size| is_size(&module::definition_name(&oracle.entry, size, is_only)))
        .ok_or_else(|| ReproError::Unusable("the case belongs to another text".to_owned()))?;
    let (weights_seed, inputs_seed) = module::seeds(record.seed, &record.case);
    let reduction = reference.reduction.as_ref().map(|told| told.evaluate(&size.constants)).transpose();
    let file_name =
        |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let case = json!({
        "label": format!("{} {}", record.case.stage, record.case.label()),
        "file": file_name(path),
        "folder": path.parent().map(|folder| folder.display().to_string()).unwrap_or_default(),
        "entry": oracle.entry,
        "class": reference.class,
        "raised": raised(record),
        // In one file with the kernel it is loaded a second time.
        "reference_file": format!("reference_{}", file_name(&reference.path)),
        "eval": reference.eval,
        "random_affine": record.case.profile == RANDOM_AFFINE_PROFILE,
        "weights_seed": weights_seed,
        "inputs_seed": inputs_seed,
        "reduction": reduction.map_err(|error| ReproError::Unusable(error.to_string()))?,
        "limits": limits(reference.precision),
    });
    let judged = if reference.is_same_file { size.text.as_str() } else { text };
    Ok(format!(
        "{}\n\nimport random\n{}\n\n\n{}\n\n\nKERNEL = {}\n\nREFERENCE = {}\n\nCASE = {}\n\nif __name__ == \"__main__\":\n    raise SystemExit(status_of(lambda: main_of_class(KERNEL, REFERENCE, CASE)))\n",
        literal(&heading(path, record)),
        docless(BODY),
        MODULE_BODY.split_once(DIVIDER).map_or(MODULE_BODY, |(_, body)| body).trim(),
        literal(judged),
        literal(&size.text),
        python(&case, 0),
    ))
}

/// For each dtype of an output: the error model, with what grows with the root of a sum's length apart.
fn limits(precision: Precision) -> Value {
    let told = |dtype: Dtype, precision| {
        tolerance(dtype, ErrorSources { case: dtype, reduction: 1, intermediate: 0, precision })
    };
    let floats = Dtype::ALL.into_iter().filter(|dtype| dtype.is_float());
    let limit = |dtype: Dtype| {
        let (plain, meant) = (told(dtype, Precision::Ieee), told(dtype, precision));
        let limit = json!({
            "reference_factor": meant.reference_factor,
            "absolute_ulp": meant.absolute_ulp,
            "per_sum": plain.row_rms_factor,
            "extra": meant.row_rms_factor - plain.row_rms_factor,
        });
        (dtype.name().to_owned(), limit)
    };
    Value::Object(floats.map(limit).collect())
}
