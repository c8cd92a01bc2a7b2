//! The calendar file: what it refuses, and that it survives SIGKILL.

mod killed;
mod opening;
