//! Atomics on memory that nobody has set.

use crate::lint::facts::{File, KernelFacts, keyword};
use crate::lint::launches::{Launch, launches};
use crate::lint::{Check, Edit, Fix, Lint, Rule, Severity};
use crate::source::syntax::{Node, Walk, text_of, walk};

pub(super) static RULE: Rule = Rule {
    name: "atomic-into-empty",
    severity: Severity::Warning,
    summary: "a kernel adds with atomics to memory of `torch.empty`, which holds anything",
    page: include_str!("atomic_into_empty.md"),
    check: Check::File(check),
};

const ATOMICS: [&str; 6] =
    ["atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xor"];

fn check(file: &File<'_, '_>, found: &mut Vec<Lint>) {
    let mut told = Vec::new();
    for kernel in &file.kernels {
        let targets = kernel.remember(|| Targets(targets(kernel)));
        let targets: Vec<&str> = targets.0.iter().map(String::as_str).collect();
        if targets.is_empty() {
            continue;
        }
        for launch in launches(file, kernel) {
            for (parameter, argument) in launch.arguments(kernel) {
                if !targets.contains(&parameter) || argument.kind() != "identifier" {
                    continue;
                }
                let name = text_of(argument, file.text);
                let Some(empty) = only_empty(file, &launch, name) else { continue };
                if told.contains(&empty.id()) || is_touched(&launch, empty, name, file.text) {
                    continue;
                }
                told.push(empty.id());
                let message = format!(
                    "`{name}` holds anything here, and `{}` adds to it with atomics: make it with zeros",
                    kernel.kernel.name
                );
                let mut lint = RULE.at(empty.byte_range(), message);
                lint.fixes.extend(with_zeros(file, empty));
                found.push(lint);
            }
        }
    }
}

struct Targets(Vec<String>);

/// Parameters that the kernel changes with atomics and never stores to.
fn targets(kernel: &KernelFacts<'_, '_>) -> Vec<String> {
    let pointer =
        |call: &crate::lint::facts::Call<'_, '_>| call.argument(0, "pointer", kernel.text).map(|p| p.id());
    let stored: Vec<&str> = kernel
        .calls_of(&["store", "atomic_xchg", "atomic_cas"])
        .filter_map(|call| call.argument(0, "pointer", kernel.text))
        .flat_map(|pointer| kernel.roots(pointer))
        .collect();
    let atomics = kernel.calls_of(&ATOMICS).filter(|call| pointer(call).is_some());
    let roots = atomics.filter_map(|call| kernel.root(call.argument(0, "pointer", kernel.text)?));
    roots.filter(|root| !stored.contains(root)).map(str::to_owned).collect()
}

/// The call of `torch.empty` that a name is bound to, and to nothing else.
fn only_empty<'tree>(file: &File<'_, 'tree>, launch: &Launch<'_, 'tree>, name: &str) -> Option<Node<'tree>> {
    let [value] = launch.bound(name)?[..] else { return None };
    let callee = Some(value).filter(|node| node.kind() == "call")?.child_by_field_name("function")?;
    is_empty(text_of(callee, file.text)).then_some(value)
}

fn is_empty(callee: &str) -> bool {
    matches!(callee, "torch.empty" | "torch.empty_like" | "torch.empty_strided")
        || callee.ends_with(".new_empty")
}

/// Whether the name is used between where it is made and where it is launched with: somebody may fill it.
fn is_touched(launch: &Launch<'_, '_>, empty: Node<'_>, name: &str, text: &str) -> bool {
    let between = empty.end_byte()..launch.call.start_byte();
    let mut touched = false;
    walk(launch.function, |node| {
        touched |= node.kind() == "identifier"
            && between.contains(&node.start_byte())
            && text_of(node, text) == name;
        Walk::Into
    });
    touched
}

/// `torch.zeros` takes what `torch.empty` does, but for the memory format.
fn with_zeros(file: &File<'_, '_>, empty: Node<'_>) -> Option<Fix> {
    let callee = empty.child_by_field_name("function")?;
    let name = callee.child_by_field_name("attribute")?;
    let written = text_of(name, file.text);
    if written == "empty_strided"
        || written == "empty" && keyword(empty, "memory_format", file.text).is_some()
    {
        return None;
    }
    let text = written.replace("empty", "zeros");
    Some(Fix { title: format!("Write `{text}`"), edits: vec![Edit { range: name.byte_range(), text }] })
}
