//! Why a quantity could not be read. Every message ends with what would be right.

/// Why a quantity could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// Nothing there.
    #[error("a {what} is missing; write for example {example}")]
    Empty {
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// A spelling that is accepted.
        example: &'static str,
    },
    /// It does not begin with a number.
    #[error("`{input}` does not begin with a number; write for example {example}")]
    NotANumber {
        /// What was given.
        input: String,
        /// A spelling that is accepted.
        example: &'static str,
    },
    /// It is below zero.
    #[error("`{input}` is negative; a {what} is zero or more, for example {example}")]
    Negative {
        /// What was given.
        input: String,
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// A spelling that is accepted.
        example: &'static str,
    },
    /// A comma: a decimal point to some, a digit group to others.
    #[error(
        "`{input}` has a comma; write a point for decimals (2.5) and underscores for digit groups (25_000)"
    )]
    Comma {
        /// What was given.
        input: String,
    },
    /// The spelling has two readings.
    #[error("`{input}` has two readings; write {first} or {second}")]
    Ambiguous {
        /// What was given.
        input: String,
        /// One reading, unmistakably spelled.
        first: String,
        /// The other.
        second: String,
    },
    /// The number has no unit.
    #[error("`{input}` has no unit; write {hint}")]
    NoUnit {
        /// What was given.
        input: String,
        /// Spellings that are accepted.
        hint: String,
    },
    /// The unit is not one of this quantity.
    #[error("`{unit}` is no unit of a {what}; write {hint}")]
    UnknownUnit {
        /// What follows the number.
        unit: String,
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// Spellings that are accepted.
        hint: String,
    },
    /// It does not fit.
    #[error("`{input}` is too large; the largest {what} is {limit}")]
    TooLarge {
        /// What was given.
        input: String,
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// The largest value.
        limit: &'static str,
    },
    /// It is above zero and below the base unit.
    #[error("`{input}` is too small; the smallest {what} above zero is {limit}")]
    TooSmall {
        /// What was given.
        input: String,
        /// `rate`, `size`, `time` ...
        what: &'static str,
        /// The smallest value.
        limit: &'static str,
    },
    /// A share outside 0 to 1.
    #[error("`{input}` is outside 0 to 1; write a share as 0.01 or 1%")]
    ShareRange {
        /// What was given.
        input: String,
    },
}
