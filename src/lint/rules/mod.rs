//! One file a rule, and its page.

mod arange_power_of_two;
mod atomic_into_empty;
mod autotune_atomics;
mod autotune_in_place;
mod autotune_unknown_keyword;
mod autotune_unknown_name;
mod global_not_constexpr;
mod grid_axis_limit;
mod int32_offset;
mod narrow_sum;

use super::{Check, Rule, Severity};

/// Every rule, by name.
pub static RULES: &[&Rule] = &[
    &arange_power_of_two::RULE,
    &atomic_into_empty::RULE,
    &autotune_atomics::RULE,
    &autotune_in_place::RULE,
    &autotune_unknown_keyword::RULE,
    &autotune_unknown_name::RULE,
    &global_not_constexpr::RULE,
    &grid_axis_limit::RULE,
    &int32_offset::RULE,
    &narrow_sum::RULE,
    &SUPPRESSION,
];

/// What is told of the comments that allow findings.
pub(super) static SUPPRESSION: Rule = Rule {
    name: "suppression",
    severity: Severity::Warning,
    summary: "a comment that allows a finding has no reason, names no rule, or allows nothing",
    page: include_str!("suppression.md"),
    // `comments` finds these when all else is known.
    check: Check::File(|_, _| {}),
};

/// The rule of this name.
pub fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.name == name)
}
