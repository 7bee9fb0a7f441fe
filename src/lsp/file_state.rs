//! What the server knows of one open file. Cheap to clone: a clone is what read-only requests see.

use std::path::PathBuf;
use std::sync::Arc;

use tower_lsp::ls_types::{Diagnostic, TextDocumentItem};

use super::findings::{FindingGroup, Judged, gather};
use super::kernels::Kernels;
use super::runs::{Cause, CheckJob};
use crate::config::{LintChoice, Settings};
use crate::judge::Report;
use crate::judge::check::Earlier;
use crate::lint::{self, Lint};
use crate::source::{SourceModel, Tree, code_hash};
use crate::text::{Change, Document, PositionEncoding, Splice};

/// Texts longer than this are not parsed: nobody writes a kernel of that size by hand.
const PARSED_BYTES: usize = 4 << 20;

/// Some 500 lines, which take some 10 ms to parse.
const SLOW_BYTES: usize = 20_000;

#[derive(Clone)]
pub(crate) struct FileState {
    /// `None` for a document that is not a file (an untitled buffer): it cannot be judged.
    pub(crate) path: Option<PathBuf>,
    /// Other languages are kept in step and nothing more.
    is_python: bool,
    pub(crate) document: Document,
    pub(crate) kernels: Kernels,
    /// Syntax of the text that was parsed last.
    tree: Arc<Tree>,
    pub(crate) model: Arc<SourceModel>,
    /// Whether its code may be run, as far as is known.
    pub(crate) is_trusted: bool,
    /// Static findings of the text that was parsed last, those that are not wanted left out.
    pub(crate) lints: Arc<Vec<Lint>>,
    lint_choice: Arc<LintChoice>,
    /// Hash of the current text; `None` until someone asks.
    code_hash: Option<blake3::Hash>,
    /// The text changed after the last parse.
    unparsed: bool,
    /// What the last edit made us parse, in bytes.
    reparsed_bytes: usize,
    /// The last check that came to an end.
    pub(crate) outcome: Option<Outcome>,
    /// The check that waits or runs.
    pub(crate) run: Option<FileRun>,
    /// The last check was cancelled and nothing has ended since.
    pub(crate) cancelled: bool,
    /// What the client shows.
    pub(crate) published: Arc<Vec<Diagnostic>>,
}

/// A finished check, its findings tied to the current text.
#[derive(Clone)]
pub(crate) struct Outcome {
    pub(crate) report: Arc<Report>,
    pub(crate) code_hash: blake3::Hash,
    /// Those it was made under.
    pub(crate) settings: Settings,
    pub(crate) groups: Vec<FindingGroup>,
    /// Unix time in seconds of a verdict from the store; `None` for one that was reached in this session.
    pub(crate) earlier_at_s: Option<u64>,
    /// The same code was saved again, and nothing that the verdict rests on has changed.
    pub(crate) is_confirmed: bool,
}

impl Outcome {
    pub(crate) fn is_earlier(&self) -> bool {
        self.earlier_at_s.is_some()
    }
}

/// A check that waits or runs, as its file sees it.
#[derive(Clone)]
pub(crate) struct FileRun {
    pub(crate) job: Arc<CheckJob>,
    pub(crate) cause: Cause,
    /// Edits since its text was taken.
    pub(crate) splices: Vec<Splice>,
    pub(crate) phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    Running { done: usize, planned: Option<usize> },
}

impl FileState {
    /// Not trusted.
    pub(crate) fn new(path: Option<PathBuf>, opened: &TextDocumentItem, lints: &LintChoice) -> Self {
        let is_py =
            path.as_ref().is_some_and(|path| path.extension().is_some_and(|extension| extension == "py"));
        let mut file = Self {
            path,
            is_python: is_py || opened.language_id == "python",
            document: Document::new(&opened.text, opened.version),
            kernels: Kernels::default(),
            tree: Arc::default(),
            model: Arc::default(),
            is_trusted: false,
            lints: Arc::default(),
            lint_choice: Arc::new(lints.clone()),
            code_hash: None,
            unparsed: true,
            reparsed_bytes: 0,
            outcome: None,
            run: None,
            cancelled: false,
            published: Arc::default(),
        };
        file.parse();
        file.reparsed_bytes = 0;
        file
    }

    /// A look at the next edit may take longer than the keystroke after it: the statement that is being edited is
    /// a very long one, or a string without an end swallows the text.
    pub(crate) fn is_slow(&self) -> bool {
        self.reparsed_bytes > SLOW_BYTES
    }

    /// Applies the client's edits and moves everything that stands in the text.
    pub(crate) fn edit(&mut self, changes: &[Change], version: i32, encoding: PositionEncoding) {
        let splices = self.document.apply(changes, version, encoding);
        self.follow(&splices);
    }

