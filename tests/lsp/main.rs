//! The language server as a client sees it: a real server in this process, a client that speaks the
//! protocol over a pipe, and a checker whose answers each test scripts.
//!
//! Every wait has a limit, and a server that is dropped is shut down by the protocol; the test fails if
//! it did not end well or if the client was sent anything that the test did not expect.

mod support;

mod actions;
mod checks;
mod columns;
mod complaints;
mod diagnostics;
mod hover;
mod initialize;
mod lenses;
mod lifecycle;
mod lints;
mod odd_documents;
mod progress;
mod real_files;
mod recall;
mod settings;
mod stubborn_clients;
mod sync;
mod times;
mod trust;
