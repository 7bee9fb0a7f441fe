//! A language server as a process, and a client without any library.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::Sandbox;

/// A client without any library: frames on pipes.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Server {
    pub(crate) fn start(sandbox: &Sandbox) -> Self {
        let mut child = sandbox
            .warpsmith()
            .arg("lsp")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut server = Self { child, stdin, stdout };
        let capabilities = json!({"window": {"workDoneProgress": true}});
        server.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"processId": null, "rootUri": null, "capabilities": capabilities}}));
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
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.receive();
            if message["method"].is_string() && !message["id"].is_null() {
                self.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": null}));
            }
            if wanted(&message) {
                return message;
            }
        }
    }

    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut header = String::new();
            self.stdout.read_line(&mut header).expect("a header");
            assert!(!header.is_empty(), "the server closed its stdout");
            if header == "\r\n" {
                break;
            }
            if let Some(value) = header.strip_prefix("Content-Length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.stdout.read_exact(&mut body).expect("a body");
        serde_json::from_slice(&body).expect("JSON")
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

pub(crate) fn uri(file: &Path) -> String {
    format!("file://{}", file.display())
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
