//! Edge: each tensor argument alone in every layout that is not contiguous. (Odd, prime and empty shapes are
//! in the shape sweep.)
//!
//! What a layout does wrong does not depend on the dtype, so the dtypes take turns.

use super::{Plan, case, smoke};
use crate::judge::{Case, Coverage, NotRun, Stage, layouts};
use crate::spec::{Definition, Dtype};

pub(super) fn plan(definition: &Definition, dtypes: &[Dtype], plan: &mut Plan) {
    let (layouts, unknown) = layouts::of(definition);
    if !unknown.is_empty() {
        let what = format!("{} layouts {}", Stage::Edge, unknown.join(", "));
        plan.not_run.push(NotRun::new(what, "no layout has this name"));
    }
    let mut turn = dtypes.iter().copied().cycle();
    for (name, spec) in &definition.inputs {
        let Some(rank) = spec.shape.as_ref().map(Vec::len) else { continue };
        for layout in layouts.iter().filter(|layout| layout.fits(rank)) {
            let Some(dtype) = turn.next() else { return };
            let plain = case(definition, Stage::Edge, smoke::axes(definition), dtype, Coverage::Full);
            plan.cases.push(Case { layout: layout.of(name), ..plain });
        }
    }
}
