//! Mistakes in a configuration, with their positions.

use std::{ops::Range, str::FromStr};

use toml::Spanned;

use crate::Error;

/// The mistakes found so far.
#[derive(Default)]
pub(super) struct Mistakes(Vec<(Range<usize>, String, Option<String>)>);

impl Mistakes {
    /// Adds a mistake at this position.
    pub(super) fn add(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.0.push((at, message.into(), None));
    }

    /// Adds a mistake with advice.
    pub(super) fn add_help(&mut self, at: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.0.push((at, message.into(), Some(help.into())));
    }

    /// Parses a value; adds a mistake if it is not valid.
    pub(super) fn parse<T: FromStr<Err: ToString>>(&mut self, text: &Spanned<String>) -> Option<T> {
        let parsed = text.get_ref().parse();
        parsed.map_err(|error: T::Err| self.add(text.span(), error.to_string())).ok()
    }

    /// The number of mistakes.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The error of the file with this name and text.
    pub(super) fn into_error(self, name: &str, text: &str) -> Error {
        match scenario::Error::of(name, text, self.0) {
            Some(error) => Error::Config(error),
            None => Error::Refused(format!("{name} is not the configuration of an agent")),
        }
    }
}
