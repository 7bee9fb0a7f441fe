//! Whether what is said of a file is still the same, without keeping all of it.

use super::{Described, ModuleReference, Oracle, Reference};

/// A hash of where truth comes from for each function. Where in the judged file it is said does not count, so that it
/// stays the same when lines move.
pub fn fingerprint(described: &[Described]) -> String {
    let mut hasher = blake3::Hasher::new();
    for Described { entry, oracle } in described {
        let told = match oracle {
            Ok(oracle) => of_oracle(oracle),
            Err(miss) => format!("{:?}", miss.kind),
        };
        hasher.update(format!("{entry:?} {told}\n").as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

fn of_oracle(oracle: &Oracle) -> String {
    let Oracle { label, entry, variants, reference, stated_at: _, destinations, left_out, files } = oracle;
    let reference = match reference {
        // Its texts are the judged one, which may have been moved about or commented on.
        Reference::Module(module) if module.is_same_file => {
            let ModuleReference { path, class, eval, sizes, is_same_file: _, reduction, precision } = module;
            let sizes: Vec<_> = sizes.iter().map(|size| &size.constants).collect();
            format!("{:?}", (path, class, eval, sizes, reduction, precision))
        }
        other => format!("{other:?}"),
    };
    format!("{:?}", (label, entry, variants, reference, destinations, left_out, files))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::fingerprint;
    use crate::oracle::find_all;
    use crate::source::parse;

    const KERNEL: &str = "import triton\n@triton.jit\ndef kernel(x): pass\n";
    const CODE: &str =
        "KERNEL_TYPE = 'softmax'\ndef kernel_fn(x): kernel[(1,)](x)\ndef run(x): kernel[(1,)](x)\n";
    const DEFINITION: &str = r#"{"name": "k", "op_type": "unary", "axes": {"N": {"type": "var"}}, "inputs": {"x": {"shape": ["N"],
        "dtype": "float32"}}, "outputs": {"y": {"shape": ["N"], "dtype": "float32"}}, "reference": "def run(x):\n    return -x\n"}"#;
    const WORKLOAD: &str = r#"{"definition": "k", "workload": {"uuid": "a", "axes": {"N": 5}, "inputs": {"x": {"type": "random"}}}}"#;

    fn of(path: &Path, text: &str) -> String {
        fingerprint(&find_all(path, text, &parse(text), None))
    }

    #[test]
    fn whatever_newly_says_what_is_right_changes_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.py");
        let text = format!("{KERNEL}{CODE}");
        let mut known = vec![of(&path, &text)];
        let table = |entry: &str| {
            format!(
                "[[kernel]]\nfile = \"k.py\"\nentry = \"{entry}\"\nref = \"torch.abs\"\nx = \"f32[N]\"\nN = 5\n"
            )
        };
        for (file, content) in [
            ("k.json", DEFINITION.to_owned()),
            ("k.jsonl", WORKLOAD.to_owned()),
            ("warpsmith.toml", table("kernel_fn")),
            ("warpsmith.toml", table("kernel_fn") + &table("run")),
        ] {
            std::fs::write(folder.path().join(file), content).unwrap();
            let found = of(&path, &text);
            assert!(!known.contains(&found), "{file}: {:?}", find_all(&path, &text, &parse(&text), None));
            known.push(found);
        }
    }

    #[test]
    fn moved_lines_do_not_change_it() {
        let class = "class Model: pass\ndef get_inputs(): return []\ndef get_init_inputs(): return []\n# warpsmith: \
                     ref=Model\nclass ModelNew: pass\n";
        let comment = "# warpsmith: ref=torch.neg x=f32[N] N=5\ndef negate(x): kernel[(1,)](x)\n";
        for code in [CODE, class, comment] {
            let path = Path::new("k.py");
            let text = format!("{KERNEL}{code}");
            assert_eq!(of(path, &text), of(path, &format!("# above\n\n{text}")), "{code}");
            assert_ne!(
                of(path, &text),
                of(path, &format!("{KERNEL}{code}{}", comment.replace("negate", "other")))
            );
        }
    }
}
