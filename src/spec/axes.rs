//! Values of axes, and arithmetic over them: `2 * M * N`, `cdiv(N, 256)`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Values of axes by name.
pub type AxisValues = BTreeMap<String, u64>;

/// How deeply parentheses, `cdiv` and signs may nest; deeper is a mistake and would cost stack.
const MAX_NESTING: usize = 64;

/// An arithmetic expression over axes: whole numbers, names, `+ - * /`, parentheses and `cdiv(a, b)`.
/// `/` divides whole numbers and rounds towards zero; `cdiv` rounds up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisExpr {
    source: String,
    /// Postfix, so that neither evaluating nor dropping a long expression recurses.
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Number(i128),
    /// `at`: where it stands in the source, in bytes.
    Name {
        name: String,
        at: usize,
    },
    Negate,
    Apply {
        operator: Operator,
        at: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideUp,
}

/// A text that is no expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("column {column} of `{source_text}`: {message}")]
pub struct AxisExprError {
    pub source_text: String,
    /// 1-based, in characters.
    pub column: usize,
    pub message: String,
}

/// An expression or shape that has no value for the given axes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    #[error("`{name}` has no value (column {column} of `{expression}`)")]
    Unknown { name: String, column: usize, expression: String },
    #[error("division by zero (column {column} of `{expression}`)")]
    DivisionByZero { column: usize, expression: String },
    #[error("`{expression}` is negative for these axes: {value}")]
    Negative { value: i128, expression: String },
    #[error("`{expression}` is too large for these axes")]
    Overflow { expression: String },
    #[error("`{0}` names no input or output of the Definition")]
    UnknownTensor(String),
}

impl AxisExpr {
    /// # Errors
    /// Tells the column and what was expected there.
    pub fn parse(source: &str) -> Result<Self, AxisExprError> {
        let mut parser = Parser { source, offset: 0, steps: Vec::new(), nesting: 0 };
        parser.sum()?;
        parser.skip_spaces();
        match parser.peek() {
            None => Ok(Self { source: source.to_owned(), steps: parser.steps }),
            Some(')') => Err(parser.error("`)` without `(`")),
            Some(found) => {
                Err(parser.error(&format!("expected an operator (`+ - * /`) or the end, found `{found}`")))
            }
        }
    }

    /// The text it was parsed from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names it uses, in order of appearance, with their 1-based columns.
    pub fn names(&self) -> impl Iterator<Item = (&str, usize)> {
        self.steps.iter().filter_map(|step| match step {
            Step::Name { name, at } => Some((name.as_str(), column_of(&self.source, *at))),
            _ => None,
        })
    }

    /// The value for these axes.
    ///
    /// # Errors
    /// A name without a value, a division by zero, a negative or too large result.
    pub fn evaluate(&self, axes: &AxisValues) -> Result<u64, AxisError> {
        let value = self.evaluate_wide(axes)?;
        if value < 0 {
            return Err(AxisError::Negative { value, expression: self.source.clone() });
        }
        u64::try_from(value).map_err(|_| self.overflow())
    }

    /// As [`Self::evaluate`], negative results allowed (bounds of random integers).
    ///
    /// # Errors
    /// A name without a value, a division by zero, a result outside `i64`.
    pub fn evaluate_signed(&self, axes: &AxisValues) -> Result<i64, AxisError> {
        i64::try_from(self.evaluate_wide(axes)?).map_err(|_| self.overflow())
    }

    fn evaluate_wide(&self, axes: &AxisValues) -> Result<i128, AxisError> {
        let mut stack: Vec<i128> = Vec::new();
        // The parser leaves every operator its operands, so a missing one cannot happen.
        let pop = |stack: &mut Vec<i128>| stack.pop().ok_or_else(|| self.overflow());
        for step in &self.steps {
            let value = match step {
                Step::Number(value) => *value,
                Step::Name { name, at } => {
                    let unknown = || AxisError::Unknown {
                        name: name.clone(),
                        column: column_of(&self.source, *at),
                        expression: self.source.clone(),
                    };
                    i128::from(*axes.get(name).ok_or_else(unknown)?)
                }
                Step::Negate => pop(&mut stack)?.checked_neg().ok_or_else(|| self.overflow())?,
                Step::Apply { operator, at } => {
                    let right = pop(&mut stack)?;
                    let left = pop(&mut stack)?;
                    if right == 0 && matches!(operator, Operator::Divide | Operator::DivideUp) {
                        let column = column_of(&self.source, *at);
                        return Err(AxisError::DivisionByZero { column, expression: self.source.clone() });
                    }
                    operator.apply(left, right).ok_or_else(|| self.overflow())?
                }
            };
            stack.push(value);
        }
        pop(&mut stack)
    }

