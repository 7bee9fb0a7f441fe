//! Shape sweep: the Definition's own sizes, tiles ± 1, primes, ones, empty axes, shapes that nobody can
//! know beforehand, and one shape whose offsets do not fit 32 bits.

use std::collections::{BTreeMap, BTreeSet};

use super::{Plan, Reach, case, elements, smoke, tensor_shapes};
use crate::judge::philox::Draws;
use crate::judge::{AGAIN_PROFILE, Case, Coverage, NEAR_EPSILON_PROFILE, NotRun, Stage};
use crate::spec::{Definition, Dtype};

/// Lengths around common tile sizes, and primes. Each is given to one axis while the others are short.
const TELLING_LENGTHS: [u64; 9] = [1, 31, 128, 129, 257, 1000, 1023, 8191, 65_537];
/// The same for axes that are summed over but are no last dimension: a kernel may run a program for each.
const TELLING_REDUCED_LENGTHS: [u64; 7] = [1, 31, 128, 129, 257, 1000, 1023];
/// The same for other axes: there a longer axis is the same program again, and the interpreter pays for
/// each program.
const TELLING_OUTER_LENGTHS: [u64; 3] = [1, 31, 129];
/// The same for axes before the last two dimensions, which only count matrices.
const TELLING_BATCH_LENGTHS: [u64; 2] = [1, 31];
/// Lengths of the other axes meanwhile, in axis order.
const SHORT_LENGTHS: [u64; 4] = [3, 17, 19, 5];
/// The same when there are more than three axes, so that their product stays small.
const SHORT_LENGTHS_OF_MANY: [u64; 4] = [2, 3, 17, 5];
/// Hidden shapes for each check.
const HIDDEN_SHAPES: u64 = 3;
/// Longest axis of a hidden shape.
const HIDDEN_LONGEST: u64 = 150;
/// The same for axes before the last two dimensions.
const HIDDEN_LONGEST_BATCH: u64 = 5;
/// More elements than a signed 32-bit offset can name.
const OFFSET_ELEMENTS: u64 = (1 << 31) + (1 << 24);
/// Binary logarithm of the product of the axes that do not grow in the offsets case, within the tensor of
/// most dimensions.
const OFFSET_OTHERS_LOG2: u32 = 12;

type Axes = BTreeMap<String, u64>;

/// What an axis is in the tensors of most dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The last dimension of one, or what that follows from.
    Inner,
    /// Summed over.
    Reduced,
    /// Before the last two dimensions of all.
    Batch,
    Outer,
}

pub(super) fn plan(definition: &Definition, dtypes: &[Dtype], (seed, reach): (u64, Reach), plan: &mut Plan) {
    let smoke_axes = smoke::axes(definition);
    let profiles = [Some(AGAIN_PROFILE), definition.epsilon().map(|_| NEAR_EPSILON_PROFILE)];
    for profile in profiles.into_iter().flatten() {
        plan.cases.extend(dtypes.iter().map(|&dtype| Case {
            profile: profile.to_owned(),
            ..case(definition, Stage::Sweep, smoke_axes.clone(), dtype, Coverage::Full)
        }));
    }
    for axes in small_shapes(definition, seed, reach) {
        for &dtype in dtypes {
            plan.cases.push(case(definition, Stage::Sweep, axes.clone(), dtype, Coverage::Full));
        }
    }
    named_sizes(definition, dtypes, reach, plan);
    other_scalars(definition, dtypes, plan);
    if let Some(case) = offsets_case(definition, dtypes) {
        if reach.has_room(definition, &case.axes, case.dtype.bits().div_ceil(8)) {
            plan.cases.push(case);
        } else {
            let what = format!("{} {}", case.stage, case.label());
            plan.not_run
                .push(NotRun::new(what, "more than 2³¹ elements need more memory than the GPU has free"));
        }
    }
}

/// The tensors of most dimensions: those that decide how programs are laid out.
fn widest_shapes(definition: &Definition) -> impl Iterator<Item = &Vec<String>> {
    let most = tensor_shapes(definition).map(Vec::len).max().unwrap_or(0);
    tensor_shapes(definition).filter(move |shape| shape.len() == most)
}

fn role(definition: &Definition, axis: &str) -> Role {
    let is = |name: &String| {
        let derived = definition.extras.derived.iter().find(|(derived, _)| derived == name);
        name == axis || derived.is_some_and(|(_, from)| from.names().any(|(used, _)| used == axis))
    };
    let reduction = definition.extras.tolerance.reduction.as_ref();
    let last_two = |shape: &&Vec<String>| shape.iter().rev().take(2).any(is);
    if widest_shapes(definition).any(|shape| shape.last().is_some_and(is)) {
        Role::Inner
    } else if reduction.is_some_and(|terms| terms.names().any(|(used, _)| used == axis)) {
        Role::Reduced
    } else if widest_shapes(definition).any(|shape| last_two(&shape)) {
        Role::Outer
    } else {
        Role::Batch
    }
}

