//! The stages of a check: one file each, every one a pure function from a Definition to cases.

mod smoke;
mod sweep;
mod told;

use std::collections::BTreeMap;

use super::case::{CONTIGUOUS, DEFAULT_PROFILE};
use super::{Case, Coverage, NotRun, Stage, check::CheckOptions};
use crate::spec::{Definition, Dtype};

/// Elements of all inputs and outputs up to which every program of a case is run.
const FULL_ELEMENTS: u64 = 500_000;
/// Multiply-adds and such up to which every program of a case is run.
const FULL_FLOPS: u64 = 40_000_000;
/// Elements up to which a case is made at all on the CPU: the judge draws every input and computes the
/// whole reference, whatever the candidate runs.
const SAMPLED_ELEMENTS: u64 = 20_000_000;
/// The same for floating-point operations (the reference runs them twice, once in float64).
const SAMPLED_FLOPS: u64 = 3_000_000_000;

/// The cases of a check, in the order in which they run, and what is left out and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) cases: Vec<Case>,
    pub(super) not_run: Vec<NotRun>,
}

/// Plans the stages that were asked for, for every Definition. The same seed gives the same plan.
pub(super) fn plan(definitions: &[&Definition], options: &CheckOptions, seed: u64) -> Plan {
    let mut plan = Plan::default();
    for stage in Stage::ALL {
        let asked = options.stages.is_empty() || options.stages.contains(&stage);
        match stage {
            Stage::Smoke if asked => {
                definitions.iter().for_each(|definition| {
                    let plan_smoke = if definition.extras.only_sizes { told::smoke } else { smoke::plan };
                    plan_smoke(definition, &dtypes(definition, options), &mut plan);
                });
            }
            Stage::Sweep if asked => {
                definitions.iter().for_each(|definition| {
                    let dtypes = dtypes(definition, options);
                    if definition.extras.only_sizes {
                        told::sweep(definition, &dtypes, &mut plan);
                    } else {
                        sweep::plan(definition, &dtypes, seed, &mut plan);
                    }
                });
            }
            Stage::Smoke | Stage::Sweep => plan.not_run.push(NotRun::new(stage.name(), "not asked for")),
            Stage::Stability | Stage::Determinism | Stage::Edge => {
                plan.not_run.push(NotRun::new(stage.name(), "this version has the stages smoke and sweep"));
            }
        }
    }
    plan
}

/// The dtypes of the Definition that were asked for.
fn dtypes(definition: &Definition, options: &CheckOptions) -> Vec<Dtype> {
    let asked = |dtype: &Dtype| options.dtypes.is_empty() || options.dtypes.contains(dtype);
    definition.dtypes().into_iter().filter(asked).collect()
}

/// A case on these axes with the default values and layout.
fn case(
    definition: &Definition,
    stage: Stage,
    axes: BTreeMap<String, u64>,
    dtype: Dtype,
    coverage: Coverage,
) -> Case {
    Case {
        stage,
        definition: definition.name.clone(),
        axes,
        dtype,
        layout: CONTIGUOUS.to_owned(),
        profile: DEFAULT_PROFILE.to_owned(),
        scalars: BTreeMap::new(),
        options: definition.options().map(|(name, value)| (name.clone(), value.clone())).collect(),
        coverage,
    }
}

/// The named axes of every input and output tensor.
fn tensor_shapes(definition: &Definition) -> impl Iterator<Item = &Vec<String>> {
    definition.inputs.iter().chain(&definition.outputs).filter_map(|(_, spec)| spec.shape.as_ref())
}

/// Elements of all tensors on these axes; saturates instead of overflowing.
fn elements(definition: &Definition, axes: &BTreeMap<String, u64>) -> u64 {
    let all = definition.all_axes(axes);
    tensor_shapes(definition)
        .map(|shape| {
            shape
                .iter()
                .fold(1_u64, |product, axis| product.saturating_mul(all.get(axis).copied().unwrap_or(0)))
        })
        .fold(0, u64::saturating_add)
}

/// For an operation of which nobody says how much it computes: a product over all its axes, as in a matrix
/// product; it only decides how much of a case is run.
fn work(definition: &Definition, axes: &BTreeMap<String, u64>) -> u64 {
    definition.all_axes(axes).values().fold(2, |product, &length| product.saturating_mul(length))
}

/// What can be done with these axes on the CPU.
fn coverage(definition: &Definition, axes: &BTreeMap<String, u64>) -> Option<Coverage> {
    let elements = elements(definition, axes);
    let told = definition.flops(axes, Dtype::Float32).ok().flatten();
    let flops = told.unwrap_or_else(|| work(definition, axes));
    if elements <= FULL_ELEMENTS && flops <= FULL_FLOPS {
        Some(Coverage::Full)
    } else if elements <= SAMPLED_ELEMENTS && flops <= SAMPLED_FLOPS {
        Some(Coverage::Sampled)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::builtin_named;

    fn labels(plan: &Plan) -> String {
        let case = |case: &Case| format!("{} {} · {:?}", case.stage, case.label(), case.coverage);
        let left = |line: &NotRun| format!("not run: {} ({})", line.what, line.why);
        plan.cases.iter().map(case).chain(plan.not_run.iter().map(left)).collect::<Vec<_>>().join("\n")
    }

    fn planned(name: &str, options: &CheckOptions, seed: u64) -> Plan {
        plan(&[&builtin_named(name).expect("a Definition of this binary")], options, seed)
    }

    #[test]
    fn the_plans_of_the_starters() {
        for name in ["softmax", "rmsnorm", "matmul"] {
            let options = CheckOptions { dtypes: vec![Dtype::Bfloat16], ..CheckOptions::default() };
            insta::assert_snapshot!(name, labels(&planned(name, &options, 1)));
        }
    }

    #[test]
    fn hidden_shapes_follow_the_seed() {
        let options = CheckOptions::default();
        let with = |seed| planned("softmax", &options, seed);
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }

    #[test]
    fn no_case_stands_twice() {
        for name in ["softmax", "rmsnorm", "matmul"] {
            let plan = planned(name, &CheckOptions::default(), 3);
            for (at, case) in plan.cases.iter().enumerate() {
                assert!(!plan.cases[..at].contains(case), "{name}: {}", case.label());
            }
        }
    }

    #[test]
    fn a_stage_that_is_left_out_is_shown() {
        let options = CheckOptions { stages: vec![Stage::Smoke], ..CheckOptions::default() };
        let plan = planned("softmax", &options, 1);
        assert!(plan.cases.iter().all(|case| case.stage == Stage::Smoke));
        assert_eq!(plan.cases.len(), 3);
        let left: Vec<&str> = plan.not_run.iter().map(|line| line.what.as_str()).collect();
        assert_eq!(left, ["sweep", "stability", "determinism", "edge"]);
    }

    /// Whatever a Definition's axes are called: every one of them is empty once, and one case is larger
    /// than 32-bit offsets.
    #[test]
    fn every_axis_is_empty_once() {
        for name in ["softmax", "rmsnorm", "matmul"] {
            let definition = builtin_named(name).expect("a Definition of this binary");
            let plan = planned(name, &CheckOptions::default(), 1);
            for axis in definition.var_axes() {
                assert!(plan.cases.iter().any(|case| case.axes[axis] == 0), "{name}: {axis}");
            }
            let offsets: Vec<_> =
                plan.cases.iter().filter(|case| case.coverage == Coverage::Offsets).collect();
            assert_eq!(offsets.len(), 1);
            assert!(elements(&definition, &offsets[0].axes) > 1 << 31);
        }
    }
}
