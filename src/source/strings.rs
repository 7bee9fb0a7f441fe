//! Values of string literals.

use super::syntax::{Node, children, text_of};

/// The value of a plain string literal, or of several beside one another. `None` for bytes, for f-strings
/// with something to fill in, and for anything else.
pub(super) fn value(node: Node<'_>, text: &str) -> Option<String> {
    match node.kind() {
        "string" => literal(node, text),
        "concatenated_string" => children(node).into_iter().map(|part| literal(part, text)).collect(),
        "parenthesized_expression" => match children(node).as_slice() {
            [only] if only.kind() != "parenthesized_expression" => value(*only, text),
            _ => None,
        },
        _ => None,
    }
}

fn literal(node: Node<'_>, text: &str) -> Option<String> {
    let mut value = String::new();
    let mut raw = false;
    for part in children(node) {
        match part.kind() {
            "string_start" => {
                let prefix = text_of(part, text).to_ascii_lowercase();
                raw = prefix.contains('r');
                if prefix.contains('b') {
                    return None;
                }
            }
            "string_content" if raw => value.push_str(text_of(part, text)),
            "string_content" => value.push_str(&unescape(text_of(part, text))?),
            "interpolation" => return None,
            _ => {}
        }
    }
    Some(value)
}

/// `None` for escapes that we do not read (`\N{…}`, octal).
fn unescape(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            value.push(character);
            continue;
        }
        match characters.next()? {
            '\n' => {}
            'n' => value.push('\n'),
            't' => value.push('\t'),
            'r' => value.push('\r'),
            escaped @ ('\\' | '\'' | '"') => value.push(escaped),
            'x' => value.push(hexadecimal(&mut characters, 2)?),
            'u' => value.push(hexadecimal(&mut characters, 4)?),
            'U' => value.push(hexadecimal(&mut characters, 8)?),
            digit if digit.is_ascii_digit() || digit == 'N' => return None,
            other => value.extend(['\\', other]),
        }
    }
    Some(value)
}

fn hexadecimal(characters: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let code: String = characters.take(digits).collect();
    char::from_u32(u32::from_str_radix(&code, 16).ok()?)
}
