//! On which shapes a Definition is judged: its Workloads, else small ones that its constraints allow.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::files::{file_name, read_if_there};
use crate::oracle::LeftOut;
use crate::spec::{AxisValues, Definition, Dtype, Trace, Workload, WorkloadInput};

/// Workloads that are run; more would take longer than anyone waits.
const MOST_WORKLOADS: usize = 24;
/// Workloads of which it is said one by one why they are not run.
const MOST_TOLD: usize = 12;
/// Sizes that are made up.
const MOST_SIZES: usize = 8;

/// Lengths for the variable axes in their order, over and over; the first that the constraints allow are taken.
/// Not multiples of common tiles first; what only multiples satisfy follows.
const LENGTHS: [[u64; 4]; 13] = [
    [5, 67, 33, 19],
    [1, 1, 1, 1],
    [31, 3, 17, 5],
    [3, 129, 5, 17],
    [129, 5, 3, 17],
    [257, 3, 5, 2],
    [8, 64, 32, 16],
    [2, 7, 3, 5],
    [16, 16, 16, 16],
    [64, 8, 16, 32],
    [128, 256, 8, 16],
    [256, 128, 8, 4],
    [64, 64, 64, 64],
];

/// Scalars by name.
type Scalars = BTreeMap<String, Value>;

/// The sizes of a Definition, settled.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) sizes: Vec<(String, AxisValues)>,
    /// What a size is run with where that is not what `args` says.
    pub(super) scalars: BTreeMap<String, Scalars>,
    pub(super) args: Scalars,
    pub(super) left_out: Vec<LeftOut>,
}

/// Sizes made up for a Definition without Workloads.
pub(super) fn small(definition: &Definition) -> Result<Settled, String> {
    if let Some(constraint) = undecidable(definition) {
        return Err(format!(
            "the constraint `{constraint}` speaks of more than lengths of axes, so no shapes can be made up for \
             `{name}`; put Workloads beside the Definition ({name}.jsonl), or name lengths in a comment",
            name = definition.name
        ));
    }
    let mut sizes: Vec<AxisValues> = Vec::new();
    for lengths in LENGTHS {
        let axes = with_lengths(definition, lengths);
        let new = axes.filter(|axes| !sizes.contains(axes) && violated(definition, axes).is_none());
        sizes.extend(new);
        if sizes.len() == MOST_SIZES {
            break;
        }
    }
    if sizes.is_empty() {
        let constraints = definition.constraints.join("`, `");
        return Err(format!(
            "no small shape satisfies the constraints of `{name}` (`{constraints}`); put Workloads beside the \
             Definition ({name}.jsonl), or name lengths in a comment",
            name = definition.name
        ));
    }
    Ok(Settled { sizes: sizes.into_iter().map(named).collect(), ..Settled::default() })
}

/// A constraint that cannot be decided by lengths alone.
fn undecidable(definition: &Definition) -> Option<&str> {
    let axes = definition.var_axes().into_iter().map(|name| (name.to_owned(), 1)).collect();
    let unknown = |text: &&String| definition.constraint_holds(text, &axes).is_none();
    definition.constraints.iter().find(unknown).map(String::as_str)
}

fn with_lengths(definition: &Definition, lengths: [u64; 4]) -> Option<AxisValues> {
    let given = definition.axes_given_by_constraints();
    let free = definition.var_axes().into_iter().filter(|name| !given.iter().any(|(axis, _)| axis == name));
    let mut axes: AxisValues = free.map(str::to_owned).zip(lengths.into_iter().cycle()).collect();
    for (axis, expression) in given {
        let value = definition.constraint_value(expression, &axes).filter(|&value| value > 0)?;
        axes.insert(axis.to_owned(), value);
    }
    Some(axes)
}

/// The first constraint that these lengths break, or the length that the Definition excludes.
pub(in crate::oracle) fn violated(definition: &Definition, axes: &AxisValues) -> Option<String> {
    if let Some((axis, length)) = definition.axis_out_of_range(axes) {
        return Some(format!("its Definition excludes {axis}={length}"));
    }
    let broken = |text: &&String| definition.constraint_holds(text, axes) == Some(false);
    definition.constraints.iter().find(broken).map(|text| format!("it violates the constraint `{text}`"))
}

/// `M=5 N=67`; `fixed` when every axis is constant.
pub(in crate::oracle) fn named(axes: AxisValues) -> (String, AxisValues) {
    let words: Vec<String> = axes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    (if words.is_empty() { "fixed".to_owned() } else { words.join(" ") }, axes)
}

