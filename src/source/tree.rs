//! The syntax of one text: a sequence of pieces, one for each statement at the top of the file.
//!
//! A piece is parsed by itself, so an error in it costs only itself, and an edit costs the pieces that it
//! touches: the others are shared with the tree before. A tree is a function of its text alone, whatever was
//! shared.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use tree_sitter::{Language, Parser, TreeCursor};

use super::memo::Memo;
use super::split::split;

static LANGUAGE: LazyLock<Language> = LazyLock::new(|| tree_sitter_python::LANGUAGE.into());
static KINDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let known = (0..LANGUAGE.node_kind_count()).filter_map(|id| u16::try_from(id).ok());
    known.map(|id| LANGUAGE.node_kind_for_id(id).unwrap_or_default()).collect()
});
static FIELDS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let known = (0..=LANGUAGE.field_count()).filter_map(|id| u16::try_from(id).ok());
    known.map(|id| LANGUAGE.field_name_for_id(id).unwrap_or_default()).collect()
});

const NAMED: u8 = 1;
const MISSING: u8 = 2;
const ERROR: u8 = 4;
const HAS_ERROR: u8 = 8;
/// Instead of a parent or a piece: the root of the tree.
const ROOT: u32 = u32::MAX;

/// The syntax of one text.
#[derive(Clone, Default)]
pub struct Tree {
    pieces: Vec<Arc<Piece>>,
    /// Where each piece begins.
    starts: Vec<usize>,
    bytes: usize,
    /// Of them, those that were not shared with the tree before.
    fresh_bytes: usize,
}

/// One statement at the top of a file with what stands before the next one.
pub(super) struct Piece {
    text: Box<str>,
    /// In document order: the descendants of a node follow it.
    nodes: Box<[Raw]>,
    has_error: bool,
    /// What was derived from the piece alone.
    pub(super) memo: Memo,
}

/// One node. Offsets are bytes of the piece.
#[derive(Clone, Copy)]
struct Raw {
    start: u32,
    end: u32,
    /// Index behind the last descendant.
    after: u32,
    parent: u32,
    kind: u16,
    field: u16,
    flags: u8,
}

impl Tree {
    /// Parses Python.
    pub fn new(text: &str) -> Self {
        Self::default().updated(text)
    }

    /// The tree of another text, which is that of [`Self::new`]; what both texts have in common is shared.
    pub fn updated(&self, text: &str) -> Self {
        let ranges = split(text);
        let is_at = |piece: &Arc<Piece>, range: &Range<usize>| text.get(range.clone()) == Some(&*piece.text);
        let both = |(piece, range): (&Arc<Piece>, &Range<usize>)| is_at(piece, range);
        let head = self.pieces.iter().zip(&ranges).take_while(|pair| both(*pair)).count();
        let (old, new) = (&self.pieces[head..], &ranges[head..]);
        let tail = old.iter().rev().zip(new.iter().rev()).take_while(|pair| both(*pair)).count();
        let (moved, changed) = (&old[..old.len() - tail], &new[..new.len() - tail]);

        // A piece is in a tree once: its place in it is part of what identifies a node.
        let mut known: HashMap<&str, Vec<&Arc<Piece>>> = HashMap::new();
        moved.iter().for_each(|piece| known.entry(&piece.text).or_default().push(piece));
        let mut parser = Parser::new();
        // Fails only for a grammar of another version of tree-sitter, which a test excludes.
        let _ = parser.set_language(&LANGUAGE);
        let mut fresh_bytes = 0;
        let mut pieces = self.pieces[..head].to_vec();
        pieces.extend(changed.iter().map(|range| {
            let text = text.get(range.clone()).unwrap_or_default();
            let known = known.get_mut(text).and_then(Vec::pop);
            known.map_or_else(
                || {
                    fresh_bytes += text.len();
                    Arc::new(Piece::parse(text, &mut parser))
                },
                Arc::clone,
            )
        }));
        pieces.extend_from_slice(&old[old.len() - tail..]);
        let starts = ranges.iter().map(|range| range.start).collect();
        Self { pieces, starts, bytes: text.len(), fresh_bytes }
    }

    /// How much of the text had to be parsed, the rest being that of the tree before.
    pub fn fresh_bytes(&self) -> usize {
        self.fresh_bytes
    }

