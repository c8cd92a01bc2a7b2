//! The diagnostic log on standard error, to debug labs, servers and guests, with the warnings of agents.

use tracing_subscriber::EnvFilter;

use crate::exit::Exit;

/// The environment variable with the filter: `debug`, or by crate as in `lab=debug,iperf3=trace`.
const VARIABLE: &str = "LONGFAT_LOG";

/// The filter of an agent without `LONGFAT_LOG`: warnings are all that its administrator sees of a fault at
/// night.
pub const AGENT_FILTER: &str = "warn";

/// Starts the log if `LONGFAT_LOG` is set, or if there is a default filter.
///
/// # Errors
/// If its value is not a filter.
pub fn start(default: Option<&str>) -> anyhow::Result<()> {
    let Some(filter) = std::env::var(VARIABLE).ok().or(default.map(str::to_owned)) else { return Ok(()) };
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Exit::BadInput(format!("{VARIABLE}={filter} is not a log filter: {error}")))?;
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false).init();
    Ok(())
}
