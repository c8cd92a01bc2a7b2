//! This program called as `tc`, on a host of a standing lab: netem and tbf on emulated ports go to the lab, everything
//! else to the real tc.

use std::{
    ffi::OsString,
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, ExitCode},
};

use lab::standing::{Answer, CONTROL, REAL_TC, Request, ask, is_for_emulated_port};

use crate::output;

/// True where this program was started under the name `tc`.
pub fn is_called() -> bool {
    let name = std::env::args_os().next().unwrap_or_default();
    Path::new(&name).file_name().is_some_and(|n| n == "tc")
}

/// Does what tc would.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut words: Vec<String> = vec!["tc".into()];
    words.extend(arguments.iter().map(|a| a.to_string_lossy().into_owned()));
    let mut told = false;
    if is_for_emulated_port(&words[1..]) {
        match ask(Path::new(CONTROL), &Request::Words { words: words.clone() }) {
            Ok(Answer::Text { text }) => {
                if !text.is_empty() && output::text(&text).is_err() {
                    return ExitCode::FAILURE;
                }
                told = !(text.starts_with("qdisc longfat ") && the_kernel_has_more(&words));
            }
            Ok(Answer::Refused { why }) => {
                output::note(&format!("Error: {why}."));
                return ExitCode::from(2);
            }
            Ok(Answer::Status(_)) => {}
            Err(error) => {
                output::note(&format!("tc: {error}"));
                return ExitCode::FAILURE;
            }
        }
    }
    if told {
        return ExitCode::SUCCESS;
    }
    if !Path::new(REAL_TC).exists() {
        output::note(
            "tc: on emulated ports netem and tbf are understood; this machine has no tc for the rest",
        );
        return ExitCode::from(2);
    }
    let error = Command::new(REAL_TC).args(arguments).exec();
    output::note(&format!("tc: cannot start {REAL_TC}: {error}"));
    ExitCode::FAILURE
}

/// A host's own device without netem and tbf: the kernel's qdisc is to be shown after the link.
fn the_kernel_has_more(words: &[String]) -> bool {
    let device = words.iter().skip_while(|w| *w != "dev").nth(1);
    Path::new(REAL_TC).exists() && device.is_some_and(|d| Path::new("/sys/class/net").join(d).exists())
}
