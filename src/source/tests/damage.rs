//! Broken code: what can be saved is, and nothing panics.

use proptest::prelude::*;

use super::super::line_of;
use super::{ids, parse};

const FILE: &str = r#"
import torch, triton
import triton.language as tl
KERNEL_TYPE = "softmax"
@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def kernel(x, n, BLOCK: tl.constexpr = 64):
    """Docstring."""
    offsets = tl.arange(0, BLOCK)  # comment
    tl.store(x + offsets, helper(offsets), mask=offsets < n)
class Op(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        table = {"a": kernel}
        table[f"a{x}"][lambda META: (1,)](x, *[1], **{})
if __name__ == "__main__":
    kernel[(1,)](torch.empty(4))
"#;

#[test]
fn an_unfinished_line_costs_only_itself() {
    let broken =
        FILE.replace("    offsets = tl.arange(0, BLOCK)  # comment\n", "    offsets = tl.arange(0,\n");
    let model = parse(&broken);
    assert_eq!(ids(&model), ["kernel"]);
    let error = model.first_error.expect("an error");
    assert!((7..=11).contains(&line_of(&broken, error.start)), "{error:?}");

    let model = parse(&FILE.replace("class Op", "def broken(:\n    x = = 3\n\nclass Op"));
    assert_eq!(ids(&model), ["kernel"]);
    assert!(model.first_error.is_some());
}

#[test]
fn odd_texts_are_read() {
    let texts = [
        "",
        "\n",
        "\u{feff}",
        "\0",
        "@triton.jit",
        "@triton.jit\ndef",
        "def f(",
        "\t\tx",
        "é = '日本'\r\r\n",
    ];
    for text in texts {
        assert_eq!(ids(&parse(text)), [] as [&str; 0], "{text:?}");
    }
    let model = parse("import triton\n@triton.jit\ndef kernel_é(x): pass\n");
    assert_eq!(ids(&model), ["kernel_é"]);
}

#[test]
fn deep_and_cyclic_code_ends() {
    let depth = 20_000;
    parse(&format!("x = {}1{}", "(".repeat(depth), ")".repeat(depth)));
    parse(&format!("x = {}", "[".repeat(depth)));
    parse(&format!("x = {}", "a.".repeat(depth)));
    parse(&format!("x = {}1", "not ".repeat(depth)));
    let chain: String = (0..2_000).map(|i| format!("a{i} = a{} or a{}\n", i + 1, (i * 7) % 2_000)).collect();
    parse(&format!("{chain}a0[grid](x)\n"));
    parse("a = b\nb = a\n@a\ndef f(): pass\na[1](2)\n");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn truncated_files_are_read(end in 0..=FILE.len()) {
        let text = FILE.get(..end).unwrap_or_default();
        prop_assert!(parse(text).kernels.len() <= 1);
    }

    #[test]
    fn damaged_files_are_read(
        start in 0..=FILE.len(),
        length in 0..80usize,
        patch in "[\\[\\](){}@:.,='\"\\\\#\n \tadefijlmtr_0-9é]{0,12}",
    ) {
        let end = (start + length).min(FILE.len());
        if let (Some(before), Some(after)) = (FILE.get(..start), FILE.get(end..)) {
            let text = format!("{before}{patch}{after}");
            let model = parse(&text);
            for kernel in &model.kernels {
                prop_assert!(text.get(kernel.range.clone()).is_some());
                prop_assert!(text.get(kernel.name_range.clone()).is_some());
            }
            prop_assert!(model.first_error.is_none_or(|range| text.get(range).is_some()));
        }
    }
}
