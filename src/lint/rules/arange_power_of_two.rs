//! `tl.arange` with literal bounds whose distance is no power of two.

use crate::lint::facts::KernelFacts;
use crate::lint::{Check, Lint, Rule, Severity};
use crate::source::syntax::{Node, text_of};

pub(super) static RULE: Rule = Rule {
    name: "arange-power-of-two",
    severity: Severity::Warning,
    summary: "the range of `tl.arange` is no power of two, which Triton refuses to compile",
    page: include_str!("arange_power_of_two.md"),
    check: Check::Kernel(check),
};

fn check(kernel: &KernelFacts<'_, '_>, found: &mut Vec<Lint>) {
    for call in kernel.calls_of(&["arange"]) {
        let bound = |position, name| integer(call.argument(position, name, kernel.text)?, kernel.text);
        let (Some(start), Some(end)) = (bound(0, "start"), bound(1, "end")) else { continue };
        let message = match end.checked_sub(start) {
            None | Some(0) => {
                format!("the range from {start} to {end} is empty, which Triton refuses to compile")
            }
            Some(length) if !length.is_power_of_two() => {
                let next = length.checked_next_power_of_two().unwrap_or(length);
                format!(
                    "a range of {length} is no power of two, which Triton refuses to compile; take {next} and mask \
                     what lies at {length} and beyond"
                )
            }
            Some(_) => continue,
        };
        found.push(RULE.at(call.node.byte_range(), message));
    }
}

/// The value of an integer literal.
fn integer(node: Node<'_>, text: &str) -> Option<u64> {
    let written = Some(node).filter(|node| node.kind() == "integer").map(|node| text_of(node, text))?;
    let digits = written.replace('_', "").to_ascii_lowercase();
    match digits.get(..2) {
        Some("0x") => u64::from_str_radix(&digits[2..], 16).ok(),
        Some("0b") => u64::from_str_radix(&digits[2..], 2).ok(),
        Some("0o") => u64::from_str_radix(&digits[2..], 8).ok(),
        _ => digits.parse().ok(),
    }
}
