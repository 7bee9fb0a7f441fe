//! Whose code may be run: the only way from this room to the judge.
//!
//! **Invariant:** the checker is known to this file alone. All others get an [`Executor`] from here, which runs the code
//! of a file only where somebody said that it may be run, and answers [`Code::NotTrusted`] everywhere else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;
use tower_lsp::ls_types::Uri;

use crate::judge::check::{CheckEvent, CheckRequest, Checker, Earlier};
use crate::judge::{Code, Finding, Report};
use crate::trust::{Place, TrustFile, Trusted};

/// In `initializationOptions`: `true` closes the gate, `false` opens it if the client says that it asks its user itself
/// (`workspaceTrust` among its experimental capabilities, which no folder can set).
pub(crate) const OPTION: &str = "untrustedWorkspace";

/// What lens and status say.
pub(crate) const NOT_TRUSTED: &str = "not trusted: nothing is run";

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Authority {
    /// An editor that asks its user itself. Nobody else is asked.
    Editor { trusts: bool },
    /// The user, by an answer to our question or on the command line.
    User,
}

impl Authority {
    /// Whatever is not said clearly opens nothing. Also what is wrong with the option.
    pub(crate) fn of(options: Option<&Value>, client_asks: bool) -> (Self, Option<String>) {
        let closed = Self::Editor { trusts: false };
        match (options.and_then(|options| options.get(OPTION)), client_asks) {
            (Some(Value::Bool(true)), _) => (closed, None),
            (Some(Value::Bool(false)), true) => (Self::Editor { trusts: true }, None),
            (Some(Value::Bool(false)), false) => (
                Self::User,
                Some(format!(
                    "`{OPTION}` is false; only an editor with a workspace trust of its own may say so"
                )),
            ),
            (None | Some(Value::Null), true) => {
                (closed, Some(format!("`{OPTION}` is missing; say whether the workspace is trusted")))
            }
            (None | Some(Value::Null), false) => (Self::User, None),
            (Some(other), _) => (closed, Some(format!("`{OPTION}` is {other}; write true or false"))),
        }
    }
}

/// A question about one place.
#[derive(Default)]
pub(crate) struct Question {
    /// It waits for its answer, perhaps for ever.
    pub(crate) in_flight: bool,
    /// It was answered with no; a save does not ask again.
    pub(crate) is_declined: bool,
    /// Files whose check was asked for.
    pub(crate) waiting: Vec<Uri>,
}

pub(crate) struct Gate {
    checker: Arc<dyn Checker>,
    file: Option<TrustFile>,
    authority: Authority,
    /// The folders that are open in the editor, without links.
    workspace: Vec<PathBuf>,
    /// As the file was read last.
    remembered: Trusted,
    /// Granted, but not to be remembered.
    session: Trusted,
    pub(crate) questions: BTreeMap<Place, Question>,
}

impl Gate {
    /// Closed. Without a file no answer is remembered.
    pub(crate) fn new(checker: Arc<dyn Checker>, file: Option<TrustFile>) -> Self {
        Self {
            checker,
            file,
            authority: Authority::Editor { trusts: false },
            workspace: Vec::new(),
            remembered: Trusted::default(),
            session: Trusted::default(),
            questions: BTreeMap::new(),
        }
    }

    /// Reads what is remembered; what is wrong with it, if anything.
    pub(crate) fn set(&mut self, authority: Authority, workspace: Vec<PathBuf>) -> Option<String> {
        self.authority = authority;
        self.workspace = workspace;
        let file = self.file.as_ref().filter(|_| authority == Authority::User)?;
        match file.read() {
            Ok(trusted) => {
                self.remembered = trusted;
                None
            }
            Err(error) => Some(error.to_string()),
        }
    }

    pub(crate) fn authority(&self) -> Authority {
        self.authority
    }

    pub(crate) fn file(&self) -> Option<&TrustFile> {
        self.file.as_ref()
    }

    /// What is to be trusted before `file` is run.
    pub(crate) fn place_of(&self, file: &Path) -> Place {
        let mut needed = Place::needed(file, &self.workspace);
        let first = needed.remove(0);
        let is_granted = |place: &Place| self.session.holds(place) || self.remembered.holds(place);
        // A link needs the place that it lies in as well.
        if is_granted(&first) { needed.pop().unwrap_or(first) } else { first }
    }

    /// The first of the editor's folders.
    pub(crate) fn first_folder(&self) -> Option<Place> {
        self.workspace.first().map(|folder| Place::below(folder))
    }

    /// For what is shown. Whether code is run is found out by the executor, when it is run.
    pub(crate) fn is_open_for(&self, file: &Path) -> bool {
        match self.authority {
            Authority::Editor { trusts } => trusts,
            Authority::User => self.session.covers(file) || self.remembered.covers(file),
        }
    }

    /// The same for all folders of the editor.
    pub(crate) fn is_open_for_workspace(&self) -> bool {
        match self.authority {
            Authority::Editor { trusts } => trusts,
            Authority::User => self
                .workspace
                .iter()
                .all(|folder| self.session.covers_folder(folder) || self.remembered.covers_folder(folder)),
        }
    }

    pub(crate) fn remember(&mut self, trusted: Trusted) {
        self.remembered = trusted;
    }

    pub(crate) fn grant_for_session(&mut self, place: Place) {
        self.session.insert(place);
    }

