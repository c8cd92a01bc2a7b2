//! Alerts of Prometheus' Alertmanager by its API v2 (`POST /api/v2/alerts`): one for each pair whose cause is
//! not the rate of the path.
//!
//! Alertmanager gets states, not changes. An alert is resent while its cause persists, because Alertmanager
//! resolves alerts that it has not received for its `resolve_timeout`. Firing alerts have no end: with an end
//! by the clock of this point, an Alertmanager whose clock is ahead would resolve them at once. When the
//! cause has gone, the alert is sent with its end until Alertmanager has accepted it. Nothing is stored:
//! after a restart of the agent, the timeout resolves alerts whose cause has gone meanwhile.
//!
//! The labels identify an alert, so points that send the same alert have one alert together.

use std::{collections::BTreeMap, io, str::FromStr, time::Duration};

use serde_json::{Value, json};
use view::number;

use crate::{
    cause,
    http_client::{Webhook, post_json},
    texts::utc,
};

/// Path of the interface, below the address that users give.
const API_PATH: &str = "/api/v2/alerts";
/// The name of the alerts.
const ALERT_NAME: &str = "LongfatCause";
/// Timeout of an HTTP request, and of a command that sends an alert.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of alerts in a request: each request must be accepted within [`TIMEOUT`].
const MAX_BATCH: usize = 64;
/// How long an alert that has ended is sent to an Alertmanager that does not accept it, microseconds.
const MAX_END_AGE_US: i64 = 86_400_000_000;

/// The address of an Alertmanager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alertmanager {
    /// The address of its interface.
    alerts: Webhook,
}

impl FromStr for Alertmanager {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || {
            format!(
                "{text:?} is not the address of an Alertmanager; the form is http://HOST:PORT or https://HOST:PORT, as in \
                 http://localhost:9093, without {API_PATH}"
            )
        };
        let server = text.trim_end_matches('/').parse::<Webhook>().map_err(|_| invalid())?;
        let prefix = server.path().trim_end_matches('/');
        if prefix.ends_with(API_PATH) || prefix.contains(['?', '#']) {
            return Err(invalid());
        }
        let path = format!("{prefix}{API_PATH}");
        Ok(Alertmanager { alerts: server.with_path(path) })
    }
}

impl Alertmanager {
    /// Sends documents of [`KnownAlerts::documents`]; the rest is not sent after an error.
    pub(crate) fn send(&self, documents: &[Vec<u8>]) -> io::Result<()> {
        documents.iter().try_for_each(|document| post_json(&self.alerts, document, TIMEOUT))
    }

    /// The name or address of the server.
    pub(crate) fn host(&self) -> &str {
        self.alerts.host()
    }
}

/// The labels of an alert that differ from those of other alerts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AlertKey {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// The cause.
    pub cause: String,
}

/// What an alert reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CauseAlert {
    /// Start of the cause, microseconds since 1970.
    pub since_us: i64,
    /// Goodput of the last throughput test, bit/s.
    pub goodput_bps: Option<f64>,
    /// Best goodput of such a test, bit/s.
    pub best_goodput_bps: Option<f64>,
    /// Why the last test has no result.
    pub problem: Option<String>,
    /// The change that would remove the cause.
    pub remedy: Option<String>,
}

/// The alerts that an Alertmanager has, or may have, from this point.
#[derive(Debug, Default)]
pub(crate) struct KnownAlerts(BTreeMap<AlertKey, KnownAlert>);

#[derive(Debug)]
struct KnownAlert {
    alert: CauseAlert,
    /// When the cause was found to have gone, microseconds since 1970.
    end_us: Option<i64>,
}

impl KnownAlerts {
    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The known alert of a cause that has not ended since it began.
    pub fn firing(&self, key: &AlertKey, since_us: i64) -> Option<&CauseAlert> {
        let known = self.0.get(key)?;
        (known.end_us.is_none() && known.alert.since_us == since_us).then_some(&known.alert)
    }

