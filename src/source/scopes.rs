//! One pass over the tree: scopes, what names are bound to in them, functions and calls.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use tree_sitter::Node;

use super::functions::parameters;
use super::syntax::{Step, Walk, children, text_of, walk, walk_with_leave};

/// Index into [`Scopes::all`]; 0 is the module.
pub(super) type ScopeId = usize;
/// Index into [`Scopes::functions`].
pub(super) type FunctionId = usize;

pub(super) const MODULE: ScopeId = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeKind {
    Module,
    Class {
        autograd: bool,
    },
    Function(FunctionId),
    /// Runs later, not where it stands.
    Lambda,
}

pub(super) struct Scope<'tree> {
    pub(super) kind: ScopeKind,
    pub(super) parent: ScopeId,
    /// `Outer.method`; empty for the module.
    pub(super) qualified: String,
    pub(super) names: HashMap<String, Vec<Bound<'tree>>>,
    /// Names declared `global` here.
    pub(super) globals: HashSet<String>,
    /// In a class: values assigned to `self.name` in its methods.
    pub(super) attributes: HashMap<String, Vec<(ScopeId, Node<'tree>)>>,
}

/// One binding of a name.
#[derive(Clone)]
pub(super) struct Bound<'tree> {
    pub(super) to: BoundTo<'tree>,
    /// The statement at the top of the file that holds the binding.
    pub(super) top: Node<'tree>,
    /// The name where it is bound.
    pub(super) name_range: Range<usize>,
}

#[derive(Clone)]
pub(super) enum BoundTo<'tree> {
    /// `triton.jit`, `.utils.helper`.
    Import(String),
    Function(FunctionId),
    Class(ScopeId),
    Value(Node<'tree>),
    /// An element of this value (`for name in value`).
    Element(Node<'tree>),
    Parameter,
    /// Something that is not followed: an augmented assignment, a `with` target.
    Other,
}

pub(super) struct Function<'tree> {
    pub(super) name: String,
    pub(super) qualified: String,
    pub(super) node: Node<'tree>,
    /// With decorators.
    pub(super) whole: Node<'tree>,
    pub(super) name_node: Node<'tree>,
    pub(super) decorators: Vec<Node<'tree>>,
    /// The scope it is defined in, and its own.
    pub(super) defined_in: ScopeId,
    pub(super) scope: ScopeId,
    pub(super) top: Node<'tree>,
    /// Values of its own `return` statements.
    pub(super) returns: Vec<Node<'tree>>,
}

/// What the pass found.
pub(super) struct Scopes<'tree, 'text> {
    pub(super) text: &'text str,
    pub(super) all: Vec<Scope<'tree>>,
    /// In document order.
    pub(super) functions: Vec<Function<'tree>>,
    pub(super) calls: Vec<(ScopeId, Node<'tree>)>,
    /// Bodies of `if __name__ == "__main__":`.
    main_blocks: Vec<Range<usize>>,
}

impl<'tree, 'text> Scopes<'tree, 'text> {
    pub(super) fn scan(root: Node<'tree>, text: &'text str) -> Self {
        let scopes = Self {
            text,
            all: vec![Scope::new(ScopeKind::Module, MODULE, String::new())],
            functions: Vec::new(),
            calls: Vec::new(),
            main_blocks: Vec::new(),
        };
        let mut scanner =
            Scanner { scopes, open: vec![(MODULE, root.id())], top: root, depth: 0, decorated: None };
        walk_with_leave(root, &mut |step| {
            match step {
                Step::Enter(node) => scanner.enter(node),
                Step::Leave(node) => scanner.leave(node),
            }
            Walk::Into
        });
        scanner.scopes
    }

