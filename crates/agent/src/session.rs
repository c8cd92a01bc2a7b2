//! A session of several stations that send to one point at a constant rate, scan by scan, as in e-VLBI. Pure.

use jiff::Timestamp;
use serde::Deserialize;
use units::{BitRate, Time};

use crate::{Error, NewReservation, SlotReport, test::Kind};

/// Maximum number of reservations of a session.
const MAX_SLOTS: usize = 1000;

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
        let scans = file.scans.iter().enumerate().map(|(index, scan)| {
            let of = |member: &str| format!("scan {}, {member}", index + 1);
            let instant = |member: &str, text: &str| -> Result<Timestamp, Error> {
                text.parse().map_err(|error: jiff::Error| wrong(&of(member), &error))
            };
            let start = instant("start", &scan.start)?;
            let duration: Time = scan.duration.parse().map_err(|error| wrong(&of("duration"), &error))?;
            let end = start.checked_add(std::time::Duration::from_nanos(duration.0));
            let end = end.map_err(|error| wrong(&of("duration"), &error))?;
            let deadline = scan.deadline.as_ref().map_or(Ok(end), |text| instant("deadline", text))?;
            if deadline < end {
                return Err(wrong(&of("deadline"), &"it is before the end of the scan"));
            }
            Ok(Scan { start, duration, deadline })
        });
        let scans = scans.collect::<Result<Vec<Scan>, Error>>()?;
        let File { name, correlator, stations, .. } = file;
        let session = Session { name, correlator, stations, rate, scans };
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

    /// The requests for the scans that have not begun, sorted by start. Each station has a dedicated slot; the slots overlap, because all state
    /// their rate.
    pub fn slots(&self, now: Timestamp) -> Vec<SessionSlot> {
        let mut slots = Vec::new();
        for (index, scan) in self.scans.iter().enumerate().filter(|(_, scan)| scan.start > now) {
            let us = |from, to: Timestamp| u64::try_from(to.duration_since(from).as_micros()).unwrap_or(0);
            let duration_us = scan.duration.as_nanos() / 1000;
            for station in &self.stations {
                let reservation = NewReservation {
                    duration_us: Some(duration_us),
                    in_us: us(now, scan.start),
                    within_us: us(scan.start, scan.deadline).saturating_sub(duration_us),
                    ..self.reservation(station, Kind::Transfer)
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
            duration_us: Some(duration.as_nanos() / 1000),
            in_us,
            within_us: 0,
            ..self.reservation(station, Kind::Stream)
        });
        streams.collect()
    }

    /// The number of the scan to which a slot in a calendar belongs.
    pub fn scan_of(&self, slot: &SlotReport) -> Option<usize> {
        let is_its = slot.to == self.correlator
            && self.stations.contains(&slot.from)
            && slot.kind == Kind::Transfer.name();
        let start = Timestamp::from_microsecond(slot.start_us.try_into().ok()?).ok()?;
        // The deadline of a scan may be after the start of the next one.
        let scans = self.scans.iter().enumerate();
        let scan = scans
            .filter(|(_, scan)| scan.start <= start && start < scan.deadline)
            .max_by_key(|(_, scan)| scan.start);
        scan.filter(|_| is_its).map(|(index, _)| index + 1)
    }

    fn reservation(&self, station: &str, kind: Kind) -> NewReservation {
        NewReservation {
            from: station.into(),
            to: self.correlator.clone(),
            kind: kind.name().into(),
            duration_us: None,
            rate_bps: Some(self.rate.0),
            in_us: 0,
            within_us: 0,
            priority: 0,
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

    #[test]
    fn each_station_gets_a_slot_of_each_scan_that_is_to_come() {
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
        // Without a deadline a scan cannot slip.
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
    fn slots_of_calendars_belong_to_scans() {
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
    fn mistakes_are_named() {
        for (from, to, part) in [
            ("512mbit", "fast", "rate: "),
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
