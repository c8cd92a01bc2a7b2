//! `longfat agent directory`: looks up points of the mesh.

use std::{fs, path::PathBuf};

use agent::{Lookup, LookupTexts, Members, perfsonar_hosts};
use clap::Args;
use serde_json::json;

use super::{Directory, SCHEMA, failure, text};
use crate::{exit::Exit, interrupt, output};

/// Options of `agent directory`.
#[derive(Debug, Args)]
pub struct DirectoryArgs {
    /// Only points with this text in their place or name
    #[arg(long, value_name = "TEXT")]
    place: Option<String>,
    /// Sort by the distance from a position in degrees, or from a point
    #[arg(long, value_name = "LAT,LON|POINT", allow_hyphen_values = true)]
    near: Option<String>,
    /// Only points in this network: a name, an address or a prefix
    #[arg(long, value_name = "NETWORK")]
    network: Option<String>,
    /// Only points that allow tests of this kind (or udp) to some users
    #[arg(long, value_name = "KIND")]
    capability: Option<String>,
    /// Sort by how close they are to the hops of the path to this host, which are probed first
    #[arg(long, value_name = "HOST")]
    path_to: Option<String>,
    /// As --path-to, with the addresses of the hops, separated by commas
    #[arg(long, value_name = "ADDRESSES", conflicts_with = "path_to")]
    hops: Option<String>,
    /// Search the hosts of this file too: the JSON of a perfSONAR lookup service's records
    #[arg(long, value_name = "FILE")]
    perfsonar: Option<PathBuf>,
    #[command(flatten)]
    directory: Directory,
}

/// Looks up points. The agent need not run: the directory is part of the list of members.
pub fn run(args: &DirectoryArgs, json: bool) -> anyhow::Result<()> {
    let config = args.directory.config()?;
    let mut members = Members::open(&config.state).map_err(failure)?;
    if let Some(file) = &args.perfsonar {
        let name = file.display();
        let text = fs::read_to_string(file)
            .map_err(|error| Exit::BadInput(format!("cannot read {name}: {error}")))?;
        let hosts = perfsonar_hosts(&text).map_err(|error| Exit::BadInput(format!("{name}: {error}")))?;
        members.members.extend(hosts);
    }
    let hops = match &args.path_to {
        Some(host) => Some(hops_to(host)?),
        None => args.hops.clone(),
    };
    let texts = LookupTexts {
        place: args.place.clone(),
        near: args.near.clone(),
        network: args.network.clone(),
        capability: args.capability.clone(),
        hops,
    };
    let lookup = Lookup::parse(texts, &members).map_err(failure)?;
    let points = lookup.find(&members);
    if json {
        return output::json(&json!({ "schema": SCHEMA, "points": points }));
    }
    output::text(&text::directory(&lookup, &points))
}

/// The addresses of the hops on the path to a host, separated by commas.
fn hops_to(host: &str) -> anyhow::Result<String> {
    let failed =
        |error: probe_transport::Error| Exit::Failed(format!("cannot probe the path to {host}: {error}"));
    let stop = interrupt::flag()?;
    let to = probe_transport::resolve(host, None).map_err(failed)?;
    let report = &mut |step: &str| output::note(&format!("longfat: {step}"));
    let path = probe_transport::hops(to, &stop, report).map_err(failed)?;
    let addresses: Vec<String> =
        path.hops.iter().filter_map(|hop| hop.address.map(|at| at.to_string())).collect();
    if addresses.is_empty() {
        return Err(Exit::Failed(format!("no hop of the path to {host} has replied")).into());
    }
    Ok(addresses.join(","))
}
