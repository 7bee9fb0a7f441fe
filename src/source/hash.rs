//! Content hashes: what a kernel's behaviour rests on inside its file.
//!
//! The hash covers the kernel with its decorators and every top-level statement it refers to, followed
//! through names: helpers, constants, functions that build autotune configurations, imports. When in
//! doubt more is covered: a hash that changes too often costs a check, one that changes too rarely
//! leaves a stale verdict.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use tree_sitter::Node;

use super::scopes::{FunctionId, MODULE, ScopeId, ScopeKind, Scopes};
use super::syntax::{Step, Walk, children, walk, walk_with_leave};

/// Hashes the kernels of one file.
pub(super) struct Hasher<'a, 'tree, 'text> {
    scopes: &'a Scopes<'tree, 'text>,
    /// Plain statements at module level by the names they mention: `configs.append(…)` changes a
    /// constant without binding it.
    mentions: HashMap<&'text str, Vec<Node<'tree>>>,
    /// By node: kernels of one file share most of what they rest on.
    digests: RefCell<HashMap<usize, blake3::Hash>>,
    free: RefCell<HashMap<usize, Rc<[&'text str]>>>,
    /// Functions by the node of their whole definition.
    defined: HashMap<usize, FunctionId>,
}

impl<'a, 'tree, 'text> Hasher<'a, 'tree, 'text> {
    pub(super) fn new(scopes: &'a Scopes<'tree, 'text>, root: Node<'tree>) -> Self {
        let mut mentions: HashMap<&'text str, Vec<Node<'tree>>> = HashMap::new();
        for statement in children(root) {
            let defines = matches!(
                statement.kind(),
                "function_definition"
                    | "class_definition"
                    | "decorated_definition"
                    | "import_statement"
                    | "import_from_statement"
            );
            if defines || is_main(scopes, statement) {
                continue;
            }
            let names: HashSet<&str> = names(scopes, statement).into_iter().map(|(name, _)| name).collect();
            for name in names {
                mentions.entry(name).or_default().push(statement);
            }
        }
        let functions = scopes.functions.iter().enumerate();
        let defined = functions.map(|(id, function)| (function.whole.id(), id)).collect();
        Self { scopes, mentions, digests: RefCell::default(), free: RefCell::default(), defined }
    }

    /// blake3 in hexadecimal.
    pub(super) fn hash(&self, kernel: FunctionId) -> String {
        let mut hasher = blake3::Hasher::new();
        if let Some(function) = self.scopes.functions.get(kernel) {
            hasher.update(self.digest(function.whole).as_bytes());
            for statement in self.covered(kernel).values() {
                hasher.update(self.digest(*statement).as_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }

    fn digest(&self, node: Node<'tree>) -> blake3::Hash {
        *self.digests.borrow_mut().entry(node.id()).or_insert_with(|| {
            let mut hasher = blake3::Hasher::new();
            feed(&mut hasher, node, self.scopes.text);
            hasher.finalize()
        })
    }

    /// The top-level statements that the kernel rests on, by position.
    fn covered(&self, kernel: FunctionId) -> BTreeMap<usize, Node<'tree>> {
        let mut covered = BTreeMap::new();
        let mut seen = BTreeSet::new();
        let Some(function) = self.scopes.functions.get(kernel) else { return covered };
        let mut waiting = vec![(function.whole, Some(kernel))];
        while let Some((node, function)) = waiting.pop() {
            let names = self
                .free
                .borrow_mut()
                .entry(node.id())
                .or_insert_with(|| self.free_names(node, function))
                .clone();
            for &name in names.iter() {
                if !seen.insert(name) {
                    continue;
                }
                for statement in self.statements_about(function, name) {
                    if covered.insert(statement.start_byte(), statement).is_none() {
                        waiting.push((statement, self.function_of(statement)));
                    }
                }
            }
        }
        covered
    }

    /// Names that a piece of code takes from outside. For a function, what its body binds itself is left
    /// out; decorators and defaults are evaluated outside.
    fn free_names(&self, node: Node<'tree>, function: Option<FunctionId>) -> Rc<[&'text str]> {
        let own = function.and_then(|id| {
            let function = self.scopes.functions.get(id)?;
            let body = function.node.child_by_field_name("body")?.byte_range();
            Some((body, self.scopes.all.get(function.scope)?))
        });
        let is_free = |name: &str, at: usize| match &own {
            Some((body, scope)) if body.contains(&at) => {
                !scope.names.contains_key(name) || scope.globals.contains(name)
            }
            _ => true,
        };
        let names = names(self.scopes, node).into_iter();
        let free: BTreeSet<&str> =
            names.filter(|(name, at)| is_free(name, *at)).map(|(name, _)| name).collect();
        free.into_iter().collect()
    }

    /// The statements at the top of the file that bind or change a name.
    fn statements_about(&self, function: Option<FunctionId>, name: &str) -> Vec<Node<'tree>> {
        let from = function.and_then(|id| self.scopes.functions.get(id)).map_or(MODULE, |f| f.defined_in);
        let mut statements: Vec<Node<'tree>> = Vec::new();
        if let Some((scope, bound)) = self.scopes.lookup(from, name) {
            statements.extend(bound.iter().map(|bound| bound.top));
            statements.extend(self.enclosing_definition(scope));
        }
        statements.extend(self.mentions.get(name).into_iter().flatten());
        statements.retain(|statement| !is_main(self.scopes, *statement));
        statements
    }

    /// For a name bound inside a function: that function's statement, whose parameters and conditions
    /// decide about the value.
    fn enclosing_definition(&self, scope: ScopeId) -> Option<Node<'tree>> {
        self.scopes.chain(scope).find_map(|(_, scope)| match scope.kind {
            ScopeKind::Function(id) => self.scopes.functions.get(id).map(|function| function.top),
            _ => None,
        })
    }

