//! Conventions of other tools, one file each.

mod autokernel;
pub(super) mod flashinfer;
mod kernelbench;

use std::path::Path;

use super::{Oracle, OracleMiss};
pub(super) use kernelbench::linked as linked_class;

use crate::source::SourceModel;

/// What a convention may look at.
pub(super) struct File<'a> {
    pub(super) path: &'a Path,
    pub(super) text: &'a str,
    pub(super) model: &'a SourceModel,
}

/// `None`: the file does not follow this convention. `Err`: it does, but something is missing.
type Convention = fn(&File<'_>) -> Option<Result<Oracle, OracleMiss>>;

/// In the order in which they are tried.
pub(super) const ALL: [Convention; 3] = [autokernel::find, kernelbench::find, flashinfer::find];
