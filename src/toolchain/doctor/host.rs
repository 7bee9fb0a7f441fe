//! Folders, disk, memory and cores.

use std::path::Path;

use rustix::fs::Access;

use super::{Check, DoctorContext};
use crate::toolchain::Memory;
use crate::toolchain::managed::{free_bytes, in_words, tree_size};

/// Under this much free memory a check of a large shape is likely to be killed.
const LITTLE_MEMORY_BYTES: u64 = 4_000_000_000;
const LITTLE_DISK_BYTES: u64 = 1_000_000_000;

pub(super) fn checks(context: &DoctorContext<'_>) -> Vec<Check> {
    vec![
        folder_check("cache folder", context.places.cache(), "WARPSMITH_CACHE_DIR"),
        folder_check("state folder", context.places.state(), "WARPSMITH_STATE_DIR"),
        memory_check(context.root),
        cores_check(),
    ]
}

fn folder_check(name: &'static str, folder: &Path, variable: &str) -> Check {
    let shown = folder.display();
    let existing = folder.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    let is_writable =
        existing.is_dir() && rustix::fs::access(existing, Access::WRITE_OK | Access::EXEC_OK).is_ok();
    if !is_writable {
        let remedy = format!("make {} writable, or set {variable} to another folder", existing.display());
        return Check::warning(name, format!("{shown} cannot be written"), remedy);
    }
    let size = in_words(tree_size(folder).total_bytes());
    match free_bytes(folder) {
        Ok(free) if free < LITTLE_DISK_BYTES => Check::warning(
            name,
            format!("{shown}, {size} used, only {} free", in_words(free)),
            format!("free some space, or set {variable} to a folder on a larger disk"),
        ),
        Ok(free) => Check::found(name, format!("{shown}, {size} used, {} free", in_words(free))),
        Err(error) => {
            Check::warning(name, format!("{shown}: {error}"), format!("set {variable} to another folder"))
        }
    }
}

fn memory_check(root: &Path) -> Check {
    let Some(memory) = Memory::read(root) else {
        return Check::not_applicable("memory", "the system does not say");
    };
    let mut detail = format!("{} free of {}", in_words(memory.available_bytes), in_words(memory.total_bytes));
    if let Some(limit) = memory.group_limit_bytes {
        detail.push_str(&format!(", this group of processes may use {}", in_words(limit)));
    }
    if memory.usable_bytes() < LITTLE_MEMORY_BYTES {
        return Check::warning("memory", detail, "end other programs: a check may need 4 GB");
    }
    Check::found("memory", detail)
}

fn cores_check() -> Check {
    match std::thread::available_parallelism() {
        Ok(cores) => Check::found("cores", cores.to_string()),
        Err(error) => Check::not_applicable("cores", error.to_string()),
    }
}
