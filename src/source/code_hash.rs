//! What of a Python text can change the verdict.

use super::syntax::{Node, Step, Walk, walk_with_leave};
use super::tree::Tree;

/// Which comments are code.
#[derive(Clone, Copy)]
enum Comments {
    /// None.
    Ignored,
    /// Those addressed to warpsmith.
    Ours,
}

/// A hash that stays the same when only comments, blank lines or spacing between tokens changed.
///
/// It covers the whole file, not one kernel: the function around a launch decides grid and arguments, so
/// a verdict on a kernel is old as soon as that function changed. Comments addressed to warpsmith count.
/// A text that does not parse is hashed as it stands.
pub fn code_hash(text: &str) -> blake3::Hash {
    Tree::new(text).code_hash()
}

/// Whether two texts differ in comments, blank lines and spacing only. Comments addressed to warpsmith do not count
/// either: they say what is right and do nothing.
pub fn is_same_code(one: &str, other: &str) -> bool {
    hash_with(&Tree::new(one), Comments::Ignored) == hash_with(&Tree::new(other), Comments::Ignored)
}

impl Tree {
    /// [`code_hash`] of its text.
    pub fn code_hash(&self) -> blake3::Hash {
        hash_with(self, Comments::Ours)
    }
}

fn hash_with(tree: &Tree, comments: Comments) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    let is_broken = tree.has_error();
    for place in 0..tree.pieces().len() {
        let Some(piece) = tree.piece(place) else { continue };
        if is_broken {
            hasher.update(piece.text().as_bytes());
            continue;
        }
        let memo = &piece.memo.code[comments as usize];
        // A piece without code is none.
        if let Some(hash) = memo.get_or_init(|| hash_piece(tree, place, comments)) {
            hasher.update(hash.as_bytes());
        }
    }
    hasher.finalize()
}

/// Every node as `(kind …)`, every leaf with its text, and what stands between leaves without being blank.
/// `None` where there is no code.
fn hash_piece(tree: &Tree, place: usize, comments: Comments) -> Option<blake3::Hash> {
    let (text, start) = (tree.piece(place)?.text(), tree.start(place));
    let bytes = |range: std::ops::Range<usize>| text.as_bytes().get(range).unwrap_or_default();
    let mut hasher = blake3::Hasher::new();
    let mut hashed_to = 0;
    let mut is_empty = true;
    let is_left_out = |node: Node<'_>| {
        let range = node.start_byte() - start..node.end_byte() - start;
        node.kind() == "comment"
            && !matches!(comments, Comments::Ours if contains(bytes(range), b"warpsmith"))
    };
    for statement in tree.statements(place) {
        walk_with_leave(statement, &mut |step| {
            let node = match step {
                Step::Enter(node) => node,
                Step::Leave(node) => {
                    if !is_left_out(node) {
                        hasher.update(b")");
                    }
                    return Walk::Skip;
                }
            };
            let range = node.start_byte() - start..node.end_byte() - start;
            if is_left_out(node) {
                hashed_to = range.end;
                return Walk::Skip;
            }
            is_empty = false;
            hasher.update(b"(").update(&node.kind_id().to_le_bytes());
            // Not every byte of a string belongs to one of its child nodes, and its blanks count.
            if node.kind() != "string" && node.has_children() {
                return Walk::Into;
            }
            let between = bytes(hashed_to..range.start);
            let between: Vec<u8> =
                between.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
            hash_bytes(&between, &mut hasher);
            hash_bytes(bytes(range.clone()), &mut hasher);
            hashed_to = range.end;
            Walk::Skip
        });
    }
    (!is_empty).then(|| hasher.finalize())
}

fn hash_bytes(bytes: &[u8], hasher: &mut blake3::Hasher) {
    hasher.update(&bytes.len().to_le_bytes()).update(bytes);
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "def f(x):\n    if x:\n        y = '# no comment'\n    return y\n";

    #[test]
    fn comments_and_blank_lines_do_not_count() {
        let edited = "# new\ndef f(x):  # why\n\n    if x:\n        y = '# no comment'\n    return y\n";
        assert_eq!(code_hash(CODE), code_hash(edited));
    }

    #[test]
    fn our_comments_are_no_code() {
        let described = CODE.replace("def f", "# warpsmith: x=f32[N] N=5\ndef f");
        assert!(is_same_code(CODE, &described) && is_same_code(CODE, &CODE.replace('\n', "\r\n")));
        assert!(!is_same_code(CODE, &CODE.replace("return y", "return x")));
    }

    #[test]
    fn code_strings_and_indentation_count() {
        for edited in [
            CODE.replace("no comment", "another"),
            CODE.replace("    return", "        return"),
            CODE.replace("return y", "return x"),
            CODE.replace("def f(x):", "def f(x):\n    # warpsmith: ref=torch.relu"),
            CODE.replace("def f(x):", "def f(x:"),
        ] {
            assert_ne!(code_hash(CODE), code_hash(&edited), "{edited}");
        }
    }

    #[test]
    fn every_byte_of_a_string_counts() {
        for (one, other) in [("'a\\nb'", "'a\\nc'"), ("'\\n \\n'", "'\\n  \\n'"), ("f'{x} '", "f'{x}  '")] {
            assert_ne!(code_hash(one), code_hash(other), "{one}");
        }
    }

    #[test]
    fn broken_and_deep_texts_are_hashed_too() {
        assert_ne!(code_hash("def f(:"), code_hash("def f(: "));
        let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
        assert_eq!(code_hash(&deep), code_hash(&format!("{deep} # c")));
    }
}
