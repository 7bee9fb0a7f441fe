//! Determinism: the same call gives the same bits, whatever ran before it and in whatever order its programs
//! run; see `judge/trials.rs` for what is done with each case.

use super::{Plan, Reach, case, medium_axes, smallest_axes};
use crate::judge::{Coverage, Stage};
use crate::spec::{Definition, Dtype};

pub(super) fn plan(definition: &Definition, dtypes: &[Dtype], reach: Reach, plan: &mut Plan) {
    let Some(small) = smallest_axes(definition, reach) else { return };
    let on = |axes, dtype| case(definition, Stage::Determinism, axes, dtype, Coverage::Full);
    if let Some(medium) = medium_axes(definition).filter(|axes| *axes != small) {
        plan.cases.extend(dtypes.iter().map(|&dtype| on(medium.clone(), dtype)));
    }
    // Which configuration is broken does not depend on the dtype, and processes cost time.
    plan.cases.extend(dtypes.first().map(|&dtype| on(small, dtype)));
}
