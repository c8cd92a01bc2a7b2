//! Options of runs between real hosts.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use clap::Args;
use experiment::{EngineChoice, ExcessiveLoad, HostsSetup, Job, Load};
use hosts::{HostLocation, HostLocations};
use iperf3::Token;
use scenario::Scenario;
use units::{BitRate, Bytes, Time};

use super::test::args::token;
use crate::{config_file::Config, exit::Exit, output};

/// Options that name the hosts of a scenario.
#[derive(Debug, Args)]
pub struct RealHostFlags {
    // Not a doc comment: rustdoc takes [:PORT] for a link.
    #[arg(
        long,
        value_name = "HOST=ADDRESS",
        value_delimiter = ',',
        value_parser = location,
        help_heading = "Real hosts",
        help = "With --engine hosts: where a host of the scenario is: HOST=NAME[:PORT] of its longfat serve or iperf3 server \
                (repeatable, or separated by commas). One host may be this machine: omit it. It overrides `at` of \
                the scenario's host"
    )]
    at: Vec<(String, HostLocation)>,
    /// Address of a host's interface for the data, if it is not that of its server
    #[arg(long, value_name = "HOST=IP", value_delimiter = ',', value_parser = data_address, help_heading = "Real hosts")]
    data_address: Vec<(String, IpAddr)>,
    /// The secret of the servers, in a file (see `longfat serve --token`)
    #[arg(long, value_name = "FILE", help_heading = "Real hosts")]
    token: Option<PathBuf>,
    /// Refuse runs that may send more than this in total, as in 10GB
    #[arg(long, value_name = "BYTES", help_heading = "Real hosts")]
    max_bytes: Option<Bytes>,
    /// Maximum rate of each TCP flow, by pacing at its sender
    #[arg(long, value_name = "RATE", help_heading = "Real hosts")]
    max_rate: Option<BitRate>,
    /// If a connection is lost, try for this time to continue its flow in the same record
    #[arg(long, value_name = "TIME", help_heading = "Real hosts")]
    reconnect: Option<Time>,
    /// Allow the scenario's settings to be applied to this machine for each run, and restored after it
    #[arg(long, help_heading = "Real hosts")]
    allow_tune: bool,
}

impl RealHostFlags {
    /// The set-up of engine hosts, if it is among `engines`. Locations that are not given are those of the
    /// scenarios.
    pub fn setup<'a>(
        &self,
        engines: &[EngineChoice],
        scenarios: impl IntoIterator<Item = &'a Scenario>,
        config: &Config,
    ) -> anyhow::Result<Option<HostsSetup>> {
        let is_given = !self.at.is_empty()
            || !self.data_address.is_empty()
            || self.token.is_some()
            || self.allow_tune
            || self.max_rate.is_some()
            || self.max_bytes.is_some()
            || self.reconnect.is_some();
        match (engines.contains(&EngineChoice::Hosts), is_given) {
            (false, false) => return Ok(None),
            (false, true) => {
                let message = "the options of real hosts, as --at, need --engine hosts";
                return Err(Exit::BadInput(message.into()).into());
            }
            (true, _) => {}
        }
        let stated =
            scenarios.into_iter().flat_map(|one| one.hosts.iter().filter_map(|host| host.at.as_ref()));
        Ok(Some(HostsSetup {
            locations: self.locations(),
            token: self.token(stated, config)?,
            allows_tune: self.allow_tune,
            max_rate: self.max_rate,
            reconnect: self.reconnect.map(|time| time.to_duration()),
        }))
    }

    /// The given locations of hosts.
    pub fn locations(&self) -> HostLocations {
        HostLocations::new(self.at.clone()).with_data_addresses(self.data_address.clone())
    }

    /// Announces how long the runs between hosts take and how much they send at most, and refuses those that
    /// exceed `--max-bytes`.
    pub fn check_load(&self, jobs: &[Job<'_>], pause: Duration) -> anyhow::Result<()> {
        let load = Load::of(jobs, self.max_rate);
        if load.runs == 0 {
            return Ok(());
        }
        let bytes = match load.bytes {
            Some(Bytes(bytes)) => format!("at most {} of data", view::number::bytes(bytes as f64)),
            None => "as much data as the path carries".into(),
        };
        let runs = if load.runs == 1 { "1 run".into() } else { format!("{} runs", load.runs) };
        let duration = load.duration_with_pauses(pause);
        output::note(&format!("longfat: {runs} between hosts, about {duration}, {bytes}"));
        let Err(excess) = load.check(self.max_bytes) else { return Ok(()) };
        let limit = self.max_bytes.map(|limit| limit.to_string()).unwrap_or_default();
        let message = match excess {
            ExcessiveLoad::Unbounded => format!(
                "--max-bytes {limit}: a TCP flow has neither a size nor a path with a rate; use --max-rate too"
            ),
            ExcessiveLoad::Bytes(bytes) => format!(
                "the runs may send {bytes}, more than --max-bytes {limit}; use --max-rate, shorter runs or fewer points"
            ),
        };
        Err(Exit::BadInput(message).into())
    }

    /// The given token, else the configuration file's for the first host that has one.
    fn token<'a>(
        &self,
        stated: impl IntoIterator<Item = &'a HostLocation>,
        config: &Config,
    ) -> anyhow::Result<Option<Token>> {
        let token_file_of = |location: &HostLocation| match location {
            HostLocation::At(address) => config.token_of(&address.host),
            HostLocation::Here => None,
        };
        let given =
            self.token.clone().or_else(|| self.at.iter().find_map(|(_, location)| token_file_of(location)));
        let file = given.or_else(|| stated.into_iter().find_map(token_file_of));
        file.as_deref().map(token).transpose()
    }
}

/// Parses `h2=node2:5201`.
fn location(text: &str) -> Result<(String, HostLocation), String> {
    let (host, location) = split(text)?;
    Ok((host, location.parse()?))
}

/// Parses `h2=192.0.2.1`.
fn data_address(text: &str) -> Result<(String, IpAddr), String> {
    let (host, address) = split(text)?;
    Ok((host, address.parse().map_err(|_| format!("\"{address}\" is not an IP address"))?))
}

fn split(text: &str) -> Result<(String, &str), String> {
    let (host, rest) = text.split_once('=').ok_or("write HOST=ADDRESS, as in h2=node2")?;
    match host.trim().is_empty() {
        true => Err("the name of the host is missing".into()),
        false => Ok((host.trim().into(), rest.trim())),
    }
}
