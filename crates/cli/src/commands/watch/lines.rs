//! Connections as text: a line each, or all web100 instruments of each.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use measurement::watched::{Trail, Trails};
use schema::ReceiverFinding;
use view::number;
use watch::{SocketCookie, TrackedConnection, Watcher, web100};

use super::ranked;

/// Maximum number of connections in a report: the busiest.
const MAX_LINES: usize = 40;

/// The busiest connections, a line each, with the time since the start.
pub fn periodic(watcher: &Watcher, trails: &Trails, since: Duration) -> String {
    let mut text = String::new();
    let live = ranked(watcher);
    for connection in live.iter().take(MAX_LINES) {
        let _ = writeln!(text, "{:>7.1} s  {}", since.as_secs_f64(), line(connection, trails));
    }
    if live.len() > MAX_LINES {
        let _ = writeln!(text, "{:>7.1} s  and {} more", since.as_secs_f64(), live.len() - MAX_LINES);
    }
    text
}

/// The changes of paths that were not printed yet, a line each. `printed`: their number, by connection.
pub fn path_changes(
    watcher: &Watcher,
    trails: &Trails,
    printed: &mut BTreeMap<SocketCookie, usize>,
) -> String {
    let mut text = String::new();
    for connection in watcher.connections() {
        let cookie = connection.sample.cookie;
        let changes = trails.path_changes(cookie);
        let before = printed.insert(cookie, changes.len()).unwrap_or(0);
        for change in changes.iter().skip(before) {
            let _ = writeln!(
                text,
                "{:>7.1} s  {}  {}",
                change.at_s, connection.sample.addresses, change.sentence
            );
        }
    }
    printed.retain(|cookie, count| *count > 0 && watcher.connection(*cookie).is_some());
    text
}

/// All connections: a line each, or every instrument of each.
pub fn once(watcher: &Watcher, trails: &Trails, all_of_web100: bool) -> String {
    let live = ranked(watcher);
    if live.is_empty() {
        return "no connection matches".into();
    }
    let mut text = String::new();
    for connection in live {
        let _ = writeln!(text, "{}", line(connection, trails));
        if all_of_web100 {
            instruments(connection, &mut text);
        }
    }
    text
}

fn line(connection: &TrackedConnection, trails: &Trails) -> String {
    let info = &connection.sample.info;
    let (sent, received) = connection.rates_bps.unwrap_or((0.0, 0.0));
    let mut text = String::new();
    if !connection.namespace.is_empty() {
        let _ = write!(text, "[{}] ", connection.namespace);
    }
    let _ = write!(text, "{}", connection.sample.addresses);
    if let Some(process) = &connection.process {
        let _ = write!(text, "  {}/{}", process.name, process.pid);
    }
    let _ = write!(
        text,
        "  {}  out {}  in {}",
        connection.sample.state,
        number::rate(sent),
        number::rate(received)
    );
    if let Some(cwnd) = info.snd_cwnd() {
        let _ = write!(text, "  cwnd {cwnd}");
    }
    if let Some(rtt) = info.rtt_us().filter(|rtt| *rtt > 0) {
        let _ = write!(text, "  rtt {}", number::micros(rtt.into()));
    }
    if let Some(retransmitted) = info.total_retrans().filter(|segments| *segments > 0) {
        let _ = write!(text, "  retrans {retransmitted}");
    }
    if let Some(name) = &connection.sample.congestion {
        let _ = write!(text, "  {name}");
    }
    if let Some(cause) = trails.get(connection.sample.cookie).and_then(Trail::verdict) {
        let _ = write!(text, "  {}", view::words::cause(cause));
    }
    let trail = trails.get(connection.sample.cookie);
    let received = trail.and_then(Trail::receiver_verdict);
    if let Some(verdict) = received.filter(|verdict| verdict.finding != ReceiverFinding::Unknown) {
        let _ = write!(text, "  by receiver: {}", view::words::receiver_finding(verdict.finding));
    }
    text
}

fn instruments(connection: &TrackedConnection, text: &mut String) {
    for instrument in web100::INSTRUMENTS {
        let value = instrument.value(connection).map_or("-".into(), |value| value.to_string());
        let _ = writeln!(
            text,
            "  {:<22} {value:>16} {:<6} {:<8} {}",
            instrument.name,
            instrument.unit,
            instrument.fidelity.name(),
            instrument.source
        );
    }
}
