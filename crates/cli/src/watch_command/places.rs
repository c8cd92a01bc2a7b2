//! Where to watch: this namespace, others, and the hosts of labs that are up.

use watch::Place;

use super::{WatchArgs, failure};
use crate::{exit::Exit, standing};

/// The namespaces that the arguments name; this one without any.
pub fn all(args: &WatchArgs) -> anyhow::Result<Vec<Place>> {
    let mut places = Vec::new();
    for name in &args.namespace {
        places.push(Place::find(name).map_err(|error| Exit::BadInput(error.to_string()))?);
    }
    if !args.host.is_empty() {
        let lab = standing::find(args.lab.as_deref())?;
        let known: Vec<String> = standing::status_of(&lab)?
            .nodes
            .into_iter()
            .filter(|node| node.kind == "host")
            .map(|node| node.name)
            .collect();
        let all = args.host.iter().any(|host| host == "all");
        let hosts = if all { &known } else { &args.host };
        for host in hosts {
            let entered = lab::standing::network_of(&lab.socket, host)?;
            let network = entered.map_err(Exit::BadInput)?;
            places.push(Place::new(host.clone(), network).map_err(failure)?);
        }
    }
    if places.is_empty() {
        places.push(Place::here().map_err(failure)?);
    }
    Ok(places)
}
