//! Files with several functions: each described one has its verdict, and what nobody describes is told.

use crate::harness::{Checked, Sandbox, python_or_skip};

const HEAD: &str = "import torch\nimport triton\nimport triton.language as tl\n";

/// A kernel that computes `formula` of `value`, and under this comment the function that launches it.
fn function(name: &str, formula: &str, comment: &str) -> String {
    format!(
        "\n\n@triton.jit\ndef {name}_kernel(x, y, n, BLOCK: tl.constexpr):\n    at = tl.program_id(0) * BLOCK + tl.arange(0, \
         BLOCK)\n    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)\n    tl.store(y + at, {formula}, mask=at \
         < n)\n\n\n{comment}def {name}(x):\n    y = torch.empty_like(x)\n    {name}_kernel[(triton.cdiv(x.numel(), \
         256),)](x, y, x.numel(), BLOCK=256)\n    return y\n"
    )
}

fn comment(reference: &str) -> String {
    format!("# warpsmith: ref={reference} x=f32[N] N=5,300\n")
}

/// `negate` and `twice` are described, `thrice` is not, and `other` is launched nowhere.
fn several(twice: &str) -> String {
    [
        HEAD,
        &function("negate", "-value", &comment("torch.neg")),
        &function("twice", twice, &comment("doubled")),
        &function("thrice", "3 * value", ""),
        "\n\n@triton.jit\ndef other(x):\n    tl.store(x, 0)\n\n\ndef doubled(x):\n    return 2 * x\n",
    ]
    .concat()
}

fn entries(checked: &Checked) -> Vec<(String, String)> {
    let functions = checked.summary["functions"].as_array().cloned().unwrap_or_default();
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    functions.iter().map(|function| (word(&function["entry"]), word(&function["verdict"]))).collect()
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(name, verdict)| ((*name).to_owned(), (*verdict).to_owned())).collect()
}

#[test]
fn each_described_function_is_judged_by_itself() {
    let Some(python) = python_or_skip("each_described_function_is_judged_by_itself") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("several.py", &several("2.5 * value"));
    let checked = sandbox.check(&file, &["--stage", "smoke,sweep"]);
    assert_eq!(checked.exit, Some(1), "{}", checked.describe());
    assert_eq!(
        entries(&checked),
        pairs(&[("negate", "passed"), ("twice", "wrong")]),
        "{}",
        checked.describe()
    );
    for case in &checked.cases {
        let (entry, kernel) = (&case["entry"], &case["kernel"]);
        assert_eq!(kernel.as_str(), Some(format!("{}_kernel", entry.as_str().unwrap_or_default()).as_str()));
        let label = if entry == "twice" {
            "comment · doubled · ref from the same file"
        } else {
            "comment · torch.neg"
        };
        assert_eq!(case["oracle"]["label"], label);
    }
    let not_judged = checked.summary["not_judged"].as_array().cloned().unwrap_or_default();
    let left: Vec<&str> = not_judged.iter().filter_map(|left| left["kernel"].as_str()).collect();
    assert_eq!(left, ["thrice_kernel", "other"]);
    let table =
        String::from_utf8(sandbox.run(&["check", &file.display().to_string()]).stdout).expect("UTF-8");
    for words in [
        "· negate · comment",
        "negate: ✓ passed",
        "twice: ✗ wrong",
        "not judged: thrice_kernel (only `thrice`",
    ] {
        assert!(table.contains(words), "{words} is missing in\n{table}");
    }
    assert!(table.contains("✗ wrong · 2 functions"), "{table}");
}

