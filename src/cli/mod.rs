//! cli

pub mod doctor;
pub mod setup;