    /// The function that a statement defines.
    fn function_of(&self, statement: Node<'tree>) -> Option<FunctionId> {
        self.defined.get(&statement.id()).copied()
    }
}

fn is_main(scopes: &Scopes<'_, '_>, statement: Node<'_>) -> bool {
    let block = statement.child_by_field_name("consequence");
    block.is_some_and(|block| scopes.in_main(block.start_byte()))
}

/// Identifiers of a piece of code with their positions; names of attributes and keywords left out.
fn names<'text>(scopes: &Scopes<'_, 'text>, root: Node<'_>) -> Vec<(&'text str, usize)> {
    let mut names = Vec::new();
    let mut skipped = HashSet::new();
    walk(root, |node| {
        match node.kind() {
            "attribute" => skipped.extend(node.child_by_field_name("attribute").map(|node| node.id())),
            "keyword_argument" => skipped.extend(node.child_by_field_name("name").map(|node| node.id())),
            "identifier" if !skipped.contains(&node.id()) => {
                names.push((scopes.text_of(node), node.start_byte()));
            }
            _ => {}
        }
        Walk::Into
    });
    names
}

/// Feeds the meaning of a piece of code: its tokens and structure, without comments, docstrings, blank
/// lines and spacing.
fn feed(hasher: &mut blake3::Hasher, root: Node<'_>, text: &str) {
    let mut docstrings = HashSet::new();
    let is_atom = |node: &Node<'_>| node.child_count() == 0 || matches!(node.kind(), "string" | "ERROR");
    let is_left_out = |node: &Node<'_>, docstrings: &HashSet<usize>| {
        matches!(node.kind(), "comment" | "line_continuation") || docstrings.contains(&node.id())
    };
    walk_with_leave(root, &mut |step| match step {
        Step::Enter(node) if is_left_out(&node, &docstrings) => Walk::Skip,
        Step::Enter(node) if is_atom(&node) => {
            hasher.update(super::syntax::text_of(node, text).as_bytes());
            hasher.update(&[0]);
            Walk::Skip
        }
        Step::Enter(node) => {
            if matches!(node.kind(), "function_definition" | "class_definition") {
                docstrings.extend(docstring(node).map(|node| node.id()));
            }
            hasher.update(&[1]);
            hasher.update(node.kind().as_bytes());
            Walk::Into
        }
        Step::Leave(node) => {
            if !is_atom(&node) && !is_left_out(&node, &docstrings) {
                hasher.update(&[2]);
            }
            Walk::Skip
        }
    });
}

/// The statement that is the docstring of a definition.
fn docstring<'tree>(definition: Node<'tree>) -> Option<Node<'tree>> {
    let body = definition.child_by_field_name("body")?;
    let first = children(body).into_iter().next().filter(|node| node.kind() == "expression_statement")?;
    match children(first).as_slice() {
        [only] if matches!(only.kind(), "string" | "concatenated_string") => Some(first),
        _ => None,
    }
}
