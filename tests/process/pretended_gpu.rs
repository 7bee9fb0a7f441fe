//! The whole path of a GPU without one: the real binary against an NVML of ours (`pretended_nvml.c`) and a worker on
//! shared memory (`tests/worker/fake_gpu.py`), which runs what Triton would compile in Triton's own interpreter.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Checked, Sandbox, python_or_skip, skip};
use crate::server::{Server, uri};

const UUID: &str = "GPU-5e1f0000-0000-4000-8000-000000000001";

/// Tests plant what is wrong with it.
const SILU: &str = "\
import os
import torch
import triton
import triton.language as tl

IS_ON_GPU = 'TRITON_INTERPRET' not in os.environ


@triton.jit
def _silu(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, value * tl.sigmoid(value), mask=at < n)


# warpsmith: ref=torch.nn.functional.silu x=f32[M,N]
# warpsmith: M=3,5,9 N=100
def silu(x):
    x = x.contiguous()
    y = torch.empty_like(x)
    _silu[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
";
/// In the middle of three sizes: told late, and by the launch itself where the host waits for it.
const ILLEGAL_ACCESS: &str = "    if x.shape[0] == 5 and IS_ON_GPU:
        os.environ['WARPSMITH_FAKE_GPU_ERROR'] = 'an illegal memory access was encountered'
        if os.environ.get('CUDA_LAUNCH_BLOCKING') == '1':
            raise RuntimeError('CUDA error: an illegal memory access was encountered')
    return y
";

/// A sandbox on a machine with one GPU.
struct Machine {
    sandbox: Sandbox,
}

impl Machine {
    fn or_skip(test: &str) -> Option<Self> {
        let mut sandbox = Sandbox::new(python_or_skip(test)?);
        let (library, leases) = (sandbox.path().join("driver"), sandbox.path().join("leases"));
        for folder in [&library, &leases] {
            fs::create_dir(folder).expect("a folder");
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
        let compiled = Command::new("gcc")
            .args(["-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1", "-o"])
            .arg(library.join("libnvidia-ml.so.1"))
            .arg(here.join("process/pretended_nvml.c"))
            .status();
        match compiled {
            Err(error) => {
                skip(test, &format!("gcc cannot be run: {error}"));
                return None;
            }
            Ok(status) => assert!(status.success(), "pretended_nvml.c does not compile"),
        }
        sandbox.python = interpreter(&sandbox, &here.join("worker/fake_gpu.py"));
        sandbox.variables = vec![
            ("LD_LIBRARY_PATH", library),
            ("WARPSMITH_PRETENDED_NVML", sandbox.path().join("nvml")),
            ("WARPSMITH_LEASE_DIR", leases),
            ("CUDA_VISIBLE_DEVICES", PathBuf::from("0")),
        ];
        Some(Self { sandbox })
    }

    /// What NVML says from now on, in the words of `pretended_nvml.c`.
    fn nvml(&self, lines: &str) {
        self.sandbox.write("nvml", lines);
    }

    /// Held until it is dropped.
    fn lease_of_another(&self) -> fs::File {
        let owner = json!({"pid": std::process::id(), "user": "ada", "host": "elsewhere", "since_unix_s": 0,
            "what": "softmax.py", "warpsmith": "0.1.0"});
        let path = self.sandbox.write(&format!("leases/warpsmith-{UUID}.lock"), &owner.to_string());
        let file = fs::OpenOptions::new().write(true).open(path).expect("a file of ours");
        file.try_lock().expect("nobody else has it");
        file
    }

    fn silu(&self, name: &str, replaced: &[(&str, &str)]) -> PathBuf {
        self.sandbox.write(&format!("{name}.py"), &silu(replaced))
    }
}

fn silu(replaced: &[(&str, &str)]) -> String {
    replaced.iter().fold(SILU.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from}");
        text.replace(from, to)
    })
}

/// Python, but for a GPU the pretended worker. Everything else that is asked of it is answered by the real one.
fn interpreter(sandbox: &Sandbox, fake: &Path) -> PathBuf {
    let word = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', r"'\''"));
    let real = word(&sandbox.python);
    // After `-I -X utf8` and the worker's file.
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in\n*' --device '*) shift 4; exec {real} -I -X utf8 {} \"$@\" ;;\nesac\nexec {real} \"$@\"\n",
        word(fake)
    );
    let path = sandbox.write("python", &text);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the sandbox is ours");
    path
}

