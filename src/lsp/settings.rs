//! What the client sets at the start, in `initializationOptions`.

use std::path::PathBuf;

use serde_json::Value;

use crate::device::{DeviceChoice, WhenBusy};
use crate::judge::bench::TimingChoice;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `python.path`: the interpreter that has torch and Triton.
    pub(crate) python: Option<PathBuf>,
    /// `check.onSave`: whether a save starts a check.
    pub(crate) checks_on_save: bool,
    /// `check.onSave` again: on a GPU quick times the first size, full a few of every Definition.
    pub(crate) timing: TimingChoice,
    /// `gpu.device`: `auto`, `cpu` or `cuda:N`.
    pub(crate) device: DeviceChoice,
    /// `gpu.whenBusy`: what is done when another process uses the GPU.
    pub(crate) when_busy: WhenBusy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            python: None,
            checks_on_save: true,
            timing: TimingChoice::First,
            device: DeviceChoice::default(),
            when_busy: WhenBusy::default(),
        }
    }
}

impl Settings {
    /// Reads what is there; a value that makes no sense is told and left at its default. Unknown settings are
    /// those of other versions, and no mistake.
    pub(crate) fn read(options: Option<&Value>) -> (Self, Vec<String>) {
        let mut settings = Self::default();
        let mut mistakes = Vec::new();
        let given = |pointer| options.and_then(|options| options.pointer(pointer)).filter(|v| !v.is_null());
        match given("/python/path") {
            None => {}
            Some(Value::String(path)) if !path.is_empty() => settings.python = Some(PathBuf::from(path)),
            Some(other) => {
                mistakes.push(format!("`python.path` is {other}; give the path of an interpreter as text"));
            }
        }
        match given("/check/onSave") {
            None => {}
            // Nothing is compiled yet: the static part of a check is what every edit gets anyway.
            Some(word) if word == "off" || word == "static" => settings.checks_on_save = false,
            Some(word) if word == "quick" => {}
            Some(word) if word == "full" => settings.timing = TimingChoice::Some,
            Some(other) => {
                mistakes.push(format!(
                    "`check.onSave` is {other}; write \"off\", \"static\", \"quick\" or \"full\""
                ));
            }
        }
        match given("/gpu/device").map(|given| (given, given.as_str().map(str::parse))) {
            None => {}
            Some((_, Some(Ok(device)))) => settings.device = device,
            Some((other, _)) => mistakes
                .push(format!("`gpu.device` is {other}; write \"auto\", \"cpu\" or \"cuda:0\" and so on")),
        }
        match given("/gpu/whenBusy").map(|given| (given, given.as_str().map(str::parse))) {
            None => {}
            Some((_, Some(Ok(when_busy)))) => settings.when_busy = when_busy,
            Some((other, _)) => {
                mistakes.push(format!("`gpu.whenBusy` is {other}; write \"skip\" or \"correctness\""));
            }
        }
        (settings, mistakes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_given_is_taken_and_mistakes_are_told() {
        let read = |options: Value| Settings::read(Some(&options));
        assert_eq!(Settings::read(None), (Settings::default(), Vec::new()));
        assert_eq!(
            read(json!({ "agent": { "budget": 3 }, "python": null })),
            (Settings::default(), Vec::new())
        );
        let (settings, mistakes) =
            read(json!({ "python": { "path": "/v/bin/python" }, "check": { "onSave": "off" } }));
        let expected =
            Settings { python: Some("/v/bin/python".into()), checks_on_save: false, ..Settings::default() };
        assert_eq!(settings, expected);
        assert!(mistakes.is_empty());
        let (settings, mistakes) = read(json!({ "python": { "path": 3 }, "check": { "onSave": "never" } }));
        assert_eq!(settings, Settings::default());
        assert_eq!(mistakes.len(), 2);
        let gpu = json!({ "gpu": { "device": "cuda:1", "whenBusy": "skip" }, "check": { "onSave": "full" } });
        let (settings, none) = read(gpu);
        assert_eq!((settings.device, settings.when_busy), (DeviceChoice::Cuda(1), WhenBusy::Skip));
        assert_eq!((settings.timing, none.len()), (TimingChoice::Some, 0));
        let (settings, wrong) = read(json!({ "gpu": { "device": "gpu0", "whenBusy": true } }));
        assert_eq!((settings, wrong.len()), (Settings::default(), 2));
        assert!(mistakes[1].contains("\"never\"") && mistakes[1].contains("\"off\""), "{mistakes:?}");
    }
}