    /// Replaces the alerts by those of the present causes: others have ended. Returns whether an alert has
    /// begun or ended.
    pub fn update(&mut self, firing: BTreeMap<AlertKey, CauseAlert>, now_us: i64) -> bool {
        let mut has_changed = false;
        for (key, known) in &mut self.0 {
            if known.end_us.is_none() && !firing.contains_key(key) {
                // An end before the start is refused.
                known.end_us = Some(now_us.max(known.alert.since_us));
                has_changed = true;
            }
        }
        for (key, alert) in firing {
            let before = self.0.insert(key, KnownAlert { alert, end_us: None });
            has_changed |= before.is_none_or(|before| before.end_us.is_some());
        }
        self.0.retain(|_, known| {
            known.end_us.is_none_or(|end_us| now_us.saturating_sub(end_us) <= MAX_END_AGE_US)
        });
        has_changed
    }

    /// Alertmanager has accepted all alerts: those that have ended are not sent again.
    pub fn forget_ended(&mut self) {
        self.0.retain(|_, known| known.end_us.is_none());
    }

    /// The alerts as JSON arrays of at most [`MAX_BATCH`]. `page` is the address of the point's page.
    pub fn documents(&self, page: Option<&str>) -> Vec<Vec<u8>> {
        let alerts: Vec<Value> = self.0.iter().map(|(key, known)| document(key, known, page)).collect();
        alerts.chunks(MAX_BATCH).map(|batch| json!(batch).to_string().into_bytes()).collect()
    }
}

/// An alert as Alertmanager's `postableAlert`.
fn document(key: &AlertKey, known: &KnownAlert, page: Option<&str>) -> Value {
    let AlertKey { from, to, cause } = key;
    let KnownAlert { alert, end_us } = known;
    let severity = if cause == cause::NO_RESULT { "critical" } else { "warning" };
    let words = cause::in_words(cause, from, to);
    let mut document = json!({
        "labels": { "alertname": ALERT_NAME, "from": from, "to": to, "cause": cause, "severity": severity },
        "annotations": {
            "summary": format!("{from} to {to}: {words}"),
            "description": description(key, alert, &words),
        },
        "startsAt": utc(alert.since_us),
    });
    if let Some(remedy) = &alert.remedy {
        document["annotations"]["remedy"] = json!(remedy);
    }
    if let Some(end_us) = end_us {
        document["endsAt"] = json!(utc(*end_us));
    }
    if let Some(page) = page {
        document["generatorURL"] = json!(format!("{page}#/pair/{from}/{to}"));
    }
    document
}

