//! Requests of local users to a running agent, over a Unix socket in its state directory: one frame for the
//! request and one for the reply.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    Acknowledgement, Error, Filter, Kind, Mute, Scope, TestRow, TransferReport,
    framing::{MAX_FRAME_BYTES, encode},
};

/// Timeout of each step of an exchange.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The schema of the JSON documents for programs.
pub(crate) const SCHEMA: &str = "longfat.mesh/1";

/// The socket of an agent.
pub(crate) fn socket(state: &Path) -> PathBuf {
    state.join("control.sock")
}

/// A request of a local user.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "request")]
pub(crate) enum Request {
    /// Requests the [`Status`].
    Status,
    /// Requests a [`CalendarReport`].
    Calendar {
        /// How far into the future, seconds.
        seconds: u64,
        /// Another point, to which the request is forwarded.
        #[serde(default)]
        point: Option<String>,
    },
    /// Reserves a test; the reply is [`Explained`].
    Reserve {
        /// The test.
        test: NewReservation,
        /// The name of the token of the program that requests it; `None`: a user does.
        #[serde(default)]
        token: Option<String>,
    },
    /// Cancels a reservation; the reply is [`Explained`].
    Cancel {
        /// The reservation.
        id: String,
        /// The reason.
        text: String,
        /// The name of a program's token; without the scope `cancel` a program may cancel its own
        /// reservations only.
        #[serde(default)]
        token: Option<String>,
    },
    /// Reports an application's transfer; the reply is [`Explained`].
    Report {
        /// The reservation.
        id: String,
        /// The transfer as the application measured it.
        report: TransferReport,
        /// The name of the program's token; a program may report its own transfers only.
        #[serde(default)]
        token: Option<String>,
    },
    /// Requests the explanation of a reservation; the reply is a list of [`Explained`].
    Why {
        /// The reservation.
        id: String,
    },
    /// Requests the [`AlertsReport`].
    Alerts,
    /// Acknowledges a cause; the reply is the [`AlertsReport`].
    Acknowledge {
        /// The pair.
        pair: PairName,
        /// Start of the cause; `None`: the current cause.
        since_us: Option<i64>,
        /// A note.
        text: String,
        /// The name of a program's token.
        #[serde(default)]
        token: Option<String>,
    },
    /// Mutes alerts; the reply is the [`AlertsReport`].
    Mute {
        /// The pair; `*` stands for each point.
        pair: PairName,
        /// From now on; 0 ends a mute.
        seconds: u64,
        /// A note.
        text: String,
        /// The name of a program's token.
        #[serde(default)]
        token: Option<String>,
    },
    /// Requests rows of the archive, [`TestRow`].
    Results {
        /// Selects the tests.
        filter: Filter,
    },
    /// Removes a member; at the authority only.
    Expel {
        /// Its name.
        name: String,
    },
}

impl Request {
    /// The scopes of which the requester needs one. Reservations of others need [`Scope::Cancel`].
    pub fn scopes(&self) -> &'static [Scope] {
        match self {
            Request::Status
            | Request::Calendar { .. }
            | Request::Why { .. }
            | Request::Alerts
            | Request::Results { .. } => &[Scope::Read],
            Request::Reserve { .. } => &[Scope::Reserve],
            Request::Cancel { .. } => &[Scope::Reserve, Scope::Cancel],
            Request::Report { .. } => &[Scope::Report],
            Request::Acknowledge { .. } | Request::Mute { .. } => &[Scope::Alerts],
            Request::Expel { .. } => &[Scope::Administer],
        }
    }

    /// Whether it changes nothing.
    pub fn is_reading(&self) -> bool {
        matches!(self.scopes(), [Scope::Read])
    }

    /// The name of the token of the program that sends it.
    pub fn token(&self) -> Option<&str> {
        match self {
            Request::Reserve { token, .. }
            | Request::Cancel { token, .. }
            | Request::Report { token, .. }
            | Request::Acknowledge { token, .. }
            | Request::Mute { token, .. } => token.as_deref(),
            Request::Status
            | Request::Calendar { .. }
            | Request::Why { .. }
            | Request::Alerts
            | Request::Results { .. }
            | Request::Expel { .. } => None,
        }
    }
}

/// Time from the earliest to the latest start unless a request names one, microseconds: 10 min.
const DEFAULT_WITHIN_US: u64 = 600_000_000;

const fn default_within_us() -> u64 {
    DEFAULT_WITHIN_US
}

const fn default_parallel() -> u32 {
    1
}

