//! Reported bugs that are no single file: what was changed is judged again (D17, D18), kernels in strings (D19),
//! tensors that do not fit (D37), and what the comment cannot ask for (D09).

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use crate::harness::{Checked, Sandbox, python_or_skip};
use crate::server::Server;

const IMPORTS: &str = "import torch\nimport triton\nimport triton.language as tl\n\n\n";

/// D17: a kernel that stores a constant of the module.
fn with_constant(value: u32) -> String {
    format!(
        r"{IMPORTS}VALUE = tl.constexpr({value})


@triton.jit
def add_kernel(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(y + at, tl.load(x + at, mask=inside) + VALUE, mask=inside)


# warpsmith: ref=torch.add x=f32[N] other=1 N=1000
def added(x):
    y = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"
    )
}

/// D18: the helpers of which a string chooses one.
fn helpers(sign: char) -> String {
    format!(
        "import triton\n\n\n@triton.jit\ndef add(a, b):\n    return a {sign} b\n\n\n@triton.jit\ndef sub(a, b):\n    return a - b\n"
    )
}

/// D18: the kernel that chooses; `helpers` stands before it.
fn choosing(helpers: &str) -> String {
    format!(
        r#"{IMPORTS}{helpers}

@triton.jit
def apply_kernel(x, z, y, count, HOW: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    left, right = tl.load(x + at, mask=inside), tl.load(z + at, mask=inside)
    if HOW == "add":
        result = add(left, right)
    else:
        result = sub(left, right)
    tl.store(y + at, result, mask=inside)


# warpsmith: ref=torch.add x=f32[N] z=f32[N] N=1000
def applied(x, z):
    y = torch.empty_like(x)
    apply_kernel[(triton.cdiv(x.numel(), 256),)](x, z, y, x.numel(), HOW="add", BLOCK=256)
    return y
"#
    )
}

#[track_caller]
fn assert_mismatch(checked: &Checked) {
    assert_eq!((checked.verdict(), checked.exit), ("wrong", Some(1)), "{}", checked.describe());
    assert!(checked.codes().iter().all(|code| code == "mismatch"), "{}", checked.describe());
}

#[track_caller]
fn assert_passed(checked: &Checked) {
    assert_eq!((checked.verdict(), checked.exit), ("passed", Some(0)), "{}", checked.describe());
    assert_eq!(checked.codes(), Vec::<String>::new());
}

/// Whether something that begins like `what` is shown as not run, for a reason with the words of `why`.
fn is_not_run(checked: &Checked, what: &str, why: &str) -> bool {
    let lines = checked.summary["not_run"].as_array().cloned().unwrap_or_default();
    lines.iter().any(|line| {
        line["what"].as_str().is_some_and(|text| text.starts_with(what))
            && line["why"].as_str().is_some_and(|text| text.contains(why))
    })
}

/// In one server: wrong, right, and wrong again, each after nothing but a save.
fn wrong_right_wrong(server: &mut Server, mut save: impl FnMut(&mut Server, i32, bool)) {
    for (version, is_right) in (2..).zip([false, true, false]) {
        save(server, version, is_right);
        if is_right {
            while !server.codes().is_empty() {}
        } else {
            assert_eq!(server.codes(), ["mismatch"]);
        }
    }
}

#[test]
fn d17_an_edited_constant_is_judged_again() {
    let Some(python) = python_or_skip("d17_an_edited_constant_is_judged_again") else { return };
    let sandbox = Sandbox::new(python);
    assert_mismatch(&sandbox.check(&sandbox.write("kernel.py", &with_constant(2)), &["--stage", "smoke"]));
    let file = sandbox.write("kernel.py", &with_constant(1));
    assert_passed(&sandbox.check(&file, &["--stage", "smoke"]));
    let mut server = Server::start(&sandbox);
    server.open(&file, &with_constant(1));
    wrong_right_wrong(&mut server, |server, version, is_right| {
        server.save(&file, version, &with_constant(if is_right { 1 } else { 2 }));
    });
}

#[test]
fn d18_an_edited_helper_of_the_file_is_judged_again() {
    let Some(python) = python_or_skip("d18_an_edited_helper_of_the_file_is_judged_again") else { return };
    let sandbox = Sandbox::new(python);
    let text = |is_right| choosing(&helpers(if is_right { '+' } else { '-' }));
    assert_mismatch(&sandbox.check(&sandbox.write("kernel.py", &text(false)), &["--stage", "smoke"]));
    let file = sandbox.write("kernel.py", &text(true));
    assert_passed(&sandbox.check(&file, &["--stage", "smoke"]));
    let mut server = Server::start(&sandbox);
    server.open(&file, &text(true));
    wrong_right_wrong(&mut server, |server, version, is_right| {
        server.save(&file, version, &text(is_right));
    });
}

/// The file itself is saved as it was; only the module that it imports has changed, to one of the same length.
#[test]
fn d18_an_edited_helper_of_another_file_is_judged_again() {
    let Some(python) = python_or_skip("d18_an_edited_helper_of_another_file_is_judged_again") else { return };
    let sandbox = Sandbox::new(python);
    let text = choosing("from picked_helpers import add, sub\n");
    let file = sandbox.write("kernel.py", &text);
    sandbox.write("picked_helpers.py", &helpers('-'));
    assert_mismatch(&sandbox.check(&file, &["--stage", "smoke"]));
    sandbox.write("picked_helpers.py", &helpers('+'));
    assert_passed(&sandbox.check(&file, &["--stage", "smoke"]));
    let mut server = Server::start(&sandbox);
    server.open(&file, &text);
    wrong_right_wrong(&mut server, |server, version, is_right| {
        sandbox.write("picked_helpers.py", &helpers(if is_right { '+' } else { '-' }));
        server.save(&file, version, &text);
    });
}

/// D19: the text of a kernel; a fault when `mask` is left out of the store.
fn double_kernel(mask: &str) -> String {
    format!(
        "@triton.jit\ndef double_kernel(x, y, count, BLOCK: tl.constexpr):\n    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    inside = at < count\n    tl.store(y + at, tl.load(x + at, mask=inside) * 2{mask})\n"
    )
}

/// D19: an entry that gets its kernel from `build()`, and a kernel in plain code that it launches as well.
fn built(source: &str, build: &str) -> String {
    format!(
        r"import linecache

{IMPORTS}@triton.jit
def clear_kernel(y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, 0.0, mask=at < count)


SOURCE = '''
{source}'''


def build():
    scope = {{'triton': triton, 'tl': tl}}
{build}
    return scope['double_kernel']


# warpsmith: ref=torch.mul x=f32[N] other=2.0 N=1,1000
def doubled(x):
    y = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), 256),)
    clear_kernel[grid](y, x.numel(), BLOCK=256)
    build()[grid](x, y, x.numel(), BLOCK=256)
    return y
"
    )
}

