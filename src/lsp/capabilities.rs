//! What the client can do, and what we tell it that we can do.

use tower_lsp::ls_types::*;

use super::handlers::execute_command::COMMANDS;
use crate::text::PositionEncoding;

/// The capabilities that change what we send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientProfile {
    pub(crate) encoding: PositionEncoding,
    pub(crate) progress: bool,
    pub(crate) lens_refresh: bool,
    pub(crate) hint_refresh: bool,
    pub(crate) related_information: bool,
    /// Code actions as literals; otherwise only commands may be returned.
    pub(crate) code_action_literals: bool,
    /// Edits with document versions.
    pub(crate) document_changes: bool,
    /// Edits that make files.
    pub(crate) create_files: bool,
    pub(crate) markdown: bool,
    pub(crate) server_status: bool,
    /// It has a workspace trust of its own, and tells us; see [`super::gate`].
    pub(crate) has_trust: bool,
    /// It can be asked for settings.
    pub(crate) configuration: bool,
    /// It tells of changed settings once it was asked to.
    pub(crate) registers_configuration: bool,
}

impl ClientProfile {
    pub(crate) fn new(client: &ClientCapabilities) -> Self {
        let window = client.window.as_ref();
        let workspace = client.workspace.as_ref();
        let documents = client.text_document.as_ref();
        let experimental = |name: &str| {
            client.experimental.as_ref().and_then(|known| known.get(name)?.as_bool()).unwrap_or(false)
        };
        Self {
            encoding: negotiate(
                client.general.as_ref().and_then(|general| general.position_encodings.as_deref()),
            ),
            progress: window.and_then(|window| window.work_done_progress).unwrap_or(false),
            lens_refresh: workspace
                .and_then(|workspace| workspace.code_lens.as_ref()?.refresh_support)
                .unwrap_or(false),
            hint_refresh: workspace
                .and_then(|workspace| workspace.inlay_hint.as_ref()?.refresh_support)
                .unwrap_or(false),
            related_information: documents
                .and_then(|documents| documents.publish_diagnostics.as_ref()?.related_information)
                .unwrap_or(false),
            code_action_literals: documents
                .and_then(|documents| documents.code_action.as_ref()?.code_action_literal_support.as_ref())
                .is_some(),
            document_changes: workspace
                .and_then(|workspace| workspace.workspace_edit.as_ref()?.document_changes)
                .unwrap_or(false),
            create_files: workspace
                .and_then(|workspace| workspace.workspace_edit.as_ref()?.resource_operations.as_ref())
                .is_some_and(|operations| operations.contains(&ResourceOperationKind::Create)),
            markdown: documents
                .and_then(|documents| documents.hover.as_ref()?.content_format.as_ref())
                .is_some_and(|formats| formats.contains(&MarkupKind::Markdown)),
            server_status: experimental("serverStatusNotification"),
            has_trust: experimental("workspaceTrust"),
            configuration: workspace.and_then(|workspace| workspace.configuration).unwrap_or(false),
            registers_configuration: workspace
                .and_then(|workspace| workspace.did_change_configuration.as_ref()?.dynamic_registration)
                .unwrap_or(false),
        }
    }
}

/// UTF-8 is what we count in, UTF-32 is cheap, UTF-16 is what every client must speak.
fn negotiate(offered: Option<&[PositionEncodingKind]>) -> PositionEncoding {
    let offers = |kind| offered.is_some_and(|offered| offered.contains(&kind));
    if offers(PositionEncodingKind::UTF8) {
        PositionEncoding::Utf8
    } else if offers(PositionEncodingKind::UTF32) {
        PositionEncoding::Utf32
    } else {
        PositionEncoding::Utf16
    }
}

pub(crate) fn server(client: &ClientProfile) -> ServerCapabilities {
    let save = SaveOptions { include_text: Some(true) };
    ServerCapabilities {
        position_encoding: Some(match client.encoding {
            PositionEncoding::Utf8 => PositionEncodingKind::UTF8,
            PositionEncoding::Utf16 => PositionEncodingKind::UTF16,
            PositionEncoding::Utf32 => PositionEncodingKind::UTF32,
        }),
        text_document_sync: Some(TextDocumentSyncCapability::Options(TextDocumentSyncOptions {
            open_close: Some(true),
            change: Some(TextDocumentSyncKind::INCREMENTAL),
            save: Some(TextDocumentSyncSaveOptions::SaveOptions(save)),
            ..TextDocumentSyncOptions::default()
        })),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
        inlay_hint_provider: Some(OneOf::Left(true)),
        code_action_provider: Some(if client.code_action_literals {
            CodeActionProviderCapability::Options(CodeActionOptions {
                code_action_kinds: Some(vec![
                    CodeActionKind::QUICKFIX,
                    CodeActionKind::REFACTOR,
                    CodeActionKind::EMPTY,
                ]),
                ..CodeActionOptions::default()
            })
        } else {
            CodeActionProviderCapability::Simple(true)
        }),
        execute_command_provider: Some(ExecuteCommandOptions {
            commands: COMMANDS.map(str::to_owned).to_vec(),
            ..ExecuteCommandOptions::default()
        }),
        ..ServerCapabilities::default()
    }
}