    /// Runs the next check, or nothing.
    pub(crate) fn executor(&self) -> Executor {
        let checker = Arc::clone(&self.checker);
        Executor(match self.authority {
            Authority::Editor { trusts: true } => Means::Open(checker),
            Authority::Editor { trusts: false } => Means::Closed,
            Authority::User => {
                Means::Remembered { checker, session: self.session.clone(), file: self.file.clone() }
            }
        })
    }
}

/// Runs one check, or asks for an earlier one.
pub(crate) struct Executor(Means);

enum Means {
    Open(Arc<dyn Checker>),
    /// Looks anew at each check: a command line may have granted trust, or taken it back.
    Remembered {
        checker: Arc<dyn Checker>,
        session: Trusted,
        file: Option<TrustFile>,
    },
    Closed,
}

impl Executor {
    pub(crate) async fn check(
        self,
        request: CheckRequest,
        events: UnboundedSender<CheckEvent>,
        cancel: CancellationToken,
    ) -> Report {
        match self.checker_for(&request.path) {
            Some(checker) => checker.check(request, events, cancel).await,
            None => Report::ended_at_once(Finding::plain(Code::NotTrusted, NOT_TRUSTED)),
        }
    }

    /// What the store has, see [`Checker::recall`]. It runs nothing of the file, but it looks at the interpreter that
    /// would: where nothing may be run, nothing is asked.
    pub(crate) async fn recall(self, request: CheckRequest) -> Option<Earlier> {
        self.checker_for(&request.path)?.recall(request).await
    }

    /// See [`Checker::still_stands`]; where nothing may be run, a check has to say so.
    pub(crate) async fn still_stands(self, request: CheckRequest, report: Arc<Report>) -> bool {
        match self.checker_for(&request.path) {
            Some(checker) => checker.still_stands(request, report).await,
            None => false,
        }
    }

    /// `None` where nothing of the file may be run.
    fn checker_for(self, file: &Path) -> Option<Arc<dyn Checker>> {
        match self.0 {
            Means::Open(checker) => Some(checker),
            Means::Remembered { checker, session, file: remembered } => {
                is_trusted(file, &session, remembered.as_ref()).then_some(checker)
            }
            Means::Closed => None,
        }
    }
}

fn is_trusted(file: &Path, session: &Trusted, remembered: Option<&TrustFile>) -> bool {
    let reads = |remembered: &TrustFile| match remembered.read() {
        Ok(trusted) => trusted.covers(file),
        Err(error) => {
            tracing::warn!("{error}");
            false
        }
    };
    session.covers(file) || remembered.is_some_and(reads)
}

/// Nothing of this file was run.
pub(crate) fn is_refused(report: &Report) -> bool {
    report.findings.iter().any(|finding| finding.code == Code::NotTrusted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::check::{BoxFuture, CheckOptions};
    use serde_json::json;

    /// Only one of all that may be said opens the gate.
    #[test]
    fn what_is_not_said_clearly_opens_nothing() {
        let open = Authority::Editor { trusts: true };
        let closed = Authority::Editor { trusts: false };
        for (options, client_asks, expected, is_told) in [
            (json!({ OPTION: false }), true, open, false),
            (json!({ OPTION: true }), true, closed, false),
            (json!({ OPTION: true }), false, closed, false),
            (json!({}), true, closed, true),
            (json!({ OPTION: null }), true, closed, true),
            (json!({ OPTION: "false" }), true, closed, true),
            (json!({ OPTION: 0 }), false, closed, true),
            (json!({ OPTION: false }), false, Authority::User, true),
            (json!({}), false, Authority::User, false),
            (json!(null), false, Authority::User, false),
            (json!([false]), false, Authority::User, false),
            (json!({ "warpsmith": { OPTION: false } }), true, closed, true),
        ] {
            let (authority, told) = Authority::of(Some(&options), client_asks);
            assert_eq!((authority, told.is_some()), (expected, is_told), "{options} {client_asks}");
        }
        assert_eq!(Authority::of(None, false), (Authority::User, None));
    }

    /// Fails whoever asks it.
    struct Untouched;

    impl Checker for Untouched {
        fn check<'a>(
            &'a self,
            _: CheckRequest,
            _: UnboundedSender<CheckEvent>,
            _: CancellationToken,
        ) -> BoxFuture<'a, Report> {
            panic!("a check was run")
        }

        fn recall(&self, _: CheckRequest) -> BoxFuture<'_, Option<Earlier>> {
            panic!("an earlier check was asked for")
        }

        fn still_stands(&self, _: CheckRequest, _: Arc<Report>) -> BoxFuture<'_, bool> {
            panic!("the environment was looked at")
        }
    }

    #[tokio::test]
    async fn a_closed_gate_asks_the_checker_nothing() {
        for authority in [Authority::Editor { trusts: false }, Authority::User] {
            let mut gate = Gate::new(Arc::new(Untouched), None);
            gate.set(authority, vec![PathBuf::from("/w")]);
            let request = CheckRequest {
                path: PathBuf::from("/w/kernel.py"),
                text: "x = 1\n".into(),
                python: None,
                options: CheckOptions::default(),
            };
            let (events, _) = tokio::sync::mpsc::unbounded_channel();
            let report = gate.executor().check(request.clone(), events, CancellationToken::new()).await;
            assert!(is_refused(&report));
            assert!(gate.executor().recall(request.clone()).await.is_none());
            assert!(!gate.executor().still_stands(request, Arc::new(report)).await);
        }
    }
}
