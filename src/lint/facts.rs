//! What the rules ask of a file, gathered once.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::tuning::{Tuning, tuning};
use crate::source::syntax::{Node, Walk, children, text_of, walk};
use crate::source::{Kernel, SourceModel, Tree};

/// The modules whose functions are Triton's language, as kernels write them.
const LANGUAGE: [&str; 3] = ["tl", "triton.language", "language"];

pub(super) struct File<'a, 'tree> {
    pub(super) text: &'a str,
    pub(super) model: &'a SourceModel,
    pub(super) tree: &'tree Tree,
    pub(super) root: Node<'tree>,
    /// Kernels whose own text parses.
    pub(super) kernels: Vec<KernelFacts<'a, 'tree>>,
}

pub(super) struct KernelFacts<'a, 'tree> {
    pub(super) text: &'a str,
    pub(super) kernel: &'a Kernel,
    /// With decorators.
    whole: Node<'tree>,
    pub(super) body: Node<'tree>,
    pub(super) parameters: HashSet<&'a str>,
    pub(super) tuning: Option<Tuning<'a, 'tree>>,
    scanned: OnceCell<Scanned<'a, 'tree>>,
}

/// What takes a walk through a kernel.
struct Scanned<'a, 'tree> {
    wide_parameters: HashSet<&'a str>,
    calls: Vec<Call<'a, 'tree>>,
    assigned: HashMap<&'a str, Vec<Given<'tree>>>,
}

/// A name and where it stands, in bytes from the beginning of its kernel.
pub(super) struct Place {
    pub(super) name: String,
    range: Range<usize>,
}

/// A value that a name is given.
#[derive(Clone, Copy)]
pub(super) enum Given<'tree> {
    Value(Node<'tree>),
    /// `name += value`.
    Added(Node<'tree>),
    /// The variable of a loop.
    Counted,
    /// Something that is not followed.
    Unknown,
}

/// `tl.function(…)`.
pub(super) struct Call<'a, 'tree> {
    /// `load` of `tl.load`; `None` for other callees.
    pub(super) function: Option<&'a str>,
    pub(super) node: Node<'tree>,
}

impl<'a, 'tree> Call<'a, 'tree> {
    /// The argument at this position or of this name.
    pub(super) fn argument(&self, position: usize, name: &str, text: &str) -> Option<Node<'tree>> {
        argument(self.node, position, name, text)
    }
}

impl<'a, 'tree> File<'a, 'tree> {
    pub(super) fn new(model: &'a SourceModel, text: &'a str, tree: &'tree Tree) -> Self {
        let mut file = Self { text, model, tree, root: tree.root_node(), kernels: Vec::new() };
        file.kernels = model.kernels.iter().filter_map(|kernel| file.kernel(kernel)).collect();
        file
    }

    fn kernel(&self, kernel: &'a Kernel) -> Option<KernelFacts<'a, 'tree>> {
        let name = self.node_at(&kernel.name_range)?;
        let function = name.parent().filter(|node| node.kind() == "function_definition")?;
        let whole = function.parent().filter(|node| node.kind() == "decorated_definition");
        if whole.unwrap_or(function).has_error() {
            return None;
        }
        Some(KernelFacts {
            text: self.text,
            kernel,
            whole: whole.unwrap_or(function),
            body: function.child_by_field_name("body")?,
            parameters: kernel.parameters.iter().map(|parameter| parameter.name.as_str()).collect(),
            tuning: whole.and_then(|whole| tuning(self, whole)),
            scanned: OnceCell::new(),
        })
    }

