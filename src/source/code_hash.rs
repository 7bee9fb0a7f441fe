//! What of a Python text can change the verdict.

use tree_sitter::{Node, Parser};

/// A hash that stays the same when only comments, blank lines or spacing between tokens changed.
///
/// It covers the whole file, not one kernel: the function around a launch decides grid and arguments, so
/// a verdict on a kernel is old as soon as that function changed. Comments addressed to warpsmith count.
/// A text that does not parse is hashed as it stands.
pub fn code_hash(text: &str) -> blake3::Hash {
    hash_with(text, |comment| contains(comment, b"warpsmith"))
}

/// Whether two texts differ in comments, blank lines and spacing only. Comments addressed to warpsmith do not count
/// either: they say what is right and do nothing.
pub fn is_same_code(one: &str, other: &str) -> bool {
    hash_with(one, |_| false) == hash_with(other, |_| false)
}

fn hash_with(text: &str, counts: fn(&[u8]) -> bool) -> blake3::Hash {
    let mut parser = Parser::new();
    let tree = match parser.set_language(&tree_sitter_python::LANGUAGE.into()) {
        Ok(()) => parser.parse(text, None),
        Err(_) => None,
    };
    match tree {
        Some(tree) if !tree.root_node().has_error() => {
            let mut hasher = blake3::Hasher::new();
            hash_tree(tree.root_node(), text.as_bytes(), counts, &mut hasher);
            hasher.finalize()
        }
        _ => blake3::hash(text.as_bytes()),
    }
}

/// Every node as `(kind …)`, every leaf with its text, and what stands between leaves without being
/// blank. A walk with a cursor: depth is not recursion.
fn hash_tree(root: Node<'_>, text: &[u8], counts: fn(&[u8]) -> bool, hasher: &mut blake3::Hasher) {
    let mut cursor = root.walk();
    let mut hashed_to = 0;
    loop {
        let node = cursor.node();
        let range = node.byte_range();
        if node.kind() == "comment" && !counts(&text[range.clone()]) {
            hashed_to = range.end;
        } else {
            hasher.update(b"(").update(&node.kind_id().to_le_bytes());
            // Not every byte of a string belongs to one of its child nodes, and its blanks count.
            if node.kind() != "string" && cursor.goto_first_child() {
                continue;
            }
            let between = text.get(hashed_to..range.start).unwrap_or_default();
            hash_bytes(
                &between.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect::<Vec<_>>(),
                hasher,
            );
            hash_bytes(&text[range.clone()], hasher);
            hashed_to = range.end;
            hasher.update(b")");
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
            hasher.update(b")");
        }
    }
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