#[test]
fn one_function_is_chosen_by_its_name_or_a_kernel() {
    let Some(python) = python_or_skip("one_function_is_chosen_by_its_name_or_a_kernel") else { return };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("several.py", &several("2.5 * value"));
    for (asked, exit, label) in [
        ("negate", 0, "comment · torch.neg"),
        ("negate_kernel", 0, "comment · torch.neg"),
        ("twice", 1, "comment · doubled · ref from the same file"),
    ] {
        let checked = sandbox.check(&file, &["--stage", "smoke", "--kernel", asked]);
        assert_eq!(checked.exit, Some(exit), "{asked}: {}", checked.describe());
        assert_eq!(checked.summary["oracle"]["label"], label, "{asked}");
    }
    for asked in ["thrice", "thrice_kernel", "other"] {
        let checked = sandbox.check(&file, &["--kernel", asked]);
        assert_eq!(
            (checked.exit, checked.codes().as_slice()),
            (Some(2), &["other-kernel".to_owned()][..]),
            "{asked}"
        );
    }
    let unknown = sandbox.run(&["check", "--kernel", "nobody", &file.display().to_string()]);
    assert_eq!(unknown.status.code(), Some(64));
    let told = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(
        told.contains("it has: negate_kernel, twice_kernel, thrice_kernel, other, negate, twice, thrice"),
        "{told}"
    );
    let repro = sandbox.run(&["repro", &file.display().to_string(), "-o", "-"]);
    let script = String::from_utf8_lossy(&repro.stdout).into_owned();
    assert!(script.contains("\"entry\": \"twice\""), "{script}{}", String::from_utf8_lossy(&repro.stderr));
}

#[test]
fn two_kernels_of_one_function_share_its_verdict() {
    let Some(python) = python_or_skip("two_kernels_of_one_function_share_its_verdict") else { return };
    let sandbox = Sandbox::new(python);
    let both = |second: &str| {
        let text = [HEAD, &function("negate", "-value", ""), &function("twice", second, "")].concat();
        format!(
            "{text}\n\n# warpsmith: ref=right x=f32[N] N=5,300\ndef both(x):\n    return twice(negate(x))\n\n\ndef right(x):\n    return -2 * x\n"
        )
    };
    let right = sandbox.check(&sandbox.write("right.py", &both("2 * value")), &["--stage", "smoke,sweep"]);
    assert_eq!(
        (right.verdict(), right.summary["not_judged"].as_array().map(Vec::len)),
        ("passed", Some(0)),
        "{}",
        right.describe()
    );
    let wrong = sandbox.check(&sandbox.write("wrong.py", &both("3 * value")), &["--stage", "smoke,sweep"]);
    assert_eq!((wrong.verdict(), wrong.codes()[0].as_str()), ("wrong", "mismatch"), "{}", wrong.describe());
}

#[test]
fn a_kernel_that_another_file_launches_is_judged_there() {
    let Some(python) = python_or_skip("a_kernel_that_another_file_launches_is_judged_there") else { return };
    let sandbox = Sandbox::new(python);
    let whole = function("negate", "-value", &comment("torch.neg"));
    let (kernel, launcher) = whole.split_once("# warpsmith:").expect("a comment");
    let kernels = sandbox.write("kernels.py", &format!("{HEAD}{kernel}"));
    let here = sandbox.check(&kernels, &[]);
    assert_eq!(
        (here.exit, here.codes().as_slice()),
        (Some(2), &["no-oracle".to_owned()][..]),
        "{}",
        here.describe()
    );
    let told = here.findings()[0]["message"].to_string();
    assert!(
        told.contains("nothing in this file launches `negate_kernel`; check the file that launches them"),
        "{told}"
    );
    let text = format!("{HEAD}from kernels import negate_kernel\n\n\n# warpsmith:{launcher}");
    let there = sandbox.check(&sandbox.write("launches.py", &text), &["--stage", "smoke,sweep"]);
    assert_eq!(there.verdict(), "passed", "{}", there.describe());
    assert_eq!(there.cases[0]["kernel"], "negate_kernel");
    let wrong = format!("{HEAD}{}", kernel.replace("-value", "-2 * value"));
    sandbox.write("kernels.py", &wrong);
    let there = sandbox.check(&sandbox.write("launches.py", &text), &["--stage", "smoke"]);
    assert_eq!(there.verdict(), "wrong", "{}", there.describe());
}

