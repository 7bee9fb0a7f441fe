use serde_json::{Value, json};

use super::*;

fn read(given: Value) -> (Options, Vec<String>) {
    let (options, mistakes) = Options::read(Some(&given));
    (options, mistakes.iter().map(Mistake::to_string).collect())
}

fn settings(given: Value) -> Settings {
    let (options, mistakes) = read(given);
    assert_eq!((mistakes, &options.unknown), (Vec::new(), &Default::default()));
    Settings::resolve(&options)
}

#[test]
fn every_spelling_of_a_key_is_read() {
    let off = Settings { on_save: OnSave::Off, ..Settings::default() };
    for given in [
        json!({ "check": { "onSave": "off" } }),
        json!({ "check.onSave": "off" }),
        json!({ "warpsmith": { "check": { "onSave": "off" } } }),
        json!({ "warpsmith": { "check.onSave": "off" } }),
        json!({ "warpsmith.check": { "onSave": "off" } }),
        json!({ "warpsmith.check.onSave": "off" }),
        json!({ "warpsmith.check.onSave": "off", "check": { "onSave": "full" } }),
        json!({ "check": { "onSave": "full" }, "warpsmith.check.onSave": "off" }),
    ] {
        assert_eq!(settings(given.clone()), off, "{given}");
    }
}

#[test]
fn what_is_not_given_is_at_its_default() {
    for given in
        [json!(null), json!({}), json!([]), json!({ "python": null }), json!({ "check": { "onSave": null } })]
    {
        assert_eq!(settings(given), Settings::default());
    }
    assert_eq!(settings(json!({ "python.path": "" })), Settings::default());
    assert!(Settings::default().lints.allows("int32-offset") && Settings::default().on_save.checks());
}

#[test]
fn the_values_arrive() {
    let given = json!({
        "python": { "path": "/v/bin/python" },
        "check": { "onSave": "full" },
        "gpu": { "device": "cuda:1", "whenBusy": "skip" },
        "lint": { "disable": ["int32-offset"] },
    });
    let expected = Settings {
        python: Some("/v/bin/python".into()),
        on_save: OnSave::Full,
        device: DeviceChoice::Cuda(1),
        when_busy: WhenBusy::Skip,
        lints: LintChoice { enabled: true, disabled: ["int32-offset"].into() },
    };
    assert_eq!(settings(given), expected);
    assert!(!expected.lints.allows("int32-offset") && expected.lints.allows("narrow-sum"));
    assert!(!settings(json!({ "lint.enable": false })).lints.allows("narrow-sum"));
}

/// For every setting of the server there is a value that it refuses, in words that name key, value and what is taken.
#[test]
fn a_value_that_makes_no_sense_is_told_and_the_rest_counts() {
    for setting in SETTINGS.iter().filter(|setting| setting.is_of_the_server()) {
        let (options, told) = read(json!({ setting.key: { "a": 1 }, "lint.enable2": 1 }));
        let expected = format!("`{}` is {{\"a\":1}}; {}", setting.key, setting.kind.accepts());
        assert_eq!(told, [expected]);
        assert_eq!(Settings::resolve(&options), Settings::default());
    }
    let (options, told) =
        read(json!({ "check.onSave": "never", "gpu.device": "gpu0", "gpu.whenBusy": "skip" }));
    assert_eq!(
        told,
        [
            "`check.onSave` is \"never\"; write \"off\", \"static\", \"quick\" or \"full\"",
            "`gpu.device` is \"gpu0\"; write \"auto\", \"cpu\" or \"cuda:0\" and so on",
        ]
    );
    assert_eq!(options.gpu_when_busy, Some(WhenBusy::Skip));
    let (_, told) = read(json!({ "lint": { "disable": ["int32-offset", "int64-offset"] } }));
    assert!(told[0].contains("int64-offset") && told[0].contains("narrow-sum"), "{told:?}");
}

#[test]
fn what_the_list_offers_is_taken_and_its_defaults_are_true() {
    for setting in SETTINGS.iter().filter(|setting| setting.is_of_the_server()) {
        let default: Value = serde_json::from_str(setting.default).expect("JSON");
        let (options, told) = read(json!({ setting.key: default }));
        assert_eq!((Settings::resolve(&options), told), (Settings::default(), Vec::new()), "{}", setting.key);
        assert!(options != Options::default(), "{} is not read", setting.key);
        if let Kind::Choice(words) = setting.kind {
            for (word, _) in words {
                assert_eq!(
                    read(json!({ setting.key: word })).1,
                    Vec::<String>::new(),
                    "{} {word}",
                    setting.key
                );
            }
        }
    }
}

