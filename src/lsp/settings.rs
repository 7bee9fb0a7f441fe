//! The layers of settings, asking for them, and what a change changes.

use std::collections::BTreeSet;

use serde_json::Value;
use tower_lsp::ls_types::MessageType;

use super::gate;
use super::global_state::GlobalState;
use super::outbox::ClientRequest;
use super::runs::Cause;
use crate::config::{Options, Settings, section};

/// Where the settings come from.
#[derive(Default)]
pub(crate) struct Layers {
    /// `initializationOptions`.
    initial: Options,
    /// The client's answer, or what it sent by itself.
    configured: Options,
    /// The newest question; answers to older ones are dropped.
    newest: u64,
    /// The first answer is on its way: until then no check starts.
    pub(crate) is_awaited: bool,
    /// What the user was told already.
    told: BTreeSet<String>,
    /// To be told when the client may be spoken to.
    pub(crate) untold: Vec<String>,
}

impl GlobalState {
    pub(crate) fn take_initial_settings(&mut self, options: Option<&Value>) {
        let mut options = options.cloned();
        if let Some(Value::Object(members)) = &mut options {
            members.remove(gate::OPTION);
        }
        self.layers.initial = self.read_settings(options.as_ref());
        self.resolve_settings();
    }

    /// Asks for the settings; a change while the answer is on its way is asked for again.
    pub(crate) fn pull_settings(&mut self) {
        self.layers.newest += 1;
        let (number, limit) = (self.layers.newest, self.context.timing.settings_limit);
        self.context.outbox.request(ClientRequest::PullSettings { number, limit });
    }

    /// `None` is an answer that does not come.
    pub(crate) fn on_settings(&mut self, number: u64, answer: Option<Value>) {
        if number == self.layers.newest {
            if let Some(answer) = answer {
                self.layers.configured = self.read_settings(Some(&section(&answer)));
                self.resolve_settings();
            }
            self.end_wait_for_settings();
        }
    }

    /// From a client that cannot be asked.
    pub(crate) fn settings_came(&mut self, settings: Value) {
        self.layers.newest += 1;
        self.on_settings(self.layers.newest, Some(settings));
    }

    /// The answer takes its time. Checks start with what is known; it counts when it comes.
    pub(crate) fn end_wait_for_settings(&mut self) {
        if !std::mem::take(&mut self.layers.is_awaited) || self.settings.on_save.checks() {
            return;
        }
        let waits = |uri: &&_| {
            let run = self.files.get(*uri).and_then(|file| file.run.as_ref());
            run.is_some_and(|run| run.cause == Cause::Save)
        };
        let unwanted: Vec<_> = self.files.keys().filter(waits).cloned().collect();
        for uri in unwanted {
            self.forget_check(&uri);
        }
    }

    fn read_settings(&mut self, given: Option<&Value>) -> Options {
        let (options, mistakes) = Options::read(given);
        for mistake in mistakes {
            self.say_once(format!("the setting {mistake}"));
        }
        let unknown: Vec<String> = options.unknown.keys().map(|key| format!("`{key}`")).collect();
        if !unknown.is_empty() {
            self.say_once(format!("there is no setting {}; docs/settings.md lists all", unknown.join(", ")));
        }
        options
    }

    fn resolve_settings(&mut self) {
        let settings = Settings::resolve(&self.layers.configured.clone().over(&self.layers.initial));
        if settings.lints != self.settings.lints {
            for (uri, file) in &mut self.files {
                file.choose_lints(&settings.lints);
                self.touched.insert(uri.clone());
            }
        }
        self.settings = settings;
    }

    /// A warning, the first time.
    pub(crate) fn say_once(&mut self, words: String) {
        if !self.layers.told.insert(words.clone()) {
            return;
        }
        tracing::warn!("{words}");
        if self.initialized {
            self.say(MessageType::WARNING, words);
        } else {
            self.layers.untold.push(words);
        }
    }
}
