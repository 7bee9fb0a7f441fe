//! Conventions of other tools, one file each.

mod autokernel;

use std::path::Path;

use super::{Oracle, OracleMiss};
use crate::source::SourceModel;

/// What a convention may look at.
pub(super) struct File<'a> {
    #[expect(dead_code, reason = "conventions with a second file beside the first look there")]
    pub(super) path: &'a Path,
    #[expect(dead_code, reason = "conventions that are comments read the text itself")]
    pub(super) text: &'a str,
    pub(super) model: &'a SourceModel,
}

/// `None`: the file does not follow this convention. `Err`: it does, but something is missing.
type Convention = fn(&File<'_>) -> Option<Result<Oracle, OracleMiss>>;

/// In the order in which they are tried.
pub(super) const ALL: [Convention; 1] = [autokernel::find];
