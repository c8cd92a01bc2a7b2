//! The network namespaces to watch: this one, others, and hosts of labs that are up.

use lab::standing::NodeKind;
use watch::NetNamespace;

use super::{WatchArgs, failure};
use crate::{commands::lab::standing, exit::Exit};

/// The namespaces of the arguments; by default this process's.
pub fn all(args: &WatchArgs) -> anyhow::Result<Vec<NetNamespace>> {
    let mut namespaces = Vec::new();
    for name in &args.namespace {
        namespaces.push(NetNamespace::open(name).map_err(|error| Exit::BadInput(error.to_string()))?);
    }
    if !args.host.is_empty() {
        let lab = standing::find(args.lab.as_deref())?;
        let known: Vec<String> = standing::status_of(&lab)?
            .nodes
            .into_iter()
            .filter(|node| node.kind == NodeKind::Host)
            .map(|node| node.name)
            .collect();
        let all = args.host.iter().any(|host| host == "all");
        let hosts = if all { &known } else { &args.host };
        for host in hosts {
            let entered = lab::standing::host_network_namespace(&lab.socket, host)?;
            let network = entered.map_err(Exit::BadInput)?;
            namespaces.push(NetNamespace::new(host.clone(), network).map_err(failure)?);
        }
    }
    if namespaces.is_empty() {
        namespaces.push(NetNamespace::current().map_err(failure)?);
    }
    Ok(namespaces)
}
