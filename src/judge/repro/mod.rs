//! One failing case as a Python file that needs nothing of ours: the kernel's text, the same inputs from the
//! same seed, the reference, and a status that says whether the bug is still there.

mod module;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::comparison::longest_sum;
use super::inputs;
use super::tolerance::{ErrorSources, tolerance};
use super::{CaseRecord, Code, Report, Stage, Verdict};
use crate::oracle::{
    self, ForeignFile, ForeignReference, Mapping, Oracle, OracleLabel, OracleMiss, Reference, Variant,
};
use crate::source;

/// What stands in every repro: philox, comparison, and a `main` that takes kernel, reference and case.
const BODY: &str = include_str!("body.py");

/// Why a case cannot be written down.
#[derive(Debug, thiserror::Error)]
pub enum ReproError {
    #[error("no case of this check is wrong; name one with `--case LABEL`")]
    NothingWrong,
    #[error("no case `{asked}`; this check had:\n{known}")]
    NoSuchCase { asked: String, known: String },
    #[error(
        "a difference from HEAD cannot be written down, because nobody knows which of the two is right; say it with `ref=` in a comment above the function"
    )]
    AgainstHead,
    #[error("this case only checks offsets on tensors larger than memory, so it cannot be written down")]
    OffsetsOnly,
    #[error("cases of the stage {0} cannot be written down: they are more than one plain call")]
    OfStage(&'static str),
    #[error("{0}")]
    Unusable(String),
    #[error("cannot read {path}: {source}", path = .path.display())]
    Io { path: PathBuf, source: std::io::Error },
}

/// A case to write down, of one judged function.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'a> {
    pub record: &'a CaseRecord,
    /// The function; several of a file may have cases of one name.
    entry: &'a str,
}

/// The case to write down: the one with this label (as the table shows it, with or without its stage), or the
/// first wrong one. Cases that were compared with HEAD are passed over.
///
/// # Errors
/// No such case.
pub fn choose<'a>(report: &'a Report, asked: Option<&str>) -> Result<Chosen<'a>, ReproError> {
    let of_part = |part: &'a Report| {
        let entry = part.entry.as_deref().unwrap_or_default();
        part.cases.iter().map(move |record| Chosen { record, entry })
    };
    let (against_head, others): (Vec<&Report>, Vec<&Report>) =
        report.judgements().iter().partition(|part| part.oracle.as_ref().is_some_and(OracleLabel::is_head));
    let judged = || others.iter().copied().flat_map(of_part);
    let is_wrong = |chosen: &Chosen<'_>| chosen.record.verdict == Verdict::Wrong;
    let named = |chosen: &Chosen<'_>| asked.is_none_or(|asked| is_named(chosen.record, asked));
    let wrong = || judged().filter(|chosen| is_wrong(chosen) && named(chosen));
    let found = wrong().find(|chosen| refusal(chosen.record).is_none()).or_else(|| wrong().next());
    let found = found.or_else(|| judged().find(|chosen| asked.is_some() && named(chosen)));
    found.ok_or_else(|| {
        let mut compared = against_head.iter().copied().flat_map(of_part);
        if others.is_empty()
            || compared.any(|chosen| named(&chosen) && (asked.is_some() || is_wrong(&chosen)))
        {
            return ReproError::AgainstHead;
        }
        let Some(asked) = asked else { return ReproError::NothingWrong };
        let label = |record: &CaseRecord| format!("  {} {}", record.case.stage, record.case.label());
        let labels: Vec<String> = judged().map(|chosen| label(chosen.record)).collect();
        ReproError::NoSuchCase { asked: asked.to_owned(), known: labels.join("\n") }
    })
}

/// Whether the case is one plain call on plain values, which is what a repro repeats.
pub fn can_write(record: &CaseRecord) -> bool {
    refusal(record).is_none()
}

fn refusal(record: &CaseRecord) -> Option<ReproError> {
    match record.case.stage {
        _ if record.case.coverage == super::Coverage::Offsets => Some(ReproError::OffsetsOnly),
        stage @ (Stage::Stability | Stage::Determinism) => Some(ReproError::OfStage(stage.name())),
        Stage::Smoke | Stage::Sweep | Stage::Edge => None,
    }
}

