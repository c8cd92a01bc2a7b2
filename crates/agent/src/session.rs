//! A session of several stations that send to one point at a constant rate, scan by scan, as in e-VLBI. Pure.

use jiff::Timestamp;
use serde::Deserialize;
use units::{BitRate, Time};

use crate::{Error, Explained, NewReservation, SlotReport, TestRow, test::Kind};

/// Maximum number of reservations of a session.
const MAX_SLOTS: usize = 1000;
/// The goodput of a complete scan, as a share of the session's rate: sampled connections lack their first and
/// last tenths of a second, and correlators tolerate few missing packets.
const MIN_RATE_SHARE: f64 = 0.99;

/// The description of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its name.
    pub name: String,
    /// The point that receives.
    pub correlator: String,
    /// The points that send.
    pub stations: Vec<String>,
    /// The rate of each station.
    pub rate: BitRate,
    /// What sends in the scans: [`Kind::Transfer`], the stations' programs; [`Kind::Stream`], the agents.
    pub kind: Kind,
    /// The scans, in the order of the file.
    pub scans: Vec<Scan>,
}

/// A scan: all stations send for its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// Its start.
    pub start: Timestamp,
    /// Its duration.
    pub duration: Time,
    /// When its data must have arrived.
    pub deadline: Timestamp,
}

/// Whether the data of a station's scan arrived by the deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadlineState {
    /// The scan is not over.
    ToCome,
    /// All data arrived.
    Met,
    /// Data are missing: the slot was not run or failed, or the goodput was below the session's rate.
    Missed,
    /// The slot was run, but its goodput was neither measured nor reported.
    Unknown,
}

impl DeadlineState {
    /// Its name in tables and documents.
    pub fn name(self) -> &'static str {
        match self {
            DeadlineState::ToCome => "to come",
            DeadlineState::Met => "met",
            DeadlineState::Missed => "missed",
            DeadlineState::Unknown => "unknown",
        }
    }
}

/// A station's part of a scan.
#[derive(Debug, Clone)]
pub struct SessionSlot {
    /// Number of the scan, from 1.
    pub scan: usize,
    /// The station.
    pub station: String,
    /// When its data must have arrived.
    pub deadline: Timestamp,
    /// The request that reserves it.
    pub reservation: NewReservation,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    correlator: String,
    stations: Vec<String>,
    rate: String,
    kind: Option<String>,
    scans: Vec<FileScan>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileScan {
    start: String,
    duration: String,
    deadline: Option<String>,
}

impl Session {
    /// Reads a description (TOML).
    ///
    /// # Errors
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Session, Error> {
        let file: File = toml::from_str(text).map_err(|error| Error::Refused(error.to_string()))?;
        let wrong = |what: &str, error: &dyn std::fmt::Display| Error::Refused(format!("{what}: {error}"));
        let rate: BitRate = file.rate.parse().map_err(|error| wrong("rate", &error))?;
        let kind = file.kind.as_deref().unwrap_or(Kind::Transfer.name()).parse::<Kind>();
        let kind = kind.map_err(|error| wrong("kind", &error))?;
        if !matches!(kind, Kind::Transfer | Kind::Stream) {
            return Err(wrong("kind", &"the kinds of a session are transfer and stream"));
        }
        let scans = file.scans.iter().enumerate().map(|(index, scan)| {
            let of = |member: &str| format!("scan {}, {member}", index + 1);
            let instant = |member: &str, text: &str| -> Result<Timestamp, Error> {
                text.parse().map_err(|error: jiff::Error| wrong(&of(member), &error))
            };
            let start = instant("start", &scan.start)?;
            let duration: Time = scan.duration.parse().map_err(|error| wrong(&of("duration"), &error))?;
            let end = start.checked_add(duration.to_duration());
            let end = end.map_err(|error| wrong(&of("duration"), &error))?;
            let deadline = scan.deadline.as_ref().map_or(Ok(end), |text| instant("deadline", text))?;
            if deadline < end {
                return Err(wrong(&of("deadline"), &"it is before the end of the scan"));
            }
            Ok(Scan { start, duration, deadline })
        });
        let scans = scans.collect::<Result<Vec<Scan>, Error>>()?;
        let File { name, correlator, stations, .. } = file;
        let session = Session { name, correlator, stations, rate, kind, scans };
        session.check()?;
        Ok(session)
    }