fn description(key: &AlertKey, alert: &CauseAlert, words: &str) -> String {
    let AlertKey { from, to, cause } = key;
    let since = utc(alert.since_us);
    if cause == cause::NO_RESULT {
        let reason =
            alert.problem.as_ref().map_or(String::new(), |text| format!(" The last reason: {text}."));
        return format!("Tests from {from} to {to} have had no result since {since}.{reason}");
    }
    let goodput = match (alert.goodput_bps, alert.best_goodput_bps) {
        (Some(last), Some(best)) => format!(
            " The last test reached {}, the best one so far {}.",
            number::rate(last),
            number::rate(best)
        ),
        _ => String::new(),
    };
    let remedy = alert.remedy.as_ref().map_or(String::new(), |remedy| format!(" To fix it: {remedy}."));
    format!(
        "Since {since} TCP from {from} to {to} has not reached the rate of the path. Cause: {words}.{goodput}{remedy}"
    )
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
        thread,
    };

    use super::*;

    const SINCE_US: i64 = 1_800_000_000_000_000;

    fn firing(alerts: &[(&str, &str)]) -> BTreeMap<AlertKey, CauseAlert> {
        let alert = |(to, cause): &(&str, &str)| {
            let key = AlertKey { from: "a".into(), to: (*to).into(), cause: (*cause).into() };
            let alert = CauseAlert {
                since_us: SINCE_US,
                goodput_bps: Some(1e7),
                best_goodput_bps: Some(9.4e8),
                problem: Some("d does not reply".into()),
                remedy: Some("on d: sysctl -w net.ipv4.tcp_mem=1".into()),
            };
            (key, alert)
        };
        alerts.iter().map(alert).collect()
    }

    /// The alerts of the next request: other end, cause, end.
    fn sent(known: &KnownAlerts) -> Vec<(String, String, Option<String>)> {
        let documents = known.documents(None);
        let alerts = documents.iter().flat_map(|text| serde_json::from_slice::<Vec<Value>>(text).unwrap());
        let text = |value: &Value| value.as_str().map(str::to_owned);
        alerts
            .map(|alert| {
                let label = |name: &str| text(&alert["labels"][name]).unwrap();
                (label("to"), label("cause"), text(&alert["endsAt"]))
            })
            .collect()
    }

    fn row(to: &str, cause: &str, end: Option<&str>) -> (String, String, Option<String>) {
        (to.into(), cause.into(), end.map(str::to_owned))
    }

    #[test]
    fn addresses_of_an_alertmanager() {
        let parse = |text: &str| text.parse::<Alertmanager>().map(|to| to.alerts);
        let expected = |text: &str| text.parse::<Webhook>();
        assert_eq!(parse("http://localhost:9093"), expected("http://localhost:9093/api/v2/alerts"));
        assert_eq!(parse("http://localhost:9093/"), expected("http://localhost:9093/api/v2/alerts"));
        assert_eq!(parse("https://x/alerts/"), expected("https://x/alerts/api/v2/alerts"));
        for text in
            ["", "http://", "localhost:9093", "http://x/api/v2/alerts", "http://x/?y=z", "http://x/#y"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn alerts_fire_while_their_cause_persists_and_end_once_it_has_gone() {
        let mut known = KnownAlerts::default();
        assert!(!known.update(BTreeMap::new(), SINCE_US) && known.is_empty());
        let both = firing(&[("b", "loss"), ("d", "no_result")]);
        assert!(known.update(both.clone(), SINCE_US), "two new ones");
        assert!(!known.update(both.clone(), SINCE_US + 60_000_000));
        assert_eq!(sent(&known), [row("b", "loss", None), row("d", "no_result", None)]);
        known.forget_ended();
        assert!(!known.update(both, SINCE_US + 90_000_000), "firing ones are kept");

        // Another cause of the same pair is another alert.
        let end = Some("2027-01-15T08:02:00Z");
        assert!(known.update(firing(&[("b", "receive_window")]), SINCE_US + 120_000_000));
        let all = [row("b", "loss", end), row("b", "receive_window", None), row("d", "no_result", end)];
        assert_eq!(sent(&known), all);
        // Alertmanager has not accepted them: they keep their ends.
        assert!(!known.update(firing(&[("b", "receive_window")]), SINCE_US + 180_000_000));
        assert_eq!(sent(&known), all);
        known.forget_ended();
        assert_eq!(sent(&known), [row("b", "receive_window", None)]);

        // A cause that returns fires again.
        let key = AlertKey { from: "a".into(), to: "b".into(), cause: "receive_window".into() };
        assert!(known.firing(&key, SINCE_US).is_some() && known.firing(&key, SINCE_US + 1).is_none());
        assert!(known.update(BTreeMap::new(), SINCE_US + 240_000_000));
        assert!(known.firing(&key, SINCE_US).is_none());
        assert!(known.update(firing(&[("b", "receive_window")]), SINCE_US + 300_000_000));
        assert_eq!(sent(&known), [row("b", "receive_window", None)]);
        // An Alertmanager that accepts nothing for days.
        assert!(known.update(BTreeMap::new(), SINCE_US + 360_000_000));
        assert!(!known.update(BTreeMap::new(), SINCE_US + 360_000_000 + MAX_END_AGE_US));
        assert!(!known.is_empty());
        assert!(!known.update(BTreeMap::new(), SINCE_US + 360_000_001 + MAX_END_AGE_US));
        assert!(known.is_empty());
    }

    #[test]
    fn an_end_is_never_before_the_start() {
        let mut known = KnownAlerts::default();
        known.update(firing(&[("b", "loss")]), SINCE_US);
        // The clock was set back.
        known.update(BTreeMap::new(), SINCE_US - 3_600_000_000);
        assert_eq!(sent(&known), [row("b", "loss", Some("2027-01-15T08:00:00Z"))]);
    }

    #[test]
    fn an_alert_states_its_cause_in_plain_english_and_the_remedy() {
        let mut known = KnownAlerts::default();
        known.update(firing(&[("d", "receive_window")]), SINCE_US);
        let documents = known.documents(Some("http://127.0.0.1:4863/"));
        assert_eq!(documents.len(), 1);
        let document: Value = serde_json::from_slice(&documents[0]).unwrap();
        let remedy = "on d: sysctl -w net.ipv4.tcp_mem=1";
        let expected = json!([{
            "labels": {
                "alertname": "LongfatCause", "from": "a", "to": "d", "cause": "receive_window", "severity": "warning"
            },
            "annotations": {
                "summary": "a to d: receive buffer of d",
                "description": format!(
                    "Since 2027-01-15T08:00:00Z TCP from a to d has not reached the rate of the path. Cause: receive buffer of d. \
                     The last test reached {}, the best one so far {}. To fix it: {remedy}.",
                    number::rate(1e7),
                    number::rate(9.4e8)
                ),
                "remedy": remedy,
            },
            "startsAt": "2027-01-15T08:00:00Z",
            "generatorURL": "http://127.0.0.1:4863/#/pair/a/d",
        }]);
        assert_eq!(document, expected);

        known.update(firing(&[("d", "no_result")]), SINCE_US);
        known.forget_ended();
        let document: Value = serde_json::from_slice(&known.documents(None)[0]).unwrap();
        assert_eq!(document[0]["labels"]["severity"], "critical");
        assert_eq!(
            document[0]["annotations"]["description"],
            "Tests from a to d have had no result since 2027-01-15T08:00:00Z. The last reason: d does not reply."
        );
        assert!(document[0].get("generatorURL").is_none() && document[0].get("endsAt").is_none());
    }

    #[test]
    fn many_alerts_are_several_requests_and_an_error_ends_them() {
        let names: Vec<String> = (0..=2 * MAX_BATCH).map(|number| format!("p{number}")).collect();
        let alerts: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "loss")).collect();
        let mut known = KnownAlerts::default();
        known.update(firing(&alerts), SINCE_US);
        let documents = known.documents(None);
        assert_eq!(documents.len(), 3);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let alertmanager: Alertmanager =
            format!("http://{}/alerts", listener.local_addr().unwrap()).parse().unwrap();
        let server = thread::spawn(move || {
            ["200 OK", "503 Service Unavailable"].map(|status| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.ends_with(b"]") {
                    let read = stream.read(&mut buffer).unwrap();
                    request.extend_from_slice(&buffer[..read]);
                }
                write!(stream, "HTTP/1.1 {status}\r\n\r\n").unwrap();
                String::from_utf8(request).unwrap()
            })
        });
        let error = alertmanager.send(&documents).unwrap_err().to_string();
        assert!(error.contains("HTTP status 503"), "{error}");
        for request in server.join().unwrap() {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("POST /alerts/api/v2/alerts HTTP/1.1\r\n"), "{head}");
            let alerts: Vec<Value> = serde_json::from_str(body).unwrap();
            assert_eq!(alerts.len(), MAX_BATCH);
        }
    }
}
