//! What an expression of a kernel is made of: the pointer behind it, the width of an index.

use super::facts::{Given, KernelFacts, argument, language_function};
use crate::source::syntax::{Node, children, text_of};

/// How far names are followed.
const MAX_DEPTH: u32 = 12;
/// How many expressions one question may look at.
const MAX_STEPS: u32 = 300;

/// What an integer expression has to do with the program's index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Index {
    /// Constants, parameters, `tl.arange`: 32 bits, as far as the kernel says.
    Plain,
    /// Grows with `tl.program_id`, in 32 bits.
    Program,
    /// 64 bits, or not known.
    Wide,
}

impl Index {
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Wide, _) | (_, Self::Wide) => Self::Wide,
            (Self::Program, _) | (_, Self::Program) => Self::Program,
            _ => Self::Plain,
        }
    }
}

struct Budget<'a> {
    steps: u32,
    /// Names that are being followed: `offsets = offsets + BLOCK` says nothing more of `offsets`.
    open: Vec<&'a str>,
}

impl<'a> Budget<'a> {
    fn new() -> Self {
        Self { steps: MAX_STEPS, open: Vec::new() }
    }

    fn spend(&mut self) -> bool {
        self.steps = self.steps.saturating_sub(1);
        self.steps > 0
    }

    /// Whether a name is followed here for the first time.
    fn enter(&mut self, name: &'a str) -> bool {
        let is_new = !self.open.contains(&name);
        if is_new {
            self.open.push(name);
        }
        is_new
    }
}

impl<'a, 'tree> KernelFacts<'a, 'tree> {
    /// The parameters that a pointer may come from, each once; empty when there are none, or nobody can tell.
    pub(super) fn roots(&self, pointer: Node<'tree>) -> Vec<&'a str> {
        let mut roots = Vec::new();
        self.find_roots(pointer, MAX_DEPTH, &mut Budget::new(), &mut roots);
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// The one parameter that a pointer comes from.
    pub(super) fn root(&self, pointer: Node<'tree>) -> Option<&'a str> {
        match self.roots(pointer)[..] {
            [root] => Some(root),
            _ => None,
        }
    }

    fn find_roots(&self, node: Node<'tree>, depth: u32, budget: &mut Budget<'a>, roots: &mut Vec<&'a str>) {
        if depth == 0 || !budget.spend() {
            return;
        }
        let mut of = |node: Option<Node<'tree>>| {
            if let Some(node) = node {
                self.find_roots(node, depth - 1, budget, roots);
            }
        };
        match node.kind() {
            "identifier" => {
                let name = self.text_of(node);
                if self.parameters.contains(name) {
                    roots.push(name);
                }
                if !budget.enter(name) {
                    return;
                }
                for given in self.assigned().get(name).into_iter().flatten() {
                    if let Given::Value(value) = given {
                        self.find_roots(*value, depth - 1, budget, roots);
                    }
                }
                budget.open.pop();
            }
            "parenthesized_expression" => of(node.named_child(0)),
            "conditional_expression" => {
                let parts = children(node);
                of(parts.first().copied());
                of(parts.get(2).copied());
            }
            "binary_operator" => {
                let operator = node.child_by_field_name("operator").map(|node| self.text_of(node));
                let (left, right) = (node.child_by_field_name("left"), node.child_by_field_name("right"));
                if matches!(operator, Some("+" | "-")) {
                    let before = roots.len();
                    // The pointer is the left operand, unless there is none in it.
                    if let Some(left) = left {
                        self.find_roots(left, depth - 1, budget, roots);
                    }
                    if roots.len() == before
                        && let Some(right) = right
                    {
                        self.find_roots(right, depth - 1, budget, roots);
                    }
                }
            }
            "call" => match language_function(node, self.text) {
                Some("make_block_ptr" | "advance" | "multiple_of" | "max_contiguous" | "cast") => {
                    of(argument(node, 0, "base", self.text));
                }
                Some(_) => {}
                None => of(converted(node, self.text).map(|(object, _)| object)),
            },
            _ => {}
        }
    }

    pub(super) fn index(&self, node: Node<'tree>) -> Index {
        self.find_index(node, MAX_DEPTH, &mut Budget::new())
    }

    fn find_index(&self, node: Node<'tree>, depth: u32, budget: &mut Budget<'a>) -> Index {
        if depth == 0 || !budget.spend() {
            return Index::Wide;
        }
        let mut all = |nodes: Vec<Node<'tree>>| {
            let indices = nodes.into_iter().map(|node| self.find_index(node, depth - 1, budget));
            indices.fold(Index::Plain, Index::with)
        };
        match node.kind() {
            "integer" | "true" | "false" => Index::Plain,
            "identifier" => {
                let name = self.text_of(node);
                if self.wide_parameters().contains(name) {
                    return Index::Wide;
                }
                if !budget.enter(name) {
                    return Index::Plain;
                }
                let mut index = Index::Plain;
                for given in self.assigned().get(name).into_iter().flatten() {
                    index = index.with(match given {
                        Given::Value(value) | Given::Added(value) => {
                            self.find_index(*value, depth - 1, budget)
                        }
                        Given::Counted => Index::Plain,
                        Given::Unknown => Index::Wide,
                    });
                }
                budget.open.pop();
                index
            }
            "parenthesized_expression" | "unary_operator" | "binary_operator" => all(children(node)),
            "conditional_expression" => {
                let parts = children(node);
                all(parts.into_iter().enumerate().filter(|(at, _)| *at != 1).map(|(_, part)| part).collect())
            }
            "subscript" => all(node.child_by_field_name("value").into_iter().collect()),
            "call" => match language_function(node, self.text) {
                Some("program_id") => Index::Program,
                Some("arange" | "num_programs" | "cdiv") => Index::Plain,
                Some("minimum" | "maximum" | "multiple_of" | "max_contiguous") => {
                    all(argument(node, 0, "input", self.text).into_iter().collect())
                }
                Some(_) => Index::Wide,
                None => match converted(node, self.text) {
                    Some((object, dtype)) if dtype.ends_with("int32") => {
                        match self.find_index(object, depth - 1, budget) {
                            // What was wider before is 32 bits now.
                            Index::Wide => Index::Plain,
                            index => index,
                        }
                    }
                    _ => Index::Wide,
                },
            },
            _ => Index::Wide,
        }
    }
}

/// `value.to(dtype)`: both.
pub(super) fn converted<'a, 'tree>(call: Node<'tree>, text: &'a str) -> Option<(Node<'tree>, &'a str)> {
    let function = call.child_by_field_name("function").filter(|node| node.kind() == "attribute")?;
    let method = text_of(function.child_by_field_name("attribute")?, text);
    let object = function.child_by_field_name("object")?;
    (method == "to").then_some((object, text_of(argument(call, 0, "dtype", text)?, text)))
}

/// The operands of a chain of one operator, left to right: `a`, `b` and `c` of `a * b * c`. Parentheses end it.
pub(super) fn operands<'tree>(node: Node<'tree>, operator: &str, text: &str) -> Vec<Node<'tree>> {
    let mut right_to_left = Vec::new();
    let mut rest = node;
    while rest.kind() == "binary_operator"
        && rest.child_by_field_name("operator").is_some_and(|node| text_of(node, text) == operator)
        && let (Some(left), Some(right)) =
            (rest.child_by_field_name("left"), rest.child_by_field_name("right"))
    {
        right_to_left.push(right);
        rest = left;
    }
    right_to_left.push(rest);
    right_to_left.reverse();
    right_to_left
}