#[track_caller]
fn assert_ends(checked: &Checked, verdict: &str, codes: &[&str]) {
    let mut found = checked.codes();
    found.dedup();
    assert_eq!((checked.verdict(), found), (verdict, words(codes)), "{}", checked.describe());
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn messages(checked: &Checked) -> Vec<String> {
    let texts = checked.findings().into_iter().filter_map(|finding| finding["message"].as_str());
    texts.map(str::to_owned).collect()
}

/// The verdict of every case, by its size.
fn by_size(checked: &Checked) -> Vec<(u64, String)> {
    let case = |case: &Value| {
        (case["case"]["axes"]["M"].as_u64().unwrap_or(0), case["verdict"].as_str().unwrap_or("").to_owned())
    };
    let mut sizes: Vec<_> = checked.cases.iter().map(case).collect();
    sizes.sort();
    sizes
}

#[test]
fn verdicts_on_a_gpu() {
    let Some(machine) = Machine::or_skip("verdicts_on_a_gpu") else { return };
    let store = "tl.sigmoid(value), mask=at < n)";
    let behind_input = format!("{store}\n    tl.store(x + n + at, 1.0, mask=at < 2)");
    let load = "tl.load(x + at, mask=at < n, other=0.0)";
    let call = "    return y\n";
    let files = [
        machine.silu("right", &[]),
        machine.silu("wrong", &[("tl.sigmoid(value)", "tl.sigmoid(1.02 * value)")]),
        machine.silu("behind_output", &[(store, "tl.sigmoid(value), mask=at < n + 1)")]),
        machine.silu("behind_input", &[(store, &behind_input), ("    x = x.contiguous()\n", "")]),
        machine.silu("fault", &[(call, ILLEGAL_ACCESS)]),
        machine.silu("reads_behind", &[(load, "tl.load(x + at)")]),
        machine.silu("gpu_only", &[("    y = torch", "    assert IS_ON_GPU, 'not here'\n    y = torch")]),
    ];
    let options = ["--device", "cuda:0", "--stage", "smoke,sweep"];
    let all = machine.sandbox.check_all(&files, &options);
    let [right, wrong, behind_output, behind_input, fault, reads_behind, gpu_only] = all.as_slice() else {
        panic!("not one for each file")
    };
    assert_ends(right, "passed", &[]);
    assert_eq!(right.not_run(), words(&[]), "the interpreter beside looked");
    let provenance = &right.summary["provenance"];
    assert_eq!(provenance["method"], "gpu");
    assert_eq!(
        (&provenance["gpu"]["device"], &provenance["gpu"]["uuid"], &provenance["gpu"]["transport"]),
        (&json!("cuda:0"), &json!(UUID), &json!("ipc"))
    );
    assert_ends(wrong, "wrong", &["mismatch"]);
    assert_eq!(wrong.exit, Some(1));
    for (checked, told) in [
        (behind_output, "wrote 4 bytes behind the memory of a tensor that `torch.empty_like` made"),
        (behind_input, "memory right before or behind `x` was written"),
    ] {
        assert_ends(checked, "wrong", &["out-of-bounds"]);
        let messages = messages(checked);
        // By the guards, and by the interpreter.
        assert!(messages.iter().any(|message| message.contains(told)), "{messages:#?}");
        assert!(
            messages.iter().any(|message| message.ends_with("(seen in the interpreter)")),
            "{messages:#?}"
        );
    }
    assert_ends(fault, "wrong", &["illegal-access"]);
    let verdicts = [(3, "passed"), (5, "wrong"), (9, "passed")].map(|(rows, word)| (rows, word.to_owned()));
    assert_eq!(by_size(fault), verdicts, "{}", fault.describe());
    let line = silu(&[(call, ILLEGAL_ACCESS)]).lines().position(|line| line.contains("raise"));
    assert_eq!(fault.findings()[0]["place"]["line"].as_u64(), line.map(|line| line as u64 + 1));
    // Right on the GPU, whatever lay behind.
    assert_ends(reads_behind, "wrong", &["out-of-bounds"]);
    assert!(messages(reads_behind).iter().all(|message| message.ends_with("(seen in the interpreter)")));
    assert_ends(gpu_only, "passed", &[]);
    let [not_looked] = &gpu_only.not_run()[..] else { panic!("{}", gpu_only.describe()) };
    assert!(
        not_looked.contains("the interpreter could not look: ") && not_looked.contains("not here"),
        "{not_looked}"
    );
}

/// The one instance of a card with MIG on; an instance has no utilisation of its own.
#[test]
fn a_time_on_a_mig_instance() {
    let Some(machine) = Machine::or_skip("a_time_on_a_mig_instance") else { return };
    machine.nvml("mig 1\nutilization 90\n");
    let checked = machine.sandbox.check(&machine.silu("right", &[("M=3,5,9", "M=3")]), &[]);
    assert_ends(&checked, "passed", &[]);
    let uuid = "MIG-5e1f0000-0000-4000-8000-000000000002";
    assert_eq!(checked.summary["provenance"]["gpu"]["uuid"], uuid);
    let (times, missing) = (&checked.summary["timings"], &checked.summary["not_timed"]);
    match times.get(0) {
        Some(time) => {
            assert_eq!(time["gpu"], json!({"name": "Pretended H200 MIG 1g.18gb", "uuid": uuid}));
            assert_eq!(time["versions"]["driver"], "580.00.01");
            assert!(time["n"].as_u64().is_some_and(|pairs| pairs >= 5), "{time}");
            assert_eq!(time["conditions"][0], "the GPU is one MIG slice of a card");
        }
        // The host's clock stands in for the GPU's, on a machine that does other things as well.
        None => {
            let code = missing[0]["code"].as_str().unwrap_or_default();
            assert!(["claim-refused", "bad-samples", "too-few-samples"].contains(&code), "{missing}");
        }
    }
}

/// With another process on the card a kernel is judged and not timed. A case that the interpreter beside finds wrong
/// has a row of its own for that.
#[test]
fn a_busy_card() {
    let Some(machine) = Machine::or_skip("a_busy_card") else { return };
    let file = machine.silu("right", &[("M=3,5,9", "M=3")]).display().to_string();
    let stranger = Stranger::start();
    machine.nvml(&format!("process {} 40\nutilization 40\n", stranger.0.id()));
    let reads_behind = [("M=3,5,9", "M=3"), ("tl.load(x + at, mask=at < n, other=0.0)", "tl.load(x + at)")];
    let reads_behind = machine.silu("reads_behind", &reads_behind).display().to_string();
    let busy = machine.sandbox.run(&["check", "--no-setup", "--device", "cuda:0", &reads_behind, &file]);
    let told = String::from_utf8(busy.stdout).expect("UTF-8");
    assert_eq!(busy.status.code(), Some(1), "{told}");
    let smoke: Vec<&str> = told.lines().filter(|line| line.starts_with("smoke       M=3")).collect();
    let is_rejudged =
        smoke[0].contains("✓ passed") && smoke[1].contains("✗ wrong") && smoke[1].ends_with("out-of-bounds");
    assert!(is_rejudged, "{told}");
    let mut lines = told.lines().rev();
    let why = format!("not timed: sleep (process {}) uses the GPU", stranger.0.id());
    assert_eq!(lines.next(), Some(&*why), "{told}");
    assert!(lines.next().is_some_and(|line| line.ends_with("cases passed · on cuda:0, Fake")), "{told}");
}

/// A process that has nothing to do with a check.
struct Stranger(Child);

impl Stranger {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().expect("a process"))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What somebody reads who asked for a GPU that is not there, and that nothing is started for it.
#[test]
fn drivers_without_a_gpu() {
    let Some(machine) = Machine::or_skip("drivers_without_a_gpu") else { return };
    let file = machine.silu("right", &[]);
    let mut said = Vec::new();
    for (device, state) in [
        ("cuda:0", "init 9"),
        ("cuda:0", "init 18"),
        ("cuda:0", "init 999"),
        ("cuda:0", "init 6"),
        ("cuda:0", "cards 0"),
        ("cuda:0", "no-permission"),
        ("cuda:0", "mig 0"),
        ("cuda:1", ""),
        ("cuda:1", "mig 1"),
    ] {
        machine.nvml(state);
        let checked = machine.sandbox.check(&file, &["--device", device, "--stage", "smoke"]);
        assert_eq!((checked.exit, checked.cases.len()), (Some(2), 0), "{state}: {}", checked.describe());
        assert_ends(&checked, "could-not-run", &["no-device"]);
        said.push(format!("{state}: {}", messages(&checked)[0]));
    }
    insta::assert_snapshot!(said.join("\n"), @r"
    init 9: there is no cuda:0: the NVIDIA driver cannot be used: NVIDIA driver is not loaded; `--device auto` takes what there is
    init 18: there is no cuda:0: the NVIDIA driver cannot be used: RM detects a driver/library version mismatch; `--device auto` takes what there is
    init 999: there is no cuda:0: the NVIDIA driver does not answer: an internal driver error occurred; `--device auto` takes what there is
    init 6: there is no cuda:0: the NVIDIA driver knows no GPU; `--device auto` takes what there is
    cards 0: there is no cuda:0: the NVIDIA driver knows no GPU; `--device auto` takes what there is
    no-permission: there is no cuda:0: the NVIDIA driver knows of GPUs, but this process may open none of them; `--device auto` takes what there is
    mig 0: there is no cuda:0: MIG is on, but there is no MIG instance that CUDA could run on; `--device auto` takes what there is
    : there is no cuda:1: there is cuda:0 Pretended H200; `--device auto` takes what there is
    mig 1: there is no cuda:1: there is cuda:0 Pretended H200 MIG 1g.18gb; `--device auto` takes what there is
    ");
}

/// One that nobody asked for and that torch cannot use is not in the way, and is told; one that was asked for is
/// never replaced.
#[test]
fn a_gpu_that_torch_cannot_use() {
    let Some(mut machine) = Machine::or_skip("a_gpu_that_torch_cannot_use") else { return };
    let file = machine.silu("right", &[("M=3,5,9", "M=3")]);
    machine.sandbox.variables.push(("WARPSMITH_FAKE_GPU_FAULT", PathBuf::from("unusable")));
    let named = machine.sandbox.check(&file, &["--device", "cuda:0", "--stage", "smoke"]);
    assert_ends(&named, "could-not-run", &["device-unusable"]);
    let any = machine.sandbox.check(&file, &["--device", "auto", "--stage", "smoke"]);
    assert_ends(&any, "passed", &[]);
    assert_eq!(any.summary["provenance"]["method"], "triton-interpreter");
    assert_eq!(any.summary["provenance"]["gpu"], Value::Null);
    let not_run = any.not_run();
    assert!(not_run[0].starts_with("cuda:0 (Pretended H200) (PyTorch cannot use the GPU: "), "{not_run:?}");
    machine.sandbox.assert_alone_within(Duration::from_secs(3));
}

/// Ctrl-C while a kernel hangs on the GPU: the summary says so, and nothing is left.
#[test]
fn an_interrupted_check_leaves_nothing_on_the_gpu() {
    let Some(machine) = Machine::or_skip("an_interrupted_check_leaves_nothing_on_the_gpu") else { return };
    let started = machine.sandbox.path().join("started");
    let hangs = format!(
        "    while IS_ON_GPU:\n        open({:?}, 'w').close()\n    return y\n",
        started.display().to_string()
    );
    let file = machine.silu("hangs", &[("    return y\n", &hangs)]);
    let mut command = machine.sandbox.warpsmith();
    command.args(["check", "--json", "--no-setup", "--device", "cuda:0", "--stage", "smoke"]).arg(&file);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !started.exists()
        && child.try_wait().is_ok_and(|ended| ended.is_none())
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.is_ok_and(|status| status.success()));
    let output = child.wait_with_output().expect("it ends");
    let told = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{told}");
    assert!(told.lines().last().is_some_and(|line| line.contains("\"cancelled\"")), "{told}");
    machine.sandbox.assert_alone_within(Duration::from_secs(3));
}

/// complaint 25: two programs use one GPU and the user does not know who. An editor's save waits for whoever times on the
/// GPU, not for long, and says for whom: a name and a process. (Who is told and when a dead owner counts no more:
/// `tests/lease.rs`.)
#[test]
fn a_save_while_another_times() {
    let Some(machine) = Machine::or_skip("a_save_while_another_times") else { return };
    let lease = machine.lease_of_another();
    let replaced = [("M=3,5,9", "M=3")];
    let (file, text) = (machine.silu("right", &replaced), silu(&replaced));
    let mut server = Server::start(&machine.sandbox);
    server.open_and_save(&file, &text);
    let ada = format!("ada (process {})", std::process::id());
    let waiting = format!("waiting for cuda:0, which {ada} times on");
    let is_waiting = |message: &Value| {
        let told = &message["params"]["value"]["message"];
        told.as_str().is_some_and(|told| told.contains(&waiting))
    };
    let told = server.wait_for(|message| is_waiting(message) || is_end(message));
    assert!(is_waiting(&told), "{told} {}", machine.sandbox.log());
    server.wait_for(is_end);
    let told = hover(&mut server, &file, &text);
    assert!(told.contains(&format!("s {ada} still has the GPU for timing")), "{told}");
    drop(lease);
    // The same code is not judged again.
    let text = text.replace("BLOCK=256", "BLOCK=128").replace("numel(), 256)", "numel(), 128)");
    server.save(&file, 2, &text);
    server.wait_for(is_end);
    let told = hover(&mut server, &file, &text);
    // The host's clock stands in for the GPU's, on a machine that does other things as well.
    let believed = ["Pretended H200", "the judge's clock says", "no figure of it is believed"];
    let is_timed = believed.iter().any(|words| told.contains(words));
    assert!(is_timed && !told.contains(&ada), "{told}");
}

/// Of a check's progress.
fn is_end(message: &Value) -> bool {
    message["method"] == "$/progress" && message["params"]["value"]["kind"] == "end"
}

/// What stands under the pointer on the kernel.
fn hover(server: &mut Server, file: &Path, text: &str) -> String {
    let line = text.lines().position(|line| line.starts_with("def _silu"));
    server.send(&json!({"jsonrpc": "2.0", "id": "hover", "method": "textDocument/hover", "params":
        {"textDocument": {"uri": uri(file)}, "position": {"line": line, "character": 5}}}));
    server.wait_for(|message| message["id"] == "hover")["result"].to_string()
}
