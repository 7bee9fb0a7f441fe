//! Which sizes are timed, and in which dtype.

use super::super::check::CheckOptions;
use super::super::stages::{self, Reach};
use super::super::{Case, CaseRecord, Coverage, Stage};
use super::TimingChoice;
use crate::spec::{AxisValues, Definition};

/// Sizes of one Definition that `check` times.
const MOST_SIZES: usize = 3;

/// One size of one Definition that is timed.
pub(super) struct BenchCase<'a> {
    pub(super) definition: &'a Definition,
    pub(super) case: Case,
}

/// The sizes that are timed: those that a Definition names for it, otherwise its largest, in the first of the dtypes
/// that were asked for. On a save only the first of the first Definition, so that the answer comes soon.
pub(super) fn bench_cases<'a>(
    definitions: &[&'a Definition],
    options: &CheckOptions,
    reach: Reach,
) -> Vec<BenchCase<'a>> {
    let (definitions, most) = match options.timing {
        TimingChoice::None => return Vec::new(),
        TimingChoice::First => (&definitions[..definitions.len().min(1)], 1),
        TimingChoice::Some => (definitions, MOST_SIZES),
    };
    let of_definition = |definition: &&'a Definition| {
        let definition = *definition;
        let dtype = stages::dtypes(definition, options).into_iter().next();
        let sizes = sizes(definition, reach);
        sizes.into_iter().take(most).filter_map(move |axes| {
            let case = stages::case(definition, Stage::Sweep, axes.clone(), dtype?, Coverage::Full);
            Some(BenchCase { definition, case })
        })
    };
    definitions.iter().flat_map(of_definition).collect()
}

/// Those that can be judged, in the order in which they are timed.
fn sizes(definition: &Definition, reach: Reach) -> Vec<&AxisValues> {
    let can_run = |axes: &&AxisValues| reach.coverage(definition, axes) == Some(Coverage::Full);
    let named = definition.extras.bench.iter().filter_map(|name| definition.extras.size(name));
    let named: Vec<&AxisValues> = named.filter(can_run).collect();
    if !named.is_empty() {
        return named;
    }
    let mut sizes: Vec<&AxisValues> =
        definition.extras.sizes.iter().map(|(_, axes)| axes).filter(can_run).collect();
    sizes.sort_by_key(|axes| std::cmp::Reverse(stages::elements(definition, axes)));
    sizes
}

/// Whether the very case is among those that were judged.
pub(super) fn is_judged(case: &Case, records: &[CaseRecord]) -> bool {
    let same = |known: &Case| {
        known.definition == case.definition
            && known.axes == case.axes
            && known.dtype == case.dtype
            && known.layout == case.layout
            && known.profile == case.profile
            && known.coverage == case.coverage
    };
    records.iter().any(|record| same(&record.case))
}
