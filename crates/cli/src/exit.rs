//! Exit codes, and the printing of errors.

use std::{ffi::OsString, process::ExitCode};

use experiment::{Error as ExperimentError, ErrorKind};
use measurement::path::Error as PathError;
use miette::{GraphicalReportHandler, GraphicalTheme};
use serde_json::{Value, json};

use crate::output;

/// The command failed, or was interrupted.
const FAILED: u8 = 1;
/// Usage or bad input.
pub const BAD_INPUT: u8 = 2;
/// A published figure was missed.
const MISSED: u8 = 3;
/// This machine lacks a privilege or feature.
const MISSING: u8 = 4;
/// A measurement is unreliable (`--require-reliable`).
const UNRELIABLE: u8 = 5;
/// The value of `schema` in the document of an error.
const ERROR_SCHEMA: &str = "longfat.error/1";

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
    /// A measurement is unreliable, and `--require-reliable` was given.
    #[error("{0}")]
    Unreliable(String),
    /// `tune --check` found differences, or could not read the settings.
    #[error("{message}")]
    Check {
        /// The state as monitoring plugins report it.
        state: CheckState,
        /// The finding.
        message: String,
    },
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

/// The state of a check, with the exit codes of monitoring plugins (Nagios, Icinga and others).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    /// 0: the settings are as expected.
    Ok,
    /// 1: a setting differs, at little cost of throughput.
    Warning,
    /// 2: a setting that limits throughput differs.
    Critical,
    /// 3: the settings could not be checked.
    Unknown,
}

impl CheckState {
    /// The first word of the line that a plugin prints.
    pub fn word(self) -> &'static str {
        match self {
            CheckState::Ok => "OK",
            CheckState::Warning => "WARNING",
            CheckState::Critical => "CRITICAL",
            CheckState::Unknown => "UNKNOWN",
        }
    }

    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            CheckState::Ok => 0,
            CheckState::Warning => 1,
            CheckState::Critical => 2,
            CheckState::Unknown => 3,
        }
    }
}

/// Prints an error on standard error, with `json` also as a document on standard output unless the command
/// has printed its own. Returns the exit code.
pub fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    if output::is_closed(error) {
        return ExitCode::SUCCESS;
    }
    let is_child = matches!(error.downcast_ref(), Some(Exit::Child(_)));
    if let Some(ExperimentError::Scenario(mistakes)) = error.downcast_ref() {
        print_mistakes(mistakes);
    } else if !is_child {
        output::note(&format!("longfat: {}", chain(error)));
    }
    if json && !is_child && !output::has_printed() {
        // If this fails, the message on standard error has already been printed.
        let _ = output::json(&document(kind(error), &chain(error), code(error), &mistakes(error)));
    }
    ExitCode::from(code(error))
}

/// Reports a mistake in the command line, or prints the help or version that was requested; `args` is the
/// command line.
pub fn report_usage(error: &clap::Error, args: &[OsString]) -> ExitCode {
    if !error.use_stderr() {
        // A closed pipe, as in `longfat --help | head`.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let own_args = || args.iter().skip(1).take_while(|arg| *arg != "--");
    let is_check = own_args().any(|arg| arg == "tune") && own_args().any(|arg| arg == "--check");
    let code = if is_check { CheckState::Unknown.code() } else { BAD_INPUT };
    let text = error.render().to_string();
    // Without the usage and the hint to --help.
    let first_part = text.split("\n\nUsage:").next().unwrap_or_default().split("\n\nFor more").next();
    let words: Vec<&str> = first_part.unwrap_or_default().split_whitespace().collect();
    let message = words.join(" ");
    let message = message.trim_start_matches("error: ");
    if own_args().any(|arg| arg == "--json") {
        let _ = output::json(&document("bad_input", message, code, &[]));
    } else if is_check {
        let _ = output::text(&format!("{}: {message}", CheckState::Unknown.word()));
    }
    let _ = error.print();
    ExitCode::from(code)
}

/// The document of an error.
fn document(kind: &str, message: &str, code: u8, mistakes: &[Value]) -> Value {
    let mut error = json!({ "kind": kind, "message": message, "exit_code": code });
    if !mistakes.is_empty() {
        error["mistakes"] = mistakes.into();
    }
    json!({ "schema": ERROR_SCHEMA, "error": error })
}

/// A scenario's mistakes, each with its position.
fn mistakes(error: &anyhow::Error) -> Vec<Value> {
    let Some(ExperimentError::Scenario(mistakes)) = error.downcast_ref() else { return Vec::new() };
    let one = |mistake: &scenario::Mistake| {
        let (location, message) = (mistake.location(), mistake.to_string());
        json!({ "location": location, "message": message, "help": mistake.advice() })
    };
    mistakes.mistakes().iter().map(one).collect()
}

/// The category of an error, as in the document.
fn kind(error: &anyhow::Error) -> &'static str {
    if let Some(kind) = library_kind(error) {
        return match kind {
            ErrorKind::BadInput => "bad_input",
            ErrorKind::Missing => "missing",
            ErrorKind::Interrupted => "interrupted",
            ErrorKind::Failed => "failed",
        };
    }
    match error.downcast_ref::<Exit>() {
        Some(Exit::BadInput(_)) => "bad_input",
        Some(Exit::Missed(_)) => "missed",
        Some(Exit::Missing(_)) => "missing",
        Some(Exit::Unreliable(_)) => "unreliable",
        Some(Exit::Check { .. }) => "check",
        Some(Exit::Interrupted) => "interrupted",
        Some(Exit::Child(_) | Exit::Failed(_)) | None => "failed",
    }
}

fn library_kind(error: &anyhow::Error) -> Option<ErrorKind> {
    let experiment = error.downcast_ref::<ExperimentError>().map(ExperimentError::kind);
    experiment.or_else(|| Some(error.downcast_ref::<PathError>()?.kind()))
}

/// The exit code of an error.
pub fn code(error: &anyhow::Error) -> u8 {
    if let Some(kind) = library_kind(error) {
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
        Some(Exit::Unreliable(_)) => UNRELIABLE,
        Some(Exit::Check { state, .. }) => state.code(),
        Some(Exit::Child(code)) => u8::try_from(*code).unwrap_or(FAILED),
        Some(Exit::Interrupted | Exit::Failed(_)) | None => FAILED,
    }
}

/// Whether the machine lacks a privilege or feature.
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
        // The report lacks the position if the text of the file is unknown.
        let is_rendered = handler.render_report(&mut text, mistake).is_ok();
        if !is_rendered || !text.contains(mistake.location()) {
            text = mistake.line();
        }
        output::coloured_note(text.trim_end());
    }
}
