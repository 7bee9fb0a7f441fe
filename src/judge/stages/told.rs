//! Cases of a Definition that names all its sizes: those and no others, because nobody says that the entry
//! takes more.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Plan, Reach, case, elements};
use crate::judge::{Case, Coverage, NotRun, Stage};
use crate::spec::{AxisValues, Definition, Dtype};

/// Fewer elements than this do not tell a right answer from an impostor.
const TELLING_ELEMENTS: u64 = 64;

/// The smallest size that tells something, on every dtype.
pub(super) fn smoke(definition: &Definition, dtypes: &[Dtype], reach: Reach, plan: &mut Plan) {
    let Some((axes, coverage)) = smallest(definition, reach) else { return };
    plan.cases
        .extend(dtypes.iter().map(|&dtype| case(definition, Stage::Smoke, axes.clone(), dtype, coverage)));
}

/// Every size with every value of the scalars, but for what smoke runs. Of large sizes a few programs run, on
/// the dtypes in turn.
pub(super) fn sweep(definition: &Definition, dtypes: &[Dtype], reach: Reach, plan: &mut Plan) {
    let mut too_large = Vec::new();
    let mut turn = dtypes.iter().copied().cycle();
    for (name, axes) in &definition.extras.sizes {
        let of_dtype: Vec<(Dtype, Coverage)> = match reach.coverage(definition, axes) {
            Some(coverage) if reach.is_small(definition, axes) => {
                dtypes.iter().map(|&dtype| (dtype, coverage)).collect()
            }
            Some(coverage) => turn.next().map(|dtype| (dtype, coverage)).into_iter().collect(),
            None => {
                too_large.push(name.clone());
                continue;
            }
        };
        let of_size = definition.extras.size_scalars.get(name).cloned();
        for scalars in of_size.map_or_else(|| scalars(definition), |scalars| vec![scalars]) {
            for &(dtype, coverage) in &of_dtype {
                let case = case(definition, Stage::Sweep, axes.clone(), dtype, coverage);
                let case = Case { scalars: scalars.clone(), ..case };
                let in_smoke = Case { stage: Stage::Smoke, ..case.clone() };
                if !plan.cases.contains(&in_smoke) {
                    plan.cases.push(case);
                }
            }
        }
    }
    if !too_large.is_empty() {
        let what = format!("sizes {}", too_large.join(", "));
        plan.not_run.push(NotRun::new(what, reach.too_large()));
    }
}

/// The Definitions that have cases of this stage; of the others it is told why they have none.
pub(super) fn take<'a>(
    definitions: &[&'a Definition],
    stage: Stage,
    reach: Reach,
    plan: &mut Plan,
) -> Vec<&'a Definition> {
    let mut taken = Vec::new();
    for &definition in definitions {
        match why_without(definition, stage, reach) {
            Some(why) => plan.not_run.push(NotRun::new(stage.name(), why)),
            None => taken.push(definition),
        }
    }
    taken
}

fn why_without(definition: &Definition, stage: Stage, reach: Reach) -> Option<&'static str> {
    if !definition.extras.only_sizes {
        return None;
    }
    let is_float = |name: &str| definition.input(name).is_some_and(|spec| spec.dtype.is_float());
    // Who names profiles means them to change how values are drawn.
    let has_drawn_floats = definition.extras.profiles.is_empty()
        && definition.extras.inputs.iter().any(|(name, _)| is_float(name));
    match stage {
        Stage::Smoke | Stage::Sweep => None,
        Stage::Edge => Some("nothing is said of tensors that are not contiguous"),
        Stage::Stability if has_drawn_floats => Some("it is said how values are drawn"),
        Stage::Stability | Stage::Determinism => smallest_whole(definition, reach)
            .is_none()
            .then_some("every size that is named is too large to run whole"),
    }
}

/// The size of smoke, if all its programs can be run.
pub(super) fn smallest_whole(definition: &Definition, reach: Reach) -> Option<&AxisValues> {
    smallest(definition, reach).filter(|(_, coverage)| *coverage == Coverage::Full).map(|(axes, _)| axes)
}

fn smallest(definition: &Definition, reach: Reach) -> Option<(&AxisValues, Coverage)> {
    let sizes = definition
        .extras
        .sizes
        .iter()
        .filter_map(|(_, axes)| Some((axes, reach.coverage(definition, axes)?)));
    // Telling ones first, the smallest of them; else the largest there is.
    sizes.min_by_key(|(axes, _)| {
        let elements = elements(definition, axes);
        if elements >= TELLING_ELEMENTS { (0, elements) } else { (1, u64::MAX - elements) }
    })
}

/// Every combination of scalar values: none (the defaults), then those with another value.
fn scalars(definition: &Definition) -> Vec<BTreeMap<String, Value>> {
    let mut all: Vec<BTreeMap<String, Value>> = vec![BTreeMap::new()];
    for (name, values) in &definition.extras.vary {
        let with = |known: &BTreeMap<String, Value>, value: &Value| {
            let mut changed = known.clone();
            changed.insert(name.clone(), value.clone());
            changed
        };
        let others: Vec<_> =
            all.iter().flat_map(|known| values.iter().map(move |value| with(known, value))).collect();
        all.extend(others);
    }
    all
}
