//! Quick fixes, one file each. The doc comment of a file is its entry in the manual.

pub(crate) mod describe;
pub(crate) mod ieee_dot;
pub(crate) mod repro;
