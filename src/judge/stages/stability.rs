//! Numerical stability: the same operation on values that are hard to compute with.
//!
//! Each profile runs on a small shape in every dtype, and on a medium one in the dtypes in turn. Profiles
//! with infinities and NaN run on the small shape only.

use super::{Plan, Reach, case, medium_axes, smallest_axes};
use crate::judge::{Case, Coverage, NotRun, Stage, profiles};
use crate::spec::{Definition, Dtype};

pub(super) fn plan(definition: &Definition, dtypes: &[Dtype], reach: Reach, plan: &mut Plan) {
    let (profiles, unknown) = profiles::of(definition);
    if !unknown.is_empty() {
        let what = format!("{} profiles {}", Stage::Stability, unknown.join(", "));
        plan.not_run.push(NotRun::new(what, "no profile has this name"));
    }
    let Some(small) = smallest_axes(definition, reach) else { return };
    let medium = medium_axes(definition).filter(|axes| *axes != small);
    let mut turn = dtypes.iter().copied().cycle();
    for profile in profiles {
        let on = |axes, dtype| Case {
            profile: profile.name.to_owned(),
            ..case(definition, Stage::Stability, axes, dtype, Coverage::Full)
        };
        plan.cases.extend(dtypes.iter().map(|&dtype| on(small.clone(), dtype)));
        if let Some(medium) = medium.as_ref().filter(|_| profile.is_finite) {
            plan.cases.extend(turn.next().map(|dtype| on(medium.clone(), dtype)));
        }
    }
}
