//! The only room that starts processes which run user code.

pub mod protocol;
mod source_copy;
mod supervisor;
mod worker_files;

pub use source_copy::{CopyError, copy_source, copy_sources};
pub use supervisor::{Supervisor, Worker, WorkerDevice, WorkerError, WorkerManner, WorkerVersions};
pub use worker_files::{UnpackError, content_hash, unpack};
