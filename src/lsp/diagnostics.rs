//! Findings as the client's diagnostics.

use tower_lsp::ls_types::{
    Diagnostic, DiagnosticRelatedInformation, DiagnosticSeverity, Location, NumberOrString, Position, Range,
    Uri,
};

use super::capabilities::ClientProfile;
use super::convert::{range_to, uri_to};
use super::file_state::{FileState, Outcome};
use super::findings::{FindingGroup, Related, RelatedLocation, Severity, is_of_environment};
use crate::lint::{self, Lint};

pub(crate) const SOURCE: &str = "warpsmith";
/// Diagnostics shown in one file.
pub(crate) const LIMIT: usize = 64;
/// Stands before the message of a finding on a text that has changed since.
pub(crate) const STALE: &str = "(stale) ";

/// The same for a verdict from the store: when it was reached stands in the lens and the hover, which are told anew.
pub(crate) const EARLIER: &str = "(from an earlier check) ";

/// What must stand in the editor now. `file` must be parsed and its hash up to date.
pub(crate) fn diagnostics(uri: &Uri, file: &FileState, client: &ClientProfile) -> Vec<Diagnostic> {
    let stale = file.is_stale();
    let groups = file.outcome.iter().flat_map(|outcome| &outcome.groups);
    let convert = |group| diagnostic(group, uri, file, client, stale);
    let mut diagnostics: Vec<Diagnostic> = groups.filter_map(convert).collect();
    let of_run = diagnostics.len();
    diagnostics.extend(file.lints.iter().map(|lint| of_lint(lint, file, client)));
    // What a run has shown stands before what the text alone shows.
    diagnostics[..of_run].sort_by_key(|diagnostic| (diagnostic.severity, diagnostic.range.start));
    diagnostics[of_run..].sort_by_key(|diagnostic| (diagnostic.severity, diagnostic.range.start));
    cap(&mut diagnostics);
    diagnostics.sort_by_key(|diagnostic| (diagnostic.range.start, diagnostic.severity));
    diagnostics
}

/// Keeps the worst, and says how many are left out.
fn cap(diagnostics: &mut Vec<Diagnostic>) {
    if diagnostics.len() <= LIMIT {
        return;
    }
    let left_out = diagnostics.len() - (LIMIT - 1);
    diagnostics.truncate(LIMIT - 1);
    diagnostics.push(Diagnostic {
        severity: Some(DiagnosticSeverity::INFORMATION),
        source: Some(SOURCE.to_owned()),
        message: format!("{left_out} more findings are not shown"),
        ..Diagnostic::default()
    });
}

fn diagnostic(
    group: &FindingGroup,
    uri: &Uri,
    file: &FileState,
    client: &ClientProfile,
    stale: bool,
) -> Option<Diagnostic> {
    if let Some(kernel) = &group.kernel {
        file.kernels.find(kernel)?;
    }
    let range =
        range_to(&file.document, &group.anchor.resolve(&file.kernels, &file.document)?, client.encoding);
    let mut message = group.message.clone();
    if file.outcome.as_ref().is_some_and(Outcome::is_earlier) {
        message.insert_str(0, EARLIER);
    }
    if stale && !is_of_environment(group.code) {
        message.insert_str(0, STALE);
    }
    let located = group.related.iter().filter_map(|related| locate(related, uri, file, client));
    let related: Vec<DiagnosticRelatedInformation> = located.collect();
    if !client.related_information {
        related.iter().for_each(|related| message.push_str(&format!("\n{}", in_words(related, uri))));
    }
    Some(Diagnostic {
        range,
        severity: Some(match group.severity {
            Severity::Error => DiagnosticSeverity::ERROR,
            Severity::Warning => DiagnosticSeverity::WARNING,
            Severity::Information => DiagnosticSeverity::INFORMATION,
        }),
        code: Some(NumberOrString::String(group.code.name())),
        source: Some(SOURCE.to_owned()),
        message,
        related_information: (client.related_information && !related.is_empty()).then_some(related),
        ..Diagnostic::default()
    })
}

/// A static finding. It is of the current text, so it is never stale.
fn of_lint(lint: &Lint, file: &FileState, client: &ClientProfile) -> Diagnostic {
    Diagnostic {
        range: range_to(&file.document, &lint.range, client.encoding),
        severity: Some(match lint.rule.severity {
            lint::Severity::Warning => DiagnosticSeverity::WARNING,
            lint::Severity::Information => DiagnosticSeverity::INFORMATION,
        }),
        code: Some(NumberOrString::String(lint.rule.name.to_owned())),
        source: Some(SOURCE.to_owned()),
        message: lint.message.clone(),
        ..Diagnostic::default()
    }
}

fn locate(
    related: &Related,
    uri: &Uri,
    file: &FileState,
    client: &ClientProfile,
) -> Option<DiagnosticRelatedInformation> {
    let location = match &related.location {
        RelatedLocation::Here(anchor) => {
            let bytes = anchor.resolve(&file.kernels, &file.document)?;
            Location::new(uri.clone(), range_to(&file.document, &bytes, client.encoding))
        }
        RelatedLocation::Elsewhere(place) => {
            let start = Position::new(place.line.saturating_sub(1), 0);
            Location::new(uri_to(place.file.as_ref())?, Range::new(start, start))
        }
    };
    Some(DiagnosticRelatedInformation { location, message: related.message.clone() })
}

/// For clients that show no related information.
fn in_words(related: &DiagnosticRelatedInformation, uri: &Uri) -> String {
    let line = related.location.range.start.line + 1;
    if related.location.uri == *uri {
        format!("{} (line {line})", related.message)
    } else {
        format!("{} ({}:{line})", related.message, related.location.uri.path())
    }
}
