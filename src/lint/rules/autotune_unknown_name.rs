//! `key`, `reset_to_zero` and `restore_value` name parameters of the kernel.

use crate::lint::facts::{File, KernelFacts};
use crate::lint::tuning::{NameEntry, NameList};
use crate::lint::{Check, Edit, Fix, Lint, Rule, Severity};
use crate::source::syntax::Node;

pub(super) static RULE: Rule = Rule {
    name: "autotune-unknown-name",
    severity: Severity::Warning,
    summary: "`key`, `reset_to_zero` or `restore_value` names no parameter of the kernel",
    page: include_str!("autotune_unknown_name.md"),
    check: Check::File(check),
};

fn check(file: &File<'_, '_>, found: &mut Vec<Lint>) {
    for kernel in &file.kernels {
        let Some(tuning) = &kernel.tuning else { continue };
        // `*args` takes names that nobody sees.
        if kernel.parameters.iter().any(|name| name.starts_with('*')) {
            continue;
        }
        for list in &tuning.names {
            for entry in list.entries.iter().flatten() {
                if !kernel.parameters.contains(entry.name) {
                    found.push(finding(kernel, list, entry));
                }
            }
        }
    }
}

fn finding(kernel: &KernelFacts<'_, '_>, list: &NameList<'_, '_>, entry: &NameEntry<'_, '_>) -> Lint {
    let effect = match list.option {
        "key" => {
            "old versions ignore it, so one size's configuration is used for all, and new ones refuse it"
        }
        "reset_to_zero" => "nothing is reset between trials",
        _ => "nothing is restored between trials",
    };
    let is_here = within(list.node, entry.node);
    // A list behind a name may be that of other kernels too: it stands in their decorators, and is told there.
    let range = if is_here { entry.node.byte_range() } else { list.node.byte_range() };
    let message = format!(
        "`{}` in `{}` is no parameter of `{}`: {effect}",
        entry.name, list.option, kernel.kernel.name
    );
    let mut lint = RULE.at(range, message);
    if is_here {
        lint.fixes.extend(closest(entry.name, kernel).map(|name| Fix {
            title: format!("Write `{name}`"),
            edits: vec![Edit { range: inner(entry.node), text: name.to_owned() }],
        }));
        // A name that protects nothing may be the only hint of what should be protected.
        if list.option == "key" {
            let range = with_comma(entry.node, kernel.text);
            lint.fixes.push(Fix {
                title: format!("Remove `{}` from `key`", entry.name),
                edits: vec![Edit { range, text: String::new() }],
            });
        }
    }
    lint
}

fn within(outer: Node<'_>, inner: Node<'_>) -> bool {
    outer.start_byte() <= inner.start_byte() && inner.end_byte() <= outer.end_byte()
}

/// A string without its quotes.
fn inner(node: Node<'_>) -> std::ops::Range<usize> {
    node.start_byte() + 1..node.end_byte() - 1
}

/// An entry of a list with the comma behind it, or before it when it is the last.
fn with_comma(entry: Node<'_>, text: &str) -> std::ops::Range<usize> {
    let (start, end) = (entry.start_byte(), entry.end_byte());
    let (before, after) = (text.get(..start).unwrap_or_default(), text.get(end..).unwrap_or_default());
    if let Some(rest) = after.trim_start().strip_prefix(',') {
        let blank = rest.len() - rest.trim_start_matches([' ', '\t']).len();
        return start..text.len() - rest.len() + blank;
    }
    match before.trim_end().strip_suffix(',') {
        Some(rest) => rest.len()..end,
        None => start..end,
    }
}

/// The one parameter that is the same but for its case or one letter.
fn closest<'a>(name: &str, kernel: &KernelFacts<'a, '_>) -> Option<&'a str> {
    let near = |other: &str| other.eq_ignore_ascii_case(name) || name.len() > 3 && one_letter(name, other);
    let mut close =
        kernel.kernel.parameters.iter().map(|parameter| parameter.name.as_str()).filter(|p| near(p));
    close.next().filter(|_| close.next().is_none())
}

/// One letter more, less or other, or two changed places.
fn one_letter(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[same..], &b[same..]);
    match (a, b) {
        ([_, a @ ..], [_, b @ ..]) if a == b => true,
        ([_, a @ ..], b) if a == b => true,
        (a, [_, b @ ..]) if a == b => true,
        ([a1, a2, a @ ..], [b1, b2, b @ ..]) => a1 == b2 && a2 == b1 && a == b,
        _ => false,
    }
}
