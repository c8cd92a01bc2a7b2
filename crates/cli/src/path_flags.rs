//! The flags that describe a simple path instead of a scenario file.

use std::{fmt::Display, str::FromStr};

use clap::Args;
use scenario::{QueueLimit, SimplePath};
use units::{BitRate, Time, parse_share};

/// A path between two hosts and its flows.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "A path without a file")]
pub struct PathFlags {
    /// Rate of the path, as in 1gbit
    #[arg(long, value_name = "RATE", value_parser = one_value::<BitRate>("links.path.both.rate=100mbit,1gbit"))]
    pub rate: Option<BitRate>,
    /// Round-trip time of the path, as in 100ms
    #[arg(long, value_name = "TIME", value_parser = one_value::<Time>("links.path.both.delay=10ms,50ms (half of each round-trip time)"))]
    pub rtt: Option<Time>,
    /// Queue in front of the path, as in 500p or 25MB [default: one bandwidth-delay product]
    #[arg(long, value_name = "SIZE", value_parser = one_value::<QueueLimit>("links.path.both.queue=100p,1000p"))]
    pub queue: Option<QueueLimit>,
    /// Share of packets that are lost at random, as in 0.01% [default: none]
    #[arg(long, value_name = "SHARE", value_parser = one_share())]
    pub loss: Option<f64>,
    /// Congestion controls, separated by commas; several: a variant for each. A name, or a C file (my.bpf.c)
    /// [default: cubic]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub cc: Vec<String>,
    /// Number of flows that start together [default: 1]
    #[arg(long, value_name = "N")]
    pub flows: Option<u32>,
    /// Duration [default: 20s, on long paths 200 round-trip times]
    #[arg(long, value_name = "TIME")]
    pub duration: Option<Time>,
    /// MTU of both hosts in bytes [default: 1500]
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u32>,
}

impl PathFlags {
    /// The first flag that was given.
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--rate", self.rate.is_some()),
            ("--rtt", self.rtt.is_some()),
            ("--queue", self.queue.is_some()),
            ("--loss", self.loss.is_some()),
            ("--cc", !self.cc.is_empty()),
            ("--flows", self.flows.is_some()),
            ("--duration", self.duration.is_some()),
            ("--mtu", self.mtu.is_some()),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }

    /// The path, with defaults for flags that were not given.
    pub fn path(&self) -> SimplePath {
        let default = SimplePath::default();
        SimplePath {
            rate: self.rate.unwrap_or(default.rate),
            rtt: self.rtt.unwrap_or(default.rtt),
            queue: self.queue,
            loss: self.loss.unwrap_or(default.loss),
            ccs: if self.cc.is_empty() { default.ccs } else { self.cc.clone() },
            flows: self.flows.unwrap_or(default.flows),
            duration: self.duration,
            mtu: self.mtu.unwrap_or(default.mtu),
        }
    }
}

/// A parser of one value. A list, which only `--cc` accepts, is an error; the message names the option for
/// several values.
fn one_value<T>(several: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr,
    T::Err: Display,
{
    move |text| text.parse().map_err(|error: T::Err| list_hint(text, several, &error))
}

/// Parses a share; the error suggests a list of shares.
fn one_share() -> impl Fn(&str) -> Result<f64, String> + Clone {
    move |text| {
        parse_share(text).map_err(|error| list_hint(text, "links.path.forward.loss=0.01%,0.1%", &error))
    }
}

fn list_hint(text: &str, several: &str, error: &dyn Display) -> String {
    match text.contains(',') {
        true => format!("a path has one value; to compare several, write longfat sweep --over {several}"),
        false => error.to_string(),
    }
}
