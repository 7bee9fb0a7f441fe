//! The language server. The only room that knows the protocol's types.
//!
//! A message arrives in `backend`, a mailbox that turns it into an event. `main_loop`, on its own
//! thread, owns `global_state` and hands each event to its function in `handlers`. Checks run on
//! worker threads (`runs`) in an order that `schedule` decides; what they find is tied to the moving
//! text by `findings`. Everything to the client goes through `outbox`.
//!
//! **Invariants:** nothing is awaited before an event is sent; no request to the client is awaited in the
//! loop; only the loop changes state; a finding is published in the text as it is now or not at all.

pub mod ext;
pub mod logging;

mod actions;
mod backend;
mod capabilities;
mod convert;
mod dependents;
mod diagnostics;
mod event;
mod file_state;
mod findings;
mod frames;
mod gate;
mod global_state;
mod handlers;
mod hover_text;
mod kernels;
mod lens;
mod lens_summary;
mod loops;
mod main_loop;
mod numbers;
mod outbox;
mod parent;
mod progress;
mod recall;
mod recovery;
mod refresh;
mod runs;
mod schedule;
mod server;
mod settings;
mod trusting;
mod watchdog;

pub use global_state::Timing;
pub use server::{Host, StopReason, Stopped, run_stdio, serve};
