//! A language server as a process, and a client without any library.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Sandbox;

/// Longer than the whole check of a small kernel takes on a busy machine; only a hang reaches it.
const LIMIT: Duration = Duration::from_secs(120);

/// A client without any library: frames on pipes.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    /// What the server asked its client, by method.
    pub(crate) asked: Vec<String>,
}

impl Server {
    pub(crate) fn start(sandbox: &Sandbox) -> Self {
        Self::start_in(sandbox, sandbox.path(), json!({"window": {"workDoneProgress": true}}))
    }

    /// With a workspace and what the client can do; it vouches for what it opens.
    pub(crate) fn start_in(sandbox: &Sandbox, root: &Path, mut capabilities: Value) -> Self {
        capabilities["experimental"]["workspaceTrust"] = json!(true);
        Self::spawn(
            sandbox,
            root,
            json!({"processId": null, "rootUri": uri(root), "capabilities": capabilities,
            "initializationOptions": {"untrustedWorkspace": false}}),
        )
    }

    /// One whose user must be asked before anything of this folder is run.
    pub(crate) fn start_untrusted(sandbox: &Sandbox, folder: &Path) -> Self {
        let params = json!({"processId": null, "rootUri": uri(folder), "capabilities": {}});
        Self::spawn(sandbox, folder, params)
    }

    fn spawn(sandbox: &Sandbox, root: &Path, params: Value) -> Self {
        let mut child = sandbox
            .warpsmith()
            .arg("lsp")
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let stdin = child.stdin.take();
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let (send, messages) = channel();
        // Ends with the server's stdout, or with the test.
        std::thread::spawn(move || {
            while let Some(message) = receive(&mut stdout) {
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut server = Self { child, stdin, messages, asked: Vec::new() };
        server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
        server.wait_for(|message| message["id"] == 1);
        server.send(&json!({"jsonrpc": "2.0", "method": "initialized", "params": {}}));
        server
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let body = message.to_string();
        let stdin = self.stdin.as_mut().expect("stdin is open");
        write!(stdin, "Content-Length: {}\r\n\r\n{body}", body.len()).expect("the server reads");
        stdin.flush().expect("the server reads");
    }

    /// The next message that is wanted; requests of the server are answered on the way.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        loop {
            let Ok(message) = self.messages.recv_timeout(LIMIT) else {
                panic!("nothing that was waited for within {LIMIT:?}; the last message is {last}");
            };
            if let Some(method) = message["method"].as_str().filter(|_| !message["id"].is_null()) {
                self.asked.push(method.to_owned());
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": null}));
            }
            if wanted(&message) {
                return message;
            }
            last = message;
        }
    }

    /// The same, and no request is answered.
    #[track_caller]
    pub(crate) fn wait_unanswered(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.messages.recv_timeout(LIMIT).expect("what is waited for comes");
            if wanted(&message) {
                return message;
            }
        }
    }

    /// The next message within this time; what the server asks stays unanswered.
    pub(crate) fn hear(&mut self, limit: Duration) -> Option<Value> {
        self.messages.recv_timeout(limit).ok()
    }

    pub(crate) fn open(&mut self, file: &Path, text: &str) {
        self.send(&json!({"jsonrpc": "2.0", "method": "textDocument/didOpen", "params":
            {"textDocument": {"uri": uri(file), "languageId": "python", "version": 1, "text": text}}}));
    }

    /// A whole new text, saved.
    pub(crate) fn save(&mut self, file: &Path, version: i32, text: &str) {
        self.send(&json!({"jsonrpc": "2.0", "method": "textDocument/didChange", "params":
            {"textDocument": {"uri": uri(file), "version": version}, "contentChanges": [{"text": text}]}}));
        self.send(&json!({"jsonrpc": "2.0", "method": "textDocument/didSave", "params":
            {"textDocument": {"uri": uri(file)}, "text": text}}));
    }

    pub(crate) fn open_and_save(&mut self, file: &Path, text: &str) {
        self.open(file, text);
        self.send(&json!({"jsonrpc": "2.0", "method": "textDocument/didSave", "params":
            {"textDocument": {"uri": uri(file)}, "text": text}}));
    }

    /// Codes of the next diagnostics.
    pub(crate) fn codes(&mut self) -> Vec<String> {
        let message = self.wait_for(|message| message["method"] == "textDocument/publishDiagnostics");
        let diagnostics = message["params"]["diagnostics"].as_array().cloned().unwrap_or_default();
        diagnostics.iter().filter_map(|found| found["code"].as_str().map(str::to_owned)).collect()
    }

    /// The status with which it ended by itself; `None` when it still runs.
    pub(crate) fn status_within(&mut self, limit: Duration) -> Option<i32> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("waitable") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

/// The next message on a server's stdout; `None` at its end.
fn receive(stdout: &mut impl BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut header = String::new();
        if stdout.read_line(&mut header).ok()? == 0 {
            return None;
        }
        if header == "\r\n" {
            break;
        }
        if let Some(value) = header.strip_prefix("Content-Length:") {
            length = value.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    stdout.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).expect("JSON"))
}

/// As editors write it.
pub(crate) fn uri(file: &Path) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    let escaped = file.as_os_str().as_bytes().iter().map(|&byte| match byte {
        byte if plain(byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    format!("file://{}", escaped.collect::<String>())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
