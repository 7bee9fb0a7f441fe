//! What one piece says by itself: its scopes, what names are bound to in them, functions and calls.
//!
//! Everything here follows from the text of the piece alone and is worked out once for it; what names of other
//! pieces stand for is asked in `module`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::KernelParameter;
use super::hash::Meaning;

/// Index of a node within its piece.
pub(super) type NodeIndex = u32;
/// Index of a scope within its piece; 0 is the module.
pub(super) type LocalScope = u32;

pub(super) const MODULE: LocalScope = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeKind {
    Module,
    Class,
    /// Index of the function within its piece.
    Function(u32),
    /// Runs later, not where it stands.
    Lambda,
    /// At the top of the file: its variables are no names of the module. Within a function they are taken for
    /// the function's own.
    Comprehension,
}

pub(super) struct Scope {
    pub(super) kind: ScopeKind,
    pub(super) parent: LocalScope,
    /// `Outer.method`; empty for the module.
    pub(super) qualified: String,
    /// Empty for the module: see [`Local::bound`].
    pub(super) names: HashMap<String, Vec<Bound>>,
    /// Names declared `global` here.
    pub(super) globals: HashSet<String>,
    /// In a class: values assigned to `self.name` in its methods.
    pub(super) attributes: HashMap<String, Vec<(LocalScope, NodeIndex)>>,
    /// Of a class.
    pub(super) bases: Vec<NodeIndex>,
}

/// One binding of a name.
pub(super) struct Bound {
    pub(super) to: BoundTo,
    /// The statement at the top of the file that holds the binding.
    pub(super) top: NodeIndex,
    /// The name where it is bound.
    pub(super) name: NodeIndex,
}

pub(super) enum BoundTo {
    /// `triton.jit`, `.utils.helper`.
    Import(String),
    Function(u32),
    Class(LocalScope),
    Value(NodeIndex),
    /// An element of this value (`for name in value`).
    Element(NodeIndex),
    Parameter,
    /// Something that is not followed: an augmented assignment, a `with` target.
    Other,
}

pub(super) struct Function {
    pub(super) name: String,
    pub(super) qualified: String,
    pub(super) node: NodeIndex,
    /// With decorators.
    pub(super) whole: NodeIndex,
    pub(super) name_node: NodeIndex,
    pub(super) decorators: Vec<NodeIndex>,
    /// The scope it is defined in, and its own.
    pub(super) defined_in: LocalScope,
    pub(super) scope: LocalScope,
    pub(super) top: NodeIndex,
    /// Values of its own `return` statements.
    pub(super) returns: Vec<NodeIndex>,
    pub(super) parameters: Vec<KernelParameter>,
    pub(super) meaning: Meaning,
    /// Expressions of it that may stand for another kernel.
    pub(super) questions: Vec<NodeIndex>,
}

/// A statement at the top of the file.
pub(super) struct Statement {
    pub(super) node: NodeIndex,
    /// `if __name__ == "__main__":`
    pub(super) is_main: bool,
    /// It runs on import and may change what it mentions: no definition, import or main block.
    pub(super) acts: bool,
    pub(super) meaning: Meaning,
}

/// A call that may have to do with a kernel.
pub(super) struct Call {
    pub(super) scope: LocalScope,
    pub(super) node: NodeIndex,
    pub(super) needs: Needs,
}

/// What must be true of the module for a call to matter.
#[derive(Clone, Copy)]
pub(super) enum Needs {
    Nothing,
    /// Something is bound to this name of [`Local::needed`].
    Bound(u32),
    /// A class is.
    Class(u32),
}

/// A name at the top of the file that is bound to a string.
pub(super) struct Text {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) node: NodeIndex,
    pub(super) bound_at: NodeIndex,
}

/// What one piece says.
pub(super) struct Local {
    /// The first is the module.
    pub(super) scopes: Vec<Scope>,
    /// In document order.
    pub(super) functions: Vec<Function>,
    pub(super) statements: Vec<Statement>,
    /// In document order.
    pub(super) calls: Vec<Call>,
    /// Names of the module that calls depend on, each once.
    pub(super) needed: Vec<String>,
    /// What the piece binds at the top of the file, in document order.
    pub(super) bound: Vec<(String, Bound)>,
    pub(super) texts: Vec<Text>,
    /// As [`super::SourceModel::imports`].
    pub(super) imports: Vec<String>,
    /// Bytes of the piece.
    pub(super) first_error: Option<Range<usize>>,
    /// Nodes of the bodies of `if __name__ == "__main__":`.
    pub(super) main_blocks: Vec<Range<NodeIndex>>,
}

impl Local {
    /// Whether a node lies under `if __name__ == "__main__":`.
    pub(super) fn in_main(&self, node: NodeIndex) -> bool {
        self.main_blocks.iter().any(|block| block.contains(&node))
    }

    /// The scope and those around it, up to the module.
    pub(super) fn chain(&self, from: LocalScope) -> impl Iterator<Item = (LocalScope, &Scope)> {
        let mut next = Some(from);
        std::iter::from_fn(move || {
            let id = next?;
            let scope = self.scopes.get(id as usize)?;
            next = (id != MODULE).then_some(scope.parent);
            Some((id, scope))
        })
    }

    /// Where a name is bound within the piece, as seen from a scope: classes are only seen from directly inside.
    pub(super) fn lookup(&self, from: LocalScope, name: &str) -> Option<(LocalScope, &[Bound])> {
        let mut chain = self.chain(from).take_while(|(id, _)| *id != MODULE);
        chain.find_map(|(id, scope)| {
            let visible = id == from || scope.kind != ScopeKind::Class;
            scope.names.get(name).filter(|_| visible).map(|bound| (id, bound.as_slice()))
        })
    }

    pub(super) fn enclosing_class(&self, from: LocalScope) -> Option<LocalScope> {
        self.chain(from).find(|(_, scope)| scope.kind == ScopeKind::Class).map(|(id, _)| id)
    }

    pub(super) fn statement(&self, node: NodeIndex) -> Option<&Statement> {
        let at = self.statements.binary_search_by_key(&node, |statement| statement.node).ok()?;
        self.statements.get(at)
    }
}

impl Scope {
    pub(super) fn new(kind: ScopeKind, parent: LocalScope, qualified: String) -> Self {
        Self {
            kind,
            parent,
            qualified,
            names: HashMap::new(),
            globals: HashSet::new(),
            attributes: HashMap::new(),
            bases: Vec::new(),
        }
    }
}
