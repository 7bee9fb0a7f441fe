//! The stages of a check: one file each, every one a pure function from a Definition to cases.

mod determinism;
mod drawn;
mod edge;
mod reach;
mod smoke;
mod stability;
mod sweep;
mod told;

use std::collections::BTreeMap;

pub(super) use self::drawn::plan_drawn;
pub(super) use self::reach::Reach;
use super::case::{CONTIGUOUS, DEFAULT_PROFILE};
use super::{Case, Coverage, NotRun, Stage, check::CheckOptions};
use crate::spec::{Definition, Dtype};

/// Elements and floating-point operations of a medium shape: more than one program in every direction, and
/// still a fraction of a second.
const MEDIUM_ELEMENTS: u64 = 120_000;
const MEDIUM_FLOPS: u64 = 6_000_000;

/// The cases of a check, in the order in which they run, and what is left out and why.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) cases: Vec<Case>,
    pub(super) not_run: Vec<NotRun>,
}

/// Plans the stages that were asked for, for every Definition. The same seed gives the same plan.
pub(super) fn plan(definitions: &[&Definition], options: &CheckOptions, seed: u64, reach: Reach) -> Plan {
    let mut plan = Plan::default();
    for stage in Stage::ALL {
        let asked = options.stages.is_empty() || options.stages.contains(&stage);
        match stage {
            Stage::Smoke if asked => {
                definitions.iter().for_each(|definition| {
                    let dtypes = dtypes(definition, options);
                    if definition.extras.only_sizes {
                        told::smoke(definition, &dtypes, reach, &mut plan);
                    } else {
                        smoke::plan(definition, &dtypes, &mut plan);
                    }
                });
            }
            Stage::Sweep if asked => {
                definitions.iter().for_each(|definition| {
                    let dtypes = dtypes(definition, options);
                    if definition.extras.only_sizes {
                        told::sweep(definition, &dtypes, reach, &mut plan);
                    } else {
                        sweep::plan(definition, &dtypes, (seed, reach), &mut plan);
                    }
                });
            }
            Stage::Stability if asked => {
                for definition in told::take(definitions, stage, reach, &mut plan) {
                    stability::plan(definition, &dtypes(definition, options), reach, &mut plan);
                }
            }
            Stage::Edge if asked => {
                for definition in told::take(definitions, stage, reach, &mut plan) {
                    edge::plan(definition, &dtypes(definition, options), &mut plan);
                }
            }
            Stage::Determinism if asked => {
                for definition in told::take(definitions, stage, reach, &mut plan) {
                    determinism::plan(definition, &dtypes(definition, options), reach, &mut plan);
                }
            }
            _ => plan.not_run.push(NotRun::new(stage.name(), "not asked for")),
        }
    }
    for definition in definitions {
        leave_out_undefined(definition, &mut plan);
    }
    plan
}

/// Takes out the cases whose shape the operation is not defined for, and tells that they are left out.
fn leave_out_undefined(definition: &Definition, plan: &mut Plan) {
    let name = &definition.name;
    plan.cases.retain(|case| case.definition != *name || definition.axis_out_of_range(&case.axes).is_none());
    for (axis, range) in &definition.extras.ranges {
        let lengths = match (range.least, range.most) {
            (0, None) => continue,
            (least, None) => format!("shorter than {least}"),
            (least, Some(most)) => format!("outside {least} to {most}"),
        };
        let what = format!("{name} with {axis} {lengths}");
        plan.not_run.push(NotRun::new(what, "the Definition says nothing of such shapes"));
    }
}

/// The dtypes of the Definition that were asked for.
pub(super) fn dtypes(definition: &Definition, options: &CheckOptions) -> Vec<Dtype> {
    let asked = |dtype: &Dtype| options.dtypes.is_empty() || options.dtypes.contains(dtype);
    definition.dtypes().into_iter().filter(asked).collect()
}