fn line_of(text: &str, words: &str) -> u64 {
    let at = text.lines().position(|line| line.contains(words)).expect("such a line");
    at as u64 + 1
}

#[track_caller]
fn assert_only(checked: &Checked, verdict: &str, code: &str, line: u64, words: &str) {
    assert_eq!(checked.verdict(), verdict, "{}", checked.describe());
    for finding in checked.findings() {
        let place = (finding["code"].as_str(), finding["place"]["line"].as_u64());
        assert_eq!(place, (Some(code), Some(line)), "{}", checked.describe());
        assert!(finding["message"].as_str().is_some_and(|message| message.contains(words)), "{finding}");
    }
    assert!(!checked.findings().is_empty());
}

#[test]
fn d19_a_file_whose_only_kernel_is_in_a_string_could_not_run() {
    let Some(python) = python_or_skip("d19_a_file_whose_only_kernel_is_in_a_string_could_not_run") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let entry = "\n\n# warpsmith: ref=torch.mul x=f32[N] other=2.0 N=1,1000\ndef doubled(x):\n    y = torch.empty_like(x)\n    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n    return y\n";
    let kernel = double_kernel(", mask=inside");
    let text = format!("{IMPORTS}exec('''{kernel}'''){entry}");
    let checked = sandbox.check(&sandbox.write("string.py", &text), &[]);
    assert_eq!(checked.exit, Some(2));
    assert_only(&checked, "could-not-run", "no-kernel", line_of(&text, "@triton.jit"), "a .py file");
    // What the finding asks for.
    let text = format!("{IMPORTS}{kernel}{entry}");
    assert_passed(&sandbox.check(&sandbox.write("file.py", &text), &[]));
}

/// Triton itself refuses such a kernel, on a GPU as here; the line that launches it is told.
#[test]
fn d19_a_kernel_made_from_a_string_has_no_source_to_compile() {
    let Some(python) = python_or_skip("d19_a_kernel_made_from_a_string_has_no_source_to_compile") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let text = built(&double_kernel(", mask=inside"), "    exec(SOURCE, scope)");
    let checked = sandbox.check(&sandbox.write("kernel.py", &text), &["--stage", "smoke"]);
    assert_only(&checked, "wrong", "compile-error", line_of(&text, "build()[grid]"), "made from a string");
    assert_eq!(checked.exit, Some(1));
}

/// Where the text was made known to Python, Triton compiles it and so it is judged: a fault stands at the line
/// that launches the kernel, because the text has no line in any file.
#[test]
fn d19_a_kernel_made_from_a_string_with_a_source_is_judged() {
    let Some(python) = python_or_skip("d19_a_kernel_made_from_a_string_with_a_source_is_judged") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let build = "    linecache.cache['<made>'] = (len(SOURCE), None, SOURCE.splitlines(True), '<made>')\n    exec(compile(SOURCE, '<made>', 'exec'), scope)";
    let text = built(&double_kernel(""), build);
    let file = sandbox.write("wrong.py", &text);
    let line = line_of(&text, "build()[grid]");
    let checked = sandbox.check(&file, &["--stage", "smoke"]);
    assert_only(&checked, "wrong", "out-of-bounds", line, "past the end of `y`");
    let right = built(&double_kernel(", mask=inside"), build);
    assert_passed(&sandbox.check(&sandbox.write("right.py", &right), &[]));

    let mut server = Server::start(&sandbox);
    server.open_and_save(&file, &text);
    assert_eq!(server.codes(), ["out-of-bounds"]);
    server.save(&file, 2, &right);
    while !server.codes().is_empty() {}
}