/// A test that a user requests, or a slot for a program's transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewReservation {
    /// The point that leads and sends.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The kind of test: `throughput`, `latency`, `diagnose`, `probe`, `trace`, or `transfer` for the
    /// program's own transfer.
    pub kind: String,
    /// Its duration without `omit_us`, microseconds; if absent, the default of its kind.
    #[serde(default)]
    pub duration_us: Option<u64>,
    /// UDP at this rate, bit/s, of all streams together; for a transfer, the program's maximum rate; for a
    /// probe, its maximum load.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// Of a throughput test by TCP, the sender's congestion control; if absent, that of the system.
    #[serde(default)]
    pub congestion: Option<String>,
    /// Of a throughput test, the number of parallel streams, 1 to 128; 1 if absent.
    #[serde(default = "default_parallel")]
    pub parallel: u32,
    /// Of a throughput test, the time before the duration that no figure includes, microseconds in whole
    /// milliseconds. The slot has both.
    #[serde(default)]
    pub omit_us: u64,
    /// Time until the earliest start, microseconds.
    #[serde(default)]
    pub in_us: u64,
    /// Time from the earliest to the latest start, microseconds.
    #[serde(default = "default_within_us")]
    pub within_us: u64,
    /// The reservation displaces reservations of lower priority.
    #[serde(default)]
    pub priority: i32,
}

impl NewReservation {
    /// A test between two points, as soon as possible, and as if nothing else was requested.
    pub fn new(from: &str, to: &str, kind: Kind) -> NewReservation {
        NewReservation {
            from: from.into(),
            to: to.into(),
            kind: kind.name().into(),
            duration_us: None,
            rate_bps: None,
            congestion: None,
            parallel: default_parallel(),
            omit_us: 0,
            in_us: 0,
            within_us: default_within_us(),
            priority: 0,
        }
    }
}

/// The state of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// The point.
    pub name: String,
    /// How others reach it.
    pub address: String,
    /// The version of the program.
    pub version: String,
    /// Time since its start, seconds.
    pub uptime_s: u64,
    /// The assumed error of UTC, microseconds.
    pub clock_error_us: u64,
    /// The point with the authority of the mesh.
    pub authority: String,
    /// The other points.
    pub members: Vec<MemberStatus>,
    /// Number of reservations that have not ended.
    pub open_reservations: u64,
    /// The tests that run here.
    pub running: Vec<String>,
    /// The recurring tests.
    pub tests: Vec<TaskStatus>,
    /// Number of tests in the archive, by state.
    pub archive: BTreeMap<String, i64>,
    /// Results that have yet to be sent to other points.
    pub unsent_results: u64,
    /// Results that have yet to be sent to the common archive; `null` without one.
    #[serde(default)]
    pub unforwarded_results: Option<u64>,
    /// Resident memory of the process, bytes.
    pub resident_bytes: Option<u64>,
}

/// Another point.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Whether a connection is open. Connections without traffic are closed.
    pub connected: bool,
    /// Why the last connection could not be opened.
    pub failure: Option<String>,
}

/// A recurring test.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TaskStatus {
    /// Its name.
    pub name: String,
    /// The other end.
    pub to: String,
    /// The kind of test.
    pub kind: String,
    /// Nominal start of the next occurrence that is not reserved yet, microseconds since 1970.
    pub next_us: Option<u64>,
}

/// The calendar of a point.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CalendarReport {
    /// The point.
    pub point: String,
    /// The occupied slots, by their starts.
    pub slots: Vec<SlotReport>,
    /// Share of the time in which no exclusive test may run, 0 to 1.
    pub busy_share: f64,
}

/// An occupied slot.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct SlotReport {
    /// The reservation.
    pub id: String,
    /// `held`, `confirming`, `booked`, `running`.
    pub phase: String,
    /// The point that leads.
    pub from: String,
    /// The other end.
    pub to: String,
    /// The kind of test.
    pub kind: String,
    /// Its class, which determines the tests that may overlap.
    pub class: String,
    /// Start of the test, microseconds since 1970.
    pub start_us: u64,
    /// Its length, microseconds.
    pub duration_us: u64,
    /// Time kept free before and after the test, microseconds.
    pub padding_us: u64,
    /// The reservation displaces reservations of lower priority.
    pub priority: i32,
    /// The user who requested it.
    pub user: Option<String>,
}

/// Two points, in the direction of the data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PairName {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
}

/// Acknowledged causes and mutes.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct AlertsReport {
    /// The causes that are acknowledged, and have not changed since.
    pub acknowledged: Vec<Acknowledgement>,
    /// The mutes that have not ended.
    pub mutes: Vec<Mute>,
}

/// A reservation, or the occurrences of a recurring test, in words.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// The reservation.
    pub id: String,
    /// Its phase: `seeking`, `held`, `confirming`, `booked`, `running`, `finished`, `failed`, `not_run`.
    pub phase: String,
    /// Its state and the rule or the conflict, in words.
    pub text: String,
    /// Its result, if the archive has it.
    pub result: Option<TestRow>,
}

impl Explained {
    /// Whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        matches!(self.phase.as_str(), "finished" | "failed" | "not_run")
    }
}

/// The reply to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// The requested document.
    Ok(serde_json::Value),
    /// The reason why the request failed.
    Error(String),
}

