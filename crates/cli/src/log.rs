//! The diagnostic log on standard error, to debug labs, servers and guests.

use tracing_subscriber::EnvFilter;

use crate::exit::Exit;

/// The environment variable with the filter: `debug`, or by crate as in `lab=debug,iperf3=trace`.
const VARIABLE: &str = "LONGFAT_LOG";

/// Starts the log if `LONGFAT_LOG` is set.
///
/// # Errors
/// If its value is not a filter.
pub fn start() -> anyhow::Result<()> {
    let Ok(filter) = std::env::var(VARIABLE) else { return Ok(()) };
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Exit::BadInput(format!("{VARIABLE}={filter} is not a log filter: {error}")))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    Ok(())
}
