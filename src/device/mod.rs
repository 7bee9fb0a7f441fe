//! Which GPUs are there, what they are, who uses them, who may time on one, and what they can do at most.
//!
//! Everything here is asked of NVML and of files. No CUDA context is created and no process is started.
//!
//! **libcuda is not started in the server.** `cuInit` creates no context, but it opens the driver's memory manager
//! for the rest of the process's life, fixes `CUDA_VISIBLE_DEVICES` as it was at that moment, takes longer the
//! more GPUs there are, and hangs in the kernel where a GPU has fallen off the bus: a server that lives for days
//! must not depend on it. What only libcuda knows (L2, shared memory, and the multiprocessors of a whole card) is
//! asked by [`attributes::Libcuda`] in `warpsmith doctor`, which ends after it. In the server it stays `None`.

pub mod attributes;
pub mod busy;
pub mod ceilings;
pub mod choice;
pub mod facts;
pub mod lease;
mod nvml;
pub mod processes;
pub mod survey;
pub mod usage;
pub mod visible;

#[cfg(test)]
pub(crate) mod fake;

pub use busy::{Busy, WhenBusy, is_busy};
pub use ceilings::{Ceilings, MatrixKind};
pub use choice::{Chosen, DeviceChoice, NoSuchDevice, choose};
pub use facts::{Card, Gpu, Gpus, Management, NoGpus, open};
pub use lease::{Attempt, Lease, LeaseError, LeaseFolder, Owner};
pub use processes::Processes;
pub use survey::{Survey, Surveyed};
pub use usage::{Conditions, OtherProcess, Readings, ThrottleReason, Usage};
pub use visible::Visible;