#[test]
fn unknown_keys_are_kept_and_those_of_the_editor_pass() {
    let (options, told) =
        read(json!({ "agent": { "budget": 3 }, "warpsmith.chekc.onSave": "off", "trace.server": "verbose" }));
    let unknown: Vec<&str> = options.unknown.keys().map(String::as_str).collect();
    assert_eq!((unknown, told.len()), (vec!["agent.budget", "chekc.onSave"], 0));
}

#[test]
fn a_layer_counts_where_it_says_something() {
    let (below, _) = read(json!({ "check.onSave": "off", "python.path": "/below", "a": 1 }));
    let (above, _) = read(json!({ "python.path": "/above", "lint.enable": false }));
    let both = Settings::resolve(&above.over(&below));
    assert_eq!((both.on_save, both.python, both.lints.enabled), (OnSave::Off, Some("/above".into()), false));
    let (emptied, _) = read(json!({ "python.path": "" }));
    assert_eq!(Settings::resolve(&emptied.over(&below)).python, None);
}

#[test]
fn of_all_settings_of_an_editor_only_ours_are_taken() {
    let all = json!({ "python": { "path": "/of/another" }, "editor": {}, "warpsmith": { "check": { "onSave": "off" } } });
    assert_eq!(settings(section(&all)), settings(json!({ "check.onSave": "off" })));
    let own = json!({ "python": { "path": "/ours" } });
    assert_eq!(section(&own), own);
    assert_eq!(section(&json!(null)), json!(null));
}

#[test]
fn only_what_is_judged_differently_asks_for_another_verdict() {
    let default = Settings::default();
    let same = [json!({ "lint.enable": false }), json!({ "check.onSave": "off" })];
    let other =
        [json!({ "check.onSave": "full" }), json!({ "python.path": "/v" }), json!({ "gpu.device": "cpu" })];
    assert!(same.into_iter().all(|given| settings(given).judge_like(&default)));
    assert!(other.into_iter().all(|given| !settings(given).judge_like(&default)));
}

fn root(path: &str) -> String {
    format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Writes `text` where WARPSMITH_WRITE_DOCS is set; fails if it is not what stands there.
#[track_caller]
fn is_written(path: &str, text: &str) {
    if std::env::var_os("WARPSMITH_WRITE_DOCS").is_some() {
        std::fs::write(root(path), text).expect("the checkout can be written");
    }
    let written = std::fs::read_to_string(root(path)).unwrap_or_default();
    assert!(written == text, "run this test with WARPSMITH_WRITE_DOCS=1 to write {path} anew");
}

#[test]
fn the_page_of_settings_is_that_of_the_list() {
    is_written("docs/settings.md", &pages::manual());
}

#[test]
fn the_settings_page_of_vscode_is_that_of_the_list() {
    let path = "editors/vscode/package.json";
    let manifest = std::fs::read_to_string(root(path)).expect("the manifest");
    let mut manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    manifest["contributes"]["configuration"] = pages::vscode_configuration();
    is_written(path, &format!("{}\n", serde_json::to_string_pretty(&manifest).expect("JSON")));
}

/// What is written by hand elsewhere names every setting of the server.
#[test]
fn the_help_of_neovim_and_the_readme_of_vscode_name_every_setting() {
    for path in ["editors/nvim/doc/warpsmith.txt", "editors/vscode/README.md"] {
        let page = std::fs::read_to_string(root(path)).expect("the page");
        for setting in SETTINGS.iter().filter(|setting| setting.is_of_the_server()) {
            assert!(page.contains(setting.key), "{path} does not name {}", setting.key);
        }
    }
    let types = std::fs::read_to_string(root("editors/nvim/lua/warpsmith/types.lua")).expect("the types");
    for setting in SETTINGS.iter().filter(|setting| setting.is_of_the_server()) {
        let (group, name) = setting.key.split_once('.').expect("a group and a name");
        assert!(
            types.contains(&format!("{group}?")) && types.contains(&format!("{name}?")),
            "{}",
            setting.key
        );
    }
}