/// A case on these axes with the default values and layout.
pub(super) fn case(
    definition: &Definition,
    stage: Stage,
    axes: BTreeMap<String, u64>,
    dtype: Dtype,
    coverage: Coverage,
) -> Case {
    Case {
        stage,
        definition: definition.name.clone(),
        axes: definition.with_derived(&axes),
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
pub(super) fn elements(definition: &Definition, axes: &BTreeMap<String, u64>) -> u64 {
    let all = definition.all_axes(axes);
    tensor_shapes(definition)
        .map(|shape| {
            shape
                .iter()
                .fold(1_u64, |product, axis| product.saturating_mul(all.get(axis).copied().unwrap_or(0)))
        })
        .fold(0, u64::saturating_add)
}

/// The axes on which determinism tries processes and configurations: those of smoke. `None` when a
/// Definition names all its sizes and none of them can be run whole.
pub(super) fn smallest_axes(definition: &Definition, reach: Reach) -> Option<BTreeMap<String, u64>> {
    let axes = if definition.extras.only_sizes {
        told::smallest_whole(definition, reach)?.clone()
    } else {
        smoke::axes(definition)
    };
    Some(definition.with_derived(&axes))
}

/// The largest size of the Definition that runs whole in a fraction of a second, if one does.
fn medium_axes(definition: &Definition) -> Option<BTreeMap<String, u64>> {
    let is_medium = |axes: &&BTreeMap<String, u64>| {
        elements(definition, axes) <= MEDIUM_ELEMENTS && flops(definition, axes) <= MEDIUM_FLOPS
    };
    let sizes = definition.extras.sizes.iter().map(|(_, axes)| axes);
    let largest = sizes.filter(is_medium).max_by_key(|axes| elements(definition, axes));
    largest.map(|axes| definition.with_derived(axes))
}

fn flops(definition: &Definition, axes: &BTreeMap<String, u64>) -> u64 {
    let told = definition.flops(axes, Dtype::Float32).ok().flatten();
    told.unwrap_or_else(|| work(definition, axes))
}

/// For an operation of which nobody says how much it computes: a product over all its axes, as in a matrix
/// product; it only decides how much of a case is run.
fn work(definition: &Definition, axes: &BTreeMap<String, u64>) -> u64 {
    definition.all_axes(axes).values().fold(2, |product, &length| product.saturating_mul(length))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::spec::{builtin, builtin_named};

    fn labels(plan: &Plan) -> String {
        let case = |case: &Case| format!("{} {} · {:?}", case.stage, case.label(), case.coverage);
        let left = |line: &NotRun| format!("not run: {} ({})", line.what, line.why);
        plan.cases.iter().map(case).chain(plan.not_run.iter().map(left)).collect::<Vec<_>>().join("\n")
    }

    fn planned(name: &str, options: &CheckOptions, seed: u64) -> Plan {
        plan(&[&builtin_named(name).expect("a Definition of this binary")], options, seed, Reach::INTERPRETER)
    }

    #[test]
    fn the_plans_of_the_starters() {
        for name in builtin().iter().map(|definition| definition.name.as_str()) {
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
        for name in builtin().iter().map(|definition| definition.name.as_str()) {
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

    #[test]
    fn a_definition_may_narrow_profiles_and_layouts() {
        let mut definition = (*builtin_named("matmul").expect("a Definition of this binary")).clone();
        definition.extras.profiles = vec!["nan".to_owned(), "gamma".to_owned()];
        definition.extras.layouts = vec!["transposed".to_owned(), "twisted".to_owned()];
        let options = CheckOptions { stages: vec![Stage::Stability, Stage::Edge], ..CheckOptions::default() };
        let plan = plan(&[&definition], &options, 1, Reach::INTERPRETER);
        let of = |stage| plan.cases.iter().filter(move |case| case.stage == stage);
        assert!(of(Stage::Stability).all(|case| case.profile == "nan"));
        let layouts: Vec<&str> = of(Stage::Edge).map(|case| case.layout.as_str()).collect();
        assert_eq!(layouts, ["A transposed", "B transposed"]);
        let left: Vec<&str> = plan.not_run.iter().map(|line| line.what.as_str()).collect();
        assert_eq!(
            left,
            ["smoke", "sweep", "stability profiles gamma", "determinism", "edge layouts twisted"]
        );
    }

    /// Whatever a Definition's axes are called: every one of them is empty once, and one case is larger
    /// than 32-bit offsets.
    #[test]
    fn every_axis_is_empty_once() {
        for definition in builtin() {
            let name = &definition.name;
            let plan = planned(name, &CheckOptions::default(), 1);
            for axis in definition.var_axes() {
                let is_empty = |case: &Case| case.axes[axis] == 0;
                let may_be_empty = definition.extras.ranges.get(axis).is_none_or(|range| range.least == 0);
                assert_eq!(plan.cases.iter().any(is_empty), may_be_empty, "{name}: {axis}");
            }
            let offsets: Vec<_> =
                plan.cases.iter().filter(|case| case.coverage == Coverage::Offsets).collect();
            assert_eq!(offsets.len(), 1);
            let largest = tensor_shapes(definition)
                .map(|shape| shape.iter().map(|axis| offsets[0].axes[axis]).product::<u64>());
            assert!(largest.max() > Some(1 << 31), "{name}");
            assert!(elements(definition, &offsets[0].axes) < 1 << 35, "{name} needs too many addresses");
        }
    }

    /// On a GPU every program runs and larger sizes are judged; a save leaves the largest to a full check and says so.
    #[test]
    fn a_gpu_reaches_further_and_a_save_less_far() {
        let definition = builtin_named("softmax").expect("a Definition of this binary");
        let on_gpu = |free_gib: u64| {
            let gpu = crate::judge::OnGpu { free_bytes: free_gib << 30, ..Default::default() };
            Reach::of(&crate::judge::means::Means::Gpu(gpu))
        };
        let planned = |reach| plan(&[&definition], &CheckOptions::default(), 1, reach);
        let reasons = |plan: &Plan| {
            plan.not_run
                .iter()
                .map(|line| format!("{}: {}", line.what, line.why))
                .collect::<Vec<_>>()
                .join("\n")
        };
        let whole = planned(on_gpu(128));
        assert!(whole.cases.iter().all(|case| case.coverage != Coverage::Sampled));
        assert_eq!(reasons(&whole), "");
        let interpreted = planned(Reach::INTERPRETER);
        assert!(whole.cases.len() > interpreted.cases.len());
        let small = |plan: &Plan| -> Vec<String> {
            let small = plan.cases.iter().filter(|case| elements(&definition, &case.axes) < 500_000);
            small.map(|case| format!("{} {}", case.stage, case.label())).collect()
        };
        assert_eq!(small(&whole), small(&interpreted), "the same small cases");
        insta::assert_snapshot!(reasons(&planned(on_gpu(128).quick())), @"sizes xlarge, attention, vocab: left to a full check: `warpsmith check`, or `check.onSave` set to full");
        insta::assert_snapshot!(reasons(&planned(on_gpu(4))), @r"
        sizes xlarge, wide, attention, vocab: too large for the free memory of the GPU, or for a float64 reference on it
        sweep M=528384 N=4096 · f16: more than 2³¹ elements need more memory than the GPU has free
        ");
    }

    /// What the interpreter pays for, whatever the kernel: many elements, and many short rows.
    #[test]
    fn plans_stay_small() {
        for definition in builtin() {
            let plan = planned(&definition.name, &CheckOptions::default(), 1);
            let full: Vec<_> = plan.cases.iter().filter(|case| case.coverage == Coverage::Full).collect();
            assert!(full.len() < 160, "{}: {} cases", definition.name, full.len());
            let flops = |case: &&Case| definition.flops(&case.axes, case.dtype).ok().flatten().unwrap_or(0);
            let total: u64 = full.iter().map(flops).sum();
            assert!(total < 1_200_000_000, "{}: {total} flops", definition.name);
        }
    }

    #[test]
    fn axes_that_follow_from_others_are_completed_everywhere() {
        let plan = planned("rotary_embedding", &CheckOptions::default(), 1);
        assert!(plan.cases.len() > 60);
        for case in &plan.cases {
            assert_eq!(case.axes["head_dim"], 2 * case.axes["half_dim"], "{}", case.label());
        }
    }

    #[test]
    fn shapes_that_the_operation_is_not_defined_for_are_left_out_and_told() {
        let plan = planned("flash_attention_causal", &CheckOptions::default(), 1);
        assert!(plan.cases.iter().all(|case| (1..=256).contains(&case.axes["head_dim"])));
        assert!(plan.cases.iter().any(|case| case.axes["head_dim"] == 129));
        assert!(plan.cases.iter().any(|case| case.axes["seq"] == 0));
        let told = "flash_attention_causal with head_dim outside 1 to 256";
        assert!(plan.not_run.iter().any(|line| line.what == told), "{:?}", plan.not_run);
    }

    #[test]
    fn scalars_are_varied_one_at_a_time() {
        let plan = planned("flash_attention_full", &CheckOptions::default(), 1);
        let varied: Vec<_> = plan.cases.iter().filter(|case| !case.scalars.is_empty()).collect();
        assert_eq!(varied.len(), 2 * 3, "two scales, three dtypes");
        assert!(
            varied.iter().all(|case| case.stage == Stage::Sweep && case.scalars.contains_key("sm_scale"))
        );
    }

    /// Four hidden axes must not multiply to a case that cannot run in full and so would not be there.
    #[test]
    fn every_check_has_its_hidden_shapes() {
        for definition in builtin() {
            let axes_of = |seed| -> Vec<_> {
                let plan = planned(&definition.name, &CheckOptions::default(), seed);
                plan.cases.into_iter().map(|case| case.axes).collect()
            };
            let (first, second) = (axes_of(1), axes_of(2));
            let hidden = first.iter().filter(|axes| !second.contains(axes)).collect::<BTreeSet<_>>();
            assert_eq!(hidden.len(), 3, "{}: {hidden:?}", definition.name);
        }
    }
}