/// Whether people would call the case so; the dots of a label do not matter.
pub fn is_named(record: &CaseRecord, asked: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split_whitespace().filter(|word| *word != "·").map(str::to_owned).collect()
    };
    let (label, asked) = (words(&record.case.label()), words(asked));
    let staged = asked.split_first().filter(|(stage, _)| *stage == record.case.stage.name());
    asked == label || staged.is_some_and(|(_, rest)| rest == label)
}

/// A case of a function whose reference is a function as well.
struct Call<'a> {
    path: &'a Path,
    oracle: &'a Oracle,
    variant: &'a Variant,
    record: &'a CaseRecord,
    /// `None`: the Definition's own.
    reference: Option<&'a ForeignReference>,
}

/// The text of the Python file. `path` and `text` are those of the check that gave `chosen`.
///
/// # Errors
/// A case that cannot be repeated outside, or a reference that cannot be read any more.
pub fn script(
    path: &Path,
    text: &str,
    chosen: Chosen<'_>,
    kernel: Option<&str>,
) -> Result<String, ReproError> {
    let record = chosen.record;
    if let Some(refusal) = refusal(record) {
        return Err(refusal);
    }
    let unusable = |error: String| ReproError::Unusable(error);
    let oracle = &oracle_of(path, text, chosen.entry, kernel)?;
    let reference = match &oracle.reference {
        Reference::Module(reference) => return module::script(path, text, record, (oracle, reference)),
        Reference::Head(_) => return Err(ReproError::AgainstHead),
        Reference::Ours => None,
        Reference::Foreign(reference) => Some(reference),
    };
    let variant = oracle.variants.iter().find(|variant| variant.definition.name == record.case.definition);
    let variant = variant.ok_or_else(|| unusable("the case belongs to another text".to_owned()))?;
    let call = Call { path, oracle, variant, record, reference };
    let (reference, name) = reference_text(&call)?;
    let case = case(&call, &name).map_err(unusable)?;
    Ok(format!(
        "{}\n\n{}\n\nKERNEL = {}\n\nREFERENCE = {}\n\nCASE = {}\n\nif __name__ == \"__main__\":\n    raise SystemExit(status_of(lambda: main(KERNEL, REFERENCE, CASE)))\n",
        literal(&heading(path, record)),
        docless(BODY),
        literal(text),
        reference.map_or_else(|| "None".to_owned(), |text| literal(&text)),
        python(&case, 0),
    ))
}

/// Of several described functions the one that was judged.
fn oracle_of(path: &Path, text: &str, entry: &str, kernel: Option<&str>) -> Result<Oracle, ReproError> {
    let described = oracle::find_all(path, text, &source::parse(text), kernel);
    let unusable = |miss: OracleMiss| ReproError::Unusable(miss.to_string());
    let gone = || ReproError::Unusable(format!("nothing says any more what `{entry}` should compute"));
    let found = described.into_iter().find(|one| one.entry.as_deref() == Some(entry));
    found.ok_or_else(gone)?.oracle.map_err(unusable)
}

/// What stands at the top: which case, what was found, how to run it.
fn heading(path: &Path, record: &CaseRecord) -> String {
    let found: Vec<String> =
        record.findings.iter().map(|finding| finding.message.replace('\n', " ")).collect();
    format!(
        "{}: {} {}\n\nwarpsmith found: {}\n\nRun it with a Python that has torch and triton: it ends with status 1 while \
         the bug is there and with 2 when it cannot be run. It judges the text below, or the file that is given as an argument.\n",
        path.display(),
        record.case.stage,
        record.case.label(),
        if found.is_empty() { "nothing".to_owned() } else { found.join("\n\n") },
    )
}

/// Whether the bug was that the function raised.
fn raised(record: &CaseRecord) -> bool {
    let codes = [Code::Raised, Code::CompileError, Code::DeviceAssert];
    record.findings.iter().any(|finding| codes.contains(&finding.code))
}

/// The code of one of our Python files.
fn docless(body: &str) -> &str {
    body.split_once("\n\n").map_or(body, |(_, body)| body).trim()
}

