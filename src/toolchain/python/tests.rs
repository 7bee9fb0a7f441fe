//! The search on folders with stub interpreters: shell scripts that print a probe's answer.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::*;

/// A machine in a temporary folder.
struct Machine {
    folder: tempfile::TempDir,
    surroundings: Surroundings,
    document: PathBuf,
    workspace: PathBuf,
}

fn search(request: SearchRequest<'_>) -> PythonSearch {
    find_python(&request, &ProbeCache::default())
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_owned();
        let path = std::env::join_paths([root.join("bin"), "/usr/bin".into(), "/bin".into()]).unwrap();
        std::fs::create_dir_all(root.join("code/project/kernels")).unwrap();
        let surroundings = Surroundings::default().with("PATH", path).with("HOME", root.join("home"));
        // The real interpreters of this machine must not be found behind the stubs.
        let workspace = root.join("code/project");
        let document = workspace.join("kernels/softmax.py");
        let machine = Self { folder, surroundings, document, workspace };
        machine.script("bin/python3", "exit 3");
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn script(&self, path: &str, body: &str) -> PathBuf {
        let path = self.write(path, &format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// An interpreter with these packages: `(torch, triton, numpy)`, an empty version is not installed.
    fn python(&self, path: &str, python: &str, packages: (&str, &str, &str)) -> PathBuf {
        let package = |version: &str| match version {
            "" => Value::Null,
            version => json!({"version": version, "site": "/site"}),
        };
        self.answering(
            path,
            json!({"python": python, "torch": package(packages.0), "triton": package(packages.1),
                "numpy": package(packages.2)}),
        )
    }

    fn complete(&self, path: &str) -> PathBuf {
        self.python(path, "3.12.4", ("2.15.0", "3.9.0", "2.4.6"))
    }

    fn answering(&self, path: &str, changes: Value) -> PathBuf {
        let mut answer = json!({"warpsmith_probe": 1, "executable": self.at(path), "python": "3.12.4",
            "folders": [self.at("site")], "externally_managed": false, "has_pip": true,
            "can_make_venv": true, "torch": null, "triton": null, "numpy": null,
            "torch_in_user_site": null});
        for (key, value) in changes.as_object().unwrap() {
            answer[key] = value.clone();
        }
        let count = self.at("probes");
        self.script(path, &format!("echo x >> {}\ncat <<'END'\n{answer}\nEND", count.display()))
    }

    /// How many interpreters were started so far.
    fn probes(&self) -> usize {
        std::fs::read_to_string(self.at("probes")).map_or(0, |text| text.lines().count())
    }

    /// A search for a document two folders below the workspace.
    fn request(&self) -> SearchRequest<'_> {
        let (document, workspace) = (Some(&*self.document), Some(&*self.workspace));
        SearchRequest { document, workspace, ..SearchRequest::new(&self.surroundings) }
    }

    fn find(&self) -> PythonSearch {
        search(self.request())
    }

    /// A text with the temporary folder's name taken out.
    fn plain(&self, text: impl ToString) -> String {
        text.to_string().replace(&self.folder.path().display().to_string(), "")
    }

    fn chosen(&self, search: &PythonSearch) -> String {
        let chosen = search.chosen.as_ref().expect("an interpreter is chosen");
        self.plain(format!("{} | {}", chosen.executable.display(), chosen.origin))
    }
}

#[test]
fn the_order_of_the_search() {
    let mut machine = Machine::new();
    let managed = machine.complete("cache/env/py3.12/bin/python");
    let find = |machine: &Machine| {
        machine.chosen(&search(SearchRequest { managed: Some(&managed), ..machine.request() }))
    };
    let mut found = vec![find(&machine)];

    machine.complete("bin/python3");
    found.push(find(&machine));
    machine.complete("home/.pyenv/versions/3.11.7/bin/python");
    machine.complete("home/.pyenv/versions/3.11.10/bin/python");
    machine.write("code/project/.python-version", "3.11\n");
    found.push(find(&machine));
    machine.complete("conda/bin/python");
    machine.surroundings = machine.surroundings.clone().with("CONDA_PREFIX", machine.at("conda"));
    found.push(find(&machine));
    let uv_python = machine.complete("uv/python3.13");
    machine.write("code/project/pyproject.toml", "[project]\n[tool.uv.sources]\n");
    let uv = format!("[ \"$UV_PYTHON_DOWNLOADS\" = never ] && echo {}", uv_python.display());
    machine.script("bin/uv", &uv);
    found.push(find(&machine));
    machine.complete("code/project/.venv/bin/python");
    found.push(find(&machine));
    machine.complete("code/project/kernels/env/bin/python3");
    machine.write("code/project/kernels/.venv", "# where it is\nenv\n");
    found.push(find(&machine));
    machine.complete("active/bin/python");
    machine.surroundings = machine.surroundings.clone().with("VIRTUAL_ENV", machine.at("active"));
    found.push(find(&machine));

    let editor = machine.complete("editor/python");
    let setting = machine.complete("setting/bin/python");
    let flag = machine.complete("flag/python");
    found.push(machine.chosen(&search(SearchRequest { editor: Some(&editor), ..machine.request() })));
    let project = machine.complete("code/project/tools/python");
    let file = machine.at("code/project/warpsmith.toml");
    let project = Some(ProjectPython { executable: &project, file: &file });
    let editor = Some(&*editor);
    found.push(machine.chosen(&search(SearchRequest { editor, project, ..machine.request() })));
    let setting_folder = machine.at("setting");
    let named = |machine: &Machine, flag| {
        let setting = Some(&*setting_folder);
        machine.chosen(&search(SearchRequest { editor, project, setting, flag, ..machine.request() }))
    };
    found.push(named(&machine, None));
    assert!(setting.exists());
    let variable = machine.complete("variable/python");
    machine.surroundings = machine.surroundings.clone().with(PYTHON_VARIABLE, variable);
    found.push(named(&machine, None));
    found.push(named(&machine, Some(&flag)));
    insta::assert_snapshot!(found.join("\n"));
}

#[test]
fn environments_without_torch_and_triton_are_passed_over_with_the_reason() {
    let mut machine = Machine::new();
    machine.python("active/bin/python", "3.12.4", ("", "3.9.0", "2.4.6"));
    machine.surroundings = machine.surroundings.clone().with("VIRTUAL_ENV", machine.at("active"));
    machine.python("code/project/.venv/bin/python", "3.12.4", ("2.15.0", "", ""));
    machine.answering("conda/bin/python", json!({"torch_in_user_site": "/home/u/.local/site"}));
    machine.surroundings = machine.surroundings.clone().with("CONDA_PREFIX", machine.at("conda"));
    let search = machine.find();
    assert!(search.wants_managed());
    insta::assert_snapshot!(machine.plain(search.usable().unwrap_err()));
}

#[test]
fn the_search_ends_at_the_workspace() {
    let machine = Machine::new();
    machine.complete("code/.venv/bin/python");
    assert_eq!(machine.find().chosen, None);
    assert!(search(SearchRequest { workspace: None, ..machine.request() }).chosen.is_some());
}

#[test]
fn an_old_triton_is_reported_and_not_replaced() {
    let machine = Machine::new();
    machine.python("code/project/.venv/bin/python", "3.12.4", ("2.8.0", "3.4.0", "2.3.0"));
    let managed = machine.complete("managed/bin/python");
    let search = search(SearchRequest { managed: Some(&managed), ..machine.request() });
    assert!(!search.wants_managed());
    insta::assert_snapshot!(machine.plain(search.usable().unwrap_err()));
}

#[test]
fn each_problem_has_words_and_a_remedy() {
    let complaint = |python: &str, packages, more: Value| {
        let machine = Machine::new();
        let path = machine.python("py", python, packages);
        if more != Value::Null {
            machine.answering("py", more);
        }
        let search = search(SearchRequest { flag: Some(&path), ..machine.request() });
        machine.plain(search.usable().unwrap_err())
    };
    let complaints = [
        complaint("3.9.2", ("2.8.0", "3.5.0", "2.0.0"), Value::Null),
        complaint("3.11.7", ("2.10.0", "3.5.1", "2.4.0"), Value::Null),
        complaint("3.11.7", ("2.11.0", "3.6.0", ""), Value::Null),
        complaint("3.11.7", ("", "", ""), Value::Null),
        complaint("", ("", "", ""), json!({"has_pip": false})),
        complaint("", ("", "", ""), json!({"externally_managed": true})),
    ];
    insta::assert_snapshot!(complaints.join("\n"));
}

#[test]
fn triton_3_6_is_fine_with_any_numpy() {
    for numpy in ["2.3.5", "2.5.2"] {
        let machine = Machine::new();
        machine.python("code/project/.venv/bin/python", "3.10.1", ("2.11.0", "3.6.1", numpy));
        assert!(machine.find().usable().is_ok(), "{numpy}");
    }
}

#[test]
fn a_named_interpreter_that_does_not_run_is_not_replaced() {
    let machine = Machine::new();
    machine.complete("bin/python3");
    machine.script("broken", "echo no such module >&2; exit 1");
    machine.write("text", "no program");
    machine.script("other", "echo hello");
    let complaints: Vec<String> = ["nowhere", "text", "broken", "other"]
        .iter()
        .map(|name| {
            let path = machine.at(name);
            let search = search(SearchRequest { setting: Some(&path), ..machine.request() });
            assert!(!search.wants_managed());
            machine.plain(search.usable().unwrap_err())
        })
        .collect();
    insta::assert_snapshot!(complaints.join("\n"));
}

#[test]
fn uv_is_not_asked_outside_its_projects() {
    let machine = Machine::new();
    machine.script("bin/uv", &format!("touch {}", machine.at("asked").display()));
    machine.write("code/project/pyproject.toml", "[tool.uvicorn]\n");
    machine.find();
    assert!(!machine.at("asked").exists());
    machine.write("code/project/uv.lock", "");
    machine.find();
    assert!(machine.at("asked").exists());
}

#[test]
fn files_that_name_no_environment_are_left_alone() {
    let machine = Machine::new();
    machine.write("code/project/.venv", &"x".repeat(10_000));
    machine.write("code/project/.python-version", "../../../etc");
    machine.write("code/project/kernels/.venv", "\n");
    let search = machine.find();
    let origins: Vec<String> = search.rejected.iter().map(|rejected| rejected.origin.to_string()).collect();
    assert_eq!(origins, ["python3 on PATH"]);
}

#[test]
fn an_answer_is_kept_until_something_changes() {
    let machine = Machine::new();
    let python = machine.complete("bin/python3");
    std::fs::create_dir(machine.at("site")).unwrap();
    let cache = ProbeCache::default();
    let probe = || cache.probe(&python, &machine.surroundings).unwrap();
    assert_eq!(probe(), probe());
    assert_eq!(machine.probes(), 1);

    // An installed package changes the site folder.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    std::fs::File::open(machine.at("site")).unwrap().set_modified(later).unwrap();
    probe();
    assert_eq!(machine.probes(), 2);
    std::fs::write(machine.at("pyvenv.cfg"), "").unwrap();
    probe();
    assert_eq!(machine.probes(), 3);
}

#[test]
fn a_hanging_interpreter_is_given_up() {
    let machine = Machine::new();
    let python = machine.script("hang", "trap '' TERM; sleep 300 & wait; sleep 300");
    let cache = ProbeCache::with_limit_s(1);
    let reason = cache.probe(&python, &machine.surroundings).unwrap_err();
    assert_eq!(reason, Rejection::NoAnswer { limit_s: 1 });
}

/// The probe's own text, on the interpreter of this machine and packages made of two files.
#[test]
fn a_real_interpreter_reads_versions_without_importing() {
    let Some(python) = Surroundings::of_this_process().find_program("python3") else { return };
    let machine = Machine::new();
    let made = std::process::Command::new(python)
        .args(["-m", "venv", "--without-pip"])
        .arg(machine.at("venv"))
        .status()
        .unwrap();
    assert!(made.success());
    let site = std::fs::read_dir(machine.at("venv/lib")).unwrap().next().unwrap().unwrap().path();
    let site = site.join("site-packages");
    let package = |name: &str, file: &str, text: &str| {
        std::fs::create_dir_all(site.join(name)).unwrap();
        std::fs::write(site.join(name).join("__init__.py"), "raise SystemExit('imported')\n").unwrap();
        std::fs::write(site.join(name).join(file), text).unwrap();
    };
    package("torch", "version.py", "__version__ = '2.15.0+cu132'\ncuda: Optional[str] = '13.2'\n");
    package("numpy", "other.py", "");
    std::fs::create_dir_all(site.join("numpy-2.4.6.dist-info")).unwrap();
    std::fs::create_dir_all(site.join("triton")).unwrap();

    let executable = machine.at("venv/bin/python");
    let probe = ProbeCache::default().probe(&executable, &machine.surroundings).unwrap();
    assert_eq!(probe.executable, executable);
    let cuda = Some("13.2".to_owned());
    assert_eq!(probe.torch, Some(Package { version: "2.15.0+cu132".into(), site: site.clone(), cuda }));
    assert_eq!(probe.numpy, Some(Package { version: "2.4.6".into(), site, cuda: None }));
    assert_eq!(probe.triton, None, "a folder without code is no package");
    assert!(!probe.has_pip);
}
