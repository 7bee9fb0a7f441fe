//! Rung 5: a `[[kernel]]` of `warpsmith.toml` says what is right, in the words of the comment.

use std::fs;
use std::path::Path;

use super::comment::{self, Items, Judged, Statement};
use super::{Described, MissKind, Oracle, OracleMiss};
use crate::project::{self, KernelTable, ProjectError, ProjectFile};

/// Each function of this file that a `warpsmith.toml` describes; empty when there is none that speaks of it.
pub(super) fn find_all(judged: &Judged<'_>) -> Vec<Described> {
    match project::find(judged.path) {
        Err(error) => vec![Described { entry: None, oracle: Err(described(error)) }],
        Ok(None) => Vec::new(),
        Ok(Some(project)) => of_project(&project, judged),
    }
}

fn described(error: ProjectError) -> OracleMiss {
    OracleMiss::new(MissKind::Described(error.to_string()), None)
}

fn of_project(project: &ProjectFile, judged: &Judged<'_>) -> Vec<Described> {
    let folder = project.path.parent().unwrap_or(Path::new(""));
    let tables = project.kernels.iter().filter(|table| is_same(&folder.join(&table.file), judged.path));
    let mut found: Vec<Described> = Vec::new();
    for table in tables {
        let known = found.iter_mut().find(|one| one.entry.as_ref() == Some(&table.entry));
        if let Some(known) = known {
            let message = format!("more than one `[[kernel]]` describes `{}`; keep one", table.entry);
            let error = ProjectError::at(&project.path, &project.text, table.range.start, message);
            known.oracle = Err(described(error));
            continue;
        }
        let oracle = oracle(project, table, judged);
        found.push(Described { entry: Some(table.entry.clone()), oracle });
    }
    found
}

fn is_same(named: &Path, judged: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    named == judged || real(named).is_some_and(|named| Some(named) == real(judged))
}

