//! The real binary with a real Python: verdicts, bad input, and what is left running afterwards.
//!
//! Needs `WARPSMITH_PYTHON` (an interpreter with torch and Triton; `tests/run` makes one). Without it every
//! test here counts as skipped.

mod bad_inputs;
mod cheats;
mod ci;
mod comment;
mod comment_adversary;
mod complaints_life;
mod environment;
mod flashinfer;
mod functions;
mod harness;
mod head;
mod history;
mod kernelbench;
mod life;
mod markers;
mod odd_files;
mod planted_bugs;
mod pretended_gpu;
mod project_file;
mod recall;
mod reported_bugs;
mod repro;
mod server;
mod stage_bugs;
mod starters;
mod trust;
mod watch;
mod workspace;
