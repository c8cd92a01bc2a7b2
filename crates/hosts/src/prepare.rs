//! Before and after the flows of a run: sessions with the servers, and the settings that the scenario states.

use std::{
    collections::BTreeMap,
    net::ToSocketAddrs,
    sync::mpsc::{RecvTimeoutError, channel},
    time::Duration,
};

use scenario::{HostLocation, Scenario};

use crate::{
    Error,
    clock::ClockOffset,
    host_locations::HostLocations,
    measured::{HostReport, Observer, RunOptions},
    plan::Server,
    server_session::ServerSession,
    service::HostReading,
    settings::{self, ChangedSettings},
};

/// Settings whose values the verdict needs.
const VERDICT_SETTINGS: [&str; 4] =
    ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "net.core.rmem_max", "net.core.wmem_max"];

/// Interval at which sessions are kept alive while another one is opened.
const KEEPALIVE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Opens a session with each server. A host that no flow uses is not contacted.
pub(crate) fn connect<'a>(
    scenario: &Scenario,
    options: &RunOptions<'a>,
    observer: &mut dyn Observer,
) -> Result<BTreeMap<String, Server<'a>>, Error> {
    let mut servers = BTreeMap::new();
    for host in &scenario.hosts {
        let is_used = scenario.flows.iter().any(|flow| flow.from == host.name || flow.to == host.name);
        let HostLocation::At(address) = options.locations.of(&host.name) else { continue };
        if !is_used {
            continue;
        }
        let names = setting_names(host);
        let data_address = options.locations.data_address(&host.name);
        let (token, stop) = (options.token, options.stop);
        let opened = keep_alive_during(&mut servers, || {
            ServerSession::connect(&host.name, address, token, &names, data_address, observer, stop)
        })?;
        let server = match opened {
            Some(session) => Server::Longfat(Box::new(session)),
            None => Server::Iperf3,
        };
        servers.insert(host.name.clone(), server);
    }
    Ok(servers)
}

/// Runs `task`, which can wait for minutes in a server's queue, and keeps these sessions alive meanwhile. No
/// flows have been requested yet.
fn keep_alive_during<T>(servers: &mut BTreeMap<String, Server<'_>>, task: impl FnOnce() -> T) -> T {
    let (running, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The channel closes when the task has ended.
            while ended.recv_timeout(KEEPALIVE_CHECK_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                for server in servers.values_mut() {
                    if let Server::Longfat(session) = server {
                        // An error occurs again when the session is used.
                        let _ = session.poll();
                    }
                }
            }
        });
        let result = task();
        drop(running);
        result
    })
}

