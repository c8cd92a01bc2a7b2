//! The configuration of a point, TOML. Mistakes are shown with their position, as those of scenario files.

use std::{
    net::SocketAddr,
    ops::{Range, RangeInclusive},
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use limits::{Limits, TestRequest, Usage};
use reservation::{PointName, Recurrence, Settings, Spec, Task, Test};
use serde::Deserialize;
use toml::Spanned;
use units::{BitRate, Time};

use crate::{
    Alerts, Clock, Coordinates, Error, Member, Members, Place, PostgresAddress, Retention,
    address::host_and_port,
    files,
    mesh::{MAX_NETWORKS, check_name, check_network, check_text},
    test::{Kind, OtherEnd, ServerProtocol, ServerService, TestParameters},
};

/// The default port of agents; unassigned by IANA.
pub const DEFAULT_PORT: u16 = 4862;
/// The shortest time between two occurrences of a recurring test.
const MIN_EVERY: Time = Time::from_secs(1);
/// Padding for the start and the end of a test: connections, the exchange of results, the record. The clocks' errors and two
/// round trips are added.
const BASE_PADDING: Time = Time::from_secs(2);
/// A point's certificate is valid for 825 days; the authority may be unreachable for weeks.
const RENEW_BEFORE: Duration = Duration::from_secs(60 * 86_400);
/// The keys above the first table.
const MAIN_KEYS: [&str; 9] =
    ["name", "listen", "address", "state", "limits", "test_ports", "clock_error", "padding", "results_to"];
/// The user for whom recurring tests are reserved.
pub(crate) const RECURRING_USER: &str = "recurring";

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
    /// Its limits.
    pub limits: Limits,
    /// The limits file.
    pub limits_file: PathBuf,
    /// Ports of tests.
    pub test_ports: RangeInclusive<u16>,
    /// The source of UTC.
    pub clock: Clock,
    /// Servers outside the mesh, as ends of its tests.
    pub servers: Vec<ServerService>,
    /// The recurring tests that it leads.
    pub tests: Vec<Task>,
    /// Points that get a copy of each result of this one.
    pub results_to: Vec<PointName>,
    /// Where the HTTP interface listens.
    pub http: Option<SocketAddr>,
    /// The common archive of the mesh, in addition to the embedded one.
    pub postgres: Option<PostgresAddress>,
    /// How long results are kept.
    pub retention: Retention,
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
    tests: Vec<Spanned<FileTest>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileServer {
    name: Spanned<String>,
    iperf3: Option<Spanned<String>>,
    twamp: Option<Spanned<String>>,
    stamp: Option<Spanned<String>>,
    owamp: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileHttp {
    listen: Spanned<String>,
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

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTest {
    name: Spanned<String>,
    to: Spanned<String>,
    kind: Spanned<String>,
    duration: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    every: Spanned<String>,
    offset: Option<Spanned<String>>,
    slip: Option<Spanned<String>>,
    #[serde(default)]
    random_start: bool,
    #[serde(default)]
    priority: i32,
}

/// The mistakes found so far.
#[derive(Default)]
struct Mistakes(Vec<(Range<usize>, String, Option<String>)>);

impl Mistakes {
    fn add(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.0.push((at, message.into(), None));
    }

    fn add_help(&mut self, at: Range<usize>, message: impl Into<String>, help: impl Into<String>) {
        self.0.push((at, message.into(), Some(help.into())));
    }

    fn parse<T: FromStr<Err: ToString>>(&mut self, text: &Spanned<String>) -> Option<T> {
        let parsed = text.get_ref().parse();
        parsed.map_err(|error: T::Err| self.add(text.span(), error.to_string())).ok()
    }
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
                match key.filter(|key| MAIN_KEYS.contains(key)) {
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
        let servers = servers(&file.servers, members.as_ref(), &mut mistakes);
        let mut tests: Vec<Task> = Vec::new();
        for test in &file.tests {
            let task = task(&own, test.get_ref(), members.as_ref(), &servers, &mut mistakes);
            let Some(task) = task else { continue };
            if tests.iter().any(|other| other.name == task.name) {
                let text = format!("two tests have the name {:?}", task.name.0);
                mistakes.add(test.get_ref().name.span(), text);
            }
            if let Some(limits) = &limits {
                let decision = limits.decide(&test_request(&own, &task), &Usage::default());
                if !decision.is_allowed() {
                    let text = format!("the limits of this point do not allow it: {decision}");
                    let help = format!("change {}", limits_file.display());
                    mistakes.add_help(test.get_ref().name.span(), text, help);
                }
            }
            tests.push(task);
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
        let http = file.http.as_ref().and_then(|http| {
            let listen = http.listen.get_ref().parse::<SocketAddr>();
            let text = format!("{:?} is not an address and port to listen on", http.listen.get_ref());
            let help = "the form is ADDRESS:PORT, as in 127.0.0.1:4863";
            listen.map_err(|_| mistakes.add_help(http.listen.span(), text, help)).ok()
        });
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
        let alerts = file.alerts.as_ref().and_then(|alerts| self::alerts(alerts, &mut mistakes));
        let place = place(&file.directory, &mut mistakes);
        let padding =
            file.padding.as_ref().and_then(|text| mistakes.parse::<Time>(text)).unwrap_or(BASE_PADDING);
        let (Some(limits), Ok(listen), Some(test_ports), true) =
            (limits, listen, test_ports, mistakes.0.is_empty())
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
            test_ports,
            clock: Clock { error: clock_error, ..Clock::default() },
            servers,
            tests,
            results_to,
            http,
            postgres,
            retention,
            alerts,
            place,
            renew_before: RENEW_BEFORE,
            settings: Settings { base_padding: padding, ..Settings::default() },
        })
    }
}

impl Mistakes {
    fn into_error(self, name: &str, text: &str) -> Error {
        match scenario::Error::of(name, text, self.0) {
            Some(error) => Error::Config(error),
            None => Error::Refused(format!("{name} is not the configuration of an agent")),
        }
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
        let addresses = [&file.iperf3, &file.twamp, &file.stamp, &file.owamp];
        for (protocol, address) in ServerProtocol::ALL.into_iter().zip(addresses) {
            let Some(address) = address else { continue };
            match ServerService::new(name, protocol, address.get_ref()) {
                Ok(service) => services.push(service),
                Err(text) => mistakes.add(address.span(), text),
            }
        }
        if addresses.iter().all(|address| address.is_none()) {
            let help = "name one of iperf3, twamp, stamp and owamp, as in iperf3 = \"iperf.example:5201\"";
            mistakes.add_help(file.name.span(), "the server has no service", help);
        }
    }
    services
}

/// A recurring test of the file.
fn task(
    own: &PointName,
    test: &FileTest,
    members: Option<&Members>,
    servers: &[ServerService],
    mistakes: &mut Mistakes,
) -> Option<Task> {
    let before = mistakes.0.len();
    let kind = mistakes.parse::<Kind>(&test.kind);
    let duration = test.duration.as_ref().map(|text| mistakes.parse::<Time>(text));
    let rate = test.rate.as_ref().map(|text| mistakes.parse::<BitRate>(text));
    let every = mistakes.parse::<Time>(&test.every);
    let slip = test.slip.as_ref().map(|text| mistakes.parse::<Time>(text));
    let offset = test.offset.as_ref().map(|text| mistakes.parse::<Time>(text));
    if let (Some(text), Some(Some(offset)), Some(every)) = (&test.offset, offset, every)
        && offset >= every
    {
        mistakes.add(text.span(), format!("the offset must be shorter than every = {every}"));
    }
    if every.is_some_and(|every| every < MIN_EVERY) {
        mistakes.add(test.every.span(), format!("the shortest interval of recurring tests is {MIN_EVERY}"));
    }
    let to = PointName(test.to.get_ref().clone());
    let server = kind.map_or(Ok(None), |kind| OtherEnd::of_server(servers, own, own, &to.0, kind));
    if let Err(text) = &server {
        mistakes.add(test.to.span(), text);
    } else if to == *own {
        mistakes.add(test.to.span(), "the other end is this point itself");
    } else if let (Some(members), Ok(None)) = (members, &server)
        && members.address(&to).is_none()
    {
        let names: Vec<&str> = members
            .members
            .iter()
            .filter(|Member { name, .. }| name != own)
            .map(|member| member.name.0.as_str())
            .collect();
        let known = if names.is_empty() { "none yet".into() } else { names.join(", ") };
        mistakes.add_help(test.to.span(), format!("no point of the mesh has the name {:?}", to.0), {
            format!("other points: {known}")
        });
    }
    let parameters = TestParameters {
        kind: kind?,
        duration: duration.unwrap_or(Some(kind?.default_duration()))?,
        rate: rate.unwrap_or(None),
    };
    if let Err(text) = parameters.check() {
        mistakes.add(test.kind.span(), text);
    }
    if mistakes.0.len() > before {
        return None;
    }
    let every = every?;
    let slip = slip.unwrap_or(Some(every / 2))?;
    let (peer, server) = server.ok()?.unwrap_or(OtherEnd::Point(to)).into_parts();
    Some(Task {
        name: test.name.get_ref().as_str().into(),
        lead: own.clone(),
        spec: Spec {
            peer,
            user: Some(format!("{RECURRING_USER}@{own}")),
            test: Test { parameters: server, ..parameters.test() },
            class: parameters.class(),
            priority: test.priority,
            duration: parameters.duration,
            earliest: Time::ZERO,
            latest: Time::ZERO,
        },
        // From the epoch: occurrences keep their numbers over restarts, and an hourly test starts at the full hour.
        recurrence: Recurrence {
            first: offset.unwrap_or(Some(Time::ZERO))?,
            every,
            slip,
            random_start: test.random_start,
            until: None,
            max_runs: None,
        },
    })
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

/// The request of a recurring test, as the limits see it.
fn test_request(own: &PointName, task: &Task) -> TestRequest {
    TestRequest {
        user: Some(format!("{RECURRING_USER}@{own}")),
        address: None,
        other_end: None,
        is_with_server: false,
        transport: task.spec.test.transport,
        rate: task.spec.test.rate,
        duration: task.spec.duration,
        starts_in: Time::ZERO,
        time_error: Time::ZERO,
        // The point's own tests may displace what they want here.
        priority: None,
    }
}

fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = (port(first)?, port(last)?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: &str = "[classes.mesh]\nmax_duration = \"60s\"\n[assign]\ndefault = \"mesh\"\n";

    fn parse(text: &str) -> Result<Config, Error> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("limits.toml"), LIMITS).unwrap();
        Config::parse("agent.toml", text, directory.path(), &files::read)
    }

    #[test]
    fn the_template_is_valid_and_complete() {
        let config = parse(&crate::template::config("a", "[::]:4862", "a.example:4862")).unwrap();
        assert_eq!((config.name.0.as_str(), config.address.as_str()), ("a", "a.example:4862"));
        assert_eq!(config.test_ports, 5202..=5299);
        // Its commented keys are valid too.
        let text = crate::template::config("a", "[::]:4862", "a.example:4862");
        let is_key = |line: &&str| {
            line.starts_with('[') || line.split_once(" = ").is_some_and(|(key, _)| !key.contains(' '))
        };
        let uncommented =
            |line: &str| line.strip_prefix("# ").filter(is_key).unwrap_or(line).to_owned() + "\n";
        let complete: String = text.lines().map(uncommented).collect();
        let complete = complete.replace("[\"a\"]", "[\"b\"]");
        let config = parse(&complete).unwrap();
        assert_eq!(config.tests.len(), 1);
        assert_eq!(config.tests[0].recurrence.every, Time::from_secs(3600));
        assert_eq!(config.http.unwrap().port(), 4863);
        assert_eq!(config.results_to, [PointName("b".into())]);
        let services: Vec<String> = config.servers.iter().map(ToString::to_string).collect();
        assert_eq!(services, ["far iperf3 5201 iperf.example", "far twamp 862 ps.example"]);
        assert_eq!(config.retention, Retention::default());
        assert!(config.postgres.is_some());
        assert_eq!(config.place.name.as_deref(), Some("Kashima, Japan"));
        let alerts = config.alerts.unwrap();
        assert_eq!(alerts.mail.as_deref(), Some("noc@example.org"));
        assert!(alerts.alertmanager.is_some());
    }

    #[test]
    fn all_mistakes_are_shown_with_their_positions() {
        let text = r#"name = "A"
listen = "4862"
address = "a.example"
state = "state"
limits = "limits.toml"
test_ports = "9-2"
clock_error = "soon"

[[tests]]
name = "t"
to = "A"
kind = "throughput"
every = "10ms"

[[tests]]
name = "long"
to = "b"
kind = "throughput"
duration = "90s"
every = "1h"
"#;
        let error = parse(text).unwrap_err().to_string();
        let lines: Vec<&str> = error.lines().collect();
        for (line, part) in lines.iter().zip([
            "agent.toml:1:8: \"A\" is not a valid point name",
            "agent.toml:2:10: \"4862\" is not an address and port to listen on",
            "agent.toml:3:11: \"a.example\" is not an address; the form is HOST:PORT",
            "agent.toml:6:14: \"9-2\" is not a range of ports",
            "agent.toml:7:15: ",
            "agent.toml:11:6: the other end is this point itself",
            "agent.toml:13:9: the shortest interval of recurring tests is",
            "agent.toml:16:8: the limits of this point do not allow it: refused by max_duration of class mesh",
        ]) {
            assert!(line.starts_with(part), "{line}\nis not\n{part}");
        }
        assert_eq!(lines.len(), 8, "{error}");
    }

    #[test]
    fn mistakes_in_tables_have_positions() {
        let text = crate::template::config("a", "[::]:4862", "a.example:4862")
            + "[http]\nlisten = \"4863\"\n[archive]\npostgres = \"dbname=x\"\n[retention]\nrecords_days = 9\ntests_days = 8\n[alerts]\nwebhook = \"x\"\ncommand = []\n\
               mail = \"a b@c\"\nalertmanager = \"http://localhost:9093/api/v2/alerts\"\n";
        let error = parse(&text).unwrap_err().to_string();
        for part in [
            "\"4863\" is not an address and port to listen on",
            "the host is missing",
            "records would be kept for 9 d, longer than the 8 d of their tests",
            "\"x\" is not the address of a webhook",
            "the command is empty",
            "\"a b@c\" is not a mail address",
            "\"http://localhost:9093/api/v2/alerts\" is not the address of an Alertmanager",
        ] {
            assert!(error.contains(part), "{error}\nhas no\n{part}");
        }
        let empty = crate::template::config("a", "[::]:4862", "a.example:4862") + "[alerts]\n";
        let error = parse(&empty).unwrap_err().to_string();
        assert!(error.contains("need a webhook, a command, a mail address or an alertmanager"), "{error}");
    }

    #[test]
    fn servers_need_a_service_of_the_kind_of_test() {
        let base = crate::template::config("a", "[::]:4862", "a.example:4862");
        let task = "[[tests]]\nname = \"t\"\nto = \"far\"\nevery = \"1h\"\nkind = ";
        let with =
            |server: &str, kind: &str| parse(&format!("{base}\n[[servers]]\n{server}\n{task}\"{kind}\"\n"));
        let config = with("name = \"far\"\nstamp = \"192.0.2.7\"", "latency").unwrap();
        let spec = &config.tests[0].spec;
        assert_eq!((spec.peer.as_ref(), spec.test.parameters.as_str()), (None, "far stamp 862 192.0.2.7"));
        for (server, kind, part) in [
            (
                "name = \"far\"\nstamp = \"192.0.2.7\"",
                "throughput",
                "no service for a test of the kind throughput",
            ),
            ("name = \"far\"", "latency", "the server has no service"),
            ("name = \"far\"\ntwamp = \"a b\"", "latency", "\"a b\" is not an address"),
            ("name = \"F\"\ntwamp = \"x\"", "latency", "\"F\" is not a valid point name"),
        ] {
            let error = with(server, kind).unwrap_err().to_string();
            assert!(error.contains(part), "{error}\nhas no\n{part}");
        }
    }

    #[test]
    fn places_are_checked() {
        let base = crate::template::config("a", "[::]:4862", "a.example:4862");
        let with = |directory: &str| parse(&format!("{base}\n[directory]\n{directory}\n"));
        let config =
            with("place = \"Onsala, Sweden\"\nlatitude = 57.4\nlongitude = 11\nnetworks = [\"NORDUnet\"]");
        let place = config.unwrap().place;
        assert_eq!(place.coordinates, Some(Coordinates::new(57.4, 11.0).unwrap()));
        assert_eq!((place.name.as_deref(), place.networks.len()), (Some("Onsala, Sweden"), 1));
        for (directory, part) in [
            ("latitude = 57.4", "coordinates need a latitude and a longitude"),
            ("latitude = 97.4\nlongitude = 11.9", "the latitude 97.4 is not between"),
            ("place = \"\"", "the place is empty"),
            ("networks = [\"192.0.2.1/24\"]", "has bits after its prefix"),
            (&format!("networks = {:?}", vec!["n"; 33]), "at most 32 networks"),
        ] {
            let error = with(directory).unwrap_err().to_string();
            assert!(error.contains(part), "{error}\nhas no\n{part}");
        }
    }

    #[test]
    fn keys_below_a_table_that_belong_above_it_are_explained() {
        let base = crate::template::config("a", "[::]:4862", "a.example:4862");
        for table in ["[http]\nlisten = \"127.0.0.1:4863\"", "[retention]", "[[tests]]\nname = \"t\""] {
            let error = parse(&format!("{base}\n{table}\nresults_to = [\"b\"]\n")).unwrap_err().to_string();
            assert!(error.contains("`results_to` is not a key of this table"), "{error}");
            assert!(error.contains("above the first [table]"), "{error}");
        }
    }

    #[test]
    fn unknown_keys_have_a_position() {
        let error = parse("name = \"a\"\nlisten_on = \"x\"\n").unwrap_err().to_string();
        assert!(error.starts_with("agent.toml:2:1: unknown field `listen_on`"), "{error}");
    }
}
