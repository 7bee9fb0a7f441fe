//! The names of a whole file: those of its pieces, and the module around them.

use std::collections::HashMap;

use super::questions::{is_class, may_be_called};
use super::scan::read;
use super::scopes::{
    Bound, BoundTo, Function, Local, LocalScope, MODULE, Needs, NodeIndex, Scope, ScopeKind,
};
use super::syntax::{Node, text_of};
use super::tree::Tree;

/// How far bases of classes are followed.
const MAX_BASES: u32 = 8;

/// A scope of the file. That of the module has no piece of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ScopeId {
    pub(super) piece: u32,
    pub(super) local: LocalScope,
}

impl ScopeId {
    pub(super) const MODULE: Self = Self { piece: u32::MAX, local: MODULE };

    fn new(piece: u32, local: LocalScope) -> Self {
        if local == MODULE { Self::MODULE } else { Self { piece, local } }
    }
}

/// A function of the file; their order is that of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FunctionId {
    pub(super) piece: u32,
    pub(super) local: u32,
}

/// The scopes of a tree.
pub(super) struct Scopes<'tree, 'text> {
    pub(super) text: &'text str,
    tree: &'tree Tree,
    pub(super) pieces: Vec<&'tree Local>,
    module: HashMap<&'tree str, Vec<(u32, &'tree Bound)>>,
    /// Calls that may have to do with a kernel, in document order.
    pub(super) calls: Vec<(ScopeId, Node<'tree>)>,
}

/// What a name is bound to, in document order.
#[derive(Clone, Copy, Default)]
pub(super) struct Bounds<'a, 'tree> {
    piece: u32,
    local: &'tree [Bound],
    module: &'a [(u32, &'tree Bound)],
}

impl<'a, 'tree> IntoIterator for Bounds<'a, 'tree> {
    type Item = (u32, &'tree Bound);
    type IntoIter = BoundsIter<'a, 'tree>;

    fn into_iter(self) -> Self::IntoIter {
        BoundsIter(self)
    }
}

pub(super) struct BoundsIter<'a, 'tree>(Bounds<'a, 'tree>);

impl<'tree> Iterator for BoundsIter<'_, 'tree> {
    type Item = (u32, &'tree Bound);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some((bound, rest)) = self.0.local.split_first() {
            self.0.local = rest;
            return Some((self.0.piece, bound));
        }
        let (bound, rest) = self.0.module.split_first()?;
        self.0.module = rest;
        Some(*bound)
    }
}

impl<'tree, 'text> Scopes<'tree, 'text> {
    pub(super) fn new(tree: &'tree Tree, text: &'text str) -> Self {
        let pieces: Vec<&Local> = tree
            .pieces()
            .iter()
            .enumerate()
            .map(|(place, piece)| piece.memo.local.get_or_init(|| read(tree, place, text)))
            .collect();
        let mut module: HashMap<&str, Vec<(u32, &Bound)>> = HashMap::new();
        for (piece, local) in (0..).zip(&pieces) {
            for (name, bound) in &local.bound {
                module.entry(name).or_default().push((piece, bound));
            }
        }
        let mut scopes = Self { text, tree, pieces, module, calls: Vec::new() };
        scopes.calls = scopes.relevant_calls();
        scopes
    }

    fn relevant_calls(&self) -> Vec<(ScopeId, Node<'tree>)> {
        let mut calls = Vec::new();
        for (piece, local) in (0..).zip(&self.pieces) {
            let needed = local.needed.iter().map(|name| self.module.get(name.as_str()));
            let known: Vec<_> = needed
                .map(|bound| {
                    let bound = bound.into_iter().flatten();
                    let may_be_called = bound.clone().any(|(_, bound)| may_be_called(bound));
                    (may_be_called, bound.clone().any(|(_, bound)| is_class(bound)))
                })
                .collect();
            calls.extend(local.calls.iter().filter_map(|call| {
                let matters = match call.needs {
                    Needs::Nothing => true,
                    Needs::Bound(name) => known.get(name as usize).is_some_and(|known| known.0),
                    Needs::Class(name) => known.get(name as usize).is_some_and(|known| known.1),
                };
                matters.then(|| (ScopeId::new(piece, call.scope), self.node(piece, call.node)))
            }));
        }
        calls
    }

