//! `warpsmith.toml`: what a project says of its kernels and its Python, as items with their places. What the
//! items of a kernel mean is not known here.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Looked for beside a file and above it.
pub const FILE_NAME: &str = "warpsmith.toml";
/// Longer ones were not written by hand.
const MOST_BYTES: u64 = 1 << 20;

/// A `warpsmith.toml` that could be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectFile {
    pub path: PathBuf,
    pub text: String,
    /// `[python] path`: a bare program name, or a path that does not depend on the current folder.
    pub python: Option<PathBuf>,
    /// `[[kernel]]`, in order.
    pub kernels: Vec<KernelTable>,
}

/// One `[[kernel]]`. Ranges are bytes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTable {
    /// The kernel's file, from the folder of `warpsmith.toml`.
    pub file: String,
    pub entry: String,
    pub entry_range: Range<usize>,
    /// Everything else, in order.
    pub items: Vec<KernelItem>,
    /// All of it.
    pub range: Range<usize>,
}

/// `x = "f16[M,N]"`, `M = [1, 127]`, `causal = true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelItem {
    pub key: String,
    /// As in a comment: `f16[M,N]`, `1,127`, `true`.
    pub text: String,
    pub range: Range<usize>,
}

/// A `warpsmith.toml` that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {message}", self.place())]
pub struct ProjectError {
    pub path: PathBuf,
    /// 1-based line and column, in characters; `None` when the file itself cannot be read.
    pub position: Option<(usize, usize)>,
    /// What is wrong and what to do about it.
    pub message: String,
}

impl ProjectError {
    /// An error at a byte of the text.
    pub fn at(path: &Path, text: &str, byte: usize, message: impl Into<String>) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Self { path: path.to_owned(), position: Some((line, column)), message: message.into() }
    }

    fn place(&self) -> String {
        let path = self.path.display();
        self.position.map_or_else(|| path.to_string(), |(line, column)| format!("{path}:{line}:{column}"))
    }
}

/// The nearest `warpsmith.toml` beside a file or above it, up to the folder of its repository.
///
/// # Errors
/// There is one and it cannot be used.
pub fn find(file: &Path) -> Result<Option<ProjectFile>, ProjectError> {
    for folder in file.ancestors().skip(1) {
        let path = folder.join(FILE_NAME);
        if path.is_file() {
            return read(&path).map(Some);
        }
        if folder.join(".git").exists() {
            break;
        }
    }
    Ok(None)
}

fn read(path: &Path) -> Result<ProjectFile, ProjectError> {
    let fail = |message: String| ProjectError { path: path.to_owned(), position: None, message };
    let size = fs::metadata(path).map_err(|error| fail(error.to_string()))?.len();
    if size > MOST_BYTES {
        return Err(fail(format!("has {size} bytes; at most {MOST_BYTES} are read")));
    }
    let text = fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
    parse(path, &text)
}

/// Reads the text of a `warpsmith.toml`.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn parse(path: &Path, text: &str) -> Result<ProjectFile, ProjectError> {
    let reader = Reader { path, text };
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        ProjectError::at(path, text, at, error.message().replace('\n', "; "))
    })?;
    let mut project =
        ProjectFile { path: path.to_owned(), text: text.to_owned(), python: None, kernels: Vec::new() };
    for (key, value) in in_order(table.get_ref()) {
        match (&**key.get_ref(), value.get_ref()) {
            ("python", DeValue::Table(python)) => project.python = reader.python(python)?,
            ("kernel", DeValue::Array(kernels)) => {
                for kernel in kernels.iter() {
                    project.kernels.push(reader.kernel(kernel)?);
                }
            }
            ("kernel", _) => return Err(reader.error(key.span(), "write `[[kernel]]`, in double brackets")),
            ("python", _) => {
                return Err(reader.error(key.span(), "write `[python]` and below it `path = \"…\"`"));
            }
            (other, _) => {
                let message =
                    format!("`{other}` means nothing here; a warpsmith.toml has `[python]` and `[[kernel]]`");
                return Err(reader.error(key.span(), message));
            }
        }
    }
    Ok(project)
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, range: Range<usize>, message: impl Into<String>) -> ProjectError {
        ProjectError::at(self.path, self.text, range.start, message)
    }

    fn python(&self, table: &DeTable<'_>) -> Result<Option<PathBuf>, ProjectError> {
        let mut found = None;
        for (key, value) in in_order(table) {
            if key.get_ref() != "path" {
                let message = format!("`{}` means nothing in `[python]`; it has `path`", key.get_ref());
                return Err(self.error(key.span(), message));
            }
            let DeValue::String(path) = value.get_ref() else {
                return Err(self.error(value.span(), "write the path of an interpreter in quotes"));
            };
            let path = Path::new(&**path);
            let is_fixed = path.components().count() == 1 || path.starts_with("~");
            let folder = self.path.parent().unwrap_or(Path::new(""));
            found = Some(if is_fixed { path.to_owned() } else { folder.join(path) });
        }
        Ok(found)
    }

    fn kernel(&self, value: &Spanned<DeValue<'_>>) -> Result<KernelTable, ProjectError> {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(self.error(value.span(), "write `[[kernel]]` and its items below it, one a line"));
        };
        let (mut file, mut entry) = (None, None);
        let mut items = Vec::new();
        for (key, value) in in_order(table) {
            let range = key.span().start..value.span().end;
            let name = &**key.get_ref();
            match (name, value.get_ref()) {
                ("file" | "entry", DeValue::String(text)) => {
                    let slot = if name == "file" { &mut file } else { &mut entry };
                    *slot = Some((text.to_string(), range));
                }
                ("file" | "entry", _) => {
                    return Err(self.error(value.span(), format!("write `{name} = \"…\"`, in quotes")));
                }
                _ => items.push(KernelItem { key: name.to_owned(), text: self.words(name, value)?, range }),
            }
        }
        let missing =
            |what: &str| self.error(value.span(), format!("this `[[kernel]]` has no `{what}`; add it"));
        let (file, _) = file.ok_or_else(|| missing("file = \"kernels/silu.py\""))?;
        let (entry, entry_range) = entry.ok_or_else(|| missing("entry = \"silu\""))?;
        Ok(KernelTable { file, entry, entry_range, items, range: value.span() })
    }

    /// A value as it would stand in a comment.
    fn words(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, ProjectError> {
        if let DeValue::Array(values) = value.get_ref() {
            let words: Result<Vec<String>, ProjectError> =
                values.iter().map(|value| self.word(key, value)).collect();
            return words.map(|words| words.join(","));
        }
        self.word(key, value)
    }

    fn word(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, ProjectError> {
        match value.get_ref() {
            DeValue::String(text) if text.contains(char::is_whitespace) => {
                // In a comment a space ends an item; here it says nothing else.
                Ok(text.chars().filter(|c| !c.is_whitespace()).collect())
            }
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| self.error(value.span(), format!("`{key}` is no whole number of 64 bits"))),
            DeValue::Float(number) => Ok(number.as_str().to_owned()),
            DeValue::Boolean(value) => Ok(value.to_string()),
            DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                let message = format!(
                    "`{key}` is a text such as \"f16[M,N]\", a number, true or false, or a list of numbers"
                );
                Err(self.error(value.span(), message))
            }
        }
    }
}

