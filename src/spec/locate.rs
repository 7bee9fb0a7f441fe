//! Where the values of a JSON document stand in its text; `serde_json` does not keep it.

use std::collections::HashMap;

use super::problem::{JsonPath, Position};

/// Offsets of the members and elements of one document.
pub(super) struct Locations<'text> {
    text: &'text str,
    members: HashMap<JsonPath, Member>,
    /// Members whose name was already used in the same object, with the offset of the later name.
    duplicates: Vec<(JsonPath, usize)>,
}

#[derive(Clone, Copy)]
struct Member {
    /// Of the name; for elements of arrays and the document, of the value.
    key: usize,
    value: usize,
}

impl<'text> Locations<'text> {
    /// Reads a text that `serde_json` accepted, so nesting is bounded by its limit. On any other text
    /// the result is incomplete, nothing worse.
    pub(super) fn scan(text: &'text str) -> Self {
        let mut scanner = Scanner {
            bytes: text.as_bytes(),
            at: 0,
            nesting: 0,
            in_duplicate: false,
            found: Self { text, members: HashMap::new(), duplicates: Vec::new() },
        };
        scanner.skip_spaces();
        let start = scanner.at;
        scanner.found.members.insert(JsonPath::default(), Member { key: start, value: start });
        scanner.value(&JsonPath::default());
        scanner.found
    }

    /// Where the value stands.
    pub(super) fn value(&self, path: &JsonPath) -> Option<Position> {
        self.members.get(path).map(|member| position(self.text, member.value))
    }

    /// Where the name of the member stands.
    pub(super) fn key(&self, path: &JsonPath) -> Option<Position> {
        self.members.get(path).map(|member| position(self.text, member.key))
    }

    /// Names written twice in one object: JSON readers keep the last and say nothing.
    pub(super) fn duplicates(&self) -> impl Iterator<Item = (&JsonPath, Position)> {
        self.duplicates.iter().map(|(path, offset)| (path, position(self.text, *offset)))
    }
}

fn position(text: &str, offset: usize) -> Position {
    let before = text.get(..offset).unwrap_or_default();
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX - 1) + 1;
    Position {
        line: count(before.matches('\n').count()),
        column: count(before.get(line_start..).unwrap_or_default().chars().count()),
    }
}

/// `serde_json` refuses deeper documents.
const MAX_NESTING: usize = 128;

struct Scanner<'text> {
    bytes: &'text [u8],
    at: usize,
    nesting: usize,
    /// Inside a value whose name was written twice: its members are no further duplicates.
    in_duplicate: bool,
    found: Locations<'text>,
}

impl Scanner<'_> {
    fn value(&mut self, path: &JsonPath) {
        if self.nesting > MAX_NESTING {
            self.at = self.bytes.len();
            return;
        }
        self.nesting += 1;
        match self.peek() {
            Some(b'{') => self.object(path),
            Some(b'[') => self.array(path),
            Some(b'"') => {
                self.string();
            }
            _ => self.word(),
        }
        self.nesting -= 1;
    }

    fn object(&mut self, path: &JsonPath) {
        self.at += 1;
        loop {
            self.skip_spaces();
            if self.peek() != Some(b'"') {
                self.at += 1;
                return;
            }
            let key = self.at;
            let name = self.string();
            self.skip_spaces();
            self.at += 1; // the colon
            self.skip_spaces();
            let member_path = path.key(&name);
            let member = Member { key, value: self.at };
            let is_duplicate = self.found.members.insert(member_path.clone(), member).is_some();
            if is_duplicate && !self.in_duplicate {
                self.found.duplicates.push((member_path.clone(), key));
            }
            let outer = self.in_duplicate;
            self.in_duplicate |= is_duplicate;
            self.value(&member_path);
            self.in_duplicate = outer;
            if !self.comma() {
                return;
            }
        }
    }

    fn array(&mut self, path: &JsonPath) {
        self.at += 1;
        self.skip_spaces();
        if self.peek() == Some(b']') {
            self.at += 1;
            return;
        }
        for index in 0.. {
            self.skip_spaces();
            let element = path.index(index);
            self.found.members.insert(element.clone(), Member { key: self.at, value: self.at });
            self.value(&element);
            if !self.comma() {
                return;
            }
        }
    }

    /// Skips a comma and says so; otherwise skips the closing bracket.
    fn comma(&mut self) -> bool {
        self.skip_spaces();
        let comma = self.peek() == Some(b',');
        self.at += 1;
        comma
    }

    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        let quoted = self.bytes.get(start..self.at).unwrap_or_default();
        serde_json::from_slice(quoted).unwrap_or_default()
    }

    /// A number, `true`, `false` or `null`.
    fn word(&mut self) {
        while self
            .peek()
            .is_some_and(|byte| !matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t'))
        {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: u32, column: u32) -> Option<Position> {
        Some(Position { line, column })
    }

    #[test]
    fn members_and_elements_are_found() {
        let text = "{\n  \"a\\\"b\": [1, {\"ключ\": true}, \"x\"],\n  \"axes\": {}, \"axes\": null\n}";
        let locations = Locations::scan(text);
        let root = JsonPath::default();
        let list = root.key("a\"b");
        assert_eq!(list.as_str(), r#"["a\"b"]"#);
        assert_eq!(locations.value(&list), at(2, 11));
        assert_eq!(locations.key(&list), at(2, 3));
        assert_eq!(locations.value(&list.index(1).key("ключ")), at(2, 24));
        assert_eq!(locations.value(&list.index(2)), at(2, 31));
        let duplicates: Vec<_> = locations.duplicates().collect();
        assert_eq!(duplicates, [(&root.key("axes"), Position { line: 3, column: 15 })]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_scanned_to_an_end(text in r#"[\[\]{}:,"\\a1é ]{0,60}"#) {
            Locations::scan(&text);
        }
    }
}
