use std::path::Path;

use super::{Head, MissKind, Oracle, OracleMiss, Variant, find, find_all, find_all_or_head};
use crate::runner::protocol::{Argument, ArgumentSource};
use crate::source::parse;

const KERNEL: &str = "import triton\n@triton.jit\ndef kernel(x): pass\n";

fn found(text: &str) -> Result<Oracle, OracleMiss> {
    find(Path::new("file.py"), text, &parse(text), None)
}

fn with_kernel(code: &str) -> Result<Oracle, OracleMiss> {
    found(&format!("{KERNEL}{code}"))
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn autokernel_files_are_known() {
    for (kernel_type, first, count) in [
        ("matmul", "matmul", 1),
        ("softmax", "softmax", 1),
        ("layernorm", "layernorm", 1),
        ("rmsnorm", "rmsnorm", 1),
        ("flash_attention", "flash_attention_causal", 2),
        ("fused_mlp", "fused_mlp_silu", 3),
        ("cross_entropy", "cross_entropy", 1),
        ("rotary_embedding", "rotary_embedding", 1),
        ("reduce", "reduce_sum_last", 6),
    ] {
        let code = format!("KERNEL_TYPE = \"{kernel_type}\"\ndef kernel_fn(x): kernel[(1,)](x)\n");
        let oracle = with_kernel(&code).unwrap_or_else(|miss| panic!("{miss}"));
        assert_eq!(oracle.variants[0].definition.name, first);
        assert_eq!(oracle.variants.len(), count, "{kernel_type}");
        assert!(oracle.variants.iter().all(|variant| variant.definition.op_type == kernel_type));
        assert_eq!(oracle.entry, "kernel_fn");
        assert_eq!(oracle.label.rung, 0);
        assert_eq!(oracle.label.label, format!("AutoKernel {kernel_type} · torch ref"));
    }
    assert!(with_kernel("KERNEL_TYPE = 'softmax'\ndef softmax(x): pass\nkernel_fn = softmax\n").is_ok());
    assert!(with_kernel("KERNEL_TYPE = 'softmax'\nfrom .ops import kernel_fn\n").is_ok());
    assert!(with_kernel("KERNEL_TYPE: str = ('soft' 'max')\ndef kernel_fn(x): pass\n").is_ok());
}

#[test]
fn every_miss_says_what_to_do() {
    let misses = [
        ("no kernel", found("KERNEL_TYPE = 'softmax'\ndef kernel_fn(x): pass\n")),
        ("kernel in a string", found("SOURCE = '@triton.jit'\nexec(SOURCE)\ndef kernel_fn(x): pass\n")),
        ("no convention", with_kernel("def softmax(x): kernel[(1,)](x)\n")),
        (
            "type only in a function",
            with_kernel("def f(): KERNEL_TYPE = 'softmax'\ndef g(x): kernel[(1,)](x)\n"),
        ),
        ("launched elsewhere", with_kernel("")),
        ("unknown type", with_kernel("KERNEL_TYPE = 'softmaxx'\ndef kernel_fn(x): pass\n")),
        ("no literal", with_kernel("KERNEL_TYPE = f'soft{n}'\ndef kernel_fn(x): pass\n")),
        ("imported type", with_kernel("from .types import KERNEL_TYPE\ndef kernel_fn(x): pass\n")),
        (
            "two types",
            with_kernel("KERNEL_TYPE = 'softmax'\nKERNEL_TYPE = 'matmul'\ndef kernel_fn(x): pass\n"),
        ),
        (
            "literal and other",
            with_kernel("KERNEL_TYPE = 'softmax'\nKERNEL_TYPE += 'x'\ndef kernel_fn(x): pass\n"),
        ),
        ("no entry", with_kernel("KERNEL_TYPE = 'rmsnorm'\n")),
        (
            "entry under main",
            with_kernel("KERNEL_TYPE = 'softmax'\nif __name__ == '__main__':\n    def kernel_fn(x): pass\n"),
        ),
        ("entry is a kernel", with_kernel("KERNEL_TYPE = 'matmul'\n@triton.jit\ndef kernel_fn(x): pass\n")),
    ];
    let told: Vec<String> = misses
        .into_iter()
        .map(|(case, found)| {
            let miss = found.expect_err(case);
            format!("{case}{}: {miss}", if miss.range.is_some() { "" } else { " (first line)" })
        })
        .collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_miss_stands_at_its_place() {
    let text = format!("{KERNEL}KERNEL_TYPE = 'nothing'\n");
    let miss = found(&text).expect_err("unknown");
    assert!(matches!(miss.kind, MissKind::UnknownKernelType { .. }));
    assert_eq!(&text[miss.range.expect("a place")], "'nothing'");
}

#[test]
fn options_are_passed_only_to_their_parameter() {
    let oracle = with_kernel("KERNEL_TYPE = 'rmsnorm'\ndef kernel_fn(x, weight): pass\n").expect("known");
    let passed = |parameters: &[&str]| -> Vec<String> {
        let arguments = oracle.variants[0].arguments(&strings(parameters));
        let told = |argument: Argument| match argument.source {
            ArgumentSource::Input { input } => format!("{}={input}", argument.parameter),
            ArgumentSource::Output { output } => format!("{}->{output}", argument.parameter),
            ArgumentSource::Value { value } => format!("{}:={value}", argument.parameter),
        };
        arguments.into_iter().map(told).collect()
    };
    assert_eq!(passed(&["x", "weight"]), ["x=x", "weight=weight"]);
    assert_eq!(passed(&["weight", "x", "eps", "block"]), ["x=x", "weight=weight", "eps=eps"]);
    assert_eq!(passed(&["x", "**kwargs"]), ["x=x", "weight=weight"]);
    assert_eq!(passed(&["*args"]), [] as [&str; 0]);
}

#[test]
fn variants_are_chosen_by_options_that_the_entry_has() {
    let chosen = |kernel_type: &str, parameters: &[&str]| -> Vec<String> {
        let code = format!("KERNEL_TYPE = '{kernel_type}'\ndef kernel_fn(): kernel[(1,)](1)\n");
        let oracle = with_kernel(&code).unwrap_or_else(|miss| panic!("{miss}"));
        let can = |variant: &&Variant| oracle.can_choose(variant, &strings(parameters)).is_ok();
        oracle.variants.iter().filter(can).map(|variant| variant.definition.name.clone()).collect()
    };
    assert_eq!(chosen("flash_attention", &["Q", "K", "V"]), ["flash_attention_causal"]);
    assert_eq!(
        chosen("flash_attention", &["Q", "K", "V", "causal"]),
        ["flash_attention_causal", "flash_attention_full"]
    );
    assert_eq!(chosen("fused_mlp", &["x"]), ["fused_mlp_silu"]);
    assert_eq!(
        chosen("reduce", &["x", "dim"]),
        ["reduce_sum_last", "reduce_sum_first", "reduce_sum_middle"],
        "an entry without `op` sums"
    );
    assert_eq!(chosen("reduce", &["x", "op"]), ["reduce_sum_last", "reduce_max_last"]);
    assert_eq!(chosen("reduce", &["x", "dim", "op"]).len(), 6);
}

#[test]
fn a_signature_that_cannot_be_called_is_told() {
    let oracle = with_kernel("KERNEL_TYPE = 'rmsnorm'\ndef kernel_fn(x, weight): pass\n").expect("known");
    let problem = |parameters: &[(&str, bool)]| {
        let parameters: Vec<(String, bool)> =
            parameters.iter().map(|(name, has_default)| ((*name).to_owned(), *has_default)).collect();
        oracle.signature_problem(&parameters)
    };
    assert_eq!(problem(&[("x", false), ("weight", false)]), None);
    assert_eq!(problem(&[("x", false), ("weight", false), ("eps", true), ("block", true)]), None);
    assert_eq!(problem(&[("**inputs", false)]), None);
    let told = [
        problem(&[("input", false), ("w", false)]),
        problem(&[("x", false), ("weight", false), ("block", false)]),
        problem(&[("*args", false)]),
    ];
    insta::assert_debug_snapshot!(told);
}

/// Every source adds the functions that no earlier one describes.
#[test]
fn whatever_describes_a_file_is_found_beside_the_rest() {
    const COMMENT: &str = "# warpsmith: ref=torch.neg x=f32[N] N=5\ndef negate(x): kernel[(1,)](x)\n";
    const AUTOKERNEL: &str = "KERNEL_TYPE = 'softmax'\ndef kernel_fn(x): kernel[(1,)](x)\n";
    const CLASSES: &str =
        "class Model: pass\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n";
    const LINKED: &str =
        "# warpsmith: ref=Model\nclass ModelNew:\n    def forward(self, x): return negate(x)\n";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("k.py");
    let table = |entry: &str, reference: &str| {
        format!(
            "[[kernel]]\nfile = \"k.py\"\nentry = \"{entry}\"\nref = \"{reference}\"\nx = \"f32[N]\"\nN = 5\n"
        )
    };
    let entries = |project: &str, code: &str| -> Vec<String> {
        std::fs::write(folder.path().join("warpsmith.toml"), project).unwrap();
        let text = format!("{KERNEL}{code}");
        let head = Head { commit: "a1b2c3d".to_owned(), text: text.replace("[(1,)]", "[(2,)]") };
        let found = find_all(&path, &text, &parse(&text), None);
        assert_eq!(
            found,
            find_all_or_head(&path, &text, &parse(&text), None, Some(&head)),
            "HEAD adds nothing"
        );
        let rung = |oracle: &Result<Oracle, OracleMiss>| {
            oracle
                .as_ref()
                .map_or_else(|miss| format!("{:?}", miss.kind), |oracle| oracle.label.rung.to_string())
        };
        found
            .iter()
            .map(|one| format!("{} {}", one.entry.as_deref().unwrap_or("?"), rung(&one.oracle)))
            .collect()
    };
    let unlinked = LINKED.replace("# warpsmith: ref=Model\n", "");
    for (project, code, expected) in [
        ("", format!("{COMMENT}{AUTOKERNEL}"), &["negate 4", "kernel_fn 0"][..]),
        ("", format!("{CLASSES}{COMMENT}{LINKED}"), &["ModelNew 0", "negate 4"]),
        ("", format!("{CLASSES}{COMMENT}{unlinked}"), &["negate 4", "ModelNew 0"]),
        (
            &table("twice", "torch.abs"),
            format!("{COMMENT}def twice(x): kernel[(1,)](x)\n"),
            &["negate 4", "twice 5"],
        ),
        (&table("negate", "torch.abs"), COMMENT.to_owned(), &["negate 4"]),
        (
            &table("negate", "torch.abs"),
            format!("{CLASSES}{LINKED}{AUTOKERNEL}def negate(x): pass\n"),
            &["ModelNew 0", "negate 5", "kernel_fn 0"],
        ),
        ("", format!("{AUTOKERNEL}{CLASSES}{unlinked}"), &["kernel_fn 0", "ModelNew 0"]),
        // A comment on `kernel_fn` itself stands for the convention, whatever its type.
        ("", format!("{AUTOKERNEL}{}", COMMENT.replace("negate", "kernel_fn")), &["kernel_fn 4"]),
        ("", COMMENT.replace("negate", "kernel_fn") + "KERNEL_TYPE = 'mine'\n", &["kernel_fn 4"]),
        ("", format!("{COMMENT}KERNEL_TYPE = 'mine'\n"), &["negate 4"]),
    ] {
        assert_eq!(entries(project, &code), expected, "{project}{code}");
    }
    // What cannot be read is told beside what can.
    let broken = entries("[[kernel]\n", &format!("{COMMENT}{AUTOKERNEL}"));
    assert!(
        broken.len() == 2 && broken[0] == "negate 4" && broken[1].starts_with("? Described"),
        "{broken:?}"
    );
}