    fn check(&self) -> Result<(), Error> {
        let refused = |text: String| Err(Error::Refused(text));
        if self.stations.is_empty() || self.scans.is_empty() || self.rate.0 == 0 {
            return refused("a session has stations, scans and a rate".into());
        }
        for (index, station) in self.stations.iter().enumerate() {
            if *station == self.correlator || self.stations[..index].contains(station) {
                return refused(format!("the point {station} is named twice"));
            }
        }
        if self.stations.len() * self.scans.len() > MAX_SLOTS {
            return refused(format!(
                "a session has at most {MAX_SLOTS} slots, one for each scan and station"
            ));
        }
        Ok(())
    }

    /// The rate at the correlator.
    pub fn total_rate(&self) -> BitRate {
        BitRate(self.rate.0.saturating_mul(self.stations.len() as u64))
    }

    /// The data of the longest scan of a station, bytes.
    pub fn max_scan_bytes(&self) -> u64 {
        let longest = self.scans.iter().map(|scan| scan.duration).max().unwrap_or(Time::ZERO);
        self.rate.bytes_in(longest).0
    }

    /// The number of scans that have not begun.
    pub fn scans_to_come(&self, now: Timestamp) -> usize {
        self.scans.iter().filter(|scan| scan.start > now).count()
    }

    /// The requests for the scans that have not begun, sorted by start. Each station has a dedicated slot;
    /// the slots overlap, because all state their rate.
    pub fn slots(&self, now: Timestamp) -> Vec<SessionSlot> {
        let mut slots = Vec::new();
        for (index, scan) in self.scans.iter().enumerate().filter(|(_, scan)| scan.start > now) {
            let us = |from, to: Timestamp| u64::try_from(to.duration_since(from).as_micros()).unwrap_or(0);
            let duration_us = scan.duration.as_micros();
            for station in &self.stations {
                let reservation = NewReservation {
                    duration_us: Some(duration_us),
                    in_us: us(now, scan.start),
                    within_us: us(scan.start, scan.deadline).saturating_sub(duration_us),
                    ..self.reservation(station, self.kind)
                };
                let station = station.clone();
                slots.push(SessionSlot { scan: index + 1, station, deadline: scan.deadline, reservation });
            }
        }
        slots.sort_by_key(|slot| slot.reservation.in_us);
        slots
    }

    /// The requests for simultaneous streams of all stations.
    pub fn rehearsal(&self, in_us: u64, duration: Time) -> Vec<NewReservation> {
        let streams = self.stations.iter().map(|station| NewReservation {
            duration_us: Some(duration.as_micros()),
            in_us,
            within_us: 0,
            ..self.reservation(station, Kind::Stream)
        });
        streams.collect()
    }

    /// The number of the scan to which a slot in a calendar belongs.
    pub fn scan_of(&self, slot: &SlotReport) -> Option<usize> {
        self.scan_at(&slot.from, &slot.to, &slot.kind, slot.start_us.try_into().ok()?)
    }

    /// The number of the scan to which a test in the archive belongs.
    pub fn scan_of_row(&self, row: &TestRow) -> Option<usize> {
        self.scan_at(&row.from, &row.to, &row.kind, row.start_us)
    }

    fn scan_at(&self, from: &str, to: &str, kind: &str, start_us: i64) -> Option<usize> {
        let is_its = to == self.correlator
            && self.stations.iter().any(|station| station == from)
            && kind == self.kind.name();
        let start = Timestamp::from_microsecond(start_us).ok()?;
        // The deadline of a scan may be after the start of the next one.
        let scans = self.scans.iter().enumerate();
        let scan = scans
            .filter(|(_, scan)| scan.start <= start && start < scan.deadline)
            .max_by_key(|(_, scan)| scan.start);
        scan.filter(|_| is_its).map(|(index, _)| index + 1)
    }

