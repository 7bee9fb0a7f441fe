//! Shape sweep: the Definition's own sizes, tiles ± 1, primes, ones, empty axes, shapes that nobody can
//! know beforehand, and one shape whose offsets do not fit 32 bits.

use std::collections::{BTreeMap, BTreeSet};

use super::{Plan, case, coverage, elements, smoke, tensor_shapes};
use crate::judge::philox::Draws;
use crate::judge::{AGAIN_PROFILE, Case, Coverage, NEAR_EPSILON_PROFILE, NotRun, Stage};
use crate::spec::{Definition, Dtype};

/// Lengths around common tile sizes, and primes. Each is given to one axis while the others are short.
const TELLING_LENGTHS: [u64; 9] = [1, 31, 128, 129, 257, 1000, 1023, 8191, 65_537];
/// The same for axes that are no tensor's last dimension: there a longer axis is the same program again,
/// and the interpreter pays for each program.
const TELLING_OUTER_LENGTHS: [u64; 3] = [1, 31, 129];
/// Lengths of the other axes meanwhile, in axis order.
const SHORT_LENGTHS: [u64; 4] = [3, 17, 19, 5];
/// Hidden shapes for each check.
const HIDDEN_SHAPES: u64 = 3;
/// Longest axis of a hidden shape.
const HIDDEN_LONGEST: u64 = 150;
/// More elements than a signed 32-bit offset can name.
const OFFSET_ELEMENTS: u64 = (1 << 31) + (1 << 24);
/// Lengths of the axes that do not grow in the offsets case.
const OFFSET_LENGTH: u64 = 4096;

type Axes = BTreeMap<String, u64>;

pub(super) fn plan(definition: &Definition, dtypes: &[Dtype], seed: u64, plan: &mut Plan) {
    let smoke_axes = smoke::axes(definition);
    let profiles = [Some(AGAIN_PROFILE), definition.epsilon().map(|_| NEAR_EPSILON_PROFILE)];
    for profile in profiles.into_iter().flatten() {
        plan.cases.extend(dtypes.iter().map(|&dtype| Case {
            profile: profile.to_owned(),
            ..case(definition, Stage::Sweep, smoke_axes.clone(), dtype, Coverage::Full)
        }));
    }
    for axes in small_shapes(definition, seed) {
        for &dtype in dtypes {
            plan.cases.push(case(definition, Stage::Sweep, axes.clone(), dtype, Coverage::Full));
        }
    }
    named_sizes(definition, dtypes, plan);
    plan.cases.extend(offsets_case(definition, dtypes));
}

/// Everything that runs in full, without repeats.
fn small_shapes(definition: &Definition, seed: u64) -> Vec<Axes> {
    let names: Vec<String> = definition.var_axes().into_iter().map(str::to_owned).collect();
    let short = |position: usize| SHORT_LENGTHS[position % SHORT_LENGTHS.len()];
    let with = |chosen: usize, length: u64| -> Axes {
        let lengths = (0..names.len()).map(|at| if at == chosen { length } else { short(at) });
        names.iter().cloned().zip(lengths).collect()
    };
    let mut shapes: Vec<Axes> = vec![names.iter().map(|name| (name.clone(), 1)).collect()];
    for (chosen, name) in names.iter().enumerate() {
        let inner = tensor_shapes(definition).any(|shape| shape.last() == Some(name));
        let lengths: &[u64] = if inner { &TELLING_LENGTHS } else { &TELLING_OUTER_LENGTHS };
        shapes.extend(lengths.iter().map(|&length| with(chosen, length)));
    }
    shapes.extend((0..names.len()).map(|chosen| with(chosen, 0)));
    let mut draws = Draws::new(seed, "hidden shapes");
    for _ in 0..HIDDEN_SHAPES {
        shapes.push(names.iter().map(|name| (name.clone(), draws.in_range(2, HIDDEN_LONGEST))).collect());
    }
    let mut seen = BTreeSet::new();
    shapes.retain(|axes| coverage(definition, axes) == Some(Coverage::Full) && seen.insert(axes.clone()));
    shapes
}

/// The sizes that the Definition names. Small ones run in full on every dtype; of the larger ones a
/// few programs run, on the dtypes in turn, because each takes as long as its tensors are large.
fn named_sizes(definition: &Definition, dtypes: &[Dtype], plan: &mut Plan) {
    let mut too_large = Vec::new();
    let mut turn = dtypes.iter().copied().cycle();
    for (name, axes) in &definition.extras.sizes {
        match coverage(definition, axes) {
            Some(Coverage::Full) => {
                let cases = dtypes
                    .iter()
                    .map(|&dtype| case(definition, Stage::Sweep, axes.clone(), dtype, Coverage::Full));
                let new: Vec<Case> = cases.filter(|case| !plan.cases.contains(case)).collect();
                plan.cases.extend(new);
            }
            Some(coverage) => {
                plan.cases.extend(
                    turn.next().map(|dtype| case(definition, Stage::Sweep, axes.clone(), dtype, coverage)),
                );
            }
            None => too_large.push(name.clone()),
        }
    }
    if !too_large.is_empty() {
        plan.not_run.push(NotRun::new(
            format!("sizes {}", too_large.join(", ")),
            "too large for the interpreter on a CPU",
        ));
    }
}

/// One case in which the first axis is so long that an int32 offset wraps. Nothing of the tensors is
/// touched but what the sampled programs touch, so it needs address space and little memory.
fn offsets_case(definition: &Definition, dtypes: &[Dtype]) -> Option<Case> {
    // The smallest dtype: the wrap depends on elements, the address space on bytes.
    let dtype = dtypes.iter().copied().min_by_key(|dtype| dtype.bits())?;
    let names = definition.var_axes();
    let (first, others) = names.split_first()?;
    let mut axes: Axes = others.iter().map(|name| ((*name).to_owned(), OFFSET_LENGTH)).collect();
    axes.insert((*first).to_owned(), OFFSET_ELEMENTS / OFFSET_LENGTH);
    (elements(definition, &axes) > u64::from(u32::MAX) / 2)
        .then(|| case(definition, Stage::Sweep, axes, dtype, Coverage::Offsets))
}