/// The source of the reference (`None`: it is in the judged file) and its file's name.
fn reference_text(call: &Call<'_>) -> Result<(Option<String>, String), ReproError> {
    let name_of =
        |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let Some(reference) = call.reference else {
        return Ok((Some(call.variant.definition.reference.clone()), "reference.py".to_owned()));
    };
    match &reference.file {
        ForeignFile::Same => Ok((None, String::new())),
        ForeignFile::Text { path, text } => Ok((Some(text.clone()), name_of(path))),
        ForeignFile::Other(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|source| ReproError::Io { path: path.clone(), source })?;
            Ok((Some(text), name_of(path)))
        }
    }
}

fn case(call: &Call<'_>, reference_file: &str) -> Result<Value, String> {
    let Call { path, oracle, variant, record, reference } = *call;
    let definition = &variant.definition;
    let prepared = inputs::prepare(definition, &record.case, String::new(), record.seed, true)
        .map_err(|error| error.to_string())?
        .request;
    let reduction = longest_sum(definition, &record.case).map_err(|error| error.to_string())?;
    let limits = |dtype| {
        let sources = ErrorSources {
            case: record.case.dtype,
            reduction,
            intermediate: definition.extras.tolerance.intermediate,
            precision: definition.extras.precision,
        };
        let told = tolerance(dtype, sources);
        json!({
            "reference_factor": told.reference_factor,
            "absolute_ulp": told.absolute_ulp,
            "row_rms_factor": told.row_rms_factor,
        })
    };
    // Outputs that only the reference tells have the dtype of the case.
    let dtypes: Vec<_> = prepared.outputs.iter().map(|output| output.dtype).collect();
    let limits: Vec<Value> = if dtypes.is_empty() {
        vec![limits(record.case.dtype)]
    } else {
        dtypes.into_iter().map(limits).collect()
    };
    let given = |mapping: &Mapping, kind: &str| json!({"parameter": mapping.parameter, kind: mapping.input, "optional": mapping.optional});
    let inputs = variant.parameters.iter().map(|mapping| given(mapping, "input"));
    let outputs = oracle.destinations.iter().map(|mapping| given(mapping, "output"));
    let options = definition.options();
    let options = options.map(|(name, value)| json!({"parameter": name, "value": value, "optional": true}));
    let arguments: Vec<Value> = inputs.chain(outputs).chain(options).collect();
    let (function, by_position) =
        reference.map_or(("run", true), |reference| (reference.function.as_str(), false));
    let order: Vec<&String> = match by_position {
        true => definition.inputs.iter().map(|(name, _)| name).collect(),
        false => variant.parameters.iter().map(|mapping| &mapping.input).collect(),
    };
    let name =
        path.file_name().map_or_else(|| "kernel.py".to_owned(), |name| name.to_string_lossy().into_owned());
    let folder = path.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
    Ok(json!({
        "label": format!("{} {}", record.case.stage, record.case.label()),
        "file": name,
        "folder": folder,
        "entry": oracle.entry,
        "raised": raised(record),
        "seed": prepared.seed,
        "inputs": prepared.inputs,
        "outputs": prepared.outputs,
        "arguments": arguments,
        "reference": function,
        "reference_file": reference_file,
        "by_position": by_position,
        "order": order,
        "limits": limits,
    }))
}

/// A Python string that people can read, where the text allows it.
fn literal(text: &str) -> String {
    let raw =
        !text.contains("\"\"\"") && !text.contains('\\') && !text.contains('\r') && !text.contains('\0');
    if raw && !text.ends_with('"') {
        return format!("\"\"\"{text}\"\"\"");
    }
    // The escapes of JSON mean the same in Python.
    Value::from(text).to_string()
}

/// A JSON value as Python writes it.
fn python(value: &Value, depth: usize) -> String {
    const WIDTH: usize = 90;
    let inner = "    ".repeat(depth + 1);
    let outer = "    ".repeat(depth);
    let bracketed = |open: &str, parts: Vec<String>, close: &str| {
        let line = parts.join(", ");
        if line.len() < WIDTH && !line.contains('\n') {
            return format!("{open}{line}{close}");
        }
        format!("{open}\n{inner}{},\n{outer}{close}", parts.join(&format!(",\n{inner}")))
    };
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(items) => {
            bracketed("[", items.iter().map(|item| python(item, depth + 1)).collect(), "]")
        }
        Value::Object(members) => {
            let parts = members
                .iter()
                .map(|(key, value)| format!("{}: {}", Value::from(key.as_str()), python(value, depth + 1)));
            bracketed("{", parts.collect(), "}")
        }
    }
}
