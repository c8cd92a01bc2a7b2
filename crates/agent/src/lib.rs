//! What a measurement point does with the operating system. So far: its calendar file.

mod calendar_file;

pub use calendar_file::{CalendarFile, Error};