    pub(crate) fn root_node(&self) -> Node<'_> {
        Node { tree: self, piece: ROOT, index: 0 }
    }

    pub(super) fn pieces(&self) -> &[Arc<Piece>] {
        &self.pieces
    }

    pub(super) fn piece(&self, place: usize) -> Option<&Piece> {
        self.pieces.get(place).map(|piece| &**piece)
    }

    /// Where a piece begins.
    pub(super) fn start(&self, place: usize) -> usize {
        self.starts.get(place).copied().unwrap_or(self.bytes)
    }

    pub(super) fn node(&self, place: usize, index: u32) -> Node<'_> {
        Node { tree: self, piece: u32::try_from(place).unwrap_or(ROOT), index }
    }

    /// The nodes of a piece that are children of the root.
    pub(super) fn statements(&self, place: usize) -> impl Iterator<Item = Node<'_>> {
        let is_here = move |node: &Node<'_>| node.piece as usize == place;
        std::iter::successors(self.first_from(place), Node::next_sibling).take_while(is_here)
    }

    /// Whether something holds of a piece of the text; it is worked out once for each, and remembered by its type.
    pub(crate) fn any_piece<T: Send + Sync + 'static>(
        &self,
        work: impl Fn(&str) -> T,
        holds: impl Fn(&T) -> bool,
    ) -> bool {
        self.pieces.iter().any(|piece| holds(&piece.memo.of_text(|| work(&piece.text))))
    }

    pub(super) fn has_error(&self) -> bool {
        self.pieces.iter().any(|piece| piece.has_error)
    }

    /// The first node at or behind the beginning of a piece.
    fn first_from(&self, piece: usize) -> Option<Node<'_>> {
        let piece = (piece..self.pieces.len()).find(|piece| !self.pieces[*piece].nodes.is_empty())?;
        Some(Node { tree: self, piece: u32::try_from(piece).ok()?, index: 0 })
    }
}

impl Piece {
    fn parse(text: &str, parser: &mut Parser) -> Self {
        let tree = parser.parse(text, None);
        let mut nodes = Vec::new();
        let mut has_error = true;
        if let Some(tree) = &tree {
            let mut cursor = tree.walk();
            has_error = cursor.node().has_error();
            // The module itself is that of the whole text; nothing but an error stands in its place.
            if cursor.node().kind() != "module" || cursor.goto_first_child() {
                collect(&mut cursor, &mut nodes);
            }
        }
        Self { text: text.into(), nodes: nodes.into(), has_error, memo: Memo::default() }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn has_error(&self) -> bool {
        self.has_error
    }
}

/// The nodes from that of the cursor on, with its siblings and all that is below them.
fn collect(cursor: &mut TreeCursor<'_>, nodes: &mut Vec<Raw>) {
    let mut open: Vec<u32> = Vec::new();
    let offset = |byte: usize| u32::try_from(byte).unwrap_or(u32::MAX);
    loop {
        let node = cursor.node();
        let flag = |is: bool, flag: u8| if is { flag } else { 0 };
        let index = offset(nodes.len());
        nodes.push(Raw {
            start: offset(node.start_byte()),
            end: offset(node.end_byte()),
            after: index + 1,
            parent: open.last().copied().unwrap_or(ROOT),
            kind: node.kind_id(),
            field: cursor.field_id().map_or(0, std::num::NonZero::get),
            flags: flag(node.is_named(), NAMED)
                | flag(node.is_missing(), MISSING)
                | flag(node.is_error(), ERROR)
                | flag(node.has_error(), HAS_ERROR),
        });
        if cursor.goto_first_child() {
            open.push(index);
            continue;
        }
        while !cursor.goto_next_sibling() {
            let Some(closed) = open.pop() else { return };
            nodes[closed as usize].after = offset(nodes.len());
            cursor.goto_parent();
        }
    }
}

/// A node of a tree. Ranges are bytes of the whole text.
#[derive(Clone, Copy)]
pub(crate) struct Node<'tree> {
    tree: &'tree Tree,
    piece: u32,
    index: u32,
}

