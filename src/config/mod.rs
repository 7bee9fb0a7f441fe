//! What a user sets in an editor: the options as they were given ([`Options`]), one layer over another, and what they
//! amount to ([`Settings`]).
//!
//! [`SETTINGS`] is the one list of all settings. The reader, `docs/settings.md` and the settings page of the VS Code
//! extension are made from it.

mod options;
pub mod pages;
mod table;
#[cfg(test)]
mod tests;

pub use options::{Mistake, OnSave, Options, section};
pub use table::{Kind, SETTINGS, Scope, Setting};

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::device::{DeviceChoice, WhenBusy};

/// What the server goes by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The interpreter that has torch and Triton; `None` has it searched for.
    pub python: Option<PathBuf>,
    pub on_save: OnSave,
    pub device: DeviceChoice,
    pub when_busy: WhenBusy,
    pub lints: LintChoice,
}

impl Default for Settings {
    fn default() -> Self {
        Self::resolve(&Options::default())
    }
}

impl Settings {
    /// What is not given is at its default.
    pub fn resolve(options: &Options) -> Self {
        Self {
            python: options.python_path.clone().flatten(),
            on_save: options.check_on_save.unwrap_or_default(),
            device: options.gpu_device.unwrap_or_default(),
            when_busy: options.gpu_when_busy.unwrap_or_default(),
            lints: LintChoice {
                enabled: options.lint_enable.unwrap_or(true),
                disabled: options.lint_disable.clone().unwrap_or_default(),
            },
        }
    }

    /// A verdict under these settings is one under `other` too.
    pub fn judge_like(&self, other: &Self) -> bool {
        let of = |settings: &Self| {
            let Self { python, on_save, device, when_busy, lints: _ } = settings.clone();
            (python, on_save.times_several(), device, when_busy)
        };
        of(self) == of(other)
    }
}

/// Which static findings are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintChoice {
    pub enabled: bool,
    /// Names of rules.
    pub disabled: BTreeSet<&'static str>,
}

impl Default for LintChoice {
    fn default() -> Self {
        Self { enabled: true, disabled: BTreeSet::new() }
    }
}

impl LintChoice {
    pub fn allows(&self, rule: &str) -> bool {
        self.enabled && !self.disabled.contains(rule)
    }
}