    /// Where a name is bound as seen from a scope: classes are only seen from directly inside.
    pub(super) fn lookup(&self, from: ScopeId, name: &str) -> Option<(ScopeId, &[Bound<'tree>])> {
        let mut scope = from;
        loop {
            let here = self.all.get(scope)?;
            let visible = scope == from || !matches!(here.kind, ScopeKind::Class { .. });
            if let (true, Some(bound)) = (visible, here.names.get(name)) {
                return Some((scope, bound));
            }
            if scope == MODULE {
                return None;
            }
            scope = here.parent;
        }
    }

    /// The scope and those around it, up to the module.
    pub(super) fn chain(&self, from: ScopeId) -> impl Iterator<Item = (ScopeId, &Scope<'tree>)> {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let id = next?;
            let scope = self.all.get(id)?;
            next = (id != MODULE).then_some(scope.parent);
            Some((id, scope))
        })
    }

    pub(super) fn enclosing_class(&self, from: ScopeId) -> Option<ScopeId> {
        self.chain(from).find(|(_, scope)| matches!(scope.kind, ScopeKind::Class { .. })).map(|(id, _)| id)
    }

    /// Whether a byte lies under `if __name__ == "__main__":`.
    pub(super) fn in_main(&self, byte: usize) -> bool {
        self.main_blocks.iter().any(|block| block.contains(&byte))
    }

    pub(super) fn text_of(&self, node: Node<'_>) -> &'text str {
        text_of(node, self.text)
    }
}

impl Scope<'_> {
    fn new(kind: ScopeKind, parent: ScopeId, qualified: String) -> Self {
        let (names, globals, attributes) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { kind, parent, qualified, names, globals, attributes }
    }
}

struct Scanner<'tree, 'text> {
    scopes: Scopes<'tree, 'text>,
    /// Scopes entered and the nodes that opened them.
    open: Vec<(ScopeId, usize)>,
    top: Node<'tree>,
    depth: usize,
    /// The last `decorated_definition` entered.
    decorated: Option<Node<'tree>>,
}

