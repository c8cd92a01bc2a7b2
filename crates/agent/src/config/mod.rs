//! The configuration of a point, TOML. Mistakes are shown with their position, as those of scenario files.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    time::Duration,
};

use limits::{Limits, Usage};
use reservation::{PointName, Settings, Task};
use serde::Deserialize;
use toml::Spanned;
use units::Time;

use crate::{
    Alerts, Clock, Coordinates, Error, Members, MetricsPush, Place, PostgresAddress, Retention, Roles,
    address::host_and_port,
    files,
    mesh::{MAX_NETWORKS, check_name, check_network, check_text},
    test::{ServerProtocol, ServerService},
};

mod http;
mod metrics;
mod mistakes;
mod recurring;
mod roles;
#[cfg(test)]
mod tests;

pub use self::http::{HttpInterface, ReadAccess};

use self::http::{FileHttp, http_interface};
use metrics::{FileMetrics, metrics_push};
use mistakes::Mistakes;
use recurring::{FileTest, OtherEnds, tasks, test_request, to_each_point};
use roles::{FileRole, read_roles};

/// The default port of agents; unassigned by IANA.
pub const DEFAULT_PORT: u16 = 4862;
/// Padding for the start and the end of a test: connections, the exchange of results, the record. The clocks'
/// errors and two round trips are added.
const BASE_PADDING: Time = Time::from_secs(2);
/// A point's certificate is valid for 825 days; the authority may be unreachable for weeks.
const RENEW_BEFORE: Duration = Duration::from_secs(60 * 86_400);
/// The keys that must precede the first table.
const MAIN_KEYS: [&str; 9] =
    ["name", "listen", "address", "state", "limits", "test_ports", "clock_error", "padding", "results_to"];
/// An option of `longfat test` that recurring tests do not have: a result is that of the direction from the
/// point that leads.
const REVERSE: &str = "reverse";

