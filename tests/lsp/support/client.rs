//! An in-process client with typed, limited waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tower_lsp::ls_types::notification::{self, Notification};
use tower_lsp::ls_types::request::{self, Request};
use tower_lsp::ls_types::*;
use warpsmith::lsp::{Host, Stopped, Timing, serve};
use warpsmith::trust::TrustFile;

use super::fake_checker::{Call, Memory, fake_checker};

/// Longer than anything takes; only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(20);

/// A client before it connects.
pub(crate) struct Builder {
    capabilities: Value,
    settings: Value,
    process_id: Option<u32>,
    timing: Timing,
    send_initialized: bool,
    trust: Trust,
    folder: Option<PathBuf>,
}

/// Who says whether code may be run.
enum Trust {
    /// The client, with this word.
    Client(bool),
    /// Whoever is asked, or this file.
    User(Option<PathBuf>),
}

impl Default for Builder {
    /// A client that shows related information and code actions, and neither progress nor refreshes.
    fn default() -> Self {
        let capabilities = json!({
            "general": { "positionEncodings": ["utf-8", "utf-16"] },
            "textDocument": {
                "publishDiagnostics": { "relatedInformation": true },
                "codeAction": { "codeActionLiteralSupport": { "codeActionKind": { "valueSet": [] } } },
                "hover": { "contentFormat": ["markdown", "plaintext"] },
            },
            "workspace": { "workspaceEdit": { "documentChanges": true } },
        });
        let timing = Timing {
            debounce: Duration::from_millis(1),
            progress_delay: Duration::ZERO,
            parent_poll: Duration::from_millis(10),
            // A hang is named and ends the run. Longer than any turn takes without optimisation on a loaded machine.
            stuck_turn: Duration::from_secs(60),
            abort_when_stuck: true,
            ..Timing::default()
        };
        Self {
            capabilities,
            settings: Value::Null,
            process_id: None,
            timing,
            send_initialized: true,
            trust: Trust::Client(true),
            folder: None,
        }
    }
}

impl Builder {
    /// Sets one capability by JSON pointer (`/window/workDoneProgress`), making the objects on the way.
    pub(crate) fn capability(mut self, pointer: &str, value: Value) -> Self {
        let mut place = &mut self.capabilities;
        for name in pointer.trim_start_matches('/').split('/') {
            place = &mut place[name];
        }
        *place = value;
        self
    }

    pub(crate) fn capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// What goes into `initializationOptions`.
    pub(crate) fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }

    pub(crate) fn progress(self) -> Self {
        self.capability("/window/workDoneProgress", json!(true))
    }

    pub(crate) fn lens_refresh(self) -> Self {
        self.capability("/workspace/codeLens/refreshSupport", json!(true))
    }

    pub(crate) fn process_id(mut self, pid: u32) -> Self {
        self.process_id = Some(pid);
        self
    }

    pub(crate) fn timing(mut self, change: impl FnOnce(&mut Timing)) -> Self {
        change(&mut self.timing);
        self
    }

    /// A client with a workspace trust of its own, which says no.
    pub(crate) fn restricted(mut self) -> Self {
        self.trust = Trust::Client(false);
        self
    }

    /// A client that knows no trust: the user is asked, and answers are remembered in this file.
    pub(crate) fn asks_user(mut self, remembered: Option<&Path>) -> Self {
        self.trust = Trust::User(remembered.map(Path::to_owned));
        self
    }

    /// The folder that is open in the editor.
    pub(crate) fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Leaves `initialized` to the test.
    pub(crate) fn without_initialized(mut self) -> Self {
        self.send_initialized = false;
        self
    }

    /// Starts a server without a word to it.
    pub(crate) fn connect(self) -> Server {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let (to_server, server_input) = tokio::io::duplex(1 << 20);
        let (server_output, from_server) = tokio::io::duplex(1 << 20);
        let (checker, calls, memory) = fake_checker();
        let trust = match self.trust {
            Trust::User(Some(path)) => Some(TrustFile::new(path)),
            _ => None,
        };
        let host = Host { checker, trust, timing: self.timing };
        let session = runtime.spawn(serve(server_input, server_output, host));
        let (sender, inbox) = unbounded_channel();
        runtime.spawn(read_messages(from_server, sender));
        Server {
            runtime,
            to_server: Some(to_server),
            inbox,
            unread: Vec::new(),
            calls,
            memory,
            session: Some(session),
            next_id: 1,
            initialize_result: Value::Null,
        }
    }

    /// Connects and goes through the protocol's greeting.
    pub(crate) fn start(mut self) -> Server {
        if let Trust::Client(trusts) = self.trust {
            self.capabilities["experimental"]["workspaceTrust"] = json!(true);
            self.settings["untrustedWorkspace"] = json!(!trusts);
        }
        let folders = self
            .folder
            .iter()
            .map(|folder| json!({ "uri": Uri::from_file_path(folder).expect("a path"), "name": "project" }));
        let params = json!({
            "processId": self.process_id,
            "capabilities": self.capabilities,
            "initializationOptions": self.settings,
            "workspaceFolders": folders.collect::<Vec<_>>(),
        });
        let send_initialized = self.send_initialized;
        let mut server = self.connect();
        server.initialize_result = server.raw_request("initialize", params).expect("initialize succeeds");
        if send_initialized {
            server.notify::<notification::Initialized>(InitializedParams {});
        }
        server
    }
}

