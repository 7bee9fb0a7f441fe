//! What is on this machine: places for our files, the user's Python, the managed environment, the
//! compilers and the GPU. The only processes started here are probes and installers, each in a process
//! group of its own with a deadline; user code is never run (that is `runner/`).
//!
//! **Invariant:** logic reads no global environment. It is given a [`Surroundings`], so that every
//! decision can be tested on folders and stub executables.

pub mod doctor;
mod git;
pub mod managed;
mod memory;
pub mod places;
pub mod python;
pub mod subprocess;
mod surroundings;
mod version;

pub use git::{AtHead, NoHead, at_head};
pub use memory::Memory;
pub use places::Places;
pub use surroundings::Surroundings;
pub use version::Release;

/// A path as it is typed into a shell: in single quotes when it needs them.
pub fn shell_word(path: &std::path::Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+~@:=,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