    pub(super) fn node_at(&self, range: &Range<usize>) -> Option<Node<'tree>> {
        self.root.descendant_for_byte_range(range.start, range.end)
    }

    /// What a module-level name is bound to, if it is bound once and to a value.
    pub(super) fn constant(&self, name: &str) -> Option<(Node<'tree>, Node<'tree>)> {
        let mut bindings = self.model.bindings.iter().filter(|binding| binding.name == name);
        let binding = bindings.next().filter(|_| bindings.next().is_none())?;
        let name = self.node_at(&binding.range)?;
        let assignment = name.parent().filter(|node| node.kind() == "assignment")?;
        let is_target = assignment.child_by_field_name("left").is_some_and(|left| left.id() == name.id());
        let value = assignment.child_by_field_name("right").filter(|_| is_target)?;
        Some((assignment, value))
    }

    /// A module-level function that is defined once: its node.
    pub(super) fn function(&self, name: &str) -> Option<Node<'tree>> {
        let mut named = self.model.functions.iter().filter(|function| function.name == name);
        let function = named.next().filter(|_| named.next().is_none())?;
        self.node_at(&function.name_range)?.parent().filter(|node| node.kind() == "function_definition")
    }
}

impl<'a, 'tree> KernelFacts<'a, 'tree> {
    pub(super) fn text_of(&self, node: Node<'_>) -> &'a str {
        text_of(node, self.text)
    }

    /// Calls of this function of Triton's language.
    pub(super) fn calls_of<'s>(&'s self, functions: &'s [&str]) -> impl Iterator<Item = &'s Call<'a, 'tree>> {
        self.calls().iter().filter(|call| call.function.is_some_and(|name| functions.contains(&name)))
    }

    /// Calls of the body, in document order.
    pub(super) fn calls(&self) -> &[Call<'a, 'tree>] {
        &self.scanned().calls
    }

    /// What each name of the body is given, in document order.
    pub(super) fn assigned(&self) -> &HashMap<&'a str, Vec<Given<'tree>>> {
        &self.scanned().assigned
    }

    /// Parameters annotated as 64-bit integers.
    pub(super) fn wide_parameters(&self) -> &HashSet<&'a str> {
        &self.scanned().wide_parameters
    }

    /// The byte where the kernel begins.
    pub(super) fn start(&self) -> usize {
        self.whole.start_byte()
    }

    /// What follows from the text of the kernel alone, worked out once for it.
    pub(super) fn remember<T: Send + Sync + 'static>(&self, work: impl FnOnce() -> T) -> Arc<T> {
        self.whole.remember(work)
    }

    /// To be remembered.
    pub(super) fn place(&self, name: &str, node: Node<'_>) -> Place {
        let start = self.start();
        Place { name: name.to_owned(), range: node.start_byte() - start..node.end_byte() - start }
    }

    /// Where a remembered place is now.
    pub(super) fn range_of(&self, place: &Place) -> Range<usize> {
        self.start() + place.range.start..self.start() + place.range.end
    }

    fn scanned(&self) -> &Scanned<'a, 'tree> {
        self.scanned.get_or_init(|| self.scan())
    }

    fn scan(&self) -> Scanned<'a, 'tree> {
        let text = self.text;
        let (mut calls, mut assigned) = (Vec::new(), HashMap::new());
        walk(self.body, |node| {
            match node.kind() {
                "call" => calls.push(Call { function: language_function(node, text), node }),
                "assignment" => note_assignment(node, text, &mut assigned),
                "augmented_assignment" => note_augmented(node, text, &mut assigned),
                "for_statement" => {
                    note_targets(node.child_by_field_name("left"), text, Given::Counted, &mut assigned);
                }
                "named_expression" => {
                    note_targets(node.child_by_field_name("name"), text, Given::Unknown, &mut assigned);
                }
                _ => {}
            }
            Walk::Into
        });
        let function = self.body.parent();
        let wide_parameters = function.map(|function| wide_parameters(function, text)).unwrap_or_default();
        Scanned { wide_parameters, calls, assigned }
    }
}

/// `load` of a call `tl.load(…)`.
pub(super) fn language_function<'a>(call: Node<'_>, text: &'a str) -> Option<&'a str> {
    let function = call.child_by_field_name("function").filter(|node| node.kind() == "attribute")?;
    let module = text_of(function.child_by_field_name("object")?, text);
    let name = function.child_by_field_name("attribute")?;
    LANGUAGE.contains(&module).then(|| text_of(name, text))
}