    /// The text and all places in it may be wrong.
    pub(crate) fn distrust(&mut self) {
        self.document.distrust();
        self.outcome = None;
        self.code_hash = None;
    }

    /// Takes a whole text of the client as the truth. Whether it differed from ours.
    pub(crate) fn resync(&mut self, text: &str) -> bool {
        let splice = self.document.resync(text);
        self.follow(splice.as_slice());
        splice.is_some()
    }

    fn follow(&mut self, splices: &[Splice]) {
        for splice in splices {
            self.kernels.shift(splice);
            let groups = self.outcome.iter_mut().flat_map(|outcome| &mut outcome.groups);
            groups.for_each(|group| group.shift(splice));
        }
        if let Some(run) = &mut self.run {
            run.splices.extend_from_slice(splices);
        }
        if !splices.is_empty() {
            self.code_hash = None;
            self.unparsed = true;
        }
    }

    /// Brings kernels and anchors up to the current text; free when nothing changed.
    pub(crate) fn parse(&mut self) {
        if !self.unparsed {
            return;
        }
        self.unparsed = false;
        let text = self.document.text();
        let parsed = if self.is_parsed(&text) { &*text } else { "" };
        self.tree = Arc::new(self.tree.updated(parsed));
        self.reparsed_bytes = self.tree.fresh_bytes();
        self.model = Arc::new(self.tree.model(parsed));
        let wanted = self.lint_choice.enabled;
        let mut lints = if wanted { lint::find(&self.model, &self.tree, parsed) } else { Vec::new() };
        lints.retain(|lint| self.lint_choice.allows(lint.rule.name));
        self.lints = Arc::new(lints);
        self.kernels.update(&self.model);
        for group in self.outcome.iter_mut().flat_map(|outcome| &mut outcome.groups) {
            group.relocate(&self.kernels, &self.document);
        }
    }

    fn is_parsed(&self, text: &str) -> bool {
        self.is_python && text.len() <= PARSED_BYTES
    }

    /// The static findings are found anew with the next parse.
    pub(crate) fn choose_lints(&mut self, choice: &LintChoice) {
        self.lint_choice = Arc::new(choice.clone());
        self.unparsed = true;
    }

    pub(crate) fn code_hash(&mut self) -> blake3::Hash {
        if let Some(known) = self.code_hash {
            return known;
        }
        let text = self.document.text();
        let hash = if self.is_parsed(&text) {
            self.parse();
            self.tree.code_hash()
        } else if text.len() <= PARSED_BYTES {
            code_hash(&text)
        } else {
            // To tell comments from code is to parse.
            blake3::hash(text.as_bytes())
        };
        self.code_hash = Some(hash);
        hash
    }

    /// The text changed since the shown verdict. Up to date after [`Self::code_hash`].
    pub(crate) fn is_stale(&self) -> bool {
        match (&self.outcome, self.code_hash) {
            (Some(outcome), Some(now)) => outcome.code_hash != now,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// The last check published a time.
    pub(crate) fn has_times(&self) -> bool {
        self.outcome.as_ref().is_some_and(|outcome| outcome.report.all_published().next().is_some())
    }

    /// Ends the run of this file with a verdict on the text it was started with.
    pub(crate) fn conclude(&mut self, report: Report, settings: Settings) {
        let Some(run) = self.run.take() else { return };
        let document = Document::new(&run.job.text, run.job.version);
        let judged = Judged {
            path: &run.job.path,
            kernels: Kernels::new(&run.job.model),
            model: &run.job.model,
            document,
        };
        let mut groups = gather(&report, &judged);
        for group in &mut groups {
            run.splices.iter().for_each(|splice| group.shift(splice));
        }
        self.parse();
        groups.iter_mut().for_each(|group| group.relocate(&self.kernels, &self.document));
        self.cancelled = false;
        self.outcome = Some(Outcome {
            report: Arc::new(report),
            code_hash: run.job.code_hash,
            settings,
            groups,
            earlier_at_s: None,
            is_confirmed: false,
        });
    }

    /// Shows a verdict of the store, made under such settings, on the current text.
    pub(crate) fn take_earlier(&mut self, earlier: Earlier, settings: Settings) {
        let Some(path) = self.path.clone() else { return };
        self.parse();
        let judged = Judged {
            path: &path,
            document: self.document.clone(),
            kernels: self.kernels.clone(),
            model: &self.model,
        };
        let groups = gather(&earlier.report, &judged);
        let code_hash = self.code_hash();
        self.outcome = Some(Outcome {
            report: Arc::new(earlier.report),
            code_hash,
            settings,
            groups,
            earlier_at_s: Some(earlier.judged_at_s),
            is_confirmed: false,
        });
    }
}
