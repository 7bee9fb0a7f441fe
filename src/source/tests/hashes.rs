//! What changes a content hash and what does not.

use super::{kernel, parse};

const FILE: &str = r#"
import triton
import triton.language as tl
from .math import fast_exp

SCALE = tl.constexpr(2)
UNRELATED = 1
CONFIGS = []
for block in (64, 128):
    CONFIGS.append(triton.Config({"BLOCK": block}))

def configs():
    return CONFIGS

@triton.jit
def deepest(x):
    return x * SCALE

@triton.jit
def helper(x):
    """Doubles."""
    return deepest(x) + fast_exp(x)

@triton.autotune(configs=configs(), key=["n"])
@triton.jit
def kernel(x, n, BLOCK: tl.constexpr):
    """What it does."""
    offsets = tl.arange(0, BLOCK)  # lanes
    if n > 0:
        x += 1
        x += 2
    tl.store(x + offsets, helper(offsets))

@triton.jit
def bystander(x):
    pass

def run(x):
    n = 5
    kernel[(1,)](x, n)

def make(width):
    rounding = width + 1
    @triton.jit
    def nested(x):
        tl.store(x, rounding)
    return nested

if __name__ == "__main__":
    SCALE = 3
"#;

fn hash(text: &str, id: &str) -> String {
    let model = parse(text);
    assert_eq!(model.first_error, None, "{text}");
    kernel(&model, id).content_hash.clone()
}

fn edited(from: &str, to: &str) -> String {
    assert_eq!(FILE.matches(from).count(), 1, "{from}");
    FILE.replace(from, to)
}

#[test]
fn edits_without_meaning_keep_the_hash() {
    let edits = [
        ("# lanes", "# other words"),
        ("  # lanes", ""),
        ("offsets = tl.arange(0, BLOCK)", "# a comment\n\n    offsets  =  tl.arange( 0,\n        BLOCK )"),
        ("\"\"\"What it does.\"\"\"", "'''Other words.'''"),
        ("    \"\"\"Doubles.\"\"\"\n", ""),
        ("UNRELATED = 1", "UNRELATED = 2"),
        ("def bystander(x):\n    pass", "def bystander(x):\n    x += 1"),
        ("    n = 5", "    n = 6"),
        ("    SCALE = 3", "    SCALE = 4"),
        ("\nimport triton\n", "\n\n# moved\n\n\nimport triton\n"),
    ];
    let before = hash(FILE, "kernel");
    for (from, to) in edits {
        assert_eq!(hash(&edited(from, to), "kernel"), before, "{from} → {to}");
    }
    assert_eq!(hash(&FILE.replace('\n', "\r\n"), "kernel"), before, "line ends");
}

#[test]
fn edits_with_meaning_change_the_hash() {
    let edits = [
        ("if n > 0", "if n > 1"),
        ("        x += 2\n", "    x += 2\n"),
        ("return deepest(x) + fast_exp(x)", "return deepest(x)"),
        ("return x * SCALE", "return x + SCALE"),
        ("SCALE = tl.constexpr(2)", "SCALE = tl.constexpr(4)"),
        ("(64, 128)", "(64, 256)"),
        ("return CONFIGS", "return CONFIGS[:1]"),
        ("from .math import fast_exp", "from .other import fast_exp"),
        ("key=[\"n\"]", "key=[]"),
        ("n, BLOCK: tl.constexpr", "n, BLOCK"),
        ("UNRELATED = 1", "SCALE = 5"),
        ("UNRELATED = 1", "CONFIGS.clear()"),
    ];
    let before = hash(FILE, "kernel");
    for (from, to) in edits {
        assert_ne!(hash(&edited(from, to), "kernel"), before, "{from} → {to}");
    }
}

#[test]
fn a_nested_kernel_rests_on_the_function_around_it() {
    let before = hash(FILE, "make.nested");
    assert_ne!(hash(&edited("rounding = width + 1", "rounding = width + 2"), "make.nested"), before);
    assert_eq!(hash(&edited("if n > 0", "if n > 1"), "make.nested"), before);
}

/// The variable of a comprehension is no name of the module: kernels that each have one of the same name have
/// nothing to do with one another.
#[test]
fn variables_of_comprehensions_are_no_names_of_the_module() {
    let kernel = |name: &str, sizes: &str| {
        let configs = format!("[triton.Config({{'BLOCK': block}}) for block in {sizes}]");
        format!("@triton.autotune({configs}, key=[])\n@triton.jit\ndef {name}(x, BLOCK):\n    pass\n\n")
    };
    let text = |one: &str, other: &str| format!("import triton\n{}{}", kernel("a", one), kernel("b", other));
    let before = text("(64,)", "(64,)");
    assert_eq!(hash(&before, "a"), hash(&text("(64,)", "(128,)"), "a"));
    assert_ne!(hash(&before, "b"), hash(&text("(64,)", "(128,)"), "b"));
    let names = |text: &str| parse(text).bindings.into_iter().map(|binding| binding.name).collect::<Vec<_>>();
    assert_eq!(names(&before), ["triton"]);
    // But what is assigned within one is.
    assert_eq!(names("x = [y := i for i in range(3)]"), ["x", "y"]);
}

#[test]
fn text_inside_strings_counts() {
    let with = |text: &str| hash(&format!("import triton\n@triton.jit\ndef k(x):\n    f(x, {text})\n"), "k");
    assert_ne!(with("'a\\n#b'"), with("'a\\n#c'"));
    assert_ne!(with("'a  b'"), with("'a b'"));
    assert_ne!(with("f'a{x}'"), with("f'a{y}'"));
}
