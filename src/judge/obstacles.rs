//! What keeps a file from being judged before anything runs, in words.

use std::collections::BTreeSet;
use std::path::Path;

use super::check::{CheckOptions, CheckRequest};
use super::{Code, Finding};
use crate::oracle::{self, MissKind, OracleMiss};
use crate::runner::protocol::Place;
use crate::source::{self, SourceModel};
use crate::spec::{Definition, Dtype};

/// What is said when a file has neither a kernel nor a function of this name that anybody could ask for; `None` when it
/// has one, or has none at all.
pub fn unknown_name(path: &Path, text: &str, asked: &str) -> Option<String> {
    unknown_in(&source::parse(text), (path, text), asked)
}

/// `file`: its path and text.
pub(super) fn unknown_in(model: &SourceModel, file: (&Path, &str), asked: &str) -> Option<String> {
    let (path, text) = file;
    let kernels = model.kernels.iter().map(|kernel| kernel.id.0.as_str());
    let entries = oracle::find_all(path, text, model, None).into_iter().filter_map(|one| one.entry);
    let entries: Vec<String> = entries.collect();
    let launchers = model.functions.iter().filter(|function| !function.launches.is_empty());
    let functions =
        launchers.map(|function| function.name.as_str()).chain(entries.iter().map(String::as_str));
    let mut known: Vec<&str> = Vec::new();
    for name in kernels.chain(functions) {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let is_known = known.is_empty() || known.contains(&asked) || model.kernels_named(asked).next().is_some();
    (!is_known).then(|| format!("no kernel or function `{asked}` in this file; it has: {}", known.join(", ")))
}

/// What is said of a file that launches kernels when it is imported.
pub(super) fn launch_on_import(path: &Path, text: &str, model: &SourceModel) -> Option<Finding> {
    let launch = source::module_level_launches(model).first()?;
    let line = source::line_of(text, launch.range.start);
    let kernels: Vec<&str> = launch.kernels.iter().map(|kernel| kernel.0.as_str()).collect();
    let message = format!(
        "importing the file launches `{}`, so it is not imported automatically; move the launch into a function or \
         under `if __name__ == \"__main__\":`",
        kernels.join("`, `"),
    );
    let place = Place { file: path.display().to_string(), line };
    Some(Finding { place: Some(place), ..Finding::plain(Code::ModuleLevelLaunch, message) })
}

/// The same of a file that says what is right; `commit`: as it was there.
pub(super) fn launch_on_import_of_reference(
    path: &Path,
    text: &str,
    commit: Option<&str>,
) -> Option<Finding> {
    let found = launch_on_import(path, text, &source::parse(text))?;
    let whose =
        commit.map_or_else(|| path.display().to_string(), |commit| format!("the version at HEAD {commit}"));
    let message = format!("as the reference, {whose}: {}", found.message);
    // A line of another version would be shown in this one.
    let place = found.place.filter(|_| commit.is_none());
    Some(Finding { place, ..Finding::plain(Code::ReferenceFailed, message) })
}

pub(super) fn missing_oracle(request: &CheckRequest, model: &SourceModel, miss: &OracleMiss) -> Finding {
    let file = || request.path.display().to_string();
    // What is missing may stand in the part that cannot be parsed.
    if let Some(error) = &model.first_error {
        let place = Place { file: file(), line: source::line_of(&request.text, error.start) };
        let message = format!("the file cannot be parsed from here on; {miss}");
        return Finding { place: Some(place), ..Finding::plain(Code::SyntaxError, message) };
    }
    let code = match miss.kind {
        MissKind::NoKernel | MissKind::KernelInString => Code::NoKernel,
        MissKind::NotDescribed { .. } => Code::OtherKernel,
        MissKind::NotJudged(_) => Code::Unsupported,
        MissKind::Described(_) => Code::BadDescription,
        MissKind::Unchanged { .. } => Code::UnchangedSinceHead,
        MissKind::InputsUnknown { .. } => Code::InputsUnknown,
        MissKind::UnknownKernelType { .. } | MissKind::NoDefinition(_) => Code::NoDefinition,
        MissKind::NoConvention
        | MissKind::LaunchedElsewhere { .. }
        | MissKind::NoReference
        | MissKind::WithoutHead { .. }
        | MissKind::OtherAtHead { .. }
        | MissKind::KernelTypeNotLiteral
        | MissKind::KernelTypeAmbiguous { .. }
        | MissKind::Comment(_)
        | MissKind::KernelBench(_)
        | MissKind::NoKernelFn { .. }
        | MissKind::KernelFnIsKernel { .. } => Code::NoOracle,
    };
    let place = miss
        .range
        .as_ref()
        .map(|range| Place { file: file(), line: source::line_of(&request.text, range.start) });
    Finding { place, ..Finding::plain(code, miss.to_string()) }
}

/// Why a plan is empty: no such dtype, or every size is more than the interpreter can do.
pub(super) fn nothing_left(options: &CheckOptions, definitions: &[&Definition]) -> Finding {
    let dtypes: BTreeSet<&str> =
        definitions.iter().flat_map(|definition| definition.dtypes()).map(Dtype::name).collect();
    if options.dtypes.is_empty() {
        let message = "no case is left to run, for the reasons given beside what was not run; where a size is too \
                       large, add a smaller one, or ask for other stages";
        return Finding::plain(Code::Unsupported, message.to_owned());
    }
    let dtypes: Vec<&str> = dtypes.into_iter().collect();
    let message = format!("no case is left to run; this operation has the dtypes {}", dtypes.join(", "));
    Finding::plain(Code::NoOracle, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_only_a_file_beside_describes_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let text = "import triton\n@triton.jit\ndef kernel(x): pass\nclass ModelNew:\n    def forward(self, x): kernel[(1,)](x)\n";
        let path = folder.path().join("k.py");
        assert!(unknown_name(&path, text, "ModelNew").is_some());
        std::fs::write(
            folder.path().join("model.py"),
            "class Model: pass\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n",
        )
        .unwrap();
        assert_eq!(unknown_name(&path, text, "ModelNew"), None);
        assert!(unknown_name(&path, text, "nobody").is_some_and(|told| told.ends_with("kernel, ModelNew")));
    }

    #[test]
    fn a_reference_that_launches_on_import_is_refused() {
        let text = "import triton\n@triton.jit\ndef kernel(x): pass\ndef right(x): return x\n";
        let launches = format!("{text}kernel[(1,)](0)\n");
        let path = Path::new("/p/other.py");
        for commit in [None, Some("a1b2c3d")] {
            assert!(launch_on_import_of_reference(path, text, commit).is_none());
            let found = launch_on_import_of_reference(path, &launches, commit).unwrap();
            assert_eq!((found.code, found.place.is_none()), (Code::ReferenceFailed, commit.is_some()));
            assert!(found.message.contains("launches `kernel`"), "{}", found.message);
        }
    }
}