/// The settings of a host whose values are read.
fn setting_names(host: &scenario::Host) -> Vec<String> {
    let own = settings::stated(host).into_iter().map(|(name, _)| name);
    let mut names: Vec<String> = own.chain(VERDICT_SETTINGS.map(str::to_owned)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Applies the settings that the scenario states, and returns what the hosts have then.
pub(crate) fn prepare_hosts(
    scenario: &Scenario,
    options: &RunOptions<'_>,
    servers: &mut BTreeMap<String, Server<'_>>,
    here: &mut Option<ChangedSettings>,
) -> Result<BTreeMap<String, HostReport>, Error> {
    let mut hosts = BTreeMap::new();
    let purpose = format!("a run of {}", scenario.name);
    for host in &scenario.hosts {
        let is_used = scenario.flows.iter().any(|flow| flow.from == host.name || flow.to == host.name);
        if !is_used {
            continue;
        }
        let report = match servers.get_mut(&host.name) {
            None => {
                let device = device_here(scenario, options.locations, &host.name);
                let device = device.as_deref();
                let mut values = settings::read(&settings::of_device(setting_names(host), device))?;
                let changes = differences(host, device, &values);
                if !changes.is_empty() {
                    if !options.allows_tune {
                        return Err(Error::NotPermitted(format!(
                            "host {} is this machine, and the scenario requires {}; permit it with --allow-tune (restored after the \
                             run)",
                            host.name,
                            describe(&changes, &values)
                        )));
                    }
                    *here = Some(ChangedSettings::change(&purpose, &changes)?);
                    values.extend(changes);
                }
                let HostReading { kernel, .. } = HostReading::of_this_host();
                HostReport { kernel: Some(kernel), settings: values, ..HostReport::default() }
            }
            Some(Server::Iperf3) => {
                if let Some((name, _)) = settings::stated(host).first() {
                    return Err(Error::NotPermitted(format!(
                        "host {}: the scenario states {name}, which cannot be read or changed through an iperf3 server; run longfat \
                         serve there, or remove the setting",
                        host.name
                    )));
                }
                HostReport {
                    address: Some(location_text(options.locations, &host.name)),
                    ..HostReport::default()
                }
            }
            Some(Server::Longfat(session)) => {
                let mut values = session.description.settings.clone();
                let changes = differences(host, session.description.device.as_deref(), &values);
                if !changes.is_empty() {
                    if !session.description.allows_tune {
                        return Err(Error::NotPermitted(format!(
                            "host {} at {}: the scenario requires {}; permit it there with longfat serve --allow-tune (restored after \
                             the run)",
                            host.name,
                            session.address,
                            describe(&changes, &values)
                        )));
                    }
                    session.change(&purpose, &changes)?;
                    values.extend(changes);
                }
                let ClockOffset { offset_ns, error_ns } = session.clock;
                HostReport {
                    address: Some(session.address.clone()),
                    kernel: Some(session.description.kernel.clone()),
                    settings: values,
                    clock_offset_ns: Some((offset_ns, error_ns)),
                }
            }
        };
        hosts.insert(host.name.clone(), report);
    }
    Ok(hosts)
}

fn location_text(locations: &HostLocations, host: &str) -> String {
    locations.of(host).to_string()
}

/// The device of this machine that carries the flows of a host.
fn device_here(scenario: &Scenario, locations: &HostLocations, host: &str) -> Option<String> {
    if let Some(address) = locations.data_address(host) {
        return tune::device_with_address(address);
    }
    let flow = scenario.flows.iter().find(|flow| flow.from == host || flow.to == host)?;
    let other = if flow.from == host { &flow.to } else { &flow.from };
    let to = match (locations.data_address(other), locations.of(other)) {
        (Some(address), _) => address,
        (None, HostLocation::At(address)) => {
            (address.host.as_str(), address.port).to_socket_addrs().ok()?.next()?.ip()
        }
        (None, HostLocation::Here) => return None,
    };
    tune::device_towards(to)
}

/// The stated settings that have another value.
fn differences(
    host: &scenario::Host,
    device: Option<&str>,
    values: &BTreeMap<String, String>,
) -> Vec<(String, String)> {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let differs = |(name, wanted): &(String, String)| {
        values.get(name).is_none_or(|value| words(value) != words(wanted))
    };
    let stated = settings::stated(host).into_iter();
    stated.map(|(name, value)| (settings::with_device(name, device), value)).filter(differs).collect()
}

/// `net.ipv4.tcp_rmem = 4096 131072 6291456 (now 4096 87380 1048576)`.
fn describe(changes: &[(String, String)], values: &BTreeMap<String, String>) -> String {
    let one = |(name, value): &(String, String)| {
        let now = values.get(name).map_or("unknown", String::as_str);
        format!("{name} = {value} (now {now})")
    };
    changes.iter().map(one).collect::<Vec<_>>().join(", ")
}

pub(crate) fn iperf3_notes(servers: &BTreeMap<String, Server<'_>>) -> Vec<String> {
    let is_iperf3 = |(name, server): (&String, &Server<'_>)| match server {
        Server::Iperf3 => Some(format!(
            "host {name} has an iperf3 server: there are no samples, settings and clock of that end"
        )),
        Server::Longfat(_) => None,
    };
    servers.iter().filter_map(is_iperf3).collect()
}

/// Restores all changed settings.
pub(crate) fn restore(
    servers: &mut BTreeMap<String, Server<'_>>,
    here: Option<ChangedSettings>,
    notes: &mut Vec<String>,
) {
    let mut note = |host: &str, result: Result<Vec<(String, String)>, String>| {
        match result {
        Ok(changed) => notes.extend(changed.into_iter().map(|(name, value)| {
            format!("host {host}: {name} was changed to {value} during the run by another program, and is restored")
        })),
        Err(error) => notes.push(format!("host {host}: settings are not restored: {error}")),
    }
    };
    if let Some(changed) = here {
        note("here", changed.restore().map(|r| r.changed_since).map_err(|e| crate::error::chain(&e)));
    }
    for (name, server) in servers {
        if let Server::Longfat(session) = server {
            note(name, session.restore().map_err(|error| crate::error::chain(&error)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use iperf3::{Server as Iperf3Server, ServerOptions};
    use testing::iperf3_server::QuietServer;

    use super::*;
    use crate::{service::HostService, test_support::Silent};

    #[test]
    fn a_session_outlasts_a_long_wait_for_another_server() {
        let options =
            ServerOptions { bind: Some([127, 0, 0, 1].into()), port: 0, ..ServerOptions::default() };
        let server = Iperf3Server::bind(options).unwrap().with_service(Box::new(HostService::default()));
        let address = scenario::Address { host: "127.0.0.1".into(), port: server.address().port() };
        let stop = AtomicBool::new(false);
        let is_alive = std::thread::scope(|scope| {
            scope.spawn(|| server.run(&stop, &QuietServer::default()));
            let opened = ServerSession::connect("h1", &address, None, &[], None, &mut Silent, &stop);
            let mut servers = BTreeMap::new();
            if let Ok(Some(session)) = opened {
                servers.insert("h1".to_owned(), Server::Longfat(Box::new(session)));
            }
            // Longer than the server waits for a message of the client.
            keep_alive_during(&mut servers, || std::thread::sleep(Duration::from_secs(32)));
            let is_alive = match servers.get_mut("h1") {
                Some(Server::Longfat(session)) => session.poll().is_ok(),
                _ => false,
            };
            stop.store(true, Ordering::Release);
            is_alive
        });
        assert!(is_alive);
    }
}