fn oracle(project: &ProjectFile, table: &KernelTable, judged: &Judged<'_>) -> Result<Oracle, OracleMiss> {
    let here = |byte: usize, message: String| {
        described(ProjectError::at(&project.path, &project.text, byte, message))
    };
    let model = judged.model;
    let is_known = model.functions.iter().any(|function| function.name == table.entry)
        || model.bindings.iter().any(|binding| binding.name == table.entry);
    if !is_known {
        let message = format!("`{}` has no module-level function `{}`", table.file, table.entry);
        return Err(here(table.entry_range.start, message));
    }
    if model.kernels_named(&table.entry).next().is_some() {
        let message = format!("`{}` is a kernel; name the function that launches it", table.entry);
        return Err(here(table.entry_range.start, message));
    }
    let items = table.items.iter().map(|item| (item.key.as_str(), item.text.as_str(), item.range.clone()));
    let parsed =
        Items::read(items, table.range.clone()).map_err(|error| here(error.range.start, error.message))?;
    let base = project.path.parent().unwrap_or(Path::new(""));
    let mut oracle = comment::oracle_of(&Statement { parsed: &parsed, entry: &table.entry, base }, judged)
        .map_err(|miss| {
            let at = miss.range.as_ref().map_or(table.range.start, |range| range.start);
            let told = here(at, miss.kind.to_string());
            match (miss.kind, told.kind) {
                (MissKind::NotJudged(_), MissKind::Described(message)) => {
                    OracleMiss::new(MissKind::NotJudged(message), None)
                }
                (_, kind) => OracleMiss::new(kind, None),
            }
        })?;
    oracle.label.rung = 5;
    oracle.label.label = oracle.label.label.replacen("comment", project::FILE_NAME, 1);
    oracle.stated_at = None;
    oracle.files.push(project.path.clone());
    Ok(oracle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::{ForeignFile, Reference, find as find_oracle};
    use crate::source::parse;

    const KERNEL: &str = "import triton\n\n@triton.jit\ndef kernel(x): pass\n\ndef my_ref(x): return x\n\n";
    const SILU: &str = "def silu(x, eps=1e-6): kernel[(1,)](x)\n";
    const TABLE: &str = "[[kernel]]\nfile = \"kernels/silu.py\"\nentry = \"silu\"\n";

    fn found(project: &str, code: &str) -> Result<Oracle, String> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("kernels")).unwrap();
        fs::create_dir(root.join(".git")).unwrap();
        fs::write(root.join(project::FILE_NAME), project).unwrap();
        let (path, text) = (root.join("kernels/silu.py"), format!("{KERNEL}{code}"));
        fs::write(&path, &text).unwrap();
        let oracle = find_oracle(&path, &text, &parse(&text), None);
        oracle.map_err(|miss| {
            assert_eq!(miss.range, None, "its bytes are those of another file");
            miss.to_string().replace(&format!("{}/", root.display()), "")
        })
    }

    #[test]
    fn the_words_of_the_comment_say_the_same() {
        let told = found(
            &format!(
                "{TABLE}ref = \"torch.nn.functional.silu\"\nx = \"f16|bf16[M,N]\"\nM = [1,127]\nN = \"1000, 4096\"\n"
            ),
            SILU,
        )
        .unwrap();
        let comment = "# warpsmith: ref=torch.nn.functional.silu x=f16|bf16[M,N] M=1,127 N=1000,4096\n";
        let written = found("", &format!("{comment}{SILU}")).unwrap();
        assert_eq!(told.variants, written.variants);
        assert_eq!((told.label.rung, written.label.rung), (5, 4));
        assert_eq!(told.label.label, "warpsmith.toml · torch.nn.functional.silu");
        assert!(told.files[0].ends_with("warpsmith.toml") && written.files.is_empty());
    }

    #[test]
    fn a_comment_is_believed_before_it_and_it_before_a_convention() {
        let project = format!("{TABLE}ref = \"torch.abs\"\nx = \"f32[N]\"\nN = 5\n");
        let comment = format!("# warpsmith: ref=torch.neg x=f32[N] N=5\n{SILU}");
        assert_eq!(found(&project, &comment).unwrap().label.rung, 4);
        assert_eq!(found("[[kernel]]\n", &comment).unwrap().label.rung, 4, "told first");
        let convention = format!("KERNEL_TYPE = 'softmax'\ndef kernel_fn(x): kernel[(1,)](x)\n{SILU}");
        assert_eq!(found(&project, &convention).unwrap().label.rung, 5);
        assert_eq!(found("", &convention).unwrap().label.rung, 0);
        let of_another = project.replace("kernels/silu.py", "kernels/other.py");
        assert_eq!(found(&of_another, &convention).unwrap().label.rung, 0);
    }

    #[test]
    fn files_are_named_from_its_folder() {
        let own = found(&format!("{TABLE}ref = \"my_ref\"\nx = \"f32[N]\"\nN = 5\n"), SILU).unwrap();
        assert_eq!(own.label.label, "warpsmith.toml · my_ref · ref from the same file");
        let other =
            found(&format!("{TABLE}ref = \"./truth.py::right\"\nx = \"f32[N]\"\nN = 5\n"), SILU).unwrap();
        let Reference::Foreign(reference) = &other.reference else { panic!("{:?}", other.reference) };
        let ForeignFile::Other(path) = &reference.file else { panic!("{:?}", reference.file) };
        assert_eq!(path.parent(), other.files[0].parent());
        let softmax = found(
            &format!("{TABLE}definition = \"softmax\"\nM = 3\nN = [70, 5]\n"),
            "def silu(x): kernel[(1,)](x)\n",
        );
        assert_eq!(softmax.unwrap().label.label, "warpsmith.toml · Definition softmax · torch ref");
    }

    #[test]
    fn every_error_says_where_in_warpsmith_toml() {
        let of = |items: &str| format!("{TABLE}{items}\n");
        let projects = [
            "[[kernel]\n".to_owned(),
            of("ref = \"torch.abs\""),
            of("x = \"f16[N]\"\nN = 5"),
            of("ref = \"torch.abs\"\nx = \"f61[N]\"\nN = 5"),
            of("ref = \"abs\"\nx = \"f16[N]\"\nN = 5"),
            of("ref = \"silu\"\nx = \"f16[N]\"\nN = 5"),
            of("ref = \"torch.abs\"\nx = \"f16[N]\"\nN = -5"),
            of("ref = \"torch.abs\"\nx = \"f16[N]\""),
            of("ref = \"torch.abs\"\nx = \"i32[N]\"\nN = 5"),
            of("ref = \"torch.abs\"\nx = \"\"\nN = 5"),
            of("ref = \"torch.abs\"\nclass = \"f16[N]\"\nN = 5"),
            of("ref = \"torch.abs\"\n\"a b\" = \"f16[N]\"\nN = 5"),
            of("definition = \"softmaxx\""),
            of("definition = \"./none.json\""),
            of("definition = \"softmax\"\nK = 5"),
            of("definition = \"softmax\"\nM = 5"),
            of("definition = \"softmax\"\nref = \"torch.abs\""),
            TABLE.replace("\"silu\"", "\"gelu\""),
            format!("{TABLE}\n{TABLE}"),
        ];
        insta::assert_snapshot!(
            projects.map(|project| found(&project, SILU).expect_err(&project)).join("\n")
        );
    }

    #[test]
    fn a_kernel_is_no_entry() {
        let table = TABLE.replace("\"silu\"", "\"kernel\"");
        let told = found(&format!("{table}ref = \"torch.abs\"\nx = \"f32[N]\"\nN = 5\n"), SILU);
        assert_eq!(
            told.expect_err("a kernel"),
            "warpsmith.toml:3:1: `kernel` is a kernel; name the function that launches it"
        );
    }

    #[test]
    fn each_of_several_is_judged_or_the_one_that_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let table = |name: &str| {
            format!(
                "[[kernel]]\nfile = \"k.py\"\nentry = \"{name}\"\nref = \"torch.{name}\"\nx = \"f32[N]\"\nN = 5\n"
            )
        };
        fs::write(folder.path().join(project::FILE_NAME), table("abs") + &table("neg")).unwrap();
        let one = |name: &str| {
            format!("@triton.jit\ndef {name}_kernel(x): pass\ndef {name}(x): {name}_kernel[(1,)](x)\n")
        };
        let text = format!("import triton\n{}{}", one("abs"), one("neg"));
        let path = folder.path().join("k.py");
        let asked = |kernel| {
            let found = crate::oracle::find_all(&path, &text, &parse(&text), kernel);
            found.into_iter().map(|one| one.oracle.unwrap().entry).collect::<Vec<_>>()
        };
        assert_eq!(asked(None), ["abs", "neg"]);
        assert_eq!(asked(Some("neg_kernel")), ["neg"]);
        assert_eq!(asked(Some("abs")), ["abs"]);
    }
}
