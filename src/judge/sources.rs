//! Copies of the files that a check imports: the judged one and those that say what is right.

use std::path::Path;

use super::check::CheckRequest;
use super::environment::project_root;
use super::foreign::ForeignRun;
use super::load::module_role;
use super::means::Means;
use super::module::{self, ModuleRun};
use super::obstacles::launch_on_import_of_reference;
use super::run::Source;
use super::{Code, Finding};
use crate::oracle::{ForeignFile, ModuleSize, Oracle, Reference, read_source};
use crate::runner::copy_source;
use crate::runner::protocol::ModuleSide;
use crate::source::as_utf8;
use crate::toolchain::{Memory, Places};

/// Resident memory of one candidate: never more than this, and never more than half of what is free.
const RESIDENT_LIMIT_BYTES: u64 = 8 << 30;
/// The same on a GPU, where CUDA maps its libraries and pinned memory into every process.
const RESIDENT_LIMIT_ON_GPU_BYTES: u64 = 32 << 30;

/// Makes the copies.
pub(super) struct Sources<'a> {
    pub(super) places: &'a Places,
    pub(super) means: &'a Means,
}

impl Sources<'_> {
    /// The judged file; as one with its reference it has the constants that the comment says.
    pub(super) fn source(&self, request: &CheckRequest, oracle: &Oracle) -> Result<Source, Box<Finding>> {
        let text = match &oracle.reference {
            Reference::Module(reference) if reference.is_same_file => {
                reference.sizes.first().map_or(&*request.text, |size| size.text.as_str())
            }
            _ => &request.text,
        };
        self.source_of(&request.path, text)
    }

    /// A process for each size of a class that says what is right.
    pub(super) fn modules(&self, oracle: &Oracle) -> Result<Vec<ModuleRun>, Box<Finding>> {
        let (Reference::Module(reference), Some(role)) =
            (&oracle.reference, module_role(oracle, ModuleSide::Reference, self.means))
        else {
            return Ok(Vec::new());
        };
        let is_only = reference.sizes.len() == 1;
        let run = |size: &ModuleSize| {
            let source = match reference.is_same_file {
                true => self.source_of(&reference.path, &size.text)?,
                false => self.source_of_reference(&reference.path, &size.text, None)?,
            };
            Ok(ModuleRun {
                definition: module::definition_name(&oracle.entry, size, is_only),
                size: size.clone(),
                foreign: ForeignRun::of_class(source, reference.class.clone(), role),
            })
        };
        reference.sizes.iter().map(run).collect()
    }

    /// The reference that is not ours, if there is one, as it is right now.
    pub(super) fn foreign(
        &self,
        request: &CheckRequest,
        oracle: &Oracle,
        judged: &Source,
    ) -> Result<Option<ForeignRun>, Box<Finding>> {
        let Some(reference) = oracle.reference.foreign() else { return Ok(None) };
        let source = match &reference.file {
            ForeignFile::Same => judged.clone(),
            ForeignFile::Text { path, text } => {
                let commit = oracle.reference.head().map(|head| head.commit.as_str());
                self.source_of_reference(path, text, commit)?
            }
            ForeignFile::Other(path) => {
                let text = read_source(path).map_err(|error| {
                    let message = format!("the reference's file cannot be used: {error}");
                    let place = oracle.place(&request.path, &request.text);
                    Box::new(Finding { place, ..Finding::plain(Code::ReferenceFailed, message) })
                })?;
                self.source_of_reference(path, &text, None)?
            }
        };
        let is_text = matches!(reference.file, ForeignFile::Text { .. });
        let function = reference.function.clone();
        Ok(Some(match oracle.reference.head() {
            Some(head) => ForeignRun::at_head(source, function, &head.commit),
            None => ForeignRun::new(source, function, is_text),
        }))
    }

    /// A file that says what is right is not imported either when that launches kernels.
    fn source_of_reference(
        &self,
        path: &Path,
        text: &str,
        commit: Option<&str>,
    ) -> Result<Source, Box<Finding>> {
        match launch_on_import_of_reference(path, text, commit) {
            Some(finding) => Err(Box::new(finding)),
            None => self.source_of(path, text),
        }
    }

    pub(super) fn source_of(&self, path: &Path, text: &str) -> Result<Source, Box<Finding>> {
        let failed = |message: String| Box::new(Finding::plain(Code::JudgeFailed, message));
        let text = &*as_utf8(text);
        let copy = copy_source(&self.places.runs(), path, text).map_err(|error| failed(error.to_string()))?;
        Ok(Source {
            path: path.display().to_string(),
            text_path: copy.display().to_string(),
            text: text.into(),
            search_paths: project_root(path).map(|root| root.display().to_string()).into_iter().collect(),
            resident_bytes: resident_limit(self.means),
            has_dot: has_dot(text),
        })
    }
}

/// Whether a kernel of this text multiplies matrices, as far as words show it.
pub(super) fn has_dot(text: &str) -> bool {
    text.contains("dot(") || text.contains("dot_scaled(")
}

pub(super) fn resident_limit(means: &Means) -> u64 {
    let most = if means.gpu().is_some() { RESIDENT_LIMIT_ON_GPU_BYTES } else { RESIDENT_LIMIT_BYTES };
    let memory = Memory::read(Path::new("/"));
    memory.map_or(most, |memory| (memory.usable_bytes() / 2).min(most))
}
