//! The operating-system side of a measurement point: its calendar file.

mod calendar_file;

pub use calendar_file::{CalendarFile, Error};
