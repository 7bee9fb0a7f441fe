//! A valid text is taken apart between statements only, so its tree is that of the whole.

use std::fs;
use std::path::PathBuf;

use super::super::syntax::{Node, first_error, parse_tree};
use super::super::tree::Tree;
use super::ids;

fn compare(whole: tree_sitter::Node<'_>, ours: Node<'_>, name: &str) {
    assert_eq!((whole.kind(), whole.byte_range()), (ours.kind(), ours.byte_range()), "{name}");
    compare_children(whole, ours, name);
}

fn compare_children(whole: tree_sitter::Node<'_>, ours: Node<'_>, name: &str) {
    let mut cursor = whole.walk();
    let expected: Vec<_> = whole.children(&mut cursor).collect();
    let found: Vec<_> = ours.all_children().collect();
    assert_eq!(expected.len(), found.len(), "{name}: {ours:?}");
    for (at, (expected, found)) in (0..).zip(expected.into_iter().zip(found)) {
        let field = whole.field_name_for_child(at).unwrap_or_default();
        assert_eq!(
            (field, Some(ours.id())),
            (found.field_name(), found.parent().map(|node| node.id())),
            "{name}"
        );
        compare(expected, found, name);
    }
}

#[track_caller]
fn is_that_of_the_whole(text: &str, name: &str) {
    let mut parser = tree_sitter::Parser::new();
    parser.set_language(&tree_sitter_python::LANGUAGE.into()).expect("the grammar");
    let whole = parser.parse(text, None).expect("a tree");
    assert!(!whole.root_node().has_error(), "{name} is meant to be valid");
    let ours = Tree::new(text);
    assert!(!ours.root_node().has_error(), "{name}");
    compare_children(whole.root_node(), ours.root_node(), name);
}

#[test]
fn the_tree_of_a_valid_text_is_that_of_the_whole() {
    let texts = [
        "",
        "\n\n",
        "# only a comment",
        "\u{feff}import a\nimport b\n",
        "x = 1; y = 2\nz = 3",
        "@a\n# between\n\n@b(\n  1,\n)\ndef f(): pass\nx\n",
        "if a:\n    b\n# comment\nelif c:\n    d\nelse:\n    e\nf\n",
        "try:\n    a\nexcept B:\n    c\nelse:\n    d\nfinally:\n    e\nwhile a: b\nelse: c\n",
        "x = (a\n@ b)\ny = [\n1,\n2]\nz = 1\n",
        "x = f(a,\nb=1,\ndefault=2, classes=3)\ny\n",
        "x = '''\ndef f(:\n''' + \"\"\"\nclass\n\"\"\"\ny = 'it\\'s'\nz\n",
        "x = a + \\\nb\ny = 'a\\\ndef'\nz\n",
        "async def f():\n    await g()\nclass C(\nD):\n    pass\nprint\n",
        "def f():\n    pass\n# at the edge\n    # inside\n    x = 1\ny\n",
        "x = {'a': [(1)]}\r\ndef f():\r\n    return x\r\ny = \"\"\"\r\n\"\"\"\r\n",
        "match x:\n    case 1:\n        pass\nlambda: 0\n\"docstring\"\n(a)\n-b\nc\n",
        "\x0cdef f(): pass\n\x0cdef g(): pass\n",
        "é = '日本 😀'\nñ = é\n",
        "x = f'{a[\"b\"]!r:{w}} {{' + rb'\\\\'\ny = f'''{\na}'''\nz\n",
    ];
    for text in texts {
        is_that_of_the_whole(text, text);
    }
    let mut read = 0;
    let mut folders = ["kernels", "tests", "src"]
        .map(|folder| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder))
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "py")
                && let Ok(text) = fs::read_to_string(&path)
                && !text.contains("def broken(")
            {
                is_that_of_the_whole(&text, &path.to_string_lossy());
                read += 1;
            }
        }
    }
    assert!(read > 100, "{read} files");
}

/// What is broken ends where the next definition begins.
#[test]
fn an_error_costs_its_own_statement_only() {
    let kernel = |name: &str| {
        format!("@triton.autotune(\n    key=[\n    ],\n)\n@triton.jit\ndef {name}(x):\n    pass\n\n")
    };
    for broken in
        ["x = foo(", "x = [1, {", "def f(a,", "@dec(", "x = 'abc", "class", "f(\n)]\n", "if x:\n  y = \n"]
    {
        let text = format!("import triton\n{}{broken}\n{}{}", kernel("a"), kernel("b"), kernel("c"));
        let model = super::parse(&text);
        assert_eq!(ids(&model), ["a", "b", "c"], "{broken}");
        let error = model.first_error.expect("an error");
        let start = text.find(broken).expect("there");
        assert!(start <= error.start && error.end <= start + broken.len() + 1, "{broken}: {error:?}");
    }
}

#[test]
fn nodes_are_found_by_their_bytes() {
    let text = "x = 1\ndef f(a):\n    return a\n# end\n";
    let tree = parse_tree(text);
    let root = tree.root_node();
    for (wanted, kind) in
        [("x", "identifier"), ("1", "integer"), ("return a", "return_statement"), ("# end", "comment")]
    {
        let at = text.find(wanted).expect("there");
        let node = root.descendant_for_byte_range(at, at + wanted.len()).expect("a node");
        assert_eq!((node.kind(), &text[node.byte_range()]), (kind, wanted));
    }
    let across = root.descendant_for_byte_range(2, 20).expect("a node");
    assert_eq!((across.kind(), across.byte_range()), ("module", 0..text.len()));
    assert_eq!(first_error(root), None);
}
