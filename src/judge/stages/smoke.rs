//! Smoke: one small case for each dtype, chosen for a fast and telling first verdict.
//!
//! No axis is a power of two or a multiple of a common tile, so that a missing mask shows already here,
//! and every axis is long enough that the null candidates must be rejected. A Definition that needs
//! another shape for that (a reduction whose output would have few elements) gives it itself.

use std::collections::BTreeMap;

use super::{Plan, case};
use crate::judge::{Coverage, Stage};
use crate::spec::{Definition, Dtype};

/// Lengths given to the variable axes, in their order, over and over.
const LENGTHS: [u64; 4] = [5, 67, 33, 19];

/// The shape of the smoke cases: the Definition's own choice, if it made one.
pub(super) fn axes(definition: &Definition) -> BTreeMap<String, u64> {
    let names = definition.var_axes().into_iter().map(str::to_owned);
    definition.extras.smoke.clone().unwrap_or_else(|| names.zip(LENGTHS.into_iter().cycle()).collect())
}

pub(super) fn plan(definition: &Definition, dtypes: &[Dtype], plan: &mut Plan) {
    let axes = axes(definition);
    for &dtype in dtypes {
        plan.cases.push(case(definition, Stage::Smoke, axes.clone(), dtype, Coverage::Full));
    }
}
