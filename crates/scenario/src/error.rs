//! Mistakes in a scenario: message, position and help.

use std::{fmt, sync::Arc};

use miette::{Diagnostic, NamedSource, SourceSpan};

use crate::tree::Span;

/// All the mistakes found in a scenario; never empty.
///
/// Displays one line per mistake, as in `scenarios/x.toml:12:7: unknown key "dealy"; did you mean "delay"?`.
/// To show the lines of the file, render each of [`Error::mistakes`] with a miette report handler.
#[derive(Debug, Clone)]
pub struct Error {
    mistakes: Vec<Mistake>,
}

impl Error {
    /// Mistakes in a TOML file that is not a scenario, so that they are shown like those of a scenario: each
    /// has a range of bytes in `text`, a message, and how to correct it where that is known. `None` without
    /// mistakes.
    pub fn of(
        name: &str,
        text: &str,
        mistakes: impl IntoIterator<Item = (std::ops::Range<usize>, String, Option<String>)>,
    ) -> Option<Self> {
        let problem = |(range, message, help): (std::ops::Range<usize>, String, Option<String>)| Problem {
            span: Span { source: 0, start: range.start, end: range.end },
            message,
            help,
        };
        let problems = Problems(mistakes.into_iter().map(problem).collect());
        problems.stop(&[Source::file(name, text)]).err()
    }

    /// The mistakes, in the order of the file.
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.mistakes.iter().enumerate() {
            let newline = if i == 0 { "" } else { "\n" };
            write!(f, "{newline}{}", mistake.line())?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl Diagnostic for Error {
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.mistakes.iter().map(|m| m as &dyn Diagnostic)))
    }
}

/// One mistake. Displays only its message; position, source text and help are for miette.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
#[error("{message}")]
pub struct Mistake {
    message: String,
    location: String,
    position: Option<(usize, usize)>,
    #[help]
    help: Option<String>,
    #[source_code]
    code: NamedSource<Arc<str>>,
    #[label]
    span: SourceSpan,
}

impl Mistake {
    /// Its position: `FILE:LINE:COLUMN`, or the command line option.
    pub fn location(&self) -> &str {
        &self.location
    }

    /// Its line and column in the file, from 1; `None` for a command line option.
    pub fn position(&self) -> Option<(usize, usize)> {
        self.position
    }

    /// The file's name, or the command line option.
    pub fn source_name(&self) -> &str {
        self.code.name()
    }

    /// How to correct it, if that is known.
    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The whole mistake in one line: position, message, help.
    pub fn line(&self) -> String {
        match &self.help {
            Some(help) => format!("{}: {}; {help}", self.location, self.message),
            None => format!("{}: {}", self.location, self.message),
        }
    }
}

/// A text with mistakes: the file, or a command line option.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    name: String,
    text: Arc<str>,
    is_file: bool,
}

impl Source {
    /// The scenario file `name`.
    pub fn file(name: &str, text: &str) -> Self {
        Source { name: name.to_owned(), text: text.into(), is_file: true }
    }

    /// The command line option `name` with its value.
    pub fn option(name: &str, value: &str) -> Self {
        Source { name: name.to_owned(), text: value.into(), is_file: false }
    }

    fn position(&self, start: usize) -> Option<(usize, usize)> {
        if !self.is_file {
            return None;
        }
        let before = &self.text[..self.text.floor_char_boundary(start)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Some((line, column))
    }

    fn location(&self, position: Option<(usize, usize)>) -> String {
        match position {
            Some((line, column)) => format!("{}:{line}:{column}", self.name),
            None => format!("{} {}", self.name, self.text),
        }
    }
}

/// A mistake without the text of its source.
#[derive(Debug, Clone, PartialEq)]
struct Problem {
    span: Span,
    message: String,
    help: Option<String>,
}

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    /// Adds a mistake without help.
    pub fn add(&mut self, span: Span, message: impl Into<String>) {
        self.0.push(Problem { span, message: message.into(), help: None });
    }

