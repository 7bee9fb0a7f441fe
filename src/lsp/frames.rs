//! The client's messages on their way to the transport, which ends at the first one that it cannot read.
//! Here such a message is repaired or left out, and the session goes on.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tower_lsp::jsonrpc::{Request, Response};

const LONGEST_HEADER_BYTES: u64 = 4 << 10;
const LONGEST_BODY_BYTES: usize = 256 << 20;

/// How the input ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputEnd {
    /// A `shutdown` passed by. The transport may cancel it unseen when `exit` follows at once.
    pub(crate) after_shutdown: bool,
}

/// Passes messages on until `exit` has passed, the input ends, or the transport is gone.
pub(crate) async fn forward(
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    end: &mut InputEnd,
) -> io::Result<()> {
    let mut input = BufReader::new(input);
    while let Some(length) = read_header(&mut input).await? {
        let mut body = vec![0; length];
        input.read_exact(&mut body).await?;
        repair_surrogates(&mut body);
        let Some(message) = read_message(&body) else {
            tracing::error!(bytes = length, "a message that makes no sense was left out");
            continue;
        };
        output.write_all(format!("Content-Length: {length}\r\n\r\n").as_bytes()).await?;
        output.write_all(&body).await?;
        output.flush().await?;
        match message {
            Message::Shutdown => end.after_shutdown = true,
            Message::Exit => break,
            Message::Other => {}
        }
    }
    Ok(())
}

/// Reads up to the next body; its length in bytes, `None` at the end of the input.
async fn read_header(input: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<Option<usize>> {
    let mut length = None;
    loop {
        let mut line = Vec::new();
        (&mut *input).take(LONGEST_HEADER_BYTES).read_until(b'\n', &mut line).await?;
        if line.is_empty() {
            return Ok(None);
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end();
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok().filter(|length| *length <= LONGEST_BODY_BYTES);
        }
        if line.is_empty() && length.is_some() {
            return Ok(length);
        }
    }
}

enum Message {
    Shutdown,
    Exit,
    Other,
}

/// What the transport accepts: a request, a notification or a response.
fn read_message(body: &[u8]) -> Option<Message> {
    let body = std::str::from_utf8(body).ok()?;
    match serde_json::from_str::<Request>(body) {
        Ok(request) if request.method() == "shutdown" => Some(Message::Shutdown),
        Ok(request) if request.method() == "exit" => Some(Message::Exit),
        Ok(_) => Some(Message::Other),
        Err(_) => serde_json::from_str::<Response>(body).ok().map(|_| Message::Other),
    }
}

/// Turns each escaped half of a surrogate pair into `\ufffd`, which is as long. Editors whose strings are
/// UTF-16 send such halves, but they are no text.
fn repair_surrogates(body: &mut [u8]) {
    let mut at = 0;
    while let Some(found) = body.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        let escape = at + found;
        match (unit_at(body, escape), unit_at(body, escape + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at = escape + 12,
            (Some(0xd800..=0xdfff), _) => {
                body[escape..escape + 6].copy_from_slice(b"\\ufffd");
                at = escape + 6;
            }
            (Some(_), _) => at = escape + 6,
            // `\\` and the like: the next character belongs to this escape.
            (None, _) => at = escape + 2,
        }
    }
}

/// The UTF-16 unit that the escape at `offset` names by its four digits.
fn unit_at(body: &[u8], offset: usize) -> Option<u16> {
    let digits = body.get(offset..offset + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(text: &str) -> String {
        let mut body = text.as_bytes().to_vec();
        repair_surrogates(&mut body);
        String::from_utf8(body).expect("still text")
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_pairs_kept() {
        for (text, expected) in [
            (r"a \ud83d b", r"a \ufffd b"),
            (r"\ude00", r"\ufffd"),
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"\uD83D\uD83D\uDE00", r"\ufffd\uD83D\uDE00"),
            (r"\\ud83d", r"\\ud83d"),
            (r"\\\ud83d", r"\\\ufffd"),
            (r"\n\u0041", r"\n\u0041"),
            (r"\ud83", r"\ud83"),
            ("\\", "\\"),
        ] {
            assert_eq!(repaired(text), expected);
        }
    }

    #[tokio::test]
    async fn nothing_passes_after_exit() {
        let message = |method: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            format!("Content-Length: {}\r\n\r\n{body}", body.len())
        };
        let input = [message("shutdown"), message("exit"), message("late")].concat();
        let mut output = Vec::new();
        let mut end = InputEnd::default();
        forward(input.as_bytes(), &mut output, &mut end).await.expect("a good end");
        assert!(end.after_shutdown);
        assert_eq!(String::from_utf8(output).expect("text"), [message("shutdown"), message("exit")].concat());
    }

    #[tokio::test]
    async fn what_makes_no_sense_is_left_out() {
        let good = |method: &str| {
            let body = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
            format!("Content-Length: {}\r\n\r\n{body}", body.len())
        };
        let input = format!(
            "{}garbage\r\n\r\nContent-Length: x\r\n\r\nContent-Length: 2\r\n\r\n[]content-length: 1\r\nContent-Type: t\r\n\r\n{{{}Content-Length: 9\r\n\r\ncut",
            good("one"),
            good("two")
        );
        let mut output = Vec::new();
        let end = forward(input.as_bytes(), &mut output, &mut InputEnd::default()).await;
        assert_eq!(end.expect_err("cut off").kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(String::from_utf8(output).expect("text"), format!("{}{}", good("one"), good("two")));
    }
}