    pub(super) fn node(&self, piece: u32, node: NodeIndex) -> Node<'tree> {
        self.tree.node(piece as usize, node)
    }

    pub(super) fn nodes(&self, piece: u32, nodes: &[NodeIndex]) -> impl Iterator<Item = Node<'tree>> {
        nodes.iter().map(move |node| self.node(piece, *node))
    }

    /// All functions, in document order.
    pub(super) fn functions(&self) -> impl Iterator<Item = (FunctionId, &'tree Function)> {
        let of_piece = |(piece, local): (u32, &&'tree Local)| {
            (0..).zip(&local.functions).map(move |(local, function)| (FunctionId { piece, local }, function))
        };
        (0..).zip(&self.pieces).flat_map(of_piece)
    }

    pub(super) fn function(&self, id: FunctionId) -> Option<&'tree Function> {
        self.pieces.get(id.piece as usize)?.functions.get(id.local as usize)
    }

    pub(super) fn local(&self, piece: u32) -> Option<&'tree Local> {
        self.pieces.get(piece as usize).copied()
    }

    pub(super) fn scope(&self, id: ScopeId) -> Option<&'tree Scope> {
        self.local(id.piece)?.scopes.get(id.local as usize)
    }

    pub(super) fn scope_of(&self, id: FunctionId) -> ScopeId {
        self.function(id).map_or(ScopeId::MODULE, |function| ScopeId::new(id.piece, function.scope))
    }

    pub(super) fn defined_in(&self, id: FunctionId) -> ScopeId {
        self.function(id).map_or(ScopeId::MODULE, |function| ScopeId::new(id.piece, function.defined_in))
    }

    pub(super) fn class(&self, piece: u32, class: LocalScope) -> ScopeId {
        ScopeId::new(piece, class)
    }

    /// Where a name is bound as seen from a scope: classes are only seen from directly inside.
    pub(super) fn lookup(&self, from: ScopeId, name: &str) -> Option<(ScopeId, Bounds<'_, 'tree>)> {
        if let Some(piece) = self.local(from.piece)
            && let Some((scope, local)) = piece.lookup(from.local, name)
        {
            let bounds = Bounds { piece: from.piece, local, module: &[] };
            return Some((ScopeId::new(from.piece, scope), bounds));
        }
        let module = self.module.get(name)?;
        Some((ScopeId::MODULE, Bounds { piece: 0, local: &[], module }))
    }

    /// What a name is bound to; nothing if it is not.
    pub(super) fn bounds(&self, from: ScopeId, name: &str) -> Bounds<'_, 'tree> {
        self.lookup(from, name).map(|(_, bounds)| bounds).unwrap_or_default()
    }

    /// The scope and those around it, the module left out.
    pub(super) fn chain(&self, from: ScopeId) -> impl Iterator<Item = (ScopeId, &'tree Scope)> {
        let chain = self.local(from.piece).into_iter().flat_map(move |local| local.chain(from.local));
        chain
            .filter(|(id, _)| *id != MODULE)
            .map(move |(id, scope)| (ScopeId { piece: from.piece, local: id }, scope))
    }

    /// The function whose scope this is.
    pub(super) fn function_of(&self, id: ScopeId) -> Option<FunctionId> {
        match self.scope(id)?.kind {
            ScopeKind::Function(local) => Some(FunctionId { piece: id.piece, local }),
            _ => None,
        }
    }

    pub(super) fn enclosing_class(&self, from: ScopeId) -> Option<ScopeId> {
        self.chain(from).find(|(_, scope)| scope.kind == ScopeKind::Class).map(|(id, _)| id)
    }

    /// Whether a class is a `torch.autograd.Function`, by its bases: `autograd.Function`, `Function` imported
    /// from there, another such class of this file.
    pub(super) fn is_autograd(&self, class: ScopeId) -> bool {
        self.is_autograd_within(MAX_BASES, class)
    }

    fn is_autograd_within(&self, depth: u32, class: ScopeId) -> bool {
        let (Some(depth), Some(scope)) = (depth.checked_sub(1), self.scope(class)) else { return false };
        let around = ScopeId::new(class.piece, scope.parent);
        self.nodes(class.piece, &scope.bases).any(|base| {
            let name = text_of(base, self.text);
            name.ends_with("autograd.Function")
                || self.bounds(around, name).into_iter().any(|(piece, bound)| match &bound.to {
                    BoundTo::Import(path) => {
                        path.ends_with("autograd.Function") || path.ends_with("function.Function")
                    }
                    BoundTo::Class(scope) => self.is_autograd_within(depth, ScopeId::new(piece, *scope)),
                    BoundTo::Value(value) => {
                        text_of(self.node(piece, *value), self.text).ends_with("autograd.Function")
                    }
                    _ => false,
                })
        })
    }

    /// Whether a node lies under `if __name__ == "__main__":`.
    pub(super) fn in_main(&self, node: Node<'_>) -> bool {
        self.local(node.piece()).is_some_and(|local| local.in_main(node.index()))
    }

    pub(super) fn text_of(&self, node: Node<'_>) -> &'text str {
        text_of(node, self.text)
    }
}