    fn overflow(&self) -> AxisError {
        AxisError::Overflow { expression: self.source.clone() }
    }
}

impl Operator {
    /// `None` when the result does not fit or the divisor is zero.
    fn apply(self, left: i128, right: i128) -> Option<i128> {
        match self {
            Self::Add => left.checked_add(right),
            Self::Subtract => left.checked_sub(right),
            Self::Multiply => left.checked_mul(right),
            Self::Divide => left.checked_div(right),
            Self::DivideUp => {
                let quotient = left.checked_div(right)?;
                let remainder = left.checked_rem(right)?;
                let rounds_up = remainder != 0 && (remainder < 0) == (right < 0);
                quotient.checked_add(i128::from(rounds_up))
            }
        }
    }
}

impl FromStr for AxisExpr {
    type Err = AxisExprError;

    fn from_str(source: &str) -> Result<Self, AxisExprError> {
        Self::parse(source)
    }
}

impl fmt::Display for AxisExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

impl Serialize for AxisExpr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

/// The 1-based column, in characters, of a byte of a one-line text.
fn column_of(source: &str, at: usize) -> usize {
    source.get(..at).map_or(0, |before| before.chars().count()) + 1
}

struct Parser<'a> {
    source: &'a str,
    /// Bytes read so far.
    offset: usize,
    steps: Vec<Step>,
    nesting: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<(), AxisExprError> {
        self.product()?;
        while let Some((operator, at)) = self.operator(&[('+', Operator::Add), ('-', Operator::Subtract)]) {
            self.product()?;
            self.steps.push(Step::Apply { operator, at });
        }
        Ok(())
    }

    fn product(&mut self) -> Result<(), AxisExprError> {
        self.operand()?;
        while let Some((operator, at)) = self.operator(&[('*', Operator::Multiply), ('/', Operator::Divide)])
        {
            self.operand()?;
            self.steps.push(Step::Apply { operator, at });
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), AxisExprError> {
        self.skip_spaces();
        match self.peek() {
            Some('(') => {
                self.nested(Self::sum)?;
                self.expect(')')
            }
            Some('-') => {
                self.nested(Self::operand)?;
                self.steps.push(Step::Negate);
                Ok(())
            }
            Some(digit) if digit.is_ascii_digit() => self.number(),
            Some(letter) if letter.is_alphabetic() || letter == '_' => self.name_or_call(),
            Some(found) => Err(self
                .error(&format!("expected a whole number, an axis, `cdiv(a, b)` or `(`, found `{found}`"))),
            None => Err(self.error("expected a whole number, an axis, `cdiv(a, b)` or `(`, found the end")),
        }
    }

    /// Skips the current character and reads one level deeper.
    fn nested(&mut self, read: fn(&mut Self) -> Result<(), AxisExprError>) -> Result<(), AxisExprError> {
        if self.nesting == MAX_NESTING {
            return Err(self.error(&format!("nested more than {MAX_NESTING} deep")));
        }
        self.nesting += 1;
        self.advance();
        read(self)?;
        self.nesting -= 1;
        Ok(())
    }

    fn number(&mut self) -> Result<(), AxisExprError> {
        let start = self.offset;
        let digits = self.take_while(|c| c.is_ascii_digit() || c == '_');
        if self.peek() == Some('.') {
            return Err(self.error("only whole numbers are allowed"));
        }
        let Ok(value) = digits.replace('_', "").parse::<i64>() else {
            self.offset = start;
            return Err(self.error("this number is too large"));
        };
        self.steps.push(Step::Number(i128::from(value)));
        Ok(())
    }

    fn name_or_call(&mut self) -> Result<(), AxisExprError> {
        let start = self.offset;
        let name = self.take_while(|c| c.is_alphanumeric() || c == '_');
        self.skip_spaces();
        if self.peek() != Some('(') {
            self.steps.push(Step::Name { name, at: start });
            return Ok(());
        }
        if name != "cdiv" {
            self.offset = start;
            return Err(self.error(&format!("unknown function `{name}`; only `cdiv(a, b)` exists")));
        }
        self.nested(|parser| {
            parser.sum()?;
            parser.expect(',')?;
            parser.sum()
        })?;
        self.steps.push(Step::Apply { operator: Operator::DivideUp, at: start });
        self.expect(')')
    }

    fn operator(&mut self, choices: &[(char, Operator)]) -> Option<(Operator, usize)> {
        self.skip_spaces();
        let found = self.peek()?;
        let (_, operator) = choices.iter().find(|(sign, _)| *sign == found)?;
        let at = self.offset;
        self.advance();
        Some((*operator, at))
    }

    fn expect(&mut self, wanted: char) -> Result<(), AxisExprError> {
        self.skip_spaces();
        match self.peek() {
            Some(found) if found == wanted => {
                self.advance();
                Ok(())
            }
            Some(found) => Err(self.error(&format!("expected `{wanted}`, found `{found}`"))),
            None => Err(self.error(&format!("expected `{wanted}`, found the end"))),
        }
    }

    fn rest(&self) -> &str {
        self.source.get(self.offset..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn advance(&mut self) {
        self.offset += self.peek().map_or(0, char::len_utf8);
    }

    fn skip_spaces(&mut self) {
        self.take_while(char::is_whitespace);
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> String {
        let taken: String = self.rest().chars().take_while(|c| accept(*c)).collect();
        self.offset += taken.len();
        taken
    }

    fn error(&self, message: &str) -> AxisExprError {
        AxisExprError {
            source_text: self.source.to_owned(),
            column: column_of(self.source, self.offset),
            message: message.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(values: &[(&str, u64)]) -> AxisValues {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    fn value(source: &str) -> Result<u64, String> {
        let expression = AxisExpr::parse(source).map_err(|error| error.to_string())?;
        expression
            .evaluate(&axes(&[("M", 3), ("N", 10), ("Z", 0), ("big", u64::MAX)]))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn arithmetic_follows_the_usual_precedence() {
        for (source, expected) in [
            ("M*N*2", 60),
            ("2 + 3 * M", 11),
            ("(2 + 3) * M", 15),
            ("N - M - 2", 5),
            ("N / M", 3),
            ("N / M * M", 9),
            ("cdiv(N, M)", 4),
            ("cdiv(N - 1, M)", 3),
            ("cdiv(Z, M)", 0),
            ("-M + N", 7),
            (" 1_000 ", 1000),
            ("big", u64::MAX),
        ] {
            assert_eq!(value(source), Ok(expected), "{source}");
        }
    }

    #[test]
    fn mistakes_are_told_with_their_column() {
        let sources = [
            "",
            "M *",
            "M N",
            "(M",
            "M)",
            "cdiv(M)",
            "ceil(M, 2)",
            "2.5 * M",
            "M ** 2",
            "M % 2",
            "99999999999999999999",
            "é + ?",
            "Q + 1",
            "N / Z",
            "M - N",
            "big * 2",
        ];
        let told: Vec<String> = sources
            .iter()
            .map(|source| format!("{source:?} → {}", value(source).expect_err("a mistake")))
            .collect();
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn long_and_deep_expressions_do_not_overflow_the_stack() {
        let long = vec!["1"; 100_000].join("+");
        assert_eq!(value(&long), Ok(100_000));
        assert!(value(&"(".repeat(100_000)).is_err());
        assert!(value(&"-".repeat(100_000)).is_err());
        assert!(value(&"cdiv(".repeat(100_000)).is_err());
    }

    #[test]
    fn signed_results_serve_as_bounds() {
        let expression = AxisExpr::parse("-M").expect("parses");
        assert_eq!(expression.evaluate_signed(&axes(&[("M", 8)])), Ok(-8));
        assert_eq!(expression.names().collect::<Vec<_>>(), [("M", 2)]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(source in "[-+*/(),MNcdiv0-9 é_.]{0,40}") {
            if let Ok(expression) = AxisExpr::parse(&source) {
                let _ = expression.evaluate_signed(&axes(&[("M", 7), ("N", u64::MAX)]));
            }
        }
    }
}
