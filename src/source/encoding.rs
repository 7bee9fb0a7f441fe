//! Python's encoding of source files (PEP 263): what a file says of itself, and texts that no longer need to.

use std::borrow::Cow;

/// Why the bytes of a file are no text that Python and we read alike.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodingError {
    #[error("is UTF-16 and cannot be checked, nor does Python import it; save it as UTF-8")]
    Utf16,
    #[error("is not UTF-8 and cannot be checked; save it as UTF-8")]
    NotUtf8,
    #[error("declares the encoding `{0}` and cannot be checked; save it as UTF-8 and take that line out")]
    Declared(String),
}

/// The text of a source file, as Python reads it.
///
/// # Errors
/// It is no UTF-8, and declares nothing that we know.
pub fn decode(bytes: Vec<u8>) -> Result<String, EncodingError> {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return Err(EncodingError::Utf16);
    }
    // Every encoding that can be declared has ASCII letters where ASCII has them.
    let head: String = bytes.iter().take(HEAD_BYTES).map(|&byte| char::from(byte)).collect();
    let declared = declarations(&head).next().map(|(_, name)| normalized(name));
    match declared.as_deref() {
        None | Some("utf-8") => String::from_utf8(bytes).map_err(|_| EncodingError::NotUtf8),
        Some(_) if bytes.is_ascii() => Ok(bytes.into_iter().map(char::from).collect()),
        Some("latin-1") => Ok(bytes.into_iter().map(char::from).collect()),
        Some(other) => Err(EncodingError::Declared(other.to_owned())),
    }
}

/// `text` as it may be written in UTF-8 and imported: an editor has decoded it already, and what it says of its
/// encoding would make Python decode it once more. Of the same length, so every place stays where it is.
pub fn as_utf8(text: &str) -> Cow<'_, str> {
    let foreign = declarations(text).filter(|(_, name)| normalized(name) != "utf-8");
    let places: Vec<usize> = foreign.map(|(at, _)| at).collect();
    if places.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut text = text.to_owned();
    for at in places {
        text.replace_range(at..at + 1, "C");
    }
    Cow::Owned(text)
}

const WORD: &str = "coding";
/// Longer first two lines declare nothing.
const HEAD_BYTES: usize = 4096;

/// Where the comments on the first two lines say `coding: name`, and the name. The second counts only below a line
/// without code.
fn declarations(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bom = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let first = text[bom..].split_inclusive(['\n', '\r']).next().unwrap_or_default();
    // Of `\r\n` the second half is a line of its own here.
    let rest = &text[bom + first.len()..];
    let skipped = usize::from(first.ends_with('\r') && rest.starts_with('\n'));
    let second = rest[skipped..].split(['\n', '\r']).next().unwrap_or_default();
    let blank = |line: &str| line.trim_matches([' ', '\t', '\x0c', '\r', '\n']).is_empty();
    let comment = |line: &str| line.trim_start_matches([' ', '\t', '\x0c']).starts_with('#');
    let second = if blank(first) || comment(first) { second } else { "" };
    let lines = [(bom, first), (bom + first.len() + skipped, second)];
    lines.into_iter().filter(move |(_, line)| comment(line)).flat_map(|(start, line)| {
        line.match_indices(WORD).filter_map(move |(at, _)| {
            let after = line[at + WORD.len()..].strip_prefix([':', '='])?;
            let after = after.trim_start_matches([' ', '\t']);
            let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            let end = after.find(|c| !is_part(c)).unwrap_or(after.len());
            (end > 0).then(|| (start + at, &after[..end]))
        })
    })
}

/// Names of one encoding are one name.
fn normalized(name: &str) -> String {
    let name = name.to_ascii_lowercase().replace('_', "-");
    match name.as_str() {
        "utf-8" | "utf8" | "u8" | "utf-8-sig" | "cp65001" => "utf-8".to_owned(),
        "latin-1" | "latin1" | "l1" | "latin" | "iso-8859-1" | "iso8859-1" | "8859" | "cp819" => {
            "latin-1".to_owned()
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &str) -> Vec<String> {
        declarations(text).map(|(_, name)| name.to_owned()).collect()
    }

    #[test]
    fn only_comments_of_the_first_two_lines_declare() {
        for text in [
            "# -*- coding: latin-1 -*-\nx = 1\n",
            "#!/usr/bin/python\n# vim: set fileencoding=latin-1 :\n",
            "\u{feff}# coding=latin-1\r\n",
            "\n  # coding: latin-1",
            "# one\r\n# coding: latin-1\r\n",
            "# one\r# coding: latin-1\r",
        ] {
            assert_eq!(declared(text), ["latin-1"], "{text:?}");
        }
        for text in [
            "x = 1\n# coding: latin-1\n",
            "\n\n# coding: latin-1\n",
            "'''\n# coding: latin-1\n'''\n",
            "x = 'coding: latin-1'\n",
            "# coding latin-1\n",
            "# coding:\n# latin-1\n",
            "",
        ] {
            assert_eq!(declared(text), Vec::<String>::new(), "{text:?}");
        }
    }

    #[test]
    fn what_is_decoded_declares_nothing_and_keeps_its_places() {
        for text in [
            "# -*- coding: latin-1 -*-\nx = 'é'\n",
            "\u{feff}# é coding: cp1252, coding: koi8-r\n",
            "#\n# coding=utf-16\n",
        ] {
            let written = as_utf8(text);
            assert_eq!(written.len(), text.len());
            assert_eq!(declared(&written), Vec::<String>::new(), "{written:?}");
        }
        for text in ["# -*- coding: utf-8 -*-\n", "x = 'coding: latin-1'\n", ""] {
            assert!(matches!(as_utf8(text), Cow::Borrowed(_)), "{text:?}");
        }
    }

    #[test]
    fn bytes_are_read_as_python_reads_them() {
        let read = |bytes: &[u8]| decode(bytes.to_vec());
        assert_eq!(read("x = 'é'\n".as_bytes()).as_deref(), Ok("x = 'é'\n"));
        assert_eq!(read(b"# coding: latin-1\nx = '\xe9'\n").as_deref(), Ok("# coding: latin-1\nx = 'é'\n"));
        // What is UTF-8 by its bytes is something else by its word.
        assert_eq!(read("# coding: latin-1\n# é\n".as_bytes()).as_deref(), Ok("# coding: latin-1\n# Ã©\n"));
        assert_eq!(read(b"# coding: koi8-r\nx = 1\n").as_deref(), Ok("# coding: koi8-r\nx = 1\n"));
        let koi8 = EncodingError::Declared("koi8-r".to_owned());
        assert_eq!(read(b"# coding: KOI8_R\nx = '\xe9'\n"), Err(koi8));
        assert_eq!(read(b"x = '\xe9'\n"), Err(EncodingError::NotUtf8));
        assert_eq!(read(b"\xff\xfex\0"), Err(EncodingError::Utf16));
    }
}