/// The sizes of the Workloads in a file, from the smallest to the largest.
pub(super) fn of_workloads(definition: &Definition, path: &Path) -> Result<Settled, String> {
    let text = read_if_there(path)?.unwrap_or_default();
    let file = file_name(path);
    let (traces, errors) = Trace::read_lines(&text, &file);
    let mut not_run: Vec<LeftOut> =
        errors.iter().map(|error| LeftOut::new("a Workload", error.to_string())).collect();
    let mut usable: Vec<(AxisValues, Scalars)> = Vec::new();
    for trace in &traces {
        if trace.definition != definition.name {
            let why = format!("{file} names another Definition for it, `{}`", trace.definition);
            not_run.push(LeftOut::new(label(&trace.workload), why));
            continue;
        }
        match usable_case(definition, &trace.workload) {
            Ok(case) if usable.contains(&case) => {}
            Ok(case) => usable.push(case),
            Err(why) => not_run.push(LeftOut::new(label(&trace.workload), why)),
        }
    }
    if usable.is_empty() {
        let first = not_run.first().map_or_else(
            || "it has none".to_owned(),
            |line| format!("{} is not run because {}", line.what, line.why),
        );
        return Err(format!(
            "none of the Workloads in {file} can be run here: {first}; add one whose inputs are all random, or name \
             lengths in a comment"
        ));
    }
    usable.sort_by_key(|(axes, _)| elements(definition, axes));
    let found = usable.len();
    let usable = spread(usable);
    let mut settled = Settled { left_out: shortened(not_run, &file), ..Settled::default() };
    if usable.len() < found {
        let what = format!("{} of the {found} Workloads in {file}", found - usable.len());
        let why = format!("{MOST_WORKLOADS} are run, spread from the smallest to the largest");
        settled.left_out.push(LeftOut::new(what, why));
    }
    settled.args = usable.first().map(|(_, scalars)| scalars.clone()).unwrap_or_default();
    for (axes, scalars) in usable {
        let (mut name, axes) = named(axes);
        let others: Scalars =
            scalars.into_iter().filter(|(name, value)| settled.args.get(name) != Some(value)).collect();
        for (scalar, value) in &others {
            name.push_str(&format!(" {scalar}={value}"));
        }
        settled.scalars.insert(name.clone(), others);
        settled.sizes.push((name, axes));
    }
    Ok(settled)
}

/// Axes and scalars of a Workload; why it cannot be run.
fn usable_case(definition: &Definition, workload: &Workload) -> Result<(AxisValues, Scalars), String> {
    if let Some(problem) = workload.problems(definition).first() {
        return Err(problem.to_string());
    }
    let mut scalars = Scalars::new();
    for (name, spec) in &definition.inputs {
        match workload.inputs.get(name) {
            Some(WorkloadInput::Safetensors { path, .. }) => {
                return Err(format!(
                    "its input `{name}` is read from {path}, and files of tensors are not read"
                ));
            }
            Some(WorkloadInput::Scalar { value }) => {
                let value = serde_json::to_value(value).map_err(|error| error.to_string())?;
                scalars.insert(name.clone(), value);
            }
            _ if spec.is_scalar() => match definition.scalar_default(name) {
                Some(value) => drop(scalars.insert(name.clone(), value.clone())),
                None => return Err(format!("its scalar `{name}` has no value, and none is made up")),
            },
            _ => {
                if let Some(why) = not_drawn(definition, name, spec.dtype) {
                    return Err(why);
                }
            }
        }
    }
    match violated(definition, &workload.axes) {
        Some(why) => Err(why),
        None => Ok((workload.axes.clone(), scalars)),
    }
}

/// Why no values can be drawn for a tensor: whole numbers are mostly indices, and random ones read anywhere.
pub(super) fn not_drawn(definition: &Definition, name: &str, dtype: Dtype) -> Option<String> {
    let is_known = dtype.is_float() || dtype == Dtype::Bool || definition.fill_spec(name).is_some();
    (!is_known).then(|| {
        format!(
            "`{name}` holds whole numbers ({dtype}), and made-up ones could make the kernel read anywhere, so none are \
             made up; say their range in the Definition, such as `\"warpsmith\": {{\"inputs\": {{\"{name}\": \
             {{\"int\": [0, 100]}}}}}}` (bounds may name axes)"
        )
    })
}

/// At most [`MOST_WORKLOADS`], evenly spread, the first and the last among them.
fn spread<T>(sorted: Vec<T>) -> Vec<T> {
    let count = sorted.len();
    if count <= MOST_WORKLOADS {
        return sorted;
    }
    let taken: Vec<usize> = (0..MOST_WORKLOADS).map(|at| at * (count - 1) / (MOST_WORKLOADS - 1)).collect();
    sorted.into_iter().enumerate().filter(|(at, _)| taken.contains(at)).map(|(_, item)| item).collect()
}

fn shortened(mut lines: Vec<LeftOut>, file: &str) -> Vec<LeftOut> {
    let more = lines.len().saturating_sub(MOST_TOLD);
    if more > 1 {
        lines.truncate(MOST_TOLD);
        let why = "for reasons like those above";
        lines.push(LeftOut::new(format!("{more} more Workloads of {file}"), why));
    }
    lines
}

fn label(workload: &Workload) -> String {
    let (name, _) = named(workload.axes.clone());
    let uuid: String = workload.uuid.chars().take(8).collect();
    format!("Workload {uuid} ({name})")
}

fn elements(definition: &Definition, axes: &AxisValues) -> u64 {
    let shape = |(_, spec): &(String, crate::spec::TensorSpec)| {
        let lengths = definition.resolve_shape(spec, axes).unwrap_or_default();
        lengths.into_iter().fold(1_u64, u64::saturating_mul)
    };
    definition.inputs.iter().chain(&definition.outputs).map(shape).fold(0, u64::saturating_add)
}
