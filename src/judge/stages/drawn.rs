//! Cases of problems whose inputs are drawn by the user's own functions: the sizes are theirs, and so are the
//! values and how they lie in memory.

use super::{Plan, Reach, case, determinism, dtypes, elements};
use crate::judge::check::CheckOptions;
use crate::judge::{Case, Coverage, NotRun, Stage};
use crate::spec::{AxisValues, Definition, Dtype};

/// Names of the second and third draw of the same size.
const MORE_DRAWS: [&str; 2] = ["draw 2", "draw 3"];

/// A size that can be run, with how much of it.
struct Size<'a> {
    definition: &'a Definition,
    axes: &'a AxisValues,
    dtype: Dtype,
    coverage: Coverage,
}

impl Size<'_> {
    fn case(&self, stage: Stage) -> Case {
        case(self.definition, stage, self.axes.clone(), self.dtype, self.coverage)
    }
}

/// One Definition for each size; smoke is the smallest, the sweep tries others and more draws.
pub(in crate::judge) fn plan_drawn(
    definitions: &[&Definition],
    options: &CheckOptions,
    reach: Reach,
) -> Plan {
    let mut plan = Plan::default();
    let mut sizes: Vec<Size<'_>> = Vec::new();
    for &definition in definitions {
        let of_dtypes = dtypes(definition, options);
        for (name, axes) in &definition.extras.sizes {
            match (reach.coverage(definition, axes), of_dtypes.first()) {
                (Some(coverage), Some(&dtype)) => {
                    sizes.push(Size { definition, axes, dtype, coverage });
                }
                (None, _) => plan.not_run.push(NotRun::new(name.clone(), reach.too_large())),
                (_, None) => {}
            }
        }
    }
    sizes.sort_by_key(|size| elements(size.definition, size.axes));
    for stage in Stage::ALL {
        if options.stages.is_empty() || options.stages.contains(&stage) {
            plan_stage(stage, &sizes, reach, &mut plan);
        } else {
            plan.not_run.push(NotRun::new(stage.name(), "not asked for"));
        }
    }
    if !sizes.is_empty() {
        plan.not_run.push(NotRun::new("other dtypes", "get_inputs says which are meant"));
    }
    plan
}

fn plan_stage(stage: Stage, sizes: &[Size<'_>], reach: Reach, plan: &mut Plan) {
    let Some(smallest) = sizes.first() else { return };
    match stage {
        Stage::Smoke => plan.cases.push(smallest.case(stage)),
        Stage::Sweep => {
            let again = |size: &Size<'_>, draw: &str| Case { profile: draw.to_owned(), ..size.case(stage) };
            plan.cases.extend(MORE_DRAWS.map(|draw| again(smallest, draw)));
            let profiles = &smallest.definition.extras.profiles;
            plan.cases.extend(profiles.iter().map(|profile| again(smallest, profile)));
            for size in sizes.iter().skip(1) {
                plan.cases.push(size.case(stage));
                if size.coverage == Coverage::Full {
                    plan.cases.push(again(size, MORE_DRAWS[0]));
                }
            }
        }
        Stage::Determinism if smallest.coverage == Coverage::Full => {
            determinism::plan(smallest.definition, &[smallest.dtype], reach, plan);
        }
        Stage::Determinism => {
            plan.not_run.push(NotRun::new(stage.name(), "every size is too large to run whole"));
        }
        Stage::Stability => {
            plan.not_run.push(NotRun::new(stage.name(), "the values are those that get_inputs draws"));
        }
        Stage::Edge => {
            plan.not_run.push(NotRun::new(stage.name(), "get_inputs says how its tensors lie in memory"));
        }
    }
}