    /// Adds a mistake with help.
    pub fn add_help(&mut self, span: Span, message: impl Into<String>, help: impl Into<String>) {
        self.0.push(Problem { span, message: message.into(), help: Some(help.into()) });
    }

    /// The first mistake in one line.
    pub fn first(&self) -> Option<String> {
        let problem = self.0.first()?;
        Some(match &problem.help {
            Some(help) => format!("{}; {help}", problem.message),
            None => problem.message.clone(),
        })
    }

    /// True without mistakes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of mistakes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds the mistakes of `others`. Messages about the file begin with `context`.
    pub fn extend_within(&mut self, context: &str, others: Problems) {
        for mut problem in others.0 {
            if problem.span.source == 0 {
                problem.message = format!("{context}: {}", problem.message);
            }
            self.0.push(problem);
        }
    }

    /// The error if there are mistakes, else the empty list. The same mistake at the same position counts
    /// once.
    pub fn stop(mut self, sources: &[Source]) -> Result<Problems, Error> {
        if self.0.is_empty() {
            return Ok(self);
        }
        self.0.sort_by_key(|p| p.span);
        self.0.dedup();
        Err(Error { mistakes: self.0.into_iter().map(|p| p.into_mistake(sources)).collect() })
    }
}

impl Problem {
    fn into_mistake(self, sources: &[Source]) -> Mistake {
        let source = &sources[self.span.source];
        let start = self.span.start.min(source.text.len());
        let end = self.span.end.clamp(start, source.text.len());
        let position = source.position(start);
        Mistake {
            message: self.message,
            location: source.location(position),
            position,
            help: self.help,
            code: NamedSource::new(&source.name, source.text.clone()),
            span: (start..end).into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error() -> Error {
        let mut problems = Problems::default();
        let span = |start, end| Span { source: 0, start, end };
        problems.add_help(span(9, 11), "second", "do that");
        problems.add(span(2, 3), "first");
        problems.add(span(2, 3), "first");
        problems.stop(&[Source::file("f.toml", "é\nb = 1\nç x\n")]).unwrap_err()
    }

    #[test]
    fn mistakes_in_other_toml_files_are_shown_in_the_same_way() {
        let shown = Error::of("g.toml", "a = 1\nb = 2\n", [(6..7, "bad".into(), Some("good".into()))]);
        assert_eq!(shown.unwrap().to_string(), "g.toml:2:1: bad; good");
        assert!(Error::of("g.toml", "", []).is_none());
    }

    #[test]
    fn a_line_has_file_line_column_and_help() {
        let error = error();
        assert_eq!(error.to_string(), "f.toml:1:2: first\nf.toml:3:1: second; do that");
        let first = &error.mistakes()[0];
        assert_eq!((first.source_name(), first.position()), ("f.toml", Some((1, 2))));
    }

    #[test]
    fn miette_shows_the_line_and_the_help() {
        let mut out = String::new();
        let handler = miette::GraphicalReportHandler::new_themed(miette::GraphicalTheme::none());
        handler.render_report(&mut out, &error().mistakes()[1]).unwrap();
        assert!(out.contains("f.toml:3:1") && out.contains("ç x") && out.contains("do that"), "{out}");
    }

    #[test]
    fn shows_spans_within_a_character_or_past_the_end() {
        let mut problems = Problems::default();
        problems.add(Span { source: 0, start: 1, end: 1 }, "within");
        problems.add(Span { source: 0, start: 90, end: 99 }, "past");
        let error = problems.stop(&[Source::file("f", "éa")]).unwrap_err();
        assert_eq!(error.to_string(), "f:1:1: within\nf:1:3: past");
    }

    #[test]
    fn without_mistakes_there_is_no_error() {
        assert!(Problems::default().stop(&[]).is_ok());
    }
}
