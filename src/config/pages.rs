//! What is made from the list of settings: `docs/settings.md`, and the settings page of the VS Code extension.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::table::{Kind, SETTINGS, Scope, Setting};
use crate::lint;

/// All of `docs/settings.md`.
pub fn manual() -> String {
    let mut text = include_str!("manual.md").to_owned();
    for setting in SETTINGS {
        let whose = if setting.is_of_the_server() { "" } else { " (VS Code)" };
        let _ = write!(text, "\n## {}{whose}\n\n{}\n\n", setting.key, setting.meaning);
        if let Kind::Choice(words) = setting.kind {
            for (word, meaning) in words {
                let _ = writeln!(text, "- `\"{word}\"`: {meaning}");
            }
            text.push('\n');
        }
        let _ = writeln!(text, "Default: `{}`. {}", setting.default, who_sets(setting.scope));
    }
    text
}

fn who_sets(scope: Scope) -> &'static str {
    match scope {
        Scope::Machine => {
            "It names a program: in VS Code a setting of the user or the machine, never of a folder."
        }
        Scope::MachineOverridable => "In VS Code a setting of the machine, which a folder may override.",
        Scope::Window => "In VS Code a folder may set it.",
    }
}

/// `contributes.configuration` of the VS Code extension.
pub fn vscode_configuration() -> Value {
    let properties: Map<String, Value> = (1..)
        .zip(SETTINGS)
        .map(|(order, setting)| (format!("warpsmith.{}", setting.key), property(setting, order)))
        .collect();
    json!({ "title": "warpsmith", "properties": properties })
}

fn property(setting: &Setting, order: usize) -> Value {
    let mut property = Map::new();
    let mut put = |key: &str, value: Value| property.insert(key.to_owned(), value);
    match setting.kind {
        Kind::Path => {
            put("type", json!("string"));
        }
        Kind::Choice(words) => {
            put("type", json!("string"));
            put("enum", words.iter().map(|(word, _)| *word).collect());
            put("enumDescriptions", words.iter().map(|(_, meaning)| *meaning).collect());
        }
        Kind::Device => {
            put("type", json!("string"));
            put("pattern", json!("^(auto|cpu|cuda(:[0-9]+)?)$"));
            put("patternErrorMessage", json!("Write auto, cpu, or cuda:0 and so on."));
        }
        Kind::Switch => {
            put("type", json!("boolean"));
        }
        Kind::Rules => {
            let names: Vec<&str> = lint::RULES.iter().map(|rule| rule.name).collect();
            let summaries: Vec<&str> = lint::RULES.iter().map(|rule| rule.summary).collect();
            put("type", json!("array"));
            put("items", json!({ "type": "string", "enum": names, "enumDescriptions": summaries }));
            put("uniqueItems", json!(true));
        }
    }
    put("default", serde_json::from_str(setting.default).unwrap_or_default());
    put(
        "scope",
        json!(match setting.scope {
            Scope::Machine => "machine",
            Scope::MachineOverridable => "machine-overridable",
            Scope::Window => "window",
        }),
    );
    put("order", json!(order));
    put("markdownDescription", json!(setting.meaning));
    Value::Object(property)
}
