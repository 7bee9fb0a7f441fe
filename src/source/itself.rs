//! Whether what a text does depends on nothing but itself and the packages that it imports by name.

use tree_sitter::{Node, Parser};

use super::SourceModel;

/// Names that reach for files, variables, other modules, the clock or chance, wherever they are bound; `os` and `sys` among
/// them, which are steady as modules and not in what they tell.
const REACHING: [&str; 48] = [
    "DataSource",
    "__builtins__",
    "__dict__",
    "__file__",
    "__globals__",
    "__import__",
    "__loader__",
    "__path__",
    "__self__",
    "__spec__",
    "attrgetter",
    "breakpoint",
    "builtins",
    "cpp_extension",
    "ctypeslib",
    "datetime64",
    "environ",
    "eval",
    "exec",
    "from_buffer",
    "from_file",
    "fromfile",
    "fromregex",
    "genfromtxt",
    "getattr",
    "getenv",
    "globals",
    "hub",
    "import_module",
    "importlib",
    "input",
    "load_library",
    "load_state_dict_from_url",
    "loadtxt",
    "locals",
    "memmap",
    "methodcaller",
    "open",
    "open_memmap",
    "os",
    "rand",
    "randint",
    "randn",
    "random",
    "randperm",
    "serialization",
    "sys",
    "vars",
];

/// Where a text does not parse, or may reach for something else, the answer is no.
pub fn rests_on_itself(text: &str, model: &SourceModel) -> bool {
    if model.unsteady_imports().next().is_some() {
        return false;
    }
    let mut parser = Parser::new();
    let tree = match parser.set_language(&tree_sitter_python::LANGUAGE.into()) {
        Ok(()) => parser.parse(text, None),
        Err(_) => None,
    };
    let Some(tree) = tree.filter(|tree| !tree.root_node().has_error()) else { return false };
    let mut cursor = tree.root_node().walk();
    loop {
        if cursor.node().kind() == "identifier" && reaches(cursor.node(), text) {
            return false;
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return true;
            }
        }
    }
}

fn reaches(name: Node<'_>, text: &str) -> bool {
    let words = |node: Node<'_>| text.get(node.byte_range()).unwrap_or_default();
    match words(name) {
        // `tl.load` is of a kernel; `torch.load`, `np.load` and a bare one read files.
        "load" => {
            let object = name.parent().filter(|parent| parent.kind() == "attribute");
            let object = object.and_then(|parent| parent.child_by_field_name("object")).map(words);
            !object
                .is_some_and(|object| object == "triton.language" || (object == "tl" && tl_is_tritons(text)))
        }
        // Python takes other characters for the ASCII ones that they look like.
        word => !word.is_ascii() || REACHING.contains(&word),
    }
}

/// Whether `tl` is `triton.language` wherever it stands: each is a member's, `tl.…`, or the name of that import.
fn tl_is_tritons(text: &str) -> bool {
    let is_of_name = |c: char| c == '_' || c.is_alphanumeric();
    let words = text.match_indices("tl").filter(|(at, word)| {
        !text[..*at].ends_with(is_of_name) && !text[at + word.len()..].starts_with(is_of_name)
    });
    let is_import =
        |before: &str| ["triton.language as ", "import language as "].iter().any(|of| before.ends_with(of));
    let mut words = words.map(|(at, word)| (&text[..at], &text[at + word.len()..]));
    words.all(|(before, after)| after.starts_with('.') || is_import(before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::parse;

    fn is_alone(text: &str) -> bool {
        rests_on_itself(text, &parse(text))
    }

    #[test]
    fn a_kernel_of_torch_and_triton_rests_on_itself() {
        let text = "import math\nimport torch\nimport triton\nimport triton.language as tl\n\
                    @triton.jit\ndef k(x, y, N: tl.constexpr):\n    # open the door, load it\n    \
                    tl.store(y, tl.load(x))\n\ndef f(x):\n    'open, eval'\n    y = torch.empty_like(x)\n    \
                    k[(1,)](x, y, math.ceil(4))\n    return y\n";
        assert!(is_alone(text));
        assert!(is_alone(&text.replace("tl.load", "triton.language.load")));
    }

    #[test]
    fn what_reaches_for_something_else_does_not() {
        for line in [
            "import helpers",
            "from . import helpers",
            "from .helpers import f",
            "import os",
            "import sys",
            "import numpy as np; w = np.load('w.npy')",
            "import torch; w = torch.load('w.pt')",
            "from torch import load; w = load('w.pt')",
            "import numpy; w = numpy.fromfile('w')",
            "w = open('w').read()",
            "m = __import__('helpers')",
            "import importlib; m = importlib.import_module('helpers')",
            "exec(text)",
            "x = eval('1')",
            "from torch.utils import cpp_extension",
            "import torch; torch.ops.load_library('x.so')",
            "import torch; m = torch.hub.get_dir()",
            "import torch; w = torch.from_file('w', size=1)",
            "import torch as tl; w = tl.load('w')",
            "import torch; tl = torch; w = tl.load('w')",
            "from torch import library as tl; w = tl.load('w')",
            "import torch; f = lambda tl=torch: tl.load('w')",
            "import numpy as gl; w = gl.load('w')",
            "import torch; w = getattr(torch, 'lo' + 'ad')('w')",
            "w = print.__self__.__dict__['op' + 'en']('w')",
            "w = \u{ff4f}\u{ff50}\u{ff45}\u{ff4e}('w')",
            "import torch; scale = torch.rand(1)",
            "import random",
            "import time",
            "n = f'{open(1)}'",
            "def broken(:",
        ] {
            assert!(!is_alone(&format!("import triton\n{line}\n")), "{line}");
        }
    }
}