impl<'tree> Node<'tree> {
    fn raw(&self) -> Option<&'tree Raw> {
        self.tree.pieces.get(self.piece as usize)?.nodes.get(self.index as usize)
    }

    fn at(&self, index: u32) -> Self {
        Self { index, ..*self }
    }

    fn is(&self, flag: u8) -> bool {
        self.raw().is_some_and(|raw| raw.flags & flag != 0)
    }

    /// Of the nodes of one tree no two have the same.
    pub(crate) fn id(&self) -> u64 {
        u64::from(self.piece) << 32 | u64::from(self.index)
    }

    /// `None` of the root.
    pub(super) fn memo(&self) -> Option<&'tree Memo> {
        self.tree.pieces.get(self.piece as usize).map(|piece| &piece.memo)
    }

    /// The place of its piece among those of the tree.
    pub(super) fn piece(&self) -> u32 {
        self.piece
    }

    /// Its place in its piece, where its descendants follow it.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    /// The index behind its last descendant.
    pub(super) fn after(&self) -> u32 {
        self.raw().map_or(0, |raw| raw.after)
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self.raw() {
            Some(raw) => KINDS.get(usize::from(raw.kind)).copied().unwrap_or("ERROR"),
            None => "module",
        }
    }

    pub(super) fn kind_id(&self) -> u16 {
        self.raw().map_or(0, |raw| raw.kind)
    }

    pub(crate) fn is_named(&self) -> bool {
        self.piece == ROOT || self.is(NAMED)
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.is(MISSING)
    }

    pub(crate) fn is_error(&self) -> bool {
        self.is(ERROR)
    }

    pub(crate) fn has_error(&self) -> bool {
        if self.piece == ROOT { self.tree.has_error() } else { self.is(HAS_ERROR) }
    }

    pub(crate) fn byte_range(&self) -> Range<usize> {
        let Some(raw) = self.raw() else { return 0..self.tree.bytes };
        let start = self.tree.starts[self.piece as usize];
        start + raw.start as usize..start + raw.end as usize
    }

    pub(crate) fn start_byte(&self) -> usize {
        self.byte_range().start
    }

    pub(crate) fn end_byte(&self) -> usize {
        self.byte_range().end
    }

    pub(crate) fn parent(&self) -> Option<Self> {
        match self.raw()?.parent {
            ROOT => Some(self.tree.root_node()),
            parent => Some(self.at(parent)),
        }
    }

    pub(super) fn first_child(&self) -> Option<Self> {
        match self.raw() {
            Some(raw) => (raw.after > self.index + 1).then(|| self.at(self.index + 1)),
            None => self.tree.first_from(0),
        }
    }

    pub(super) fn next_sibling(&self) -> Option<Self> {
        let raw = self.raw()?;
        let next = self.at(raw.after);
        match next.raw() {
            Some(next_raw) => (next_raw.parent == raw.parent).then_some(next),
            None if raw.parent == ROOT => self.tree.first_from(self.piece as usize + 1),
            None => None,
        }
    }

    /// All children, also those without a name of their own.
    pub(crate) fn all_children(&self) -> impl Iterator<Item = Self> + use<'tree> {
        std::iter::successors(self.first_child(), Self::next_sibling)
    }

    pub(crate) fn named_children(&self) -> impl Iterator<Item = Self> + use<'tree> {
        self.all_children().filter(Self::is_named)
    }

    pub(crate) fn named_child(&self, position: usize) -> Option<Self> {
        self.named_children().nth(position)
    }

    pub(crate) fn has_children(&self) -> bool {
        self.first_child().is_some()
    }

    pub(crate) fn child_by_field_name(&self, name: &str) -> Option<Self> {
        self.children_by_field_name(name).next()
    }

    pub(crate) fn children_by_field_name<'name>(
        &self,
        name: &'name str,
    ) -> impl Iterator<Item = Self> + use<'tree, 'name> {
        self.all_children().filter(move |child| child.field_name() == name)
    }

    pub(crate) fn field_name(&self) -> &'static str {
        let field = self.raw().map_or(0, |raw| usize::from(raw.field));
        FIELDS.get(field).copied().unwrap_or_default()
    }

    /// The smallest node that holds these bytes.
    pub(crate) fn descendant_for_byte_range(&self, start: usize, end: usize) -> Option<Self> {
        let mut smallest = match self.piece {
            ROOT => {
                let piece = self.tree.starts.partition_point(|begins| *begins <= start).checked_sub(1)?;
                let is_here = |node: &Self| node.piece as usize == piece && node.holds(start, end);
                let from = self.tree.first_from(piece);
                match std::iter::successors(from, Self::next_sibling).find(is_here) {
                    Some(node) => node,
                    None => return Some(*self),
                }
            }
            _ => *self,
        };
        while let Some(child) = smallest.all_children().find(|child| child.holds(start, end)) {
            smallest = child;
        }
        Some(smallest)
    }

    fn holds(&self, start: usize, end: usize) -> bool {
        let range = self.byte_range();
        let reaches = if range.is_empty() { range.end >= start } else { range.end > start };
        range.start <= start && end <= range.end && reaches
    }
}

impl std::fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.kind(), self.byte_range())
    }
}
