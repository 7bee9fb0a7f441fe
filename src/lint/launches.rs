//! A launch as the host's code writes it: grid, arguments, and the function around it.

use super::facts::{File, KernelFacts};
use crate::source::syntax::{Node, Walk, children, text_of, walk};

/// `kernel[grid](…)` of one kernel.
pub(super) struct Launch<'a, 'tree> {
    pub(super) call: Node<'tree>,
    /// What stands in the brackets: one expression, or the dimensions themselves.
    pub(super) grid: Vec<Node<'tree>>,
    /// The `function_definition` around it.
    pub(super) function: Node<'tree>,
    text: &'a str,
}

/// The launches of a kernel in functions of this file.
pub(super) fn launches<'a, 'tree>(
    file: &File<'a, 'tree>,
    kernel: &KernelFacts<'a, 'tree>,
) -> Vec<Launch<'a, 'tree>> {
    let launch = |range: &std::ops::Range<usize>| {
        let call = call_at(file, range)?;
        let callee = call.child_by_field_name("function").filter(|node| node.kind() == "subscript")?;
        let grid = callee.children_by_field_name("subscript").collect();
        let mut function = call.parent()?;
        while function.kind() != "function_definition" {
            function = function.parent()?;
        }
        Some(Launch { call, grid, function, text: file.text })
    };
    kernel.kernel.launches.iter().filter_map(|site| launch(&site.range)).collect()
}

fn call_at<'tree>(file: &File<'_, 'tree>, range: &std::ops::Range<usize>) -> Option<Node<'tree>> {
    let mut node = file.node_at(range)?;
    while node.kind() != "call" {
        node = node.parent().filter(|parent| parent.byte_range() == *range)?;
    }
    Some(node)
}

impl<'a, 'tree> Launch<'a, 'tree> {
    /// What a name is bound to in the function around the launch, in document order; `None` if it is bound
    /// in a way that is not followed, or not at all.
    pub(super) fn bound(&self, name: &str) -> Option<Vec<Node<'tree>>> {
        let (mut values, mut is_known) = (Vec::new(), true);
        walk(self.function, |node| {
            match node.kind() {
                "assignment" => {
                    let left = node.child_by_field_name("left");
                    if left.is_some_and(|left| text_of(left, self.text) == name) {
                        values.extend(node.child_by_field_name("right"));
                    } else if left.is_some_and(|left| self.binds(left, name)) {
                        is_known = false;
                    }
                }
                "augmented_assignment" | "for_statement" | "named_expression" => {
                    let target =
                        node.child_by_field_name("left").or_else(|| node.child_by_field_name("name"));
                    is_known &= !target.is_some_and(|target| self.binds(target, name));
                }
                "function_definition" if node.id() != self.function.id() => {
                    let own = node.child_by_field_name("name");
                    if own.is_some_and(|own| text_of(own, self.text) == name) {
                        values.push(node);
                    }
                    return Walk::Skip;
                }
                _ => {}
            }
            Walk::Into
        });
        (is_known && !values.is_empty()).then_some(values)
    }

    fn binds(&self, target: Node<'tree>, name: &str) -> bool {
        let mut found = false;
        walk(target, |node| match node.kind() {
            "identifier" => {
                found |= text_of(node, self.text) == name;
                Walk::Skip
            }
            "attribute" | "subscript" | "call" => Walk::Skip,
            _ => Walk::Into,
        });
        found
    }

    /// What is passed to each parameter of the kernel: by position up to the first `*arguments`, and by name.
    pub(super) fn arguments(&self, kernel: &KernelFacts<'a, 'tree>) -> Vec<(&'a str, Node<'tree>)> {
        let arguments = self.call.child_by_field_name("arguments").map(children).unwrap_or_default();
        let mut passed = Vec::new();
        let mut parameters = kernel.kernel.parameters.iter();
        let mut positions_known = true;
        for argument in arguments {
            match argument.kind() {
                "keyword_argument" => {
                    let (Some(name), Some(value)) =
                        (argument.child_by_field_name("name"), argument.child_by_field_name("value"))
                    else {
                        continue;
                    };
                    passed.push((text_of(name, self.text), value));
                }
                "list_splat" => positions_known = false,
                "dictionary_splat" => {}
                _ if positions_known => {
                    passed.extend(parameters.next().map(|parameter| (parameter.name.as_str(), argument)));
                }
                _ => {}
            }
        }
        passed
    }
}
