//! What every part of this room needs from tree-sitter: parsing, errors, lines, walks without recursion.

use std::ops::Range;

pub(crate) use super::tree::Node;
use super::tree::Tree;

/// Parses Python.
pub(crate) fn parse_tree(text: &str) -> Tree {
    Tree::new(text)
}

/// Bytes of the first place where tree-sitter had to skip or invent something.
pub(crate) fn first_error(root: Node<'_>) -> Option<Range<usize>> {
    if !root.has_error() {
        return None;
    }
    let mut found = None;
    walk(root, |node| {
        if found.is_some() || !(node.has_error() || node.is_missing()) {
            return Walk::Skip;
        }
        if node.is_error() || node.is_missing() {
            found = Some(node.byte_range());
            return Walk::Skip;
        }
        Walk::Into
    });
    found.or_else(|| Some(root.byte_range()))
}

/// Whether a walk visits the children of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    Into,
    Skip,
}

/// Visits `root` and what is below it in document order. Iterative: generated or broken code nests
/// deeper than a stack.
pub(crate) fn walk<'tree>(root: Node<'tree>, mut enter: impl FnMut(Node<'tree>) -> Walk) {
    walk_with_leave(root, &mut |step| match step {
        Step::Enter(node) => enter(node),
        Step::Leave(_) => Walk::Skip,
    });
}

/// One step of [`walk_with_leave`].
pub(crate) enum Step<'tree> {
    Enter(Node<'tree>),
    /// Comes once for each entered node, also for those whose children are skipped.
    Leave(Node<'tree>),
}

/// As [`walk`], telling also when a node is left.
pub(crate) fn walk_with_leave<'tree>(root: Node<'tree>, visit: &mut impl FnMut(Step<'tree>) -> Walk) {
    let mut node = root;
    loop {
        if visit(Step::Enter(node)) == Walk::Into
            && let Some(child) = node.first_child()
        {
            node = child;
            continue;
        }
        loop {
            visit(Step::Leave(node));
            if node.id() == root.id() {
                return;
            }
            if let Some(sibling) = node.next_sibling() {
                node = sibling;
                break;
            }
            let Some(parent) = node.parent() else { return };
            node = parent;
        }
    }
}

/// The text of a node.
pub(crate) fn text_of<'text>(node: Node<'_>, text: &'text str) -> &'text str {
    text.get(node.byte_range()).unwrap_or_default()
}

/// The named children of a node, comments left out.
pub(crate) fn children<'tree>(node: Node<'tree>) -> Vec<Node<'tree>> {
    node.named_children().filter(|child| child.kind() != "comment").collect()
}

/// The 1-based line of a byte; a byte past the end belongs to the last line. Lines end as Python and
/// LSP say: with `\n`, `\r\n` or `\r`.
pub fn line_of(text: &str, byte: usize) -> u32 {
    let before = &text.as_bytes()[..byte.min(text.len())];
    let breaks = before.iter().enumerate().filter(|&(at, &b)| match b {
        b'\n' => true,
        b'\r' => text.as_bytes().get(at + 1) != Some(&b'\n'),
        _ => false,
    });
    u32::try_from(breaks.count()).unwrap_or(u32::MAX - 1) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_loads() {
        assert!(!parse_tree("x = 1\n").root_node().has_error());
    }

    #[test]
    fn lines_are_counted_as_python_counts_them() {
        let text = "a\r\nb\rc\nd";
        let line_of_letter = |letter| line_of(text, text.find(letter).expect("present"));
        assert_eq!(['a', 'b', 'c', 'd'].map(line_of_letter), [1, 2, 3, 4]);
        assert_eq!(line_of(text, 1_000), 4);
        assert_eq!(line_of("", 0), 1);
    }

    #[test]
    fn the_first_error_is_found() {
        let text = "x = 1\ny = = 2\nz = (\n";
        let tree = parse_tree(text);
        let range = first_error(tree.root_node()).expect("has an error");
        assert_eq!(line_of(text, range.start), 2);
        assert_eq!(first_error(parse_tree("x = 1\n").root_node()), None);
    }
}
