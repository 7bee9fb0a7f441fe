//! Reads JSON values field by field and collects every problem instead of stopping at the first.

use serde_json::{Map, Value};

use super::locate::Locations;
use super::problem::{JsonPath, Problem};

/// Collects what is wrong with one document.
pub(super) struct Reader<'text> {
    locations: Locations<'text>,
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// A value and where it stands.
#[derive(Clone)]
pub(super) struct At<'v> {
    pub(super) value: &'v Value,
    pub(super) path: JsonPath,
}

/// A JSON object and where it stands.
#[derive(Clone)]
pub(super) struct Object<'v> {
    pub(super) members: &'v Map<String, Value>,
    pub(super) path: JsonPath,
}

impl<'v> Object<'v> {
    pub(super) fn get(&self, name: &str) -> Option<At<'v>> {
        // `null` and absent are the same to every reader of these files.
        let value = self.members.get(name).filter(|value| !value.is_null())?;
        Some(At { value, path: self.path.key(name) })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'v str, At<'v>)> + use<'v> {
        let path = self.path.clone();
        self.members.iter().map(move |(name, value)| (name.as_str(), At { value, path: path.key(name) }))
    }
}

impl<'text> Reader<'text> {
    pub(super) fn new(text: &'text str) -> Self {
        let mut reader = Self { locations: Locations::scan(text), errors: Vec::new(), warnings: Vec::new() };
        reader.errors = reader
            .locations
            .duplicates()
            .map(|(path, position)| Problem {
                path: path.clone(),
                position: Some(position),
                message: "is written twice in this object".to_owned(),
                fix: "remove one: readers would silently take the last".to_owned(),
            })
            .collect();
        reader
    }

    fn problem(&self, path: &JsonPath, message: impl Into<String>, fix: impl Into<String>) -> Problem {
        let position = self.locations.value(path);
        Problem { path: path.clone(), position, message: message.into(), fix: fix.into() }
    }

    pub(super) fn error(&mut self, path: &JsonPath, message: impl Into<String>, fix: impl Into<String>) {
        self.errors.push(self.problem(path, message, fix));
    }

    pub(super) fn warn(&mut self, path: &JsonPath, message: impl Into<String>, fix: impl Into<String>) {
        self.warnings.push(self.problem(path, message, fix));
    }

    /// An error about the name of a member, not its value.
    pub(super) fn error_at_key(
        &mut self,
        path: &JsonPath,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let position = self.locations.key(path);
        self.errors.push(Problem { position, ..self.problem(path, message, fix) });
    }

    /// A warning about the name of a member, not its value.
    pub(super) fn warn_at_key(
        &mut self,
        path: &JsonPath,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let position = self.locations.key(path);
        self.warnings.push(Problem { position, ..self.problem(path, message, fix) });
    }

    /// The member, or an error at the object that lacks it.
    pub(super) fn required<'v>(&mut self, object: &Object<'v>, name: &str, what: &str) -> Option<At<'v>> {
        let member = object.get(name);
        if member.is_none() {
            let position = self.locations.value(&object.path);
            let path = object.path.key(name);
            self.errors
                .push(Problem { position, ..self.problem(&path, "is missing", format!("add {what}")) });
        }
        member
    }

    pub(super) fn object<'v>(&mut self, at: At<'v>, what: &str) -> Option<Object<'v>> {
        match at.value {
            Value::Object(members) => Some(Object { members, path: at.path }),
            _ => self.wrong_kind(&at, what),
        }
    }

    pub(super) fn array<'v>(&mut self, at: &At<'v>, what: &str) -> Option<Vec<At<'v>>> {
        let Value::Array(elements) = at.value else { return self.wrong_kind(at, what) };
        let elements = elements.iter().enumerate();
        Some(elements.map(|(index, value)| At { value, path: at.path.index(index) }).collect())
    }

    pub(super) fn string<'v>(&mut self, at: &At<'v>, what: &str) -> Option<&'v str> {
        match at.value {
            Value::String(text) => Some(text),
            _ => self.wrong_kind(at, what),
        }
    }

    /// A required string that is not empty.
    pub(super) fn required_text(&mut self, object: &Object<'_>, name: &str, what: &str) -> Option<String> {
        let at = self.required(object, name, what)?;
        let text = self.string(&at, what)?;
        if text.trim().is_empty() {
            self.error(&at.path, "is empty", format!("give it {what}"));
            return None;
        }
        Some(text.to_owned())
    }

    pub(super) fn optional_text(&mut self, object: &Object<'_>, name: &str) -> Option<String> {
        let at = object.get(name)?;
        self.string(&at, "a string").map(str::to_owned)
    }

    pub(super) fn strings(&mut self, object: &Object<'_>, name: &str) -> Vec<(String, JsonPath)> {
        let Some(at) = object.get(name) else { return Vec::new() };
        let elements = self.array(&at, "a list of strings").unwrap_or_default();
        let mut texts = Vec::new();
        for element in elements {
            if let Some(text) = self.string(&element, "a string") {
                texts.push((text.to_owned(), element.path));
            }
        }
        texts
    }

    pub(super) fn whole_number(&mut self, at: &At<'_>) -> Option<u64> {
        match at.value.as_u64() {
            Some(value) => Some(value),
            None => self.wrong_kind(at, "a whole number, 0 or more"),
        }
    }

    pub(super) fn boolean(&mut self, object: &Object<'_>, name: &str) -> bool {
        let Some(at) = object.get(name) else { return false };
        match at.value {
            Value::Bool(value) => *value,
            _ => self.wrong_kind(&at, "true or false").unwrap_or_default(),
        }
    }

    pub(super) fn wrong_kind<T>(&mut self, at: &At<'_>, wanted: &str) -> Option<T> {
        let found = match at.value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) | Value::Number(_) => format!("`{}`", at.value),
            Value::String(text) if text.len() <= 40 => format!("{text:?}"),
            Value::String(_) => "a string".to_owned(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
        };
        self.error(&at.path, format!("is {found}"), format!("write {wanted}"));
        None
    }
}

/// Words as people list them: `` `M`, `N` ``; or what stands for an empty list.
pub(super) fn listed<'a>(words: impl IntoIterator<Item = &'a str>, none: &str) -> String {
    let quoted: Vec<String> = words.into_iter().map(|word| format!("`{word}`")).collect();
    if quoted.is_empty() { none.to_owned() } else { quoted.join(", ") }
}