/// Each is told for its function, quickly, and the other function is judged all the same.
#[test]
fn a_comment_that_cannot_be_used_spoils_its_own_function_only() {
    let Some(python) = python_or_skip("a_comment_that_cannot_be_used_spoils_its_own_function_only") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let axes = "x=f32[A,B,C] A=LIST B=LIST C=LIST"
        .replace("LIST", &(1..=1000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
    let bad = [
        ("dtype", "ref=torch.neg x=f61[N] N=5".to_owned(), "`f61` is no dtype"),
        ("cases", format!("ref=torch.neg {axes}"), "the lists ask for 1000000000 combinations"),
        (
            "integers",
            "ref=torch.neg x=i64[N] N=5".to_owned(),
            "made-up ones could make the kernel read anywhere",
        ),
        ("twice", "ref=torch.neg x=f32[N] N=5 N=6".to_owned(), "`N=` is given twice"),
        ("dtypes", "ref=torch.add x=f16|f32[N] w=f32|bf16[N] N=5".to_owned(), "list different dtypes"),
    ];
    for (name, items, words) in bad {
        let comment_line = format!("# warpsmith: {items}\n");
        let text = [
            HEAD,
            &function("negate", "-value", &comment("torch.neg")),
            &function("bad", "-value", &comment_line),
        ]
        .concat();
        let checked = sandbox.check(&sandbox.write(&format!("{name}.py"), &text), &["--stage", "smoke"]);
        assert_eq!(
            entries(&checked),
            pairs(&[("negate", "passed"), ("bad", "could-not-run")]),
            "{}",
            checked.describe()
        );
        assert_eq!(
            (checked.exit, checked.codes().as_slice()),
            (Some(2), &["no-oracle".to_owned()][..]),
            "{name}"
        );
        assert!(checked.findings()[0]["message"].to_string().contains(words), "{}", checked.describe());
    }
}

/// What describes one function does not hide another that something else describes.
#[test]
fn other_ways_to_say_what_is_right_speak_of_other_functions() {
    let Some(python) = python_or_skip("other_ways_to_say_what_is_right_speak_of_other_functions") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let negate = function("negate", "-value", &comment("torch.neg"));
    let expected = pairs(&[("negate", "passed"), ("kernel_fn", "wrong")]);
    let convention =
        [HEAD, "KERNEL_TYPE = \"softmax\"\n", &negate, &function("kernel_fn", "value", "")].concat();
    let checked = sandbox.check(&sandbox.write("convention.py", &convention), &["--stage", "smoke"]);
    assert_eq!((checked.exit, entries(&checked)), (Some(1), expected), "{}", checked.describe());
    let table = |entry: &str| {
        format!(
            "[[kernel]]\nfile = \"project.py\"\nentry = \"{entry}\"\nref = \"torch.abs\"\nx = \"f32[N]\"\nN = 5\n"
        )
    };
    // Of `negate` the comment is believed.
    sandbox.write("warpsmith.toml", &(table("twice") + &table("negate")));
    let project = [HEAD, &negate, &function("twice", "2 * value", "")].concat();
    let checked = sandbox.check(&sandbox.write("project.py", &project), &["--stage", "smoke"]);
    let expected = pairs(&[("negate", "passed"), ("twice", "wrong")]);
    assert_eq!((checked.exit, entries(&checked)), (Some(1), expected), "{}", checked.describe());
}

/// A right function that a comment describes hides nothing that is described in another way.
#[test]
fn what_is_described_in_several_ways_is_all_judged() {
    let Some(python) = python_or_skip("what_is_described_in_several_ways_is_all_judged") else { return };
    let right = function("negate", "-value", &comment("torch.neg"));
    let wrong = function("twice", "2.5 * value", "");
    let convention = wrong.replace("def twice(", "def kernel_fn(") + "\n\nKERNEL_TYPE = \"softmax\"\n";
    let class = "\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return -x\n\n\ndef get_inputs():\n    \
                 return [torch.rand(300)]\n\n\ndef get_init_inputs():\n    return []\n\n\n# warpsmith: ref=Model\nclass \
                 ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return negate(x)\n";
    let table = "[[kernel]]\nfile = \"several.py\"\nentry = \"twice\"\nref = \"torch.abs\"\nx = \"f32[N]\"\nN = 300\n";
    let undescribed = function("negate", "-value", "");
    let described = function("twice", "2.5 * value", &comment("torch.abs"));
    for (text, project, expected) in [
        ([HEAD, &right, &convention].concat(), "", [("negate", "passed"), ("kernel_fn", "wrong")]),
        ([HEAD, &right, &wrong].concat(), table, [("negate", "passed"), ("twice", "wrong")]),
        ([HEAD, &undescribed, &described, class].concat(), "", [("ModelNew", "passed"), ("twice", "wrong")]),
    ] {
        let sandbox = Sandbox::new(python.clone());
        sandbox.write("warpsmith.toml", project);
        let checked = sandbox.check(&sandbox.write("several.py", &text), &["--stage", "smoke,sweep"]);
        assert_eq!((checked.exit, entries(&checked)), (Some(1), pairs(&expected)), "{}", checked.describe());
        assert_eq!(checked.summary["not_judged"].as_array().map(Vec::len), Some(0), "{}", checked.describe());
    }
}

/// Both have cases of one name; the wrong one is written down.
#[test]
fn a_repro_is_of_the_function_that_is_wrong() {
    let Some(python) = python_or_skip("a_repro_is_of_the_function_that_is_wrong") else { return };
    let sandbox = Sandbox::new(python);
    let definition = r#"{"name": "neg", "op_type": "unary", "axes": {"N": {"type": "var"}},
        "inputs": {"x": {"shape": ["N"], "dtype": "float32"}}, "outputs": {"y": {"shape": ["N"], "dtype": "float32"}},
        "reference": "def run(x):\n    return -x\n"}"#;
    sandbox.write("neg.json", definition);
    let comment = "# warpsmith: definition=./neg.json N=300\n";
    let text =
        [HEAD, &function("good", "-value", comment), &function("bad", "2.5 * value", comment)].concat();
    let file = sandbox.write("several.py", &text);
    let repro = sandbox.run(&["repro", &file.display().to_string(), "-o", "-"]);
    let script = String::from_utf8_lossy(&repro.stdout).into_owned();
    assert!(script.contains("\"entry\": \"bad\""), "{script}{}", String::from_utf8_lossy(&repro.stderr));
}

/// As for the judged file itself: what is launched at its module level is nobody's check.
#[test]
fn a_reference_that_launches_kernels_on_import_is_not_imported() {
    let Some(python) = python_or_skip("a_reference_that_launches_kernels_on_import_is_not_imported") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let other = [HEAD, &function("twice", "2 * value", ""), "\n\ndef right(x):\n    return -x\n"].concat();
    let comment = "# warpsmith: ref=./other.py::right x=f32[N] N=300\n";
    let file = sandbox.write("k.py", &[HEAD, &function("negate", "-value", comment)].concat());
    sandbox.write("other.py", &other);
    let fine = sandbox.check(&file, &["--stage", "smoke"]);
    assert_eq!(fine.verdict(), "passed", "{}", fine.describe());
    let touch =
        "\n\nopen(__file__ + '.ran', 'w')\ntwice_kernel[(1,)](torch.zeros(1), torch.zeros(1), 1, BLOCK=1)\n";
    let other = sandbox.write("other.py", &(other + touch));
    let checked = sandbox.check(&file, &["--stage", "smoke"]);
    assert_eq!(
        (checked.exit, checked.codes().as_slice()),
        (Some(2), &["reference-failed".to_owned()][..]),
        "{}",
        checked.describe()
    );
    let ran = |file: &std::path::Path| file.with_file_name("other.py.ran").exists();
    assert!(checked.findings()[0]["message"].to_string().contains("launches `twice_kernel`") && !ran(&other));
}
