//! Errors as exceptions of `longfat.errors`.

use experiment::{Error, ErrorKind};
use pyo3::{call::PyCallArgs, exceptions::PyKeyboardInterrupt, prelude::*, types::PyList};

/// An exception of this name in `longfat.errors`.
fn exception<'py>(py: Python<'py>, name: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    let made = py.import("longfat.errors").and_then(|errors| errors.getattr(name)?.call1(arguments));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The exception of an invalid argument.
pub(crate) fn bad_input(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, "BadInput", (message.into(),))
}

/// The exception of any other failure.
pub(crate) fn failed(py: Python<'_>, message: impl Into<String>) -> PyErr {
    exception(py, "Error", (message.into(),))
}

/// The exception of an experiment's error.
pub(crate) fn of_experiment(py: Python<'_>, error: &Error) -> PyErr {
    if let Error::Scenario(error) = error {
        return of_scenario(py, error);
    }
    let message = experiment::error::chain(error);
    match error.kind() {
        ErrorKind::BadInput => bad_input(py, message),
        ErrorKind::Missing => exception(py, "Missing", (message,)),
        ErrorKind::Interrupted => PyKeyboardInterrupt::new_err(()),
        ErrorKind::Failed => failed(py, message),
    }
}

/// The exception of mistakes in a scenario, each with its position.
fn of_scenario(py: Python<'_>, error: &scenario::Error) -> PyErr {
    let mistakes = error.mistakes().iter().map(|mistake| {
        let (line, column) = mistake.position().unzip();
        (mistake.to_string(), mistake.advice(), mistake.location(), mistake.source_name(), line, column)
    });
    match PyList::new(py, mistakes.collect::<Vec<_>>()) {
        Ok(mistakes) => exception(py, "ScenarioError", (error.to_string(), mistakes)),
        Err(error) => error,
    }
}
