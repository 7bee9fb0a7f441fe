//! Content hashes: what a kernel's behaviour rests on inside its file.
//!
//! The hash covers the kernel with its decorators and every top-level statement it refers to, followed
//! through names: helpers, constants, functions that build autotune configurations, imports. When in
//! doubt more is covered: a hash that changes too often costs a check, one that changes too rarely
//! leaves a stale verdict.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::module::{FunctionId, ScopeId, Scopes};
use super::scopes::{Function, NodeIndex, Scope, ScopeKind, Statement};
use super::syntax::{Node, Step, Walk, children, text_of, walk, walk_with_leave};

/// What a definition or statement says by itself.
#[derive(Clone)]
pub(super) struct Meaning {
    /// Of its tokens and structure.
    digest: blake3::Hash,
    /// Names that it takes from outside, each once.
    names: Vec<String>,
}

impl Default for Meaning {
    fn default() -> Self {
        Self { digest: blake3::hash(&[]), names: Vec::new() }
    }
}

/// Reads a statement, or a function with its decorators. What the body of a function binds itself is not taken
/// from outside; decorators and defaults are evaluated outside.
pub(super) fn meaning(whole: Node<'_>, text: &str, function: Option<(Node<'_>, &Scope)>) -> Meaning {
    let mut hasher = blake3::Hasher::new();
    feed(&mut hasher, whole, text);
    let body =
        function.and_then(|(node, scope)| Some((node.child_by_field_name("body")?.byte_range(), scope)));
    let is_free = |name: &str, at: usize| match &body {
        Some((body, scope)) if body.contains(&at) => {
            !scope.names.contains_key(name) || scope.globals.contains(name)
        }
        _ => true,
    };
    let names = names(whole, text).into_iter().filter(|(name, at)| is_free(name, *at));
    let names: BTreeSet<&str> = names.map(|(name, _)| name).collect();
    Meaning { digest: hasher.finalize(), names: names.into_iter().map(str::to_owned).collect() }
}

/// Hashes the kernels of one file.
pub(super) struct Hasher<'a, 'tree, 'text> {
    scopes: &'a Scopes<'tree, 'text>,
    /// Plain statements at module level by the names they mention: `configs.append(…)` changes a
    /// constant without binding it.
    mentions: HashMap<&'tree str, Vec<(u32, &'tree Statement)>>,
}

impl<'a, 'tree, 'text> Hasher<'a, 'tree, 'text> {
    pub(super) fn new(scopes: &'a Scopes<'tree, 'text>) -> Self {
        let mut mentions: HashMap<&str, Vec<(u32, &Statement)>> = HashMap::new();
        for (piece, local) in (0..).zip(&scopes.pieces) {
            for statement in local.statements.iter().filter(|statement| statement.acts) {
                for name in &statement.meaning.names {
                    mentions.entry(name).or_default().push((piece, statement));
                }
            }
        }
        Self { scopes, mentions }
    }

    /// blake3 in hexadecimal.
    pub(super) fn hash(&self, kernel: FunctionId) -> String {
        let mut hasher = blake3::Hasher::new();
        if let Some(function) = self.scopes.function(kernel) {
            hasher.update(function.meaning.digest.as_bytes());
            for statement in self.covered(kernel, function).values() {
                hasher.update(statement.meaning.digest.as_bytes());
            }
        }
        hasher.finalize().to_hex().to_string()
    }

    /// The top-level statements that the kernel rests on, by position.
    fn covered(
        &self,
        kernel: FunctionId,
        function: &'tree Function,
    ) -> BTreeMap<(u32, NodeIndex), &'tree Statement> {
        let mut covered = BTreeMap::new();
        let mut seen: HashSet<&str> = HashSet::new();
        let mut waiting = vec![(&function.meaning, self.scopes.defined_in(kernel))];
        while let Some((meaning, scope)) = waiting.pop() {
            for name in &meaning.names {
                if !seen.insert(name) {
                    continue;
                }
                self.statements_about(scope, name, |piece, statement| {
                    if covered.insert((piece, statement.node), statement).is_none() {
                        waiting.push((&statement.meaning, ScopeId::MODULE));
                    }
                });
            }
        }
        covered
    }

    /// The statements at the top of the file that bind or change a name.
    fn statements_about(&self, from: ScopeId, name: &str, mut found: impl FnMut(u32, &'tree Statement)) {
        let mut at = |piece: u32, node: NodeIndex| {
            let statement = self.scopes.local(piece).and_then(|local| local.statement(node));
            if let Some(statement) = statement.filter(|statement| !statement.is_main) {
                found(piece, statement);
            }
        };
        if let Some((scope, bounds)) = self.scopes.lookup(from, name) {
            bounds.into_iter().for_each(|(piece, bound)| at(piece, bound.top));
            // For a name bound inside a function: that function's statement, whose parameters and conditions
            // decide about the value.
            let mut around = self.scopes.chain(scope);
            let function = around.find_map(|(id, scope)| match scope.kind {
                ScopeKind::Function(_) => self.scopes.function(self.scopes.function_of(id)?),
                _ => None,
            });
            if let Some(function) = function {
                at(scope.piece, function.top);
            }
        }
        for (piece, statement) in self.mentions.get(name).into_iter().flatten() {
            at(*piece, statement.node);
        }
    }
}

/// Identifiers of a piece of code with their positions; names of attributes and keywords left out.
fn names<'text>(root: Node<'_>, text: &'text str) -> Vec<(&'text str, usize)> {
    let mut names = Vec::new();
    let mut skipped = HashSet::new();
    walk(root, |node| {
        match node.kind() {
            "attribute" => skipped.extend(node.child_by_field_name("attribute").map(|node| node.id())),
            "keyword_argument" => skipped.extend(node.child_by_field_name("name").map(|node| node.id())),
            "identifier" if !skipped.contains(&node.id()) => {
                names.push((text_of(node, text), node.start_byte()));
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
    let is_atom = |node: &Node<'_>| !node.has_children() || matches!(node.kind(), "string" | "ERROR");
    let is_left_out = |node: &Node<'_>, docstrings: &HashSet<u64>| {
        matches!(node.kind(), "comment" | "line_continuation") || docstrings.contains(&node.id())
    };
    walk_with_leave(root, &mut |step| match step {
        Step::Enter(node) if is_left_out(&node, &docstrings) => Walk::Skip,
        Step::Enter(node) if is_atom(&node) => {
            hasher.update(text_of(node, text).as_bytes());
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
