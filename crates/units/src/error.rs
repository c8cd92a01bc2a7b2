//! Why a quantity could not be parsed. Every message ends with a valid spelling.

/// Why a quantity could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text is empty.
    #[error("a {what} is missing; write for example {example}")]
    Empty {
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// An accepted spelling.
        example: &'static str,
    },
    /// The text does not begin with a number.
    #[error("`{input}` does not begin with a number; write for example {example}")]
    NotANumber {
        /// The text as given.
        input: String,
        /// An accepted spelling.
        example: &'static str,
    },
    /// The number is below zero.
    #[error("`{input}` is negative; a {what} is zero or more, for example {example}")]
    Negative {
        /// The text as given.
        input: String,
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// An accepted spelling.
        example: &'static str,
    },
    /// A comma, which may be a decimal point or a digit group separator.
    #[error(
        "`{input}` has a comma; write a point for decimals (2.5) and underscores for digit groups (25_000)"
    )]
    Comma {
        /// The text as given.
        input: String,
    },
    /// The spelling has two meanings.
    #[error("`{input}` is ambiguous; write {first} or {second}")]
    Ambiguous {
        /// The text as given.
        input: String,
        /// One meaning, spelled unambiguously.
        first: String,
        /// The other meaning.
        second: String,
    },
    /// The number has no unit.
    #[error("`{input}` has no unit; write {hint}")]
    NoUnit {
        /// The text as given.
        input: String,
        /// Accepted spellings.
        hint: String,
    },
    /// This quantity has no such unit.
    #[error("`{unit}` is not a unit of a {what}; write {hint}")]
    UnknownUnit {
        /// The text after the number.
        unit: String,
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// Accepted spellings.
        hint: String,
    },
    /// The value does not fit.
    #[error("`{input}` is too large; the largest {what} is {limit}")]
    TooLarge {
        /// The text as given.
        input: String,
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// The largest value.
        limit: &'static str,
    },
    /// The value is above zero and below the base unit.
    #[error("`{input}` is too small; the smallest {what} above zero is {limit}")]
    TooSmall {
        /// The text as given.
        input: String,
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// The smallest value.
        limit: &'static str,
    },
    /// A share outside 0 to 1.
    #[error("`{input}` is outside 0 to 1; write a share as 0.01 or 1%")]
    ShareRange {
        /// The text as given.
        input: String,
    },
}
