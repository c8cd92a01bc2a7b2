//! Exit codes, and how an error is printed.

use std::process::ExitCode;

use experiment::{Error as ExperimentError, ErrorKind};
use miette::{GraphicalReportHandler, GraphicalTheme};

use crate::output;

/// The work failed.
const FAILED: u8 = 1;
/// Usage or bad input.
const BAD_INPUT: u8 = 2;
/// A published figure was missed.
const MISSED: u8 = 3;
/// The machine cannot do it.
const MISSING: u8 = 4;

/// An error with an exit code of its own; everything else is 1.
#[derive(Debug, thiserror::Error)]
pub enum Exit {
    /// Bad input: a message for people.
    #[error("{0}")]
    BadInput(String),
    /// Published figures that this run should have met and did not.
    #[error("{0}")]
    Missed(String),
    /// The machine lacks a privilege or a feature.
    #[error("{0}")]
    Missing(String),
    /// The work failed, as this says.
    #[error("{0}")]
    Failed(String),
    /// A program that was run ended so; it has said all itself.
    #[error("a program ended with code {0}")]
    Child(i32),
    /// Ended by a signal; what was measured is kept.
    #[error("interrupted")]
    Interrupted,
}

/// Prints an error on standard error and returns its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if output::is_closed(error) {
        return ExitCode::SUCCESS;
    }
    if let Some(ExperimentError::Scenario(mistakes)) = error.downcast_ref() {
        print_mistakes(mistakes);
    } else if !matches!(error.downcast_ref(), Some(Exit::Child(_))) {
        output::note(&format!("longfat: {}", chain(error)));
    }
    ExitCode::from(code(error))
}

/// The exit code of an error.
pub fn code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<ExperimentError>() {
        return match error.kind() {
            ErrorKind::BadInput => BAD_INPUT,
            ErrorKind::Missing => MISSING,
            ErrorKind::Interrupted | ErrorKind::Failed => FAILED,
        };
    }
    match error.downcast_ref::<Exit>() {
        Some(Exit::BadInput(_)) => BAD_INPUT,
        Some(Exit::Missed(_)) => MISSED,
        Some(Exit::Missing(_)) => MISSING,
        Some(Exit::Child(code)) => u8::try_from(*code).unwrap_or(FAILED),
        Some(Exit::Interrupted | Exit::Failed(_)) | None => FAILED,
    }
}

/// Whether the machine lacks something.
pub fn is_missing(error: &anyhow::Error) -> bool {
    code(error) == MISSING
}

/// The error and its causes in one line.
pub fn chain(error: &anyhow::Error) -> String {
    experiment::error::chain(error.as_ref())
}

fn print_mistakes(error: &scenario::Error) {
    use std::io::IsTerminal;
    let theme = if std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let handler = GraphicalReportHandler::new_themed(theme).with_links(false);
    for mistake in error.mistakes() {
        let mut text = String::new();
        // A message that cannot be drawn is still printed in one line.
        if handler.render_report(&mut text, mistake).is_err() {
            text = mistake.line();
        }
        output::note(&format!("{}\n{}", mistake.line(), text.trim_end()));
    }
}
