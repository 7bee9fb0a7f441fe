//! What is on this machine: places for our files, the user's Python, the managed environment, the
//! compilers and the GPU. The only processes started here are probes and installers, each in a process
//! group of its own with a deadline; user code is never run (that is `runner/`).
//!
//! **Invariant:** logic reads no global environment. It is given a [`Surroundings`], so that every
//! decision can be tested on folders and stub executables.

pub mod places;
pub mod subprocess;
mod surroundings;
mod version;

pub use places::Places;
pub use surroundings::Surroundings;
pub use version::Release;
