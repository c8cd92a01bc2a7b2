//! The methods of the plug-in.

use std::{fmt, str::FromStr};

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    Error, Settings,
    documents::{MergeInput, ParticipantInput, RunInput, TestSpecification, read},
    duration::IsoDuration,
    rtt,
    server_data::ServerData,
    throughput,
};

/// The name of the tool, and of its directory.
const TOOL: &str = "longfat";
/// Below iperf3's preference (10): pScheduler selects iperf3, which all nodes have, if the user does not name
/// a tool.
const PREFERENCE: i32 = 5;
/// The version of the data of participants.
const PARTICIPANT_SCHEMA: u32 = 1;

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Describes the tool.
    Enumerate,
    /// Returns whether it can run a test.
    CanRun,
    /// Returns the duration of a test.
    Duration,
    /// Returns the data that a participant sends to the others.
    ParticipantData,
    /// Runs one participant's role in a test.
    Run,
    /// Joins the results of all participants.
    MergedResults,
}

impl Method {
    /// All methods.
    pub const ALL: [Method; 6] = [
        Method::Enumerate,
        Method::CanRun,
        Method::Duration,
        Method::ParticipantData,
        Method::Run,
        Method::MergedResults,
    ];

    /// The name of the program that pScheduler executes.
    pub fn name(self) -> &'static str {
        match self {
            Method::Enumerate => "enumerate",
            Method::CanRun => "can-run",
            Method::Duration => "duration",
            Method::ParticipantData => "participant-data",
            Method::Run => "run",
            Method::MergedResults => "merged-results",
        }
    }

    /// Whether it reads a document.
    pub fn has_input(self) -> bool {
        self != Method::Enumerate
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Method::ALL.into_iter().find(|method| method.name() == text).ok_or_else(|| {
            let names = Method::ALL.map(Method::name).join(", ");
            format!("{text:?} is not a method of a pScheduler tool; the methods are: {names}")
        })
    }
}

/// Calls a method with its input document.
///
/// # Errors
/// If the input is not the document of this method. A test that fails has a result with `"succeeded": false`.
pub fn call(method: Method, input: &str, settings: &Settings) -> Result<Value, Error> {
    match method {
        Method::Enumerate => Ok(enumerate()),
        Method::CanRun => {
            let reasons = match read::<TestSpecification>(method.name(), input) {
                Ok(test) => reasons_against(&test),
                Err(error) => vec![error.to_string()],
            };
            Ok(match reasons.is_empty() {
                true => json!({ "can-run": true }),
                false => json!({ "can-run": false, "reasons": reasons }),
            })
        }
        Method::Duration => {
            let test: TestSpecification = read(method.name(), input)?;
            let duration = match test.kind.as_str() {
                throughput::NAME => throughput::Spec::read(&test.spec).map_err(Error::Input)?.slot(),
                rtt::NAME => rtt::Spec::read(&test.spec).map_err(Error::Input)?.slot(),
                _ => return Err(unknown(&test)),
            };
            Ok(json!({ "duration": IsoDuration::ceil(duration).to_string() }))
        }
        Method::ParticipantData => {
            let input: ParticipantInput = read(method.name(), input)?;
            participant_data(&input, settings.port)
        }
        Method::Run => {
            let input: RunInput = read(method.name(), input)?;
            match input.test.kind.as_str() {
                throughput::NAME => throughput::run(&input, settings),
                rtt::NAME => rtt::run(&input, settings),
                _ => Err(unknown(&input.test)),
            }
        }
        Method::MergedResults => {
            let input: MergeInput = read(method.name(), input)?;
            Ok(merge(&input))
        }
    }
}

/// The data that a participant sends to the others.
#[derive(Serialize)]
struct ParticipantData {
    schema: u32,
    /// Of the participant that runs the server of a throughput test.
    #[serde(flatten)]
    server: Option<ServerData>,
}

fn participant_data(input: &ParticipantInput, port: u16) -> Result<Value, Error> {
    let is_server = input.test.kind == throughput::NAME && input.participant == throughput::SERVER;
    let server = is_server.then(|| ServerData::new(port)).transpose()?;
    serde_json::to_value(ParticipantData { schema: PARTICIPANT_SCHEMA, server })
        .map_err(|error| Error::System { what: "cannot write JSON", cause: error.to_string() })
}

fn enumerate() -> Value {
    json!({
        "schema": 1,
        "name": TOOL,
        "description": "Measure throughput and round-trip times with longfat, and name what limits TCP",
        "version": env!("CARGO_PKG_VERSION"),
        "tests": [throughput::NAME, rtt::NAME],
        "preference": PREFERENCE,
        "maintainer": { "name": "The longfat authors", "email": "authors@longfat.invalid" },
    })
}

/// Why a test cannot be run; nothing if it can.
fn reasons_against(test: &TestSpecification) -> Vec<String> {
    match test.kind.as_str() {
        throughput::NAME => throughput::Spec::reasons_against(&test.spec),
        rtt::NAME => rtt::Spec::reasons_against(&test.spec),
        _ => vec![unknown(test).to_string()],
    }
}

fn unknown(test: &TestSpecification) -> Error {
    Error::Input(format!(
        "longfat has no test of the type {}; its tests are {} and {}",
        test.kind,
        throughput::NAME,
        rtt::NAME
    ))
}

/// The result of the run: that of participant 0, which measures, with the diagnostics of all.
fn merge(input: &MergeInput) -> Value {
    let lead = input.results.first().unwrap_or(&Value::Null);
    let mut diags = Vec::new();
    for (participant, result) in input.results.iter().enumerate() {
        let text = |member: &str| result.get(member).and_then(Value::as_str).filter(|text| !text.is_empty());
        let heading =
            if input.results.len() > 1 { format!("Participant {participant}:\n") } else { String::new() };
        // The error of participant 0 is that of the result.
        let error = text("error").filter(|_| participant > 0);
        let parts: Vec<&str> = [error, text("diags")].into_iter().flatten().collect();
        if !parts.is_empty() {
            diags.push(heading + &parts.join("\n"));
        }
    }
    let diags = diags.join("\n\n");
    match (lead.get("succeeded").and_then(Value::as_bool), lead.get("result").and_then(Value::as_object)) {
        (Some(true), Some(result)) => {
            let mut merged = result.clone();
            merged.insert("diags".into(), diags.into());
            Value::Object(merged)
        }
        _ => {
            let error = lead.get("error").and_then(Value::as_str).unwrap_or("participant 0 has no result");
            json!({ "schema": 1, "succeeded": false, "error": format!("{}: {error}", input.test.kind), "diags": diags })
        }
    }
}