/// A running server and the client's end of the pipe.
pub(crate) struct Server {
    runtime: Runtime,
    to_server: Option<DuplexStream>,
    inbox: UnboundedReceiver<Value>,
    /// Came before it was asked for.
    unread: Vec<Value>,
    calls: UnboundedReceiver<Call>,
    /// What the engine says of earlier verdicts.
    pub(crate) memory: Arc<Memory>,
    session: Option<JoinHandle<anyhow::Result<Stopped>>>,
    next_id: i64,
    pub(crate) initialize_result: Value,
}

impl Server {
    pub(crate) fn start() -> Self {
        Builder::default().start()
    }

    fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string());
    }

    /// A body as it stands, also one that is no JSON.
    pub(crate) fn send_text(&mut self, body: &str) {
        let frame = format!("Content-Length: {}\r\n\r\n{body}", body.len());
        let pipe = self.to_server.as_mut().expect("the pipe is open");
        let write = async { tokio::time::timeout(LIMIT, pipe.write_all(frame.as_bytes())).await };
        self.runtime.block_on(write).expect("the server reads").expect("the pipe holds");
    }

    /// The first message, unread or new, that fits.
    #[track_caller]
    fn wait_for(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(index) = self.unread.iter().position(&fits) {
            return self.unread.remove(index);
        }
        loop {
            let next = self.runtime.block_on(async { tokio::time::timeout(LIMIT, self.inbox.recv()).await });
            match next {
                Ok(Some(message)) if fits(&message) => return message,
                Ok(Some(message)) => self.unread.push(message),
                Ok(None) => panic!("the server left before {what}; unread: {:#?}", self.unread),
                Err(_) => panic!("no {what} within {LIMIT:?}; unread: {:#?}", self.unread),
            }
        }
    }

    pub(crate) fn post(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    #[track_caller]
    pub(crate) fn response(&mut self, id: i64) -> Result<Value, Value> {
        let message =
            self.wait_for("response", |message| message["id"] == id && message.get("method").is_none());
        match message.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(message["result"].clone()),
        }
    }

    #[track_caller]
    pub(crate) fn raw_request(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.post(method, params);
        self.response(id)
    }

    #[track_caller]
    pub(crate) fn request<R: Request>(&mut self, params: R::Params) -> R::Result {
        let params = serde_json::to_value(params).expect("serializes");
        let result = self.raw_request(R::METHOD, params).expect("the request succeeds");
        serde_json::from_value(result).expect("the result is what the protocol says")
    }

    pub(crate) fn notify<N: Notification>(&mut self, params: N::Params) {
        let params = serde_json::to_value(params).expect("serializes");
        self.send(&json!({ "jsonrpc": "2.0", "method": N::METHOD, "params": params }));
    }

    /// The next notification of this kind from the server.
    #[track_caller]
    pub(crate) fn notification<N: Notification>(&mut self) -> N::Params {
        let message = self.wait_for(N::METHOD, |message| message["method"] == N::METHOD);
        serde_json::from_value(message["params"].clone()).expect("the params are what the protocol says")
    }

    /// The next request of this kind from the server, and the id to answer it with.
    #[track_caller]
    pub(crate) fn client_request<R: Request>(&mut self) -> (Value, R::Params) {
        let message = self.wait_for(R::METHOD, |message| message["method"] == R::METHOD);
        let params = message.get("params").cloned().unwrap_or(Value::Null);
        (message["id"].clone(), serde_json::from_value(params).expect("params"))
    }

    pub(crate) fn answer(&mut self, id: Value, result: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    pub(crate) fn refuse(&mut self, id: Value) {
        let error = json!({ "code": -32603, "message": "refused on purpose" });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error }));
    }

    /// What came of this kind and was not asked for.
    pub(crate) fn take_unread(&mut self, method: &str) -> Vec<Value> {
        while let Ok(message) = self.inbox.try_recv() {
            self.unread.push(message);
        }
        self.unread.extract_if(.., |message| message["method"] == method).collect()
    }

    /// Forgets what came unasked; for clients that are meant to ignore it.
    #[track_caller]
    pub(crate) fn ignore_unread(&mut self) -> usize {
        if self.session.is_none() {
            self.read_to_end();
        }
        while let Ok(message) = self.inbox.try_recv() {
            self.unread.push(message);
        }
        std::mem::take(&mut self.unread).len()
    }

    /// Everything until the server closes its output.
    #[track_caller]
    fn read_to_end(&mut self) {
        let rest = async {
            while let Some(message) = self.inbox.recv().await {
                self.unread.push(message);
            }
        };
        let rest = async { tokio::time::timeout(LIMIT, rest).await };
        self.runtime.block_on(rest).expect("the server closes its output");
    }

    // Documents

    pub(crate) fn uri(name: &str) -> Uri {
        format!("file:///kernels/{name}").parse().expect("a URI")
    }

    pub(crate) fn open(&mut self, name: &str, text: &str) -> Uri {
        self.open_uri(Self::uri(name), text)
    }

    pub(crate) fn open_file(&mut self, path: &Path, text: &str) -> Uri {
        self.open_uri(Uri::from_file_path(path).expect("a path"), text)
    }

    fn open_uri(&mut self, uri: Uri, text: &str) -> Uri {
        self.notify::<notification::DidOpenTextDocument>(DidOpenTextDocumentParams {
            text_document: TextDocumentItem::new(uri.clone(), "python".to_owned(), 1, text.to_owned()),
        });
        uri
    }

    /// One edit in UTF-8 columns (or lines only).
    pub(crate) fn edit(&mut self, uri: &Uri, version: i32, from: (u32, u32), to: (u32, u32), text: &str) {
        let position = |(line, column)| Position::new(line, column);
        self.change(uri, version, Some(Range::new(position(from), position(to))), text);
    }

    pub(crate) fn change(&mut self, uri: &Uri, version: i32, range: Option<Range>, text: &str) {
        self.notify::<notification::DidChangeTextDocument>(DidChangeTextDocumentParams {
            text_document: VersionedTextDocumentIdentifier::new(uri.clone(), version),
            content_changes: vec![TextDocumentContentChangeEvent {
                range,
                range_length: None,
                text: text.to_owned(),
            }],
        });
    }

    pub(crate) fn save(&mut self, uri: &Uri, text: Option<&str>) {
        self.notify::<notification::DidSaveTextDocument>(DidSaveTextDocumentParams {
            text_document: TextDocumentIdentifier::new(uri.clone()),
            text: text.map(str::to_owned),
        });
    }

    pub(crate) fn close(&mut self, uri: &Uri) {
        self.notify::<notification::DidCloseTextDocument>(DidCloseTextDocumentParams {
            text_document: TextDocumentIdentifier::new(uri.clone()),
        });
    }

    // What a user sees

    #[track_caller]
    pub(crate) fn lenses(&mut self, uri: &Uri) -> Vec<CodeLens> {
        let params = json!({ "textDocument": { "uri": uri } });
        let result = self.raw_request("textDocument/codeLens", params).expect("lenses");
        serde_json::from_value::<Option<_>>(result).expect("lenses").unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn lens_titles(&mut self, uri: &Uri) -> Vec<String> {
        let lenses = self.lenses(uri);
        lenses.into_iter().map(|lens| lens.command.expect("a lens has a command").title).collect()
    }

    /// Asks for the lens until its title fits: the state behind it may be on its way.
    #[track_caller]
    pub(crate) fn lens_until(&mut self, uri: &Uri, wanted: &str) {
        self.lenses_until(uri, &[wanted]);
    }

    /// The same for the lenses of several kernels.
    #[track_caller]
    pub(crate) fn lenses_until(&mut self, uri: &Uri, wanted: &[&str]) {
        let mut last = Vec::new();
        for _ in 0..2000 {
            last = self.lens_titles(uri);
            if last == wanted {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the lens never became {wanted:?}; it is {last:?}");
    }

    #[track_caller]
    pub(crate) fn diagnostics(&mut self) -> PublishDiagnosticsParams {
        self.notification::<notification::PublishDiagnostics>()
    }

    #[track_caller]
    pub(crate) fn command(&mut self, command: &str, uri: &Uri) -> Result<Value, Value> {
        let argument = json!({ "uri": uri });
        self.raw_request("workspace/executeCommand", json!({ "command": command, "arguments": [argument] }))
    }

    // The engine

    /// The next check that the server starts.
    #[track_caller]
    pub(crate) fn next_check(&mut self) -> Call {
        let next = self.runtime.block_on(async { tokio::time::timeout(LIMIT, self.calls.recv()).await });
        next.expect("a check starts in time").expect("the server lives")
    }

    #[track_caller]
    pub(crate) fn wait_cancelled(&mut self, call: &Call) {
        let cancelled = async { tokio::time::timeout(LIMIT, call.cancel.cancelled()).await };
        self.runtime.block_on(cancelled).expect("the check is told to end");
    }

    // The end

    pub(crate) fn close_input(&mut self) {
        self.to_server = None;
    }

    /// Waits for the session to end by itself.
    #[track_caller]
    pub(crate) fn ended(&mut self) -> Stopped {
        let session = self.session.take().expect("the session was not awaited before");
        let ended = self.runtime.block_on(async { tokio::time::timeout(LIMIT, session).await });
        ended.expect("the session ends").expect("the server does not panic").expect("the main loop ends well")
    }

    pub(crate) fn exit(&mut self) {
        self.send(&json!({ "jsonrpc": "2.0", "method": "exit" }));
    }

    #[track_caller]
    pub(crate) fn shutdown(&mut self) {
        self.request::<request::Shutdown>(());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        if self.session.is_some() {
            self.shutdown();
            self.exit();
            assert!(self.ended().after_shutdown);
        }
        self.close_input();
        self.read_to_end();
        assert!(self.unread.is_empty(), "not expected by the test: {:#?}", self.unread);
        assert!(self.calls.try_recv().is_err(), "a check was started that the test did not expect");
    }
}

/// Puts every message of the server into `messages` until the pipe ends.
async fn read_messages(mut from_server: DuplexStream, messages: UnboundedSender<Value>) {
    let mut buffer: Vec<u8> = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(length @ 1..) = from_server.read(&mut chunk).await {
        buffer.extend_from_slice(&chunk[..length]);
        while let Some((message, rest)) = split_message(&buffer) {
            if messages.send(message).is_err() {
                return;
            }
            buffer = rest;
        }
    }
}

/// The first whole message of `buffer`, and what follows it.
fn split_message(buffer: &[u8]) -> Option<(Value, Vec<u8>)> {
    let header_end = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let header = std::str::from_utf8(&buffer[..header_end]).expect("headers are text");
    let length = header.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    let body_end = header_end + length.parse::<usize>().expect("a number");
    let body = buffer.get(header_end..body_end)?;
    Some((serde_json::from_slice(body).expect("a body of JSON"), buffer[body_end..].to_vec()))
}