/// Everything that runs in full, without repeats.
fn small_shapes(definition: &Definition, seed: u64, reach: Reach) -> Vec<Axes> {
    let names: Vec<String> = definition.var_axes().into_iter().map(str::to_owned).collect();
    let lengths = if names.len() > SHORT_LENGTHS.len() - 1 { SHORT_LENGTHS_OF_MANY } else { SHORT_LENGTHS };
    let short = |position: usize| lengths[position % lengths.len()];
    let with = |chosen: usize, length: u64| -> Axes {
        let lengths = (0..names.len()).map(|at| if at == chosen { length } else { short(at) });
        names.iter().cloned().zip(lengths).collect()
    };
    let mut shapes: Vec<Axes> = vec![names.iter().map(|name| (name.clone(), 1)).collect()];
    for (chosen, name) in names.iter().enumerate() {
        let lengths: &[u64] = match role(definition, name) {
            Role::Inner => &TELLING_LENGTHS,
            Role::Reduced => &TELLING_REDUCED_LENGTHS,
            Role::Outer => &TELLING_OUTER_LENGTHS,
            Role::Batch => &TELLING_BATCH_LENGTHS,
        };
        shapes.extend(lengths.iter().map(|&length| with(chosen, length)));
    }
    shapes.extend((0..names.len()).map(|chosen| with(chosen, 0)));
    let mut draws = Draws::new(seed, "hidden shapes");
    shapes.extend((0..HIDDEN_SHAPES).map(|_| hidden_shape(definition, &names, reach, &mut draws)));
    let mut seen = BTreeSet::new();
    shapes.retain(|axes| reach.is_small(definition, axes) && seen.insert(axes.clone()));
    shapes
}

/// Lengths that nobody can know beforehand, within the Definition's ranges; the longest are halved until
/// the case can run in full.
fn hidden_shape(definition: &Definition, names: &[String], reach: Reach, draws: &mut Draws) -> Axes {
    let mut axes: Axes = names
        .iter()
        .map(|name| {
            let is_batch = role(definition, name) == Role::Batch;
            let longest = if is_batch { HIDDEN_LONGEST_BATCH } else { HIDDEN_LONGEST };
            let range = definition.extras.ranges.get(name);
            let most = range.and_then(|range| range.most).map_or(longest, |most| most.min(longest));
            let least = range.map_or(2, |range| range.least.max(2)).min(most);
            (name.clone(), draws.in_range(least, most))
        })
        .collect();
    while !reach.is_small(definition, &axes) {
        match axes.values_mut().max() {
            Some(longest) if *longest > 1 => *longest /= 2,
            _ => break,
        }
    }
    axes
}

/// Other values of the scalar inputs, one at a time, on the smoke shape.
fn other_scalars(definition: &Definition, dtypes: &[Dtype], plan: &mut Plan) {
    for (name, values) in &definition.extras.vary {
        for value in values {
            for &dtype in dtypes {
                let axes = smoke::axes(definition);
                let plain = case(definition, Stage::Sweep, axes, dtype, Coverage::Full);
                let scalars = BTreeMap::from([(name.clone(), value.clone())]);
                plan.cases.push(Case { scalars, ..plain });
            }
        }
    }
}

/// The sizes that the Definition names. Small ones run in full on every dtype; of the larger ones a
/// few programs run, on the dtypes in turn, because each takes as long as its tensors are large.
fn named_sizes(definition: &Definition, dtypes: &[Dtype], reach: Reach, plan: &mut Plan) {
    let (mut too_large, mut for_later) = (Vec::new(), Vec::new());
    let mut turn = dtypes.iter().copied().cycle();
    for (name, axes) in &definition.extras.sizes {
        match reach.coverage(definition, axes) {
            Some(_) if reach.is_for_later(definition, axes) => for_later.push(name.clone()),
            Some(_) if reach.is_small(definition, axes) => {
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
    // One of several Definitions of an entry says which one it is.
    let whose = definition.options().next().map_or(String::new(), |_| format!(" of {}", definition.name));
    let later = "left to a full check: `warpsmith check`, or `check.onSave` set to full";
    for (sizes, why) in [(too_large, reach.too_large()), (for_later, later)] {
        if !sizes.is_empty() {
            plan.not_run.push(NotRun::new(format!("sizes {}{whose}", sizes.join(", ")), why));
        }
    }
}

/// One case in which one axis is so long that an int32 offset wraps: the first that is in an output, so
/// that it makes more programs and not longer ones. Nothing of the tensors is touched but what the sampled
/// programs touch, so it needs address space and little memory.
fn offsets_case(definition: &Definition, dtypes: &[Dtype]) -> Option<Case> {
    // The smallest dtype: the wrap depends on elements, the address space on bytes.
    let dtype = dtypes.iter().copied().min_by_key(|dtype| dtype.bits())?;
    let names = definition.var_axes();
    let in_output = |name: &&&str| {
        definition.outputs.iter().any(|(_, spec)| spec.shape.iter().flatten().any(|axis| axis == **name))
    };
    let long = *names.iter().find(in_output).or(names.first())?;
    let others = widest_shapes(definition).next()?.len().checked_sub(1)?;
    let length = 1 << (OFFSET_OTHERS_LOG2 / u32::try_from(others.max(1)).ok()?);
    let mut axes: Axes = names.iter().map(|name| ((*name).to_owned(), length)).collect();
    axes.insert(long.to_owned(), OFFSET_ELEMENTS >> OFFSET_OTHERS_LOG2);
    (elements(definition, &axes) > u64::from(u32::MAX) / 2)
        .then(|| case(definition, Stage::Sweep, axes, dtype, Coverage::Offsets))
}
