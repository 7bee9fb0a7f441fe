//! An autotuned kernel that adds to memory with atomics.

use super::autotune_in_place::protect;
use crate::lint::facts::{File, KernelFacts, Place};
use crate::lint::{Check, Lint, Rule, Severity};

pub(super) static RULE: Rule = Rule {
    name: "autotune-atomics",
    severity: Severity::Warning,
    summary: "an autotuned kernel adds to memory with atomics, and nothing resets it between trials",
    page: include_str!("autotune_atomics.md"),
    check: Check::File(check),
};

fn check(file: &File<'_, '_>, found: &mut Vec<Lint>) {
    for kernel in &file.kernels {
        let Some(tuning) = kernel.tuning.as_ref().filter(|tuning| tuning.measures) else { continue };
        for place in &kernel.remember(|| Added::of(kernel)).0 {
            let parameter = place.name.as_str();
            if tuning.protects(parameter, &["restore_value", "reset_to_zero"]) {
                continue;
            }
            let message = format!(
                "`{}` is tuned and adds to `{parameter}` with atomics: every trial adds once more, so the result \
                 after tuning is too large; name it in `reset_to_zero`, or in `restore_value` if it does not begin at zero",
                kernel.kernel.name
            );
            let mut lint = RULE.at(kernel.range_of(place), message);
            for option in ["reset_to_zero", "restore_value"] {
                lint.fixes.extend(protect(kernel, tuning, option, parameter));
            }
            found.push(lint);
        }
    }
}

/// Atomics that do more when they are done twice, the first of each parameter.
struct Added(Vec<Place>);

impl Added {
    fn of(kernel: &KernelFacts<'_, '_>) -> Self {
        let (mut added, mut told) = (Vec::new(), Vec::new());
        // Minimum, maximum, and, or give the same when they are done twice; locks are given back.
        for atomic in kernel.calls_of(&["atomic_add", "atomic_xor"]) {
            let root = atomic.argument(0, "pointer", kernel.text).and_then(|pointer| kernel.root(pointer));
            let Some(parameter) = root.filter(|parameter| !told.contains(parameter)) else { continue };
            // A kernel that also stores there may set it up, or put a counter back.
            let is_stored = kernel.calls_of(&["store", "atomic_xchg", "atomic_cas"]).any(|store| {
                let pointer = store.argument(0, "pointer", kernel.text);
                pointer.is_some_and(|pointer| kernel.roots(pointer).contains(&parameter))
            });
            if !is_stored {
                told.push(parameter);
                added.push(kernel.place(parameter, atomic.node));
            }
        }
        Self(added)
    }
}