impl<'tree> Scanner<'tree, '_> {
    fn current(&self) -> ScopeId {
        self.open.last().map_or(MODULE, |(scope, _)| *scope)
    }

    fn text(&self, node: Node<'_>) -> String {
        self.scopes.text_of(node).to_owned()
    }

    fn bind(&mut self, scope: ScopeId, name_node: Node<'tree>, to: BoundTo<'tree>) {
        self.bind_name(scope, self.text(name_node), name_node.byte_range(), to);
    }

    fn bind_name(&mut self, scope: ScopeId, name: String, name_range: Range<usize>, to: BoundTo<'tree>) {
        let top = self.top;
        if let Some(scope) = self.scopes.all.get_mut(scope) {
            scope.names.entry(name).or_default().push(Bound { to, top, name_range });
        }
    }

    fn enter(&mut self, node: Node<'tree>) {
        if self.depth == 1 {
            self.top = node;
        }
        self.depth += 1;
        match node.kind() {
            "decorated_definition" => self.decorated = Some(node),
            "function_definition" => self.enter_function(node),
            "class_definition" => self.enter_class(node),
            "lambda" => self.enter_lambda(node),
            "import_statement" => self.import(node),
            "import_from_statement" => self.import_from(node),
            "assignment" => self.assignment(node),
            "augmented_assignment" => {
                self.bind_targets(node.child_by_field_name("left"), |_| BoundTo::Other);
            }
            "named_expression" => {
                if let (Some(name), Some(value)) =
                    (node.child_by_field_name("name"), node.child_by_field_name("value"))
                {
                    self.bind(self.current(), name, BoundTo::Value(value));
                }
            }
            "for_statement" | "for_in_clause" => {
                let Some(values) = node.child_by_field_name("right") else { return };
                self.bind_targets(node.child_by_field_name("left"), |_| BoundTo::Element(values));
            }
            "as_pattern_target" => self.bind_targets(Some(node), |_| BoundTo::Other),
            "global_statement" => self.declare_global(node),
            "return_statement" => self.returned(node),
            "call" => self.scopes.calls.push((self.current(), node)),
            "if_statement" => self.note_main_block(node),
            _ => {}
        }
    }

    fn leave(&mut self, node: Node<'tree>) {
        self.depth -= 1;
        if self.open.len() > 1 && self.open.last().is_some_and(|(_, opener)| *opener == node.id()) {
            self.open.pop();
        }
    }

    fn open(&mut self, kind: ScopeKind, name: &str, opener: Node<'tree>) -> ScopeId {
        let parent = self.current();
        let around = &self.scopes.all[parent].qualified;
        let qualified = if around.is_empty() { name.to_owned() } else { format!("{around}.{name}") };
        let id = self.scopes.all.len();
        self.scopes.all.push(Scope::new(kind, parent, qualified));
        self.open.push((id, opener.id()));
        id
    }

    fn enter_function(&mut self, node: Node<'tree>) {
        let Some(name_node) = node.child_by_field_name("name") else { return };
        let (name, defined_in) = (self.text(name_node), self.current());
        let id = self.scopes.functions.len();
        self.bind(defined_in, name_node, BoundTo::Function(id));
        let scope = self.open(ScopeKind::Function(id), &name, node);
        for parameter in parameters(node, self.scopes.text) {
            let name = parameter.name.trim_start_matches('*').to_owned();
            self.bind_name(scope, name, node.byte_range(), BoundTo::Parameter);
        }
        let decorated = self.decorated.filter(|decorated| {
            decorated.child_by_field_name("definition").is_some_and(|inner| inner.id() == node.id())
        });
        let decorators = decorated.map(children).unwrap_or_default();
        self.scopes.functions.push(Function {
            qualified: self.scopes.all[scope].qualified.clone(),
            name,
            node,
            whole: decorated.unwrap_or(node),
            name_node,
            decorators: decorators.into_iter().filter(|child| child.kind() == "decorator").collect(),
            defined_in,
            scope,
            top: self.top,
            returns: Vec::new(),
        });
    }

    fn enter_class(&mut self, node: Node<'tree>) {
        let Some(name_node) = node.child_by_field_name("name") else { return };
        let bases = node.child_by_field_name("superclasses").map(children).unwrap_or_default();
        let autograd = bases.into_iter().any(|base| self.is_autograd_function(base));
        let name = self.text(name_node);
        let defined_in = self.current();
        let scope = self.open(ScopeKind::Class { autograd }, &name, node);
        self.bind(defined_in, name_node, BoundTo::Class(scope));
    }

    /// `torch.autograd.Function`, `autograd.Function`, or `Function` imported from there.
    fn is_autograd_function(&self, base: Node<'tree>) -> bool {
        let text = self.scopes.text_of(base);
        if text.ends_with("autograd.Function") {
            return true;
        }
        let bound = self.scopes.lookup(self.current(), text).map(|(_, bound)| bound).unwrap_or_default();
        bound.iter().any(|bound| match &bound.to {
            BoundTo::Import(path) => {
                path.ends_with("autograd.Function") || path.ends_with("function.Function")
            }
            BoundTo::Class(scope) => self.scopes.all[*scope].kind == ScopeKind::Class { autograd: true },
            BoundTo::Value(value) => self.scopes.text_of(*value).ends_with("autograd.Function"),
            _ => false,
        })
    }

    fn enter_lambda(&mut self, node: Node<'tree>) {
        let scope = self.open(ScopeKind::Lambda, "<lambda>", node);
        let Some(list) = node.child_by_field_name("parameters") else { return };
        for parameter in children(list) {
            let name = parameter.child_by_field_name("name").unwrap_or(parameter);
            self.bind(scope, name, BoundTo::Parameter);
        }
    }

    fn import(&mut self, node: Node<'tree>) {
        for item in children(node) {
            let alias = item.child_by_field_name("alias");
            let module = self.text(item.child_by_field_name("name").unwrap_or(item));
            match alias {
                Some(alias) => self.bind(self.current(), alias, BoundTo::Import(module)),
                None => {
                    let first = module.split('.').next().unwrap_or_default().to_owned();
                    let to = BoundTo::Import(first.clone());
                    self.bind_name(self.current(), first, item.byte_range(), to);
                }
            }
        }
    }

    fn import_from(&mut self, node: Node<'tree>) {
        let Some(module_node) = node.child_by_field_name("module_name") else { return };
        let module = self.text(module_node);
        for item in children(node).into_iter().filter(|item| item.id() != module_node.id()) {
            if item.kind() == "wildcard_import" {
                let names: &[&str] =
                    if module == "triton" { &["jit", "autotune", "heuristics"] } else { &[] };
                for name in names {
                    let to = BoundTo::Import(format!("{module}.{name}"));
                    self.bind_name(self.current(), (*name).to_owned(), item.byte_range(), to);
                }
                continue;
            }
            let name = item.child_by_field_name("name").unwrap_or(item);
            let path = format!("{module}.{}", self.scopes.text_of(name));
            let bound_name = item.child_by_field_name("alias").unwrap_or(name);
            self.bind(self.current(), bound_name, BoundTo::Import(path));
        }
    }

    fn assignment(&mut self, node: Node<'tree>) {
        let (left, right) = (node.child_by_field_name("left"), node.child_by_field_name("right"));
        // `NAME: type` binds nothing, but a kernel may read what it says (hash).
        let Some(value) = right else {
            return self.bind_targets(left, |_| BoundTo::Other);
        };
        let Some(left) = left else { return };
        if left.kind() == "attribute" {
            return self.assign_attribute(left, value);
        }
        let targets = children(left);
        let values = children(value);
        let pairwise = matches!(left.kind(), "pattern_list" | "tuple_pattern")
            && matches!(value.kind(), "expression_list" | "tuple")
            && targets.len() == values.len();
        if pairwise {
            for (target, value) in targets.into_iter().zip(values) {
                self.bind_targets(Some(target), |_| BoundTo::Value(value));
            }
        } else if left.kind() == "identifier" {
            self.bind(self.current(), left, BoundTo::Value(value));
        } else {
            self.bind_targets(Some(left), |_| BoundTo::Other);
        }
    }

    fn assign_attribute(&mut self, left: Node<'tree>, value: Node<'tree>) {
        let (Some(object), Some(attribute)) =
            (left.child_by_field_name("object"), left.child_by_field_name("attribute"))
        else {
            return;
        };
        let scope = self.current();
        if matches!(self.scopes.text_of(object), "self" | "cls")
            && let Some(class) = self.scopes.enclosing_class(scope)
        {
            let name = self.text(attribute);
            self.scopes.all[class].attributes.entry(name).or_default().push((scope, value));
        }
    }

    /// Binds every plain name of a target: `a`, `(a, b)`, `[a, *b]`.
    fn bind_targets(&mut self, target: Option<Node<'tree>>, to: impl Fn(Node<'tree>) -> BoundTo<'tree>) {
        let Some(target) = target else { return };
        let mut names = Vec::new();
        walk(target, |node| match node.kind() {
            "identifier" => {
                names.push(node);
                Walk::Skip
            }
            "attribute" | "subscript" | "call" => Walk::Skip,
            _ => Walk::Into,
        });
        for name in names {
            self.bind(self.current(), name, to(name));
        }
    }

    fn declare_global(&mut self, node: Node<'tree>) {
        let names: Vec<String> = children(node).into_iter().map(|name| self.text(name)).collect();
        let scope = self.current();
        self.scopes.all[scope].globals.extend(names);
    }

    fn returned(&mut self, node: Node<'tree>) {
        let ScopeKind::Function(id) = self.scopes.all[self.current()].kind else { return };
        self.scopes.functions[id].returns.extend(children(node));
    }

    fn note_main_block(&mut self, node: Node<'tree>) {
        let condition = node.child_by_field_name("condition").map(|node| self.scopes.text_of(node));
        let is_main = condition.is_some_and(|text| {
            text.contains("__name__") && text.contains("__main__") && text.contains("==")
        });
        if is_main && let Some(block) = node.child_by_field_name("consequence") {
            self.scopes.main_blocks.push(block.byte_range());
        }
    }
}