/// A local user's access to a running agent.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
    /// Name of the token of the program on whose behalf requests are sent; `None`: a user.
    token: Option<String>,
}

impl Client {
    /// The agent with this state directory.
    pub fn new(state: &Path) -> Client {
        Client { socket: socket(state), token: None }
    }

    /// A client of the same agent on behalf of the program with the token of this name, which has been
    /// checked.
    pub(crate) fn for_token(&self, name: &str) -> Client {
        Client { token: Some(name.into()), ..self.clone() }
    }

    fn exchange<T: DeserializeOwned>(&self, request: &Request) -> Result<T, Error> {
        let failed = |cause| Error::NotRunning { path: self.socket.clone(), cause };
        let reply = self.call(request).map_err(failed)?;
        match reply {
            Reply::Ok(value) => serde_json::from_value(value).map_err(|error| failed(error.into())),
            Reply::Error(text) => Err(Error::Refused(text)),
        }
    }

    fn call(&self, request: &Request) -> std::io::Result<Reply> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.write_all(&encode(request)?)?;
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let length = u64::from(u32::from_be_bytes(header)).min(MAX_FRAME_BYTES as u64);
        let mut bytes = Vec::new();
        stream.take(length).read_to_end(&mut bytes)?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// The state of the agent.
    ///
    /// # Errors
    /// If the agent does not run.
    pub fn status(&self) -> Result<Status, Error> {
        self.exchange(&Request::Status)
    }

    /// The calendar of the next `time`.
    ///
    /// # Errors
    /// If the agent does not run.
    pub fn calendar(&self, time: Duration) -> Result<CalendarReport, Error> {
        self.calendar_of(None, time)
    }

    /// The calendar of another point, which the agent requests from it; `None`: the agent's own.
    ///
    /// # Errors
    /// If the agent does not run, or the other point does not reply.
    pub fn calendar_of(&self, point: Option<String>, time: Duration) -> Result<CalendarReport, Error> {
        self.exchange(&Request::Calendar { seconds: time.as_secs(), point })
    }

    /// Requests a test.
    ///
    /// # Errors
    /// If the agent does not run, or the request is invalid. A request that a rule refuses is not an error:
    /// the reply names the rule.
    pub fn reserve(&self, test: NewReservation) -> Result<Explained, Error> {
        self.exchange(&Request::Reserve { test, token: self.token.clone() })
    }

    /// Cancels a reservation.
    ///
    /// # Errors
    /// If the agent does not run, or has no such reservation.
    pub fn cancel(&self, id: &str, text: &str) -> Result<Explained, Error> {
        self.exchange(&Request::Cancel { id: id.into(), text: text.into(), token: self.token.clone() })
    }

    /// Reports an application's transfer, which ends its slot.
    ///
    /// # Errors
    /// If the agent does not run, or does not lead such a transfer, or it has not started.
    pub fn report(&self, id: &str, report: &TransferReport) -> Result<Explained, Error> {
        let report = report.clone();
        self.exchange(&Request::Report { id: id.into(), report, token: self.token.clone() })
    }

    /// Explains a reservation, or the last occurrences of a recurring test.
    ///
    /// # Errors
    /// If the agent does not run, or has neither a reservation nor a recurring test of this name.
    pub fn why(&self, id: &str) -> Result<Vec<Explained>, Error> {
        self.exchange(&Request::Why { id: id.into() })
    }

    /// Acknowledged causes and mutes.
    ///
    /// # Errors
    /// If the agent does not run.
    pub fn alerts(&self) -> Result<AlertsReport, Error> {
        self.exchange(&Request::Alerts)
    }

    /// Acknowledges the cause of a pair; `since_us`: the cause that began then.
    ///
    /// # Errors
    /// If the agent does not run, or the pair has no such cause.
    pub fn acknowledge(
        &self,
        pair: PairName,
        since_us: Option<i64>,
        text: &str,
    ) -> Result<AlertsReport, Error> {
        let token = self.token.clone();
        self.exchange(&Request::Acknowledge { pair, since_us, text: text.into(), token })
    }

    /// Mutes the alerts of pairs for a time; zero ends a mute.
    ///
    /// # Errors
    /// If the agent does not run, or the mesh has no such point.
    pub fn mute(&self, pair: PairName, time: Duration, text: &str) -> Result<AlertsReport, Error> {
        let (seconds, token) = (time.as_secs(), self.token.clone());
        self.exchange(&Request::Mute { pair, seconds, text: text.into(), token })
    }

    /// Tests in the archive, newest first.
    ///
    /// # Errors
    /// If the agent does not run.
    pub fn results(&self, filter: Filter) -> Result<Vec<TestRow>, Error> {
        self.exchange(&Request::Results { filter })
    }

    /// Removes a point from the mesh.
    ///
    /// # Errors
    /// If the agent does not run, is not the authority, or the mesh has no such point.
    pub fn expel(&self, name: &str) -> Result<Status, Error> {
        self.exchange(&Request::Expel { name: name.into() })
    }
}