/// The configuration of a point.
#[derive(Debug, Clone)]
pub struct Config {
    /// The point's name.
    pub name: PointName,
    /// Where it listens for other points.
    pub listen: SocketAddr,
    /// How other points reach it, `HOST:PORT`.
    pub address: String,
    /// Directory of its calendar, archive, records and certificates.
    pub state: PathBuf,
    /// Its limits, with the roles of users and points.
    pub limits: Limits,
    /// The limits file.
    pub limits_file: PathBuf,
    /// The roles of users, points and tokens.
    pub roles: Roles,
    /// Ports of tests.
    pub test_ports: RangeInclusive<u16>,
    /// The source of UTC.
    pub clock: Clock,
    /// Servers outside the mesh, as ends of its tests.
    pub servers: Vec<ServerService>,
    /// The recurring tests that it leads to points and servers that the file names.
    pub tests: Vec<Task>,
    /// The recurring tests that it leads to each other point of the mesh; they have no other end.
    pub tests_to_each: Vec<Task>,
    /// Points that get a copy of each result of this one.
    pub results_to: Vec<PointName>,
    /// The HTTP interface.
    pub http: Option<HttpInterface>,
    /// The common archive of the mesh, in addition to the embedded one.
    pub postgres: Option<PostgresAddress>,
    /// How long results are kept.
    pub retention: Retention,
    /// Where metrics are pushed.
    pub metrics: Option<MetricsPush>,
    /// The receivers of alerts.
    pub alerts: Option<Alerts>,
    /// Where it is, for the directory.
    pub place: Place,
    /// How long before its expiry the certificate is renewed.
    pub renew_before: Duration,
    /// Timeouts of reservations.
    pub settings: Settings,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    listen: Spanned<String>,
    address: Spanned<String>,
    state: Spanned<PathBuf>,
    limits: Spanned<PathBuf>,
    test_ports: Option<Spanned<String>>,
    clock_error: Option<Spanned<String>>,
    padding: Option<Spanned<String>>,
    #[serde(default)]
    results_to: Vec<Spanned<String>>,
    http: Option<FileHttp>,
    metrics: Option<Spanned<FileMetrics>>,
    #[serde(default)]
    archive: FileArchive,
    #[serde(default)]
    retention: FileRetention,
    alerts: Option<Spanned<FileAlerts>>,
    #[serde(default)]
    directory: FileDirectory,
    #[serde(default)]
    servers: Vec<FileServer>,
    #[serde(default)]
    roles: Vec<FileRole>,
    #[serde(default)]
    tests: Vec<Spanned<FileTest>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileServer {
    name: Spanned<String>,
    host: Option<Spanned<String>>,
    iperf3: Option<Spanned<String>>,
    twamp: Option<Spanned<String>>,
    stamp: Option<Spanned<String>>,
    owamp: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileArchive {
    postgres: Option<Spanned<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRetention {
    records_days: Option<Spanned<u32>>,
    tests_days: Option<u32>,
    hours_days: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileDirectory {
    place: Option<Spanned<String>>,
    latitude: Option<Spanned<f64>>,
    longitude: Option<Spanned<f64>>,
    #[serde(default)]
    networks: Vec<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAlerts {
    webhook: Option<Spanned<String>>,
    command: Option<Spanned<Vec<String>>>,
    mail: Option<Spanned<String>>,
    alertmanager: Option<Spanned<String>>,
}

impl Config {
    /// Reads a configuration and the limits file that it names. Relative paths begin at the file's directory.
    ///
    /// # Errors
    /// If a file cannot be read, or has mistakes.
    pub fn read(path: &Path) -> Result<Config, Error> {
        let text = files::read(path)?;
        // Absolute: the archive keeps paths of records.
        let base = std::path::absolute(path).map_err(files::failed("find", path))?;
        let base = base.parent().unwrap_or(Path::new("/"));
        Config::parse(&path.display().to_string(), &text, base, &files::read)
    }

    /// Parses a configuration; `read` reads the other files that belong to it.
    pub(crate) fn parse(
        name: &str,
        text: &str,
        base: &Path,
        read: &dyn Fn(&Path) -> Result<String, Error>,
    ) -> Result<Config, Error> {
        let mut mistakes = Mistakes::default();
        let parsed = toml::from_str::<File>(text);
        let file = match parsed {
            Ok(file) => file,
            Err(error) => {
                let span = error.span().unwrap_or(0..0);
                let is_unknown = error.message().starts_with("unknown field");
                let key = text.get(span.clone()).filter(|_| is_unknown);
                match key.filter(|key| MAIN_KEYS.contains(key) || *key == REVERSE) {
                    Some(REVERSE) => {
                        let help = "for the other direction, write the test into the file of the other point";
                        mistakes.add_help(span, "a recurring test sends from this point", help);
                    }
                    Some(key) => {
                        let help = "the keys of the point itself are above the first [table]";
                        mistakes.add_help(span, format!("`{key}` is not a key of this table"), help);
                    }
                    None => mistakes.add(span, error.message()),
                }
                return Err(mistakes.into_error(name, text));
            }
        };
        let state = base.join(file.state.get_ref());
        let members = read(&Members::path(&state)).and_then(|text| Members::parse(&text, &state)).ok();
        let limits_file = base.join(file.limits.get_ref());
        let limits = match read(&limits_file) {
            Ok(limits) => limits
                .parse::<Limits>()
                .map_err(|cause| Error::Limits { path: limits_file.clone(), cause: Box::new(cause) })
                .map_err(|error| mistakes.add(file.limits.span(), error.to_string()))
                .ok(),
            Err(error) => {
                mistakes.add(file.limits.span(), error.to_string());
                None
            }
        };
        if let Err(error) = check_name(file.name.get_ref()) {
            mistakes.add(file.name.span(), error.to_string());
        }
        if host_and_port(file.address.get_ref()).is_none() {
            let text = format!("{:?} is not an address", file.address.get_ref());
            mistakes.add_help(
                file.address.span(),
                text,
                "the form is HOST:PORT, as in a.example:4862 or [2001:db8::1]:4862",
            );
        }
        let listen = file.listen.get_ref().parse::<SocketAddr>();
        if listen.is_err() {
            let text = format!("{:?} is not an address and port to listen on", file.listen.get_ref());
            mistakes.add_help(
                file.listen.span(),
                text,
                format!("the form is ADDRESS:PORT, as in [::]:{DEFAULT_PORT}"),
            );
        }
        let test_ports = match &file.test_ports {
            None => Some(5202..=5299),
            Some(ports) => port_range(ports.get_ref()).or_else(|| {
                let text = format!("{:?} is not a range of ports", ports.get_ref());
                mistakes.add_help(ports.span(), text, "the form is FIRST-LAST, as in 5202-5299");
                None
            }),
        };
        let clock_error = match &file.clock_error {
            None => None,
            Some(text) if text.get_ref() == "auto" => None,
            Some(text) => mistakes.parse::<Time>(text),
        };
        let own = PointName(file.name.get_ref().clone());
        let roles = read_roles(&file.roles, &own, members.as_ref(), limits.as_ref(), &mut mistakes);
        let limits = limits.map(|mut limits| {
            limits.set_roles(roles.assigned(&own, &BTreeMap::new()));
            limits
        });
        let servers = servers(&file.servers, members.as_ref(), &mut mistakes);
        let (mut tests, mut tests_to_each): (Vec<Task>, Vec<Task>) = (Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        for test in &file.tests {
            let test = test.get_ref();
            let new = tasks(&own, test, members.as_ref(), &servers, &mut mistakes);
            let Some(first) = new.first() else { continue };
            if let Some(limits) = &limits {
                let decision = limits.decide(&test_request(&own, first), &Usage::default());
                if !decision.is_allowed() {
                    let text = format!("the limits of this point do not allow it: {decision}");
                    let help = format!("change {}", limits_file.display());
                    mistakes.add_help(test.name.span(), text, help);
                }
            }
            let is_to_each = matches!(test.to.get_ref(), OtherEnds::EachPoint);
            let each = members.as_ref().filter(|_| is_to_each);
            let present = each.map(|members| to_each_point(first, &own, members)).unwrap_or_default();
            // Those of later members are checked when the members are known.
            for name in new.iter().chain(&present).map(|task| &task.name) {
                if !names.insert(name.clone()) {
                    mistakes.add(test.name.span(), format!("two tests have the name {:?}", name.0));
                }
            }
            let all = if is_to_each { &mut tests_to_each } else { &mut tests };
            all.extend(new);
        }
        if let Some(members) = &members
            && members.address(&own).is_none()
        {
            let text = format!("{own} is not among the members of the mesh");
            let help = format!("the certificate in {} has the name", state.join("tls").display());
            mistakes.add_help(file.name.span(), text, help);
        }
        let results_to = file.results_to.iter().map(|name| {
            let point = PointName(name.get_ref().clone());
            let is_known = members.as_ref().is_none_or(|members| members.address(&point).is_some());
            if point == own || !is_known {
                mistakes.add(name.span(), format!("{point} is not another point of the mesh"));
            }
            point
        });
        let results_to: Vec<PointName> = results_to.collect();
        let http = file.http.as_ref().and_then(|http| http_interface(http, &mut mistakes));
        let postgres = file.archive.postgres.as_ref();
        let postgres = postgres.and_then(|text| {
            let address = mistakes.parse::<PostgresAddress>(text)?.relative_to(base);
            for file in address.files() {
                if let Err(error) = read(file) {
                    mistakes.add(text.span(), error.to_string());
                }
            }
            Some(address)
        });
        let retention = retention(&file.retention, &mut mistakes);
        let metrics =
            file.metrics.as_ref().and_then(|metrics| metrics_push(metrics, base, read, &mut mistakes));
        let alerts = file.alerts.as_ref().and_then(|alerts| self::alerts(alerts, &mut mistakes));
        let place = place(&file.directory, &mut mistakes);
        let padding =
            file.padding.as_ref().and_then(|text| mistakes.parse::<Time>(text)).unwrap_or(BASE_PADDING);
        let (Some(limits), Ok(listen), Some(test_ports), true) =
            (limits, listen, test_ports, mistakes.count() == 0)
        else {
            return Err(mistakes.into_error(name, text));
        };
        Ok(Config {
            name: own,
            listen,
            address: file.address.into_inner(),
            state,
            limits,
            limits_file,
            roles,
            test_ports,
            clock: Clock { error: clock_error, ..Clock::default() },
            servers,
            tests,
            tests_to_each,
            results_to,
            http,
            postgres,
            retention,
            metrics,
            alerts,
            place,
            renew_before: RENEW_BEFORE,
            settings: Settings { base_padding: padding, ..Settings::default() },
        })
    }
}

impl Config {
    /// All recurring tests that this point leads in a mesh with these members. If a test to each point gets
    /// the name of another test, because a point has joined, that other test has precedence.
    pub fn tasks(&self, members: &Members) -> Vec<Task> {
        let mut tasks = self.tests.clone();
        let to_each = self.tests_to_each.iter().flat_map(|test| to_each_point(test, &self.name, members));
        for task in to_each {
            if tasks.iter().any(|known| known.name == task.name) {
                tracing::warn!("the recurring test {} is skipped: another test has this name", task.name);
            } else {
                tasks.push(task);
            }
        }
        tasks
    }

    /// The keys of the file that differ in `new` and take effect only when the agent is started again.
    pub(crate) fn keys_for_restart(&self, new: &Config) -> Vec<&'static str> {
        let values = |config: &Config| {
            [
                ("listen", format!("{:?}", config.listen)),
                ("address", config.address.clone()),
                ("state", format!("{:?}", config.state)),
                ("test_ports", format!("{:?}", config.test_ports)),
                ("clock_error", format!("{:?}", config.clock)),
                ("padding", format!("{:?}", config.settings)),
                ("results_to", format!("{:?}", config.results_to)),
                ("[http]", format!("{:?}", config.http)),
                ("[archive]", format!("{:?}", config.postgres)),
                ("[retention]", format!("{:?}", config.retention)),
                ("[alerts]", format!("{:?}", config.alerts)),
                ("[directory]", format!("{:?}", config.place)),
            ]
        };
        let both = values(self).into_iter().zip(values(new));
        both.filter(|((_, old), (_, new))| old != new).map(|((key, _), _)| key).collect()
    }

    /// Replaces what a running agent can replace by that of `new`: the tests, their servers, the limits, the
    /// roles and the push of metrics.
    pub(crate) fn reload_from(&mut self, new: Config) {
        self.limits = new.limits;
        self.limits_file = new.limits_file;
        self.roles = new.roles;
        self.servers = new.servers;
        self.tests = new.tests;
        self.tests_to_each = new.tests_to_each;
        self.metrics = new.metrics;
    }
}

/// The services of the file's servers.
fn servers(files: &[FileServer], members: Option<&Members>, mistakes: &mut Mistakes) -> Vec<ServerService> {
    let mut services: Vec<ServerService> = Vec::new();
    for file in files {
        let name = file.name.get_ref();
        if let Err(error) = check_name(name) {
            mistakes.add(file.name.span(), error.to_string());
        }
        let is_point = members.is_some_and(|members| members.address(&name.as_str().into()).is_some());
        if is_point || services.iter().any(|known| known.name == *name) {
            mistakes.add(file.name.span(), format!("another point or server has the name {name:?}"));
        }
        let addresses = [&file.host, &file.iperf3, &file.twamp, &file.stamp, &file.owamp];
        for (protocol, address) in ServerProtocol::ALL.into_iter().zip(addresses) {
            let Some(address) = address else { continue };
            match ServerService::new(name, protocol, address.get_ref()) {
                Ok(service) => services.push(service),
                Err(text) => mistakes.add(address.span(), text),
            }
        }
        if addresses.iter().all(|address| address.is_none()) {
            let help = "name one of host, iperf3, twamp, stamp and owamp, as in iperf3 = \"iperf.example\"";
            mistakes.add_help(file.name.span(), "the server has no service", help);
        }
    }
    services
}

fn retention(file: &FileRetention, mistakes: &mut Mistakes) -> Retention {
    let defaults = Retention::default();
    let tests_days = file.tests_days.unwrap_or(defaults.tests_days);
    let records_days = file.records_days.as_ref().map(|days| *days.get_ref());
    if let Some(days) = &file.records_days
        && *days.get_ref() > tests_days
    {
        let text = format!(
            "records would be kept for {} d, longer than the {tests_days} d of their tests",
            days.get_ref()
        );
        mistakes.add_help(days.span(), text, "set tests_days to at least that number");
    }
    Retention {
        records_days: records_days.unwrap_or(defaults.records_days).min(tests_days),
        tests_days,
        hours_days: file.hours_days.unwrap_or(defaults.hours_days).max(tests_days),
    }
}

/// The place and the networks that the point announces.
fn place(file: &FileDirectory, mistakes: &mut Mistakes) -> Place {
    if let Some(name) = &file.place
        && let Err(text) = check_text(name.get_ref())
    {
        mistakes.add(name.span(), format!("the place {text}"));
    }
    let coordinates = match (&file.latitude, &file.longitude) {
        (Some(latitude), Some(longitude)) => {
            let (a, b) = (latitude.span(), longitude.span());
            let both = a.start.min(b.start)..a.end.max(b.end);
            Coordinates::new(*latitude.get_ref(), *longitude.get_ref())
                .map_err(|text| mistakes.add(both, text))
                .ok()
        }
        (None, None) => None,
        (Some(one), None) | (None, Some(one)) => {
            let help =
                "the form is latitude = 35.95 and longitude = 140.66, degrees; south and west are negative";
            mistakes.add_help(one.span(), "coordinates need a latitude and a longitude", help);
            None
        }
    };
    if let Some(network) = file.networks.get(MAX_NETWORKS) {
        mistakes.add(network.span(), format!("a point announces at most {MAX_NETWORKS} networks"));
    }
    for network in &file.networks {
        if let Err(text) = check_network(network.get_ref()) {
            mistakes.add(network.span(), text);
        }
    }
    Place {
        name: file.place.as_ref().map(|name| name.get_ref().clone()),
        coordinates,
        networks: file.networks.iter().map(|network| network.get_ref().clone()).collect(),
    }
}

fn alerts(file: &Spanned<FileAlerts>, mistakes: &mut Mistakes) -> Option<Alerts> {
    let FileAlerts { webhook, command, mail, alertmanager } = file.get_ref();
    if webhook.is_none() && command.is_none() && mail.is_none() && alertmanager.is_none() {
        mistakes.add(file.span(), "alerts need a webhook, a command, a mail address or an alertmanager");
    }
    if let Some(command) = command
        && command.get_ref().is_empty()
    {
        mistakes.add(command.span(), "the command is empty");
    }
    if let Some(mail) = mail
        && (!mail.get_ref().contains('@')
            || mail.get_ref().contains(|c: char| c.is_whitespace() || c.is_control()))
    {
        mistakes.add(mail.span(), format!("{:?} is not a mail address", mail.get_ref()));
    }
    let webhook = webhook.as_ref().and_then(|text| mistakes.parse(text));
    let alertmanager = alertmanager.as_ref().and_then(|text| mistakes.parse(text));
    Some(Alerts {
        webhook,
        alertmanager,
        command: command.as_ref().map(|command| command.get_ref().clone()).filter(|words| !words.is_empty()),
        mail: mail.as_ref().map(|mail| mail.get_ref().clone()),
    })
}

fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some(first..=last)
}
