//! The list of all settings.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

use super::options::Options;
use crate::lint;

/// One setting of `warpsmith.*`.
#[derive(Debug)]
pub struct Setting {
    /// Without `warpsmith.`.
    pub key: &'static str,
    pub scope: Scope,
    pub kind: Kind,
    /// As JSON.
    pub default: &'static str,
    /// Markdown, for any editor.
    pub meaning: &'static str,
    /// Takes a value; `None` when it makes no sense. Without a reader it is a setting of the VS Code extension, which
    /// the server lets pass.
    pub(super) read: Option<fn(&mut Options, &Value) -> Option<()>>,
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Setting {
    pub fn is_of_the_server(&self) -> bool {
        self.read.is_some()
    }
}

/// Who may set it, in VS Code's words. A folder that somebody opens may set what is of the window, and nothing that names
/// a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Machine,
    MachineOverridable,
    Window,
}

/// What a setting takes.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The path of a program; empty is not set.
    Path,
    /// One of these words, each with its meaning.
    Choice(&'static [(&'static str, &'static str)]),
    Device,
    Switch,
    /// Names of static findings.
    Rules,
}

impl Kind {
    /// What to write instead of a value that makes no sense.
    pub fn accepts(self) -> String {
        match self {
            Self::Path => "give the path of a program as text".to_owned(),
            Self::Choice(words) => {
                let mut words: Vec<String> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                let last = words.pop().unwrap_or_default();
                format!("write {} or {last}", words.join(", "))
            }
            Self::Device => "write \"auto\", \"cpu\" or \"cuda:0\" and so on".to_owned(),
            Self::Switch => "write true or false".to_owned(),
            Self::Rules => {
                let names: Vec<&str> = lint::RULES.iter().map(|rule| rule.name).collect();
                format!("write a list of rules, of which there are: {}", names.join(", "))
            }
        }
    }
}

/// In the order in which they are shown.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "server.path",
        scope: Scope::Machine,
        kind: Kind::Path,
        default: "\"\"",
        meaning: "The program `warpsmith`. Empty: the one that came with the extension, or else the one on the `PATH`. \
                  A path may begin with `~`.",
        read: None,
    },
    Setting {
        key: "python.path",
        scope: Scope::Machine,
        kind: Kind::Path,
        default: "\"\"",
        meaning: "The Python interpreter that has torch and Triton. Empty: `warpsmith.toml`, the active virtual \
                  environment, `.venv` next to the file or above it, a uv project, conda, pyenv or `python3`, the first \
                  with torch and Triton. `warpsmith doctor` tells what was found.",
        read: Some(|options, value| {
            let path = value.as_str()?;
            options.python_path = Some(Some(path).filter(|path| !path.is_empty()).map(PathBuf::from));
            Some(())
        }),
    },
    Setting {
        key: "check.onSave",
        scope: Scope::Window,
        kind: Kind::Choice(&[
            ("off", "A save runs nothing; checks are asked for."),
            ("static", "A save runs nothing; what can be seen without running is shown all the same."),
            ("quick", "A save judges the kernels of the file. On a GPU the first size is timed."),
            ("full", "A save judges the kernels of the file. On a GPU a few sizes are timed."),
        ]),
        default: "\"quick\"",
        meaning: "What a save of a file with kernels does.",
        read: Some(|options, value| {
            options.check_on_save = Some(Deserialize::deserialize(value).ok()?);
            Some(())
        }),
    },
    Setting {
        key: "gpu.device",
        scope: Scope::MachineOverridable,
        kind: Kind::Device,
        default: "\"auto\"",
        meaning: "Where kernels run: `auto` (a GPU if there is one), `cpu` (Triton's interpreter, nothing is timed) or \
                  `cuda:N`.",
        read: Some(|options, value| {
            options.gpu_device = Some(value.as_str()?.parse().ok()?);
            Some(())
        }),
    },
    Setting {
        key: "gpu.whenBusy",
        scope: Scope::MachineOverridable,
        kind: Kind::Choice(&[
            ("skip", "Do not run on that GPU."),
            ("correctness", "Judge kernels, time nothing."),
        ]),
        default: "\"correctness\"",
        meaning: "What is done while another process uses the GPU.",
        read: Some(|options, value| {
            options.gpu_when_busy = Some(value.as_str()?.parse().ok()?);
            Some(())
        }),
    },
    Setting {
        key: "lint.enable",
        scope: Scope::Window,
        kind: Kind::Switch,
        default: "true",
        meaning: "Whether static findings, which need no run, are shown.",
        read: Some(|options, value| {
            options.lint_enable = Some(value.as_bool()?);
            Some(())
        }),
    },
    Setting {
        key: "lint.disable",
        scope: Scope::Window,
        kind: Kind::Rules,
        default: "[]",
        meaning: "Static findings that are not shown, by their names; `warpsmith explain` lists them. A comment with a \
                  reason, `# warpsmith: allow(int32-offset) at most 2**20 rows`, does the same for one line.",
        read: Some(|options, value| {
            let names = value.as_array()?.iter();
            let rules: Option<BTreeSet<_>> =
                names.map(|name| Some(lint::rule(name.as_str()?)?.name)).collect();
            options.lint_disable = Some(rules?);
            Some(())
        }),
    },
    Setting {
        key: "trace.server",
        scope: Scope::Window,
        kind: Kind::Choice(&[
            ("off", "Nothing is written."),
            ("messages", "Their names."),
            ("verbose", "All of them."),
        ]),
        default: "\"off\"",
        meaning: "Writes the messages between VS Code and the server to the output channel, for a bug report.",
        read: None,
    },
];
