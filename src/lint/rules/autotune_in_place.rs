//! An autotuned kernel that overwrites what it reads.

use crate::lint::facts::{File, KernelFacts, Place};
use crate::lint::tuning::Tuning;
use crate::lint::{Check, Edit, Fix, Lint, Rule, Severity};
use crate::source::syntax::{Node, children};

pub(super) static RULE: Rule = Rule {
    name: "autotune-in-place",
    severity: Severity::Warning,
    summary: "an autotuned kernel overwrites memory that it reads, and nothing restores it between trials",
    page: include_str!("autotune_in_place.md"),
    check: Check::File(check),
};

fn check(file: &File<'_, '_>, found: &mut Vec<Lint>) {
    for kernel in &file.kernels {
        let Some(tuning) = kernel.tuning.as_ref().filter(|tuning| tuning.measures) else { continue };
        for place in &kernel.remember(|| Overwritten::of(kernel)).0 {
            let parameter = place.name.as_str();
            if tuning.protects(parameter, &["restore_value", "reset_to_zero"]) {
                continue;
            }
            let message = format!(
                "`{}` is tuned and writes over what it reads from `{parameter}`: each trial starts from what the \
                 one before left, so the result after tuning is wrong; name it in `restore_value`",
                kernel.kernel.name
            );
            let mut lint = RULE.at(kernel.range_of(place), message);
            lint.fixes.extend(protect(kernel, tuning, "restore_value", parameter));
            found.push(lint);
        }
    }
}

/// Stores that overwrite what was read, the first of each parameter.
struct Overwritten(Vec<Place>);

impl Overwritten {
    fn of(kernel: &KernelFacts<'_, '_>) -> Self {
        let (mut overwritten, mut told) = (Vec::new(), Vec::new());
        for store in kernel.calls_of(&["store"]) {
            let Some(pointer) = store.argument(0, "pointer", kernel.text) else { continue };
            let Some(parameter) = kernel.root(pointer).filter(|parameter| !told.contains(parameter)) else {
                continue;
            };
            // From the first store on the kernel may read what it has written itself, which is the same in every
            // trial.
            told.push(parameter);
            if reads_before(kernel, store.node, pointer, parameter) {
                overwritten.push(kernel.place(parameter, store.node));
            }
        }
        Self(overwritten)
    }
}

/// Whether the first store to a parameter comes after a load of the same words: those say the same address, others
/// may be another part of the tensor.
fn reads_before<'tree>(
    kernel: &KernelFacts<'_, 'tree>,
    store: Node<'tree>,
    pointer: Node<'tree>,
    parameter: &str,
) -> bool {
    let words = kernel.text_of(pointer);
    let mut loads = kernel.calls_of(&["load"]).filter(|load| load.node.start_byte() < store.start_byte());
    loads.any(|load| {
        let read = load.argument(0, "pointer", kernel.text);
        read.is_some_and(|read| kernel.text_of(read) == words && kernel.root(read) == Some(parameter))
    })
}

/// Names a parameter in one of the lists of `@triton.autotune`.
pub(super) fn protect(
    kernel: &KernelFacts<'_, '_>,
    tuning: &Tuning<'_, '_>,
    option: &str,
    parameter: &str,
) -> Option<Fix> {
    let title = format!("Name `{parameter}` in `{option}`");
    if let Some(list) = tuning.list(option) {
        // Only a list that stands in the decorator itself.
        let last = children(list.node).into_iter().next_back().filter(|_| list.node.kind() == "list")?;
        let text = format!(", \"{parameter}\"");
        return Some(Fix { title, edits: vec![Edit { range: last.end_byte()..last.end_byte(), text }] });
    }
    let arguments = tuning.call.child_by_field_name("arguments")?;
    let last = children(arguments).into_iter().next_back()?;
    if last.kind() == "dictionary_splat" || kernel.text.get(last.byte_range())?.is_empty() {
        return None;
    }
    let text = format!(", {option}=[\"{parameter}\"]");
    Some(Fix { title, edits: vec![Edit { range: last.end_byte()..last.end_byte(), text }] })
}
