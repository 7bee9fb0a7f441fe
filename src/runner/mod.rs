//! The only room that starts processes which run user code.

pub mod protocol;
