//! Quick fixes, one file each. The doc comment of a file is its entry in the manual.

pub(crate) mod ieee_dot;
