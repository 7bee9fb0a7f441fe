//! The real binary with a real Python: verdicts, bad input, and what is left running afterwards.
//!
//! Needs `WARPSMITH_PYTHON` (an interpreter with torch and Triton; `tests/run` makes one). Without it every
//! test here counts as skipped.

mod bad_inputs;
mod comment;
mod comment_adversary;
mod environment;
mod harness;
mod life;
mod planted_bugs;
mod repro;
mod stage_bugs;
mod starters;
