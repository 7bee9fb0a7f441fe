//! What is wrong with a file of this room, where, and what to do about it.

use std::fmt;

/// Where a value stands inside a JSON document: `inputs.x.shape[1]`; empty for the document itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JsonPath(String);

impl JsonPath {
    /// The path of a member. Names that are not plain words are quoted: `axes["my axis"]`.
    #[must_use]
    pub fn key(&self, name: &str) -> Self {
        let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        if !plain {
            return Self(format!("{}[{name:?}]", self.0));
        }
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// The path of an element of an array.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A place in a text. Both are 1-based; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

/// One thing that is wrong, or worth a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub path: JsonPath,
    pub position: Option<Position>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub fix: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.as_str().is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", self.message, self.fix)
    }
}

/// A file that cannot be used, with everything that is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    pub file: String,
    /// At least one, in the order of the checks.
    pub problems: Vec<Problem>,
}

impl std::error::Error for SpecError {}

impl fmt::Display for SpecError {
    /// One line a problem: `file:line:column: path: what; what to do`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&self.file)?;
            if let Some(Position { line, column }) = problem.position {
                write!(f, ":{line}:{column}")?;
            }
            write!(f, ": {problem}")?;
        }
        Ok(())
    }
}

impl SpecError {
    /// For a text that `serde_json` refuses.
    pub(super) fn from_json_error(file: &str, error: &serde_json::Error) -> Self {
        let told = error.to_string();
        let message = told.split(" at line ").next().unwrap_or(&told).to_owned();
        let position = (error.line() > 0).then(|| Position {
            line: u32::try_from(error.line()).unwrap_or(u32::MAX),
            column: u32::try_from(error.column().max(1)).unwrap_or(u32::MAX),
        });
        let fix = match error.classify() {
            serde_json::error::Category::Data => "correct this value",
            _ => "correct the JSON here; nothing else was checked",
        };
        let problem = Problem { path: JsonPath::default(), position, message, fix: fix.to_owned() };
        Self { file: file.to_owned(), problems: vec![problem] }
    }
}