/// D37: 4 GiB for each tensor, and as much again for everything that a check makes of it.
fn at_lengths(lengths: &str) -> String {
    format!(
        "{IMPORTS}{}\n\n# warpsmith: ref=torch.mul x=f32[M,N] other=2.0 M={lengths} N=32768\ndef doubled(x):\n    y = torch.empty_like(x)\n    double_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)\n    return y\n",
        double_kernel(", mask=inside").replace("tl.program_id(0)", "tl.program_id(0).to(tl.int64)")
    )
}

/// Peak of resident memory of a process, in bytes.
fn peak_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kibibytes = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) * 1024
}

/// Nothing of the size is allocated to find out that it is too large, and nobody is told that it passed.
#[test]
fn d37_sizes_beyond_the_machine_are_not_checked_and_said_so() {
    let Some(python) = python_or_skip("d37_sizes_beyond_the_machine_are_not_checked_and_said_so") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("kernel.py", &at_lengths("32768"));
    let mut check = sandbox.warpsmith();
    check.args(["check", "--json", "--no-setup"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = check.spawn().expect("the binary runs");
    let mut peak = 0;
    while child.try_wait().expect("waitable").is_none() {
        peak = sandbox.survivors().into_iter().map(peak_bytes).fold(peak, u64::max);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(peak > 0 && peak < 3 << 30, "a process held {peak} bytes");

    let alone = sandbox.check(&file, &[]);
    assert_eq!((alone.verdict(), alone.exit), ("could-not-run", Some(2)), "{}", alone.describe());
    assert_eq!((alone.codes(), alone.cases.len()), (vec!["unsupported".to_owned()], 0));
    let mixed = sandbox.check(&sandbox.write("mixed.py", &at_lengths("17,32768")), &[]);
    assert_passed(&mixed);
    assert!(mixed.cases.iter().all(|case| case["case"]["axes"]["M"] == 17), "{}", mixed.describe());
    for checked in [alone, mixed] {
        assert!(is_not_run(&checked, "sizes M=32768 N=32768", "too large"), "{}", checked.describe());
    }
}

/// An entry that copies a tensor larger than memory loses that case and no other stage.
#[test]
fn d37_a_copy_of_what_is_larger_than_memory_costs_one_case() {
    let Some(python) = python_or_skip("d37_a_copy_of_what_is_larger_than_memory_costs_one_case") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let text = format!("{}def kernel_fn(x):\n    return softmax(x.clone())\n", crate::bad_inputs::KERNEL);
    let file = sandbox.write("kernel.py", &text);
    let options = ["--dtype", "f32", "--stage", "sweep,stability"];
    let checked = sandbox.check(&file, &options);
    assert_passed(&checked);
    let ran = checked.cases.iter().filter(|case| case["case"]["stage"] == "stability").count();
    assert!(ran > 10, "{}", checked.describe());
    // On a busy machine its time is up before its memory.
    assert!(is_not_run(&checked, "sweep M=", ""), "{}", checked.describe());
}

/// D09 under a comment: layouts are not tried, because the comment says nothing of them, and that is told.
#[test]
fn d09_layouts_that_nobody_promised_are_shown_as_not_run() {
    let Some(python) = python_or_skip("d09_layouts_that_nobody_promised_are_shown_as_not_run") else {
        return;
    };
    let sandbox = Sandbox::new(python);
    let file = sandbox.write("kernel.py", &with_constant(1));
    let checked = sandbox.check(&file, &["--stage", "smoke,edge"]);
    assert_passed(&checked);
    assert!(is_not_run(&checked, "edge", "not contiguous"), "{}", checked.describe());
}

/// D05: whoever asks for TF32 gets it, and the same product passes.
#[test]
fn d05_a_product_that_may_round_to_tf32_passes() {
    let Some(python) = python_or_skip("d05_a_product_that_may_round_to_tf32_passes") else { return };
    let sandbox = Sandbox::new(python);
    let text = crate::markers::bug_text("d05_tf32_dot.py").replace("KERNEL_TYPE = \"matmul\"\n", "");
    let comment = "# warpsmith: ref=torch.matmul A=f32[M,K] B=f32[K,N] M=64 K=512 N=64 tol=sum(K)";
    for (precision, verdict) in [("", "wrong"), (" precision=tf32", "passed")] {
        let told = text.replace("def kernel_fn", &format!("{comment}{precision}\ndef kernel_fn"));
        let checked = sandbox.check(&sandbox.write("kernel.py", &told), &["--stage", "smoke"]);
        assert_eq!(checked.verdict(), verdict, "{}", checked.describe());
        assert_eq!(checked.codes().iter().any(|code| code == "tf32"), verdict == "wrong");
    }
}