    /// Whether the data of a scan arrived by its deadline: its slots end before it, so the station's data
    /// must have the session's rate.
    pub fn deadline(&self, scan: &Scan, known: Option<&Explained>, now: Timestamp) -> DeadlineState {
        let Some(known) = known.filter(|known| known.is_over()) else {
            return if now > scan.deadline { DeadlineState::Missed } else { DeadlineState::ToCome };
        };
        let figures = known.result.as_ref().map(|row| &row.figures);
        let goodput_bps = match self.kind {
            // Its sender is paced; its goodput is over the whole record, which includes the connection and
            // the playout delay.
            Kind::Stream => {
                figures.and_then(|figures| figures.loss_share).map(|share| (1.0 - share) * self.rate.as_f64())
            }
            _ => figures.and_then(|figures| figures.goodput_bps),
        };
        match (known.phase.as_str(), goodput_bps) {
            ("finished", Some(bps)) if bps >= MIN_RATE_SHARE * self.rate.as_f64() => DeadlineState::Met,
            ("finished", None) => DeadlineState::Unknown,
            _ => DeadlineState::Missed,
        }
    }

    fn reservation(&self, station: &str, kind: Kind) -> NewReservation {
        NewReservation {
            rate_bps: Some(self.rate.0),
            within_us: 0,
            ..NewReservation::new(station, &self.correlator, kind)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: &str = r#"
        name = "vt001"
        correlator = "kashima"
        stations = ["onsala", "westford", "seshan"]
        rate = "512mbit"
        [[scans]]
        start = "2026-11-26T12:00:00Z"
        duration = "5min"
        deadline = "2026-11-26T12:06:00Z"
        [[scans]]
        start = "2026-11-26T12:10:00Z"
        duration = "50min"
    "#;

    fn test_row(from: &str, to: &str, kind: &str, start_us: i64) -> TestRow {
        TestRow {
            id: format!("{from}/1"),
            from: from.into(),
            to: to.into(),
            kind: kind.into(),
            options: None,
            task: None,
            start_us,
            duration_us: 1,
            state: crate::State::Finished,
            reason: None,
            reason_kind: None,
            figures: crate::Figures::default(),
            record: None,
        }
    }

    #[test]
    fn each_station_gets_a_slot_for_each_future_scan() {
        let session = Session::parse(SESSION).unwrap();
        assert_eq!(session.total_rate(), BitRate(1_536_000_000));
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let slots = session.slots(at("2026-11-26T11:59:00Z"));
        assert_eq!(slots.len(), 6);
        let first = &slots[0].reservation;
        assert_eq!((slots[0].scan, first.from.as_str(), first.to.as_str()), (1, "onsala", "kashima"));
        assert_eq!(
            (first.in_us, first.within_us, first.duration_us),
            (60_000_000, 60_000_000, Some(300_000_000))
        );
        assert_eq!((first.kind.as_str(), first.rate_bps), ("transfer", Some(512_000_000)));
        // Without a deadline the start of a scan cannot be moved.
        assert_eq!(slots[5].reservation.within_us, 0);
        assert_eq!(session.slots(at("2026-11-26T12:00:00Z")).len(), 3);
        assert!(session.slots(at("2026-11-26T13:00:00Z")).is_empty());
        let rehearsal = session.rehearsal(120_000_000, Time::from_secs(30));
        assert_eq!(rehearsal.len(), 3);
        assert!(
            rehearsal
                .iter()
                .all(|test| test.kind == "stream" && test.in_us == 120_000_000 && test.within_us == 0)
        );
    }

    #[test]
    fn slots_in_calendars_are_assigned_to_scans() {
        let session = Session::parse(SESSION).unwrap();
        let slot = |from: &str, start: &str| SlotReport {
            id: "a/1".into(),
            phase: "booked".into(),
            from: from.into(),
            to: "kashima".into(),
            kind: "transfer".into(),
            class: "normal".into(),
            start_us: start.parse::<Timestamp>().unwrap().as_microsecond().cast_unsigned(),
            duration_us: 1,
            padding_us: 0,
            priority: 0,
            user: None,
        };
        assert_eq!(session.scan_of(&slot("onsala", "2026-11-26T12:00:00.01Z")), Some(1));
        assert_eq!(session.scan_of(&slot("seshan", "2026-11-26T12:10:00Z")), Some(2));
        assert_eq!(session.scan_of(&slot("seshan", "2026-11-26T12:07:00Z")), None);
        assert_eq!(session.scan_of(&slot("metsahovi", "2026-11-26T12:10:00Z")), None);
        // A deadline after the start of the next scan.
        let late = Session::parse(&SESSION.replace("12:06:00Z", "12:30:00Z")).unwrap();
        assert_eq!(late.scan_of(&slot("seshan", "2026-11-26T12:00:00Z")), Some(1));
        assert_eq!(late.scan_of(&slot("seshan", "2026-11-26T12:10:00Z")), Some(2));
    }

    #[test]
    fn a_deadline_is_met_if_the_goodput_reaches_the_rate() {
        let session = Session::parse(SESSION).unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (before, after) = (at("2026-11-26T12:05:30Z"), at("2026-11-26T12:06:01Z"));
        let of = |phase: &str, goodput_bps: Option<f64>, now: Timestamp| {
            let mut row =
                test_row("onsala", "kashima", "transfer", at("2026-11-26T12:00:00Z").as_microsecond());
            row.figures.goodput_bps = goodput_bps;
            let known = Explained {
                id: "onsala/1".into(),
                phase: phase.into(),
                text: String::new(),
                result: Some(row),
            };
            session.deadline(&session.scans[0], Some(&known), now)
        };
        assert_eq!(of("running", None, before), DeadlineState::ToCome);
        assert_eq!(of("running", None, after), DeadlineState::Missed);
        assert_eq!(of("finished", Some(511.9e6), after), DeadlineState::Met);
        assert_eq!(of("finished", Some(400e6), before), DeadlineState::Missed);
        assert_eq!(of("finished", None, before), DeadlineState::Unknown);
        assert_eq!(of("failed", Some(511.9e6), before), DeadlineState::Missed);
        assert_eq!(of("not_run", None, before), DeadlineState::Missed);
        let session = Session { kind: Kind::Stream, ..session };
        let of = |loss_share: Option<f64>| {
            let mut row =
                test_row("onsala", "kashima", "stream", at("2026-11-26T12:00:00Z").as_microsecond());
            (row.figures.goodput_bps, row.figures.loss_share) = (Some(400e6), loss_share);
            let known = Explained {
                id: "onsala/1".into(),
                phase: "finished".into(),
                text: String::new(),
                result: Some(row),
            };
            session.deadline(&session.scans[0], Some(&known), before)
        };
        let [none, all, some] = [None, Some(0.0), Some(0.02)].map(of);
        assert_eq!((none, all, some), (DeadlineState::Unknown, DeadlineState::Met, DeadlineState::Missed));
        assert_eq!(session.deadline(&session.scans[0], None, before), DeadlineState::ToCome);
        assert_eq!(session.deadline(&session.scans[0], None, after), DeadlineState::Missed);
    }

    #[test]
    fn agents_send_the_scans_of_a_session_with_streams() {
        let session =
            Session::parse(&SESSION.replace("rate =", "kind = \"stream\"\n        rate =")).unwrap();
        let slots = session.slots("2026-11-26T11:59:00Z".parse().unwrap());
        assert!(slots.iter().all(|slot| slot.reservation.kind == "stream"));
        let start = "2026-11-26T12:10:00Z".parse::<Timestamp>().unwrap().as_microsecond();
        assert_eq!(session.scan_of_row(&test_row("seshan", "kashima", "stream", start)), Some(2));
        assert_eq!(session.scan_of_row(&test_row("seshan", "kashima", "transfer", start)), None);
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, part) in [
            ("512mbit", "fast", "rate: "),
            ("rate =", "kind = \"latency\"\nrate =", "kind: the kinds of a session are transfer and stream"),
            ("12:06:00Z", "12:04:00Z", "scan 1, deadline: it is before the end"),
            ("\"50min\"", "\"long\"", "scan 2, duration: "),
            ("T12:10:00Z", "", "scan 2, start: "),
            ("2026-11-26T12:10", "9999-12-30T21:59", "scan 2, duration: "),
            ("\"seshan\"", "\"onsala\"", "the point onsala is named twice"),
            ("\"seshan\"", "\"kashima\"", "the point kashima is named twice"),
            ("name =", "nam =", "unknown field"),
        ] {
            let error = Session::parse(&SESSION.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
