//! The Definitions that come with warpsmith: `kernels/definitions`.

use std::sync::{Arc, OnceLock};

use include_dir::{Dir, DirEntry, include_dir};

use super::definition::Definition;
use super::problem::SpecError;

static FILES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/kernels/definitions");

/// All Definitions inside this binary, by path.
pub fn builtin() -> &'static [Arc<Definition>] {
    static DEFINITIONS: OnceLock<Vec<Arc<Definition>>> = OnceLock::new();
    DEFINITIONS.get_or_init(|| {
        let mut definitions = Vec::new();
        for (path, loaded) in load_all() {
            match loaded {
                Ok(definition) => definitions.push(Arc::new(definition)),
                // A test loads every file, so this cannot reach a user.
                Err(error) => tracing::error!(path, %error, "a Definition inside this binary is broken"),
            }
        }
        definitions
    })
}

/// The Definition inside this binary of this name.
pub fn builtin_named(name: &str) -> Option<Arc<Definition>> {
    builtin().iter().find(|definition| definition.name == name).cloned()
}

pub(super) fn load_all() -> Vec<(&'static str, Result<Definition, SpecError>)> {
    let mut loaded = Vec::new();
    let folders = FILES.entries().iter().filter_map(DirEntry::as_dir);
    for file in folders.flat_map(Dir::files) {
        let path = file.path().to_str().unwrap_or_default();
        if path.ends_with(".json") {
            let text = file.contents_utf8().unwrap_or_default();
            loaded.push((path, Definition::from_json(text, path)));
        }
    }
    loaded.sort_by_key(|(path, _)| *path);
    loaded
}
