//! Version numbers as far as we compare them.

use std::fmt;

/// The release numbers of a version: `2.15.0+cu132` is 2, 15, 0 and `3.5.0rc1` is 3, 5, 0. What comes
/// after the numbers (release candidates, builds) is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u32, pub u32, pub u32);

impl Release {
    /// `None` when the text does not start with a number.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = [0; 3];
        let mut parts = text.trim().split('.');
        for (position, number) in numbers.iter_mut().enumerate() {
            let digits: &str = match parts.next() {
                Some(part) => &part[..part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len())],
                None => break,
            };
            match digits.parse() {
                Ok(value) => *number = value,
                Err(_) if position == 0 => return None,
                Err(_) => break,
            }
        }
        Some(Self(numbers[0], numbers[1], numbers[2]))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)?;
        if self.2 != 0 { write!(f, ".{}", self.2) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::Release;

    #[test]
    fn reads_the_numbers_and_leaves_the_rest() {
        assert_eq!(Release::parse("2.15.0+cu132"), Some(Release(2, 15, 0)));
        assert_eq!(Release::parse("3.5.0rc1"), Some(Release(3, 5, 0)));
        assert_eq!(Release::parse(" 13.2\n"), Some(Release(13, 2, 0)));
        assert_eq!(Release::parse("580.126.20"), Some(Release(580, 126, 20)));
        assert_eq!(Release::parse("3.9.0.post1"), Some(Release(3, 9, 0)));
        assert_eq!(Release::parse("3.14+"), Some(Release(3, 14, 0)));
        assert_eq!(Release::parse("unknown"), None);
        assert_eq!(Release::parse(""), None);
        assert_eq!(Release::parse("99999999999.1"), None);
    }

    #[test]
    fn compares_by_number() {
        assert!(Release::parse("3.10") > Release::parse("3.9.7"));
    }
}