/// The argument of a call at this position, or of this name.
pub(super) fn argument<'tree>(
    call: Node<'tree>,
    position: usize,
    name: &str,
    text: &str,
) -> Option<Node<'tree>> {
    let arguments = children(call.child_by_field_name("arguments")?);
    let mut positional = arguments.iter().filter(|node| node.kind() != "keyword_argument");
    // What stands behind `*arguments` has no known position.
    let starred = |node: &&Node<'_>| matches!(node.kind(), "list_splat" | "dictionary_splat");
    let at = positional.clone().take(position + 1).any(|node| starred(&node));
    positional.nth(position).copied().filter(|_| !at).or_else(|| keyword(call, name, text))
}

/// The value of a keyword argument.
pub(super) fn keyword<'tree>(call: Node<'tree>, name: &str, text: &str) -> Option<Node<'tree>> {
    let arguments = children(call.child_by_field_name("arguments")?);
    let named = arguments
        .into_iter()
        .filter(|node| node.kind() == "keyword_argument")
        .find(|node| node.child_by_field_name("name").is_some_and(|written| text_of(written, text) == name));
    named?.child_by_field_name("value")
}

fn wide_parameters<'a>(function: Node<'_>, text: &'a str) -> HashSet<&'a str> {
    let Some(list) = function.child_by_field_name("parameters") else { return HashSet::new() };
    let wide = |node: &Node<'_>| {
        let annotation = node.child_by_field_name("type")?;
        let is_wide = ["int64", "i64", "uint64", "u64"].iter().any(|w| text_of(annotation, text).contains(w));
        let name = node.child_by_field_name("name").or_else(|| node.named_child(0))?;
        is_wide.then(|| text_of(name, text))
    };
    children(list).iter().filter_map(wide).collect()
}

type Assigned<'a, 'tree> = HashMap<&'a str, Vec<Given<'tree>>>;

fn note_assignment<'a, 'tree>(node: Node<'tree>, text: &'a str, assigned: &mut Assigned<'a, 'tree>) {
    let (Some(left), Some(right)) = (node.child_by_field_name("left"), node.child_by_field_name("right"))
    else {
        return;
    };
    let mut value = right;
    // `a = b = value`: the inner assignment is visited by itself.
    while value.kind() == "assignment"
        && let Some(inner) = value.child_by_field_name("right")
    {
        value = inner;
    }
    if left.kind() == "identifier" {
        assigned.entry(text_of(left, text)).or_default().push(Given::Value(value));
        return;
    }
    let (targets, values) = (children(left), children(value));
    let pairwise = matches!(value.kind(), "expression_list" | "tuple") && targets.len() == values.len();
    if pairwise && targets.iter().all(|target| target.kind() == "identifier") {
        for (target, value) in targets.into_iter().zip(values) {
            assigned.entry(text_of(target, text)).or_default().push(Given::Value(value));
        }
    } else {
        note_targets(Some(left), text, Given::Unknown, assigned);
    }
}

fn note_augmented<'a, 'tree>(node: Node<'tree>, text: &'a str, assigned: &mut Assigned<'a, 'tree>) {
    let (Some(left), Some(right)) = (node.child_by_field_name("left"), node.child_by_field_name("right"))
    else {
        return;
    };
    let given = match node.child_by_field_name("operator").map(|operator| text_of(operator, text)) {
        Some("+=" | "-=") => Given::Added(right),
        _ => Given::Unknown,
    };
    note_targets(Some(left), text, given, assigned);
}

fn note_targets<'a, 'tree>(
    target: Option<Node<'tree>>,
    text: &'a str,
    given: Given<'tree>,
    assigned: &mut Assigned<'a, 'tree>,
) {
    let Some(target) = target else { return };
    walk(target, |node| match node.kind() {
        "identifier" => {
            assigned.entry(text_of(node, text)).or_default().push(given);
            Walk::Skip
        }
        "attribute" | "subscript" | "call" => Walk::Skip,
        _ => Walk::Into,
    });
}