type Member<'a, 'i> = (&'a Spanned<toml::de::DeString<'i>>, &'a Spanned<DeValue<'i>>);

/// The members as they stand in the text: what is read first is told first.
fn in_order<'a, 'i>(table: &'a DeTable<'i>) -> Vec<Member<'a, 'i>> {
    let mut members: Vec<Member<'a, 'i>> = table.iter().collect();
    members.sort_by_key(|(key, _)| key.span().start);
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        match parse(Path::new("/p/warpsmith.toml"), text) {
            Ok(project) => format!("{:?} {:#?}", project.python, project.kernels),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn kernels_are_read_in_order() {
        let text = "[python]\npath = \".venv/bin/python\"\n\n[[kernel]]\nfile = \"kernels/silu.py\"\nentry = \"silu\"\n\
                    ref = \"torch.nn.functional.silu\"\nx = \"f16|bf16[M, N]\"\nM = [1, 0x7f]\nN = \"1000,4096\"\n\
                    eps = 1e-6\nbig = 1_000\ncausal = true\nscales = [0.5, 1.0]\n";
        insta::assert_snapshot!(told(text));
    }

    #[test]
    fn the_python_is_found_from_the_file() {
        for (path, expected) in [
            (".venv/bin/python", "/p/.venv/bin/python"),
            ("/usr/bin/python3", "/usr/bin/python3"),
            ("python3.12", "python3.12"),
            ("~/env/bin/python", "~/env/bin/python"),
        ] {
            let text = format!("[python]\npath = \"{path}\"\n");
            let project = parse(Path::new("/p/warpsmith.toml"), &text).unwrap();
            assert_eq!(project.python, Some(PathBuf::from(expected)));
        }
    }

    #[test]
    fn every_error_says_where_and_what_to_do() {
        let kernel = "[[kernel]]\nfile = \"k.py\"\nentry = \"f\"\n";
        let texts = [
            "[[kernel]\n".to_owned(),
            "x = \n".to_owned(),
            "[[kernels]]\nfile = \"k.py\"\n".to_owned(),
            "[kernel]\nfile = \"k.py\"\n".to_owned(),
            "kernel = [1]\n".to_owned(),
            "python = \"python3\"\n".to_owned(),
            "[python]\npth = \"python3\"\n".to_owned(),
            "[python]\npath = 3\n".to_owned(),
            "[[kernel]]\nentry = \"f\"\n".to_owned(),
            "[[kernel]]\nfile = \"k.py\"\n".to_owned(),
            "[[kernel]]\nfile = 1\nentry = \"f\"\n".to_owned(),
            format!("{kernel}M = [[1]]\n"),
            format!("{kernel}x.y = 1\n"),
            format!("{kernel}d = 2026-01-01\n"),
            format!("{kernel}M = 99999999999999999999\n"),
            format!("{kernel}file = \"k.py\"\n"),
        ];
        insta::assert_snapshot!(texts.map(|text| told(&text)).join("\n"));
    }

    #[test]
    fn the_nearest_file_counts_up_to_the_repository() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("repository/.git")).unwrap();
        fs::create_dir_all(root.join("repository/kernels")).unwrap();
        let kernel = root.join("repository/kernels/k.py");
        fs::write(root.join(FILE_NAME), "").unwrap();
        assert_eq!(find(&kernel), Ok(None), "above the repository is another project");
        fs::write(root.join("repository").join(FILE_NAME), "").unwrap();
        let found = || find(&kernel).unwrap().unwrap().path;
        assert_eq!(found(), root.join("repository").join(FILE_NAME));
        fs::write(root.join("repository/kernels").join(FILE_NAME), "").unwrap();
        assert_eq!(found(), root.join("repository/kernels").join(FILE_NAME));
        fs::write(root.join("repository/kernels").join(FILE_NAME), [0xff]).unwrap();
        assert!(find(&kernel).is_err_and(|error| error.to_string().contains("UTF-8")));
    }
}
