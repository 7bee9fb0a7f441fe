//! warpsmith: a language server for people who write GPU kernels.
//!
//! The rooms and what may import what are described in `ARCHITECTURE.md`; the order of what matters is
//! a verdict that cannot be wrong, a number that can be trusted, the speed of the answer, features.

pub mod config;
pub mod device;
pub mod judge;
pub mod lint;
pub mod oracle;
pub mod project;
pub mod runner;
pub mod source;
pub mod spec;
pub mod store;
pub mod text;
pub mod toolchain;
pub mod trust;

pub mod cli;
pub mod lsp;
