//! This program under the name `tc` on a host of a lab: commands for emulated ports go to the lab, everything
//! else to the real tc.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
};

use lab::standing::{CONTROL, REAL_TC, Reply, Request, is_for_emulated_port, send_request};

use crate::output;

/// Whether this program was started under the name `tc`.
pub fn is_called() -> bool {
    let name = std::env::args_os().next().unwrap_or_default();
    Path::new(&name).file_name().is_some_and(|n| n == "tc")
}

/// Runs as `tc`.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut words: Vec<String> = vec!["tc".into()];
    words.extend(arguments.iter().map(|a| a.to_string_lossy().into_owned()));
    let mut is_handled = false;
    if is_for_emulated_port(&words[1..]) {
        match send_request(Path::new(CONTROL), &Request::Command { command: words.clone() }) {
            Ok(Reply::Text { text }) => {
                if !text.is_empty() && output::text(&text).is_err() {
                    return ExitCode::FAILURE;
                }
                is_handled = !(text.starts_with("qdisc longfat ") && shows_kernel_qdiscs(&words));
            }
            Ok(Reply::Refused { why }) => {
                output::note(&format!("Error: {why}."));
                return ExitCode::from(2);
            }
            Ok(Reply::Status(_)) => {}
            Err(error) => {
                output::note(&format!("tc: {error}"));
                return ExitCode::FAILURE;
            }
        }
    }
    if is_handled {
        return ExitCode::SUCCESS;
    }
    if !Path::new(REAL_TC).exists() {
        output::note(
            "tc: the arguments are not for an emulated port, and this machine has no tc for anything else",
        );
        return ExitCode::from(2);
    }
    let error = Command::new(REAL_TC).args(arguments).exec();
    output::note(&format!("tc: cannot start {REAL_TC}: {error}"));
    ExitCode::FAILURE
}

/// Whether the kernel's qdisc of a host's device is shown after the emulated link.
fn shows_kernel_qdiscs(words: &[String]) -> bool {
    let device = words.iter().skip_while(|w| *w != "dev").nth(1);
    Path::new(REAL_TC).exists() && device.is_some_and(|d| Path::new("/sys/class/net").join(d).exists())
}
