//! Exit codes, and the printing of errors.

use std::process::ExitCode;

use experiment::{Error as ExperimentError, ErrorKind};
use measurement::path::Error as PathError;
use miette::{GraphicalReportHandler, GraphicalTheme};

use crate::output;

/// Failure.
const FAILED: u8 = 1;
/// Usage or bad input.
pub const BAD_INPUT: u8 = 2;
/// A published figure was missed.
const MISSED: u8 = 3;
/// This machine lacks a privilege or feature.
const MISSING: u8 = 4;

/// An error that determines the exit code; all other errors exit with 1.
#[derive(Debug, thiserror::Error)]
pub enum Exit {
    /// Bad input, with the message for the user.
    #[error("{0}")]
    BadInput(String),
    /// Published figures were missed.
    #[error("{0}")]
    Missed(String),
    /// This machine lacks a privilege or feature.
    #[error("{0}")]
    Missing(String),
    /// The command failed.
    #[error("{0}")]
    Failed(String),
    /// The exit code of a program that was run; that program has printed its own messages.
    #[error("a program ended with code {0}")]
    Child(i32),
    /// Ended by a signal; measurements so far are recorded.
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
    let experiment = error.downcast_ref::<ExperimentError>().map(ExperimentError::kind);
    if let Some(kind) = experiment.or_else(|| Some(error.downcast_ref::<PathError>()?.kind())) {
        return match kind {
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
        // Fallback: the message in one line.
        if handler.render_report(&mut text, mistake).is_err() {
            text = mistake.line();
        }
        output::note(&format!("{}\n{}", mistake.line(), text.trim_end()));
    }
}
