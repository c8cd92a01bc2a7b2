//! The locations of a scenario's hosts: those of the scenario file, and those that are given for a run.

use std::{collections::BTreeMap, net::IpAddr};

use scenario::{HostLocation, Scenario};

/// The locations of a scenario's hosts. Hosts without an entry are this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostLocations {
    at: BTreeMap<String, HostLocation>,
    data: BTreeMap<String, IpAddr>,
}

impl HostLocations {
    /// The locations of hosts, by their names in the scenario.
    pub fn new(at: impl IntoIterator<Item = (String, HostLocation)>) -> Self {
        HostLocations { at: at.into_iter().collect(), data: BTreeMap::new() }
    }

    /// These locations, and for hosts that have none, those that the scenario states.
    #[must_use]
    pub fn or_of(&self, scenario: &Scenario) -> Self {
        let mut locations = self.clone();
        for host in &scenario.hosts {
            if let Some(at) = &host.at {
                locations.at.entry(host.name.clone()).or_insert_with(|| at.clone());
            }
        }
        locations
    }

    /// Adds the addresses of the interfaces that carry the data, if they differ from those of the servers.
    #[must_use]
    pub fn with_data_addresses(mut self, data: impl IntoIterator<Item = (String, IpAddr)>) -> Self {
        self.data.extend(data);
        self
    }

    /// The location of a host.
    pub fn of(&self, host: &str) -> &HostLocation {
        self.at.get(host).unwrap_or(&HostLocation::Here)
    }

    /// The address of a host's interface for data, if it differs from its server's.
    pub fn data_address(&self, host: &str) -> Option<IpAddr> {
        self.data.get(host).copied()
    }

    /// The names of all hosts that have an entry.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.at.keys().chain(self.data.keys()).map(String::as_str)
    }
}
