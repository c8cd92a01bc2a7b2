//! The configuration of a point, TOML. Mistakes are shown with their position, as those of scenario files.

use std::{
    collections::BTreeSet,
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
    archive::EACH,
    files,
    mesh::{MAX_NETWORKS, check_name, check_network, check_text},
    recurring::{OtherEnds, name_to, to_each_point},
    test::{
        Kind, OptionMistake, OtherEnd, ServerProtocol, ServerService, TestOptions, TestParameters,
        parameters_of,
    },
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
/// The keys that must precede the first table.
const MAIN_KEYS: [&str; 9] =
    ["name", "listen", "address", "state", "limits", "test_ports", "clock_error", "padding", "results_to"];
/// An option of `longfat test` that recurring tests do not have: a result is that of the direction from the point that leads.
const REVERSE: &str = "reverse";
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
    /// The recurring tests that it leads to points and servers that the file names.
    pub tests: Vec<Task>,
    /// The recurring tests that it leads to each other point of the mesh; they have no other end.
    pub tests_to_each: Vec<Task>,
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
    host: Option<Spanned<String>>,
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
    to: Spanned<OtherEnds>,
    kind: Spanned<String>,
    duration: Option<Spanned<String>>,
    rate: Option<Spanned<String>>,
    congestion: Option<Spanned<String>>,
    parallel: Option<Spanned<u32>>,
    omit: Option<Spanned<String>>,
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
            tests_to_each,
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

impl Config {
    /// All recurring tests that this point leads in a mesh with these members. If a test to each point gets the name of another test, because
    /// a point has joined, that other test has precedence.
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

    /// Replaces the tests, their servers and the limits by those of `new`.
    pub(crate) fn replace_tests(&mut self, new: Config) {
        self.limits = new.limits;
        self.limits_file = new.limits_file;
        self.servers = new.servers;
        self.tests = new.tests;
        self.tests_to_each = new.tests_to_each;
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

/// The recurring tests of a table of the file: one for each other end that it names; for each other point of the mesh, one without an end.
/// Empty if the table has mistakes.
fn tasks(
    own: &PointName,
    test: &FileTest,
    members: Option<&Members>,
    servers: &[ServerService],
    mistakes: &mut Mistakes,
) -> Vec<Task> {
    let before = mistakes.0.len();
    let ends = other_ends(own, test, members, servers, mistakes);
    let Some((task, options)) = task(own, test, mistakes).filter(|_| mistakes.0.len() == before) else {
        return Vec::new();
    };
    let has_many = matches!(test.to.get_ref(), OtherEnds::Listed(_));
    let with_end = |(name, end): (&str, OtherEnd)| {
        let (peer, server) = end.into_parts();
        Task {
            name: if has_many { name_to(&task.name.0, name) } else { task.name.clone() },
            spec: Spec {
                peer,
                test: Test { parameters: parameters_of(&options, &server), ..task.spec.test.clone() },
                ..task.spec.clone()
            },
            ..task.clone()
        }
    };
    match test.to.get_ref() {
        OtherEnds::EachPoint => vec![task],
        OtherEnds::One(_) | OtherEnds::Listed(_) => ends.into_iter().map(with_end).collect(),
    }
}

/// The named other ends of a recurring test that can be used.
fn other_ends<'a>(
    own: &PointName,
    test: &'a FileTest,
    members: Option<&Members>,
    servers: &[ServerService],
    mistakes: &mut Mistakes,
) -> Vec<(&'a str, OtherEnd)> {
    let names = match test.to.get_ref() {
        OtherEnds::EachPoint => Vec::new(),
        OtherEnds::One(name) => vec![(name.as_str(), test.to.span())],
        OtherEnds::Listed(names) => {
            if names.is_empty() {
                mistakes.add(test.to.span(), "the list of other ends is empty");
            }
            names.iter().map(|name| (name.get_ref().as_str(), name.span())).collect()
        }
    };
    let kind = test.kind.get_ref().parse::<Kind>().ok();
    let mut ends: Vec<(&str, OtherEnd)> = Vec::new();
    for (name, span) in names {
        if ends.iter().any(|(known, _)| *known == name) {
            mistakes.add(span, format!("{name} is named twice"));
        } else if let Some(end) = other_end(own, name, span, kind, members, servers, mistakes) {
            ends.push((name, end));
        }
    }
    ends
}

/// The other end of this name.
fn other_end(
    own: &PointName,
    name: &str,
    span: Range<usize>,
    kind: Option<Kind>,
    members: Option<&Members>,
    servers: &[ServerService],
    mistakes: &mut Mistakes,
) -> Option<OtherEnd> {
    let to = PointName(name.into());
    let server = kind.map_or(Ok(None), |kind| OtherEnd::of_server(servers, own, own, name, kind));
    let server = server.map_err(|text| mistakes.add(span.clone(), text)).ok()?;
    if server.is_some() {
        return server;
    }
    if to == *own {
        mistakes.add(span, "the other end is this point itself");
        return None;
    }
    if name == EACH {
        let help = "write to = \"*\" instead of the list";
        mistakes.add_help(span, "a list names each other end", help);
        return None;
    }
    if let Some(members) = members
        && members.address(&to).is_none()
    {
        let names: Vec<&str> = members
            .members
            .iter()
            .filter(|Member { name, .. }| name != own)
            .map(|member| member.name.0.as_str())
            .collect();
        let known = if names.is_empty() { "none yet".into() } else { names.join(", ") };
        let help = format!("other points: {known}");
        mistakes.add_help(span, format!("no point of the mesh has the name {name:?}"), help);
        return None;
    }
    Some(OtherEnd::Point(to))
}

/// A recurring test of the file without its other end, and its options.
fn task(own: &PointName, test: &FileTest, mistakes: &mut Mistakes) -> Option<(Task, TestOptions)> {
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
    let omit = test.omit.as_ref().map(|text| mistakes.parse::<Time>(text));
    let options = TestOptions {
        congestion: test.congestion.as_ref().map(|name| name.get_ref().clone()),
        parallel: test.parallel.as_ref().map_or(1, |streams| *streams.get_ref()),
        omit: omit.unwrap_or(Some(Time::ZERO))?,
    };
    let parameters = TestParameters {
        kind: kind?,
        // As in `longfat test` and pSConfig, the omitted start precedes the duration; the slot has both.
        duration: duration.unwrap_or(Some(kind?.default_duration()))? + options.omit,
        rate: rate.unwrap_or(None),
    };
    if let Err(text) = parameters.check() {
        mistakes.add(test.kind.span(), text);
    }
    if let Err(OptionMistake { option, text }) = options.check(&parameters) {
        let spans = [
            ("congestion", test.congestion.as_ref().map(Spanned::span)),
            ("parallel", test.parallel.as_ref().map(Spanned::span)),
            ("omit", test.omit.as_ref().map(Spanned::span)),
        ];
        let span = spans.into_iter().find(|(name, _)| *name == option).and_then(|(_, span)| span);
        mistakes.add(span.unwrap_or(test.kind.span()), text);
    }
    let every = every?;
    let slip = slip.unwrap_or(Some(every / 2))?;
    let task = Task {
        name: test.name.get_ref().as_str().into(),
        lead: own.clone(),
        spec: Spec {
            peer: None,
            user: Some(format!("{RECURRING_USER}@{own}")),
            test: Test { parameters: parameters_of(&options, ""), ..parameters.test() },
            class: parameters.class(),
            priority: test.priority,
            duration: parameters.duration,
            earliest: Time::ZERO,
            latest: Time::ZERO,
        },
        // Counted from the epoch: occurrences keep their numbers across restarts, and an hourly test starts at the full
        // hour.
        recurrence: Recurrence {
            first: offset.unwrap_or(Some(Time::ZERO))?,
            every,
            slip,
            random_start: test.random_start,
            until: None,
            max_runs: None,
        },
    };
    Some((task, options))
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
        // The point's own tests may displace any tests at this point.
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
    use reservation::{Class, Transport};

    use super::*;

    const LIMITS: &str = "[classes.mesh]\nmax_duration = \"60s\"\n[assign]\ndefault = \"mesh\"\n";

    fn parse(text: &str) -> Result<Config, Error> {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("limits.toml"), LIMITS).unwrap();
        Config::parse("agent.toml", text, directory.path(), &files::read)
    }

    #[test]
    fn the_template_is_valid_with_and_without_its_commented_keys() {
        let config = parse(&crate::template::config("a", "[::]:4862", "a.example:4862")).unwrap();
        assert_eq!((config.name.0.as_str(), config.address.as_str()), ("a", "a.example:4862"));
        assert_eq!(config.test_ports, 5202..=5299);
        // The keys that it comments out are valid too.
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
        let spec = &config.tests[0].spec;
        assert_eq!(spec.test.parameters, "options/1 congestion=cubic parallel=4 omit=2s");
        assert_eq!(spec.duration, Time::from_secs(12), "the slot includes the omitted start");
        assert_eq!(config.http.unwrap().port(), 4863);
        assert_eq!(config.results_to, [PointName("b".into())]);
        let services: Vec<String> = config.servers.iter().map(ToString::to_string).collect();
        assert_eq!(
            services,
            ["far host 0 www.example", "far iperf3 5201 iperf.example", "far twamp 862 ps.example"]
        );
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

    /// The configuration of a point `a` with these members, which has `tests`.
    fn with_members(tests: &str, others: &[&str]) -> (Result<Config, Error>, Members) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("limits.toml"), LIMITS).unwrap();
        let mut members = Members::of_one("a".into(), "a.example:4862");
        for name in others {
            members.set((*name).into(), &format!("{name}.example:4862"));
        }
        std::fs::create_dir(directory.path().join("state")).unwrap();
        members.write(&directory.path().join("state")).unwrap();
        let text = crate::template::config("a", "[::]:4862", "a.example:4862") + tests;
        (Config::parse("agent.toml", &text, directory.path(), &files::read), members)
    }

    #[test]
    fn a_test_may_have_several_other_ends() {
        let table = |name: &str, to: &str| {
            format!(
                "[[tests]]\nname = \"{name}\"\nto = {to}\nkind = \"throughput\"\nparallel = 2\nevery = \"1h\"\n"
            )
        };
        let server = "[[servers]]\nname = \"far\"\niperf3 = \"192.0.2.7\"\n";
        let tests =
            table("all", "\"*\"") + &table("some", "[\"c\", \"far\"]") + &table("one", "\"b\"") + server;
        let (config, mut members) = with_members(&tests, &["b", "c"]);
        let config = config.unwrap();
        let ends = |members: &Members| {
            let end = |task: &Task| {
                let peer = task.spec.peer.as_ref().map_or("-", |peer| peer.0.as_str());
                format!("{} {peer} {}", task.name, task.spec.test.parameters)
            };
            config.tasks(members).iter().map(end).collect::<Vec<_>>()
        };
        let now = [
            "some-c c options/1 parallel=2",
            "some-far - options/1 parallel=2 far iperf3 5201 192.0.2.7",
            "one b options/1 parallel=2",
            "all-b b options/1 parallel=2",
            "all-c c options/1 parallel=2",
        ];
        assert_eq!(ends(&members), now);
        // A point joins, and leaves.
        members.set("d".into(), "d.example:1");
        let later = ends(&members);
        assert_eq!((later.len(), later[5].as_str()), (6, "all-d d options/1 parallel=2"));
        members.remove(&"d".into());
        assert_eq!(ends(&members), now);
        // A name that a later point brings about does not replace a test.
        let (config, mut members) = with_members(&(table("t", "\"*\"") + &table("t-c", "\"b\"")), &["b"]);
        members.set("c".into(), "c.example:1");
        let tasks = config.unwrap().tasks(&members);
        let tasks: Vec<(&str, &str)> = tasks
            .iter()
            .map(|task| (task.name.0.as_str(), task.spec.peer.as_ref().unwrap().0.as_str()))
            .collect();
        assert_eq!(tasks, [("t-c", "b"), ("t-b", "b")]);
        for (tests, part) in [
            (table("t", "[\"b\", \"z\"]"), ":3:12: no point of the mesh has the name \"z\""),
            (table("t", "[\"b\", \"b\"]"), ":3:12: b is named twice"),
            (
                table("t", "[\"*\"]"),
                ":3:7: a list names each other end; write to = \"*\" instead of the list",
            ),
            (table("t", "[]"), ":3:6: the list of other ends is empty"),
            (table("t", "[\"a\"]"), ":3:7: the other end is this point itself"),
            (table("t", "\"*\"") + &table("t-b", "\"b\""), "two tests have the name \"t-b\""),
        ] {
            // Lines are counted from the end of the template.
            let first = crate::template::config("a", "[::]:4862", "a.example:4862").lines().count();
            let part =
                part.strip_prefix(":3:").map_or(part.to_string(), |part| format!(":{}:{part}", first + 3));
            let error = with_members(&tests, &["b"]).0.unwrap_err().to_string();
            assert!(error.contains(&part), "{error}\nhas no\n{part}");
        }
    }

    #[test]
    fn mistakes_in_options_have_positions() {
        let base = crate::template::config("a", "[::]:4862", "a.example:4862");
        let line = base.lines().count() + 5;
        let with = |kind: &str, option: &str| {
            let test =
                format!("[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"{kind}\"\n{option}\nevery = \"1h\"\n");
            parse(&format!("{base}{test}")).map(drop).map_err(|error| error.to_string())
        };
        for (kind, option, column, part) in [
            ("throughput", "parallel = 129", 12, "a test has 1 to 128 streams"),
            ("throughput", "congestion = \"BBR\"", 14, "\"BBR\" is not the name of a congestion control"),
            ("throughput", "omit = \"11min\"", 8, "the omitted start has whole milliseconds"),
            ("throughput", "omit = \"soon\"", 8, ""),
            ("latency", "parallel = 2", 12, "a test of the kind latency has no option parallel"),
            ("diagnose", "omit = \"1s\"", 8, "a test of the kind diagnose has no option omit"),
        ] {
            let error = with(kind, option).unwrap_err();
            let position = format!("agent.toml:{line}:{column}: {part}");
            assert!(error.contains(&position), "{error}\nhas no\n{position}");
        }
        let error = with("throughput", "reverse = true").unwrap_err();
        assert!(error.contains("a recurring test sends from this point; for the other direction"), "{error}");
        assert_eq!(with("throughput", "parallel = 128"), Ok(()));
    }

    #[test]
    fn keys_that_a_running_agent_does_not_apply_are_named() {
        let base = crate::template::config("a", "[::]:4862", "a.example:4862");
        let old = parse(&base).unwrap();
        let test = "[[tests]]\nname = \"t\"\nto = \"b\"\nkind = \"latency\"\nevery = \"1h\"\n";
        // Each configuration is parsed in a directory of its own.
        let parse = |text: &str| Config { state: old.state.clone(), ..parse(text).unwrap() };
        assert_eq!(old.keys_for_restart(&parse(&format!("{base}{test}"))), Vec::<&str>::new());
        let new = parse(&(base.replace("5202-5299", "6000-6010") + "[http]\nlisten = \"127.0.0.1:4863\"\n"));
        assert_eq!(old.keys_for_restart(&new), ["test_ports", "[http]"]);
        let mut config = old.clone();
        config.replace_tests(parse(&format!("{base}{test}")));
        assert_eq!((config.tests.len(), config.test_ports), (1, 5202..=5299));
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
        // The path to any server can be traced; `host` names the host if there are several.
        for (server, parameters) in [
            ("name = \"far\"\nhost = \"www.example\"", "far host 0 www.example"),
            ("name = \"far\"\ntwamp = \"ps.example\"", "far twamp 862 ps.example"),
            ("name = \"far\"\ntwamp = \"ps.example\"\nhost = \"192.0.2.7\"", "far host 0 192.0.2.7"),
        ] {
            let config = with(server, "trace").unwrap();
            let spec = &config.tests[0].spec;
            assert_eq!((spec.test.parameters.as_str(), spec.class), (parameters, Class::Background));
            assert_eq!((spec.duration, spec.test.transport), (Time::from_secs(60), Transport::Other));
        }
        for (server, kind, part) in [
            (
                "name = \"far\"\nstamp = \"192.0.2.7\"",
                "throughput",
                "no service for a test of the kind throughput",
            ),
            ("name = \"far\"", "latency", "the server has no service"),
            ("name = \"far\"\nhost = \"192.0.2.7\"", "latency", "must name its twamp or stamp or owamp"),
            ("name = \"far\"\nhost = \"www.example:80\"", "trace", "\"www.example:80\" is not a host"),
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
