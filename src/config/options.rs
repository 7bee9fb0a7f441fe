//! Options as somebody gave them, read leniently: what makes no sense is told and left out, the rest counts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::table::{SETTINGS, Setting};
use crate::device::{DeviceChoice, WhenBusy};

/// What every key may begin with.
const PREFIX: &str = "warpsmith";

/// What a save does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnSave {
    Off,
    /// As `off`: the static part of a check is what every edit gets anyway.
    Static,
    #[default]
    Quick,
    Full,
}

impl OnSave {
    /// A save starts a check.
    pub fn checks(self) -> bool {
        matches!(self, Self::Quick | Self::Full)
    }

    /// On a GPU a few sizes of every Definition are timed, not the first alone.
    pub fn times_several(self) -> bool {
        self == Self::Full
    }
}

/// One layer of settings. `None` is not given here.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// `Some(None)` is the empty path: searched for, whatever a layer below names.
    pub python_path: Option<Option<PathBuf>>,
    pub check_on_save: Option<OnSave>,
    pub gpu_device: Option<DeviceChoice>,
    pub gpu_when_busy: Option<WhenBusy>,
    pub lint_enable: Option<bool>,
    pub lint_disable: Option<BTreeSet<&'static str>>,
    /// Keys that are no setting, with their values.
    pub unknown: BTreeMap<String, Value>,
}

/// A value that a setting does not take. Reads on from "the setting".
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    pub setting: &'static Setting,
    pub value: Value,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is {}; {}", self.setting.key, self.value, self.setting.kind.accepts())
    }
}

impl Options {
    /// Reads `{"check": {"onSave": "off"}}`, `{"check.onSave": "off"}` and either below or behind `warpsmith`, which
    /// counts before the same without it. What is `null` is not given.
    pub fn read(given: Option<&Value>) -> (Self, Vec<Mistake>) {
        let (mut options, mut mistakes) = (Self::default(), Vec::new());
        let mut found = Vec::new();
        if let Some(Value::Object(members)) = given {
            flatten(members, "", &mut found);
        }
        let is_prefixed = |key: &str| without_prefix(key).is_some();
        found.sort_by_key(|(key, _)| is_prefixed(key));
        for (key, value) in found {
            let key = without_prefix(&key).unwrap_or(&key);
            let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
                options.unknown.insert(key.to_owned(), value.clone());
                continue;
            };
            if let Some(read) = setting.read
                && read(&mut options, value).is_none()
            {
                mistakes.push(Mistake { setting, value: value.clone() });
            }
        }
        (options, mistakes)
    }

    /// These options, and below them another layer.
    #[must_use]
    pub fn over(self, below: &Self) -> Self {
        let below = below.clone();
        let mut unknown = below.unknown;
        unknown.extend(self.unknown);
        Self {
            python_path: self.python_path.or(below.python_path),
            check_on_save: self.check_on_save.or(below.check_on_save),
            gpu_device: self.gpu_device.or(below.gpu_device),
            gpu_when_busy: self.gpu_when_busy.or(below.gpu_when_busy),
            lint_enable: self.lint_enable.or(below.lint_enable),
            lint_disable: self.lint_disable.or(below.lint_disable),
            unknown,
        }
    }
}

/// The part of an editor's settings that is ours. Some answer with all of theirs when they are asked for a section; then
/// a bare `python.path` is somebody else's.
pub fn section(settings: &Value) -> Value {
    let Value::Object(members) = settings else { return settings.clone() };
    let ours: Map<String, Value> = members
        .iter()
        .filter(|(key, _)| *key == PREFIX || without_prefix(key).is_some())
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if ours.is_empty() { settings.clone() } else { Value::Object(ours) }
}

fn without_prefix(key: &str) -> Option<&str> {
    key.strip_prefix(PREFIX)?.strip_prefix('.')
}

/// Values with their dotted keys. An object that is the value of a setting's key is a value.
fn flatten<'a>(members: &'a Map<String, Value>, above: &str, found: &mut Vec<(String, &'a Value)>) {
    for (name, value) in members {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        let bare = without_prefix(&key).unwrap_or(&key);
        let is_setting = SETTINGS.iter().any(|setting| setting.key == bare);
        match value {
            Value::Null => {}
            Value::Object(inner) if !is_setting => flatten(inner, &key, found),
            _ => found.push((key, value)),
        }
    }
}
