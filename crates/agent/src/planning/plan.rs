//! Plans a transfer: the expected rate, a slot in which both ends are free, and the settings that limit the
//! rate. Pure.
//!
//! The rate is the one that nine of ten TCP tests of the archive reached. The duration includes slow start
//! ([`model::SlowStart`]). A buffer that limits the pair must be twice the bandwidth-delay product of the
//! rate. The planned slot is free in the calendars of both ends at the time of the plan; until it is
//! reserved, another test may take it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use units::{BitRate, Time};
use view::number;

use crate::{CalendarReport, NewReservation, SlotReport, cause, control::SCHEMA, test::Kind};

/// The share of the tests that were slower than the planned rate.
const SLOWER_SHARE: f64 = 0.1;
/// Segment size of the slow start, bytes.
const MSS: u32 = 1448;
/// A slot is longer than the transfer by a quarter of it and by this time, in which the program starts and
/// ends.
const SLOT_MARGIN_US: u64 = 5_000_000;

/// A transfer that a program wants to make.
#[derive(Debug, Clone)]
pub(crate) struct PlanRequest {
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// Payload, bytes.
    pub bytes: u64,
    /// When it must be complete, microseconds since 1970.
    pub deadline_us: u64,
}

/// The facts of a plan, from the archive and the calendars.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Goodput of recent TCP tests, bit/s.
    pub goodputs_bps: Vec<f64>,
    /// Start of the oldest of them, microseconds since 1970.
    pub since_us: Option<i64>,
    /// Best goodput of all tests, bit/s.
    pub best_bps: Option<f64>,
    /// Typical round-trip time, microseconds.
    pub rtt_us: Option<f64>,
    /// The cause that limits the pair.
    pub cause: Option<String>,
    /// The calendars of the ends that replied.
    pub calendars: Vec<CalendarReport>,
    /// Why a calendar is unknown.
    pub calendar_error: Option<String>,
    /// Time that a slot is padded with, microseconds.
    pub padding_us: u64,
}

/// The plan of a transfer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanDocument {
    /// `longfat.mesh/1`.
    pub schema: String,
    /// When the plan was made, microseconds since 1970.
    pub now_us: u64,
    /// The point that sends.
    pub from: String,
    /// The point that receives.
    pub to: String,
    /// Payload, bytes.
    pub bytes: u64,
    /// When it must be complete, microseconds since 1970.
    pub deadline_us: u64,
    /// Whether the transfer is expected to be complete by the deadline.
    pub is_feasible: bool,
    /// Why, in words.
    pub reason: String,
    /// The goodput that nine of ten recent tests reached, bit/s; `null` without tests.
    pub rate_bps: Option<f64>,
    /// The median goodput of these tests, bit/s.
    pub median_rate_bps: Option<f64>,
    /// Number of these tests.
    pub tests: u64,
    /// Start of the oldest of them, microseconds since 1970.
    pub tests_since_us: Option<i64>,
    /// What limits the pair, in words.
    pub limit_text: Option<String>,
    /// The rate that the deadline needs if the transfer starts in the planned slot, or now if there is none,
    /// bit/s.
    pub needed_bps: Option<f64>,
    /// Expected duration of the transfer with its slow start, microseconds.
    pub duration_us: Option<u64>,
    /// The first slot that is free in both calendars.
    pub slot: Option<PlannedSlot>,
    /// Settings that limit the pair now.
    pub settings: Vec<PlannedSetting>,
    /// The document that reserves the slot (`/api/v1/reserve`).
    pub reservation: Option<NewReservation>,
}

impl PlanDocument {
    /// The number of tests that reached [`PlanDocument::rate_bps`].
    pub fn tests_at_rate(&self) -> u64 {
        // The slowest tenth did not; see [`quantile`].
        self.tests - self.tests.saturating_sub(1) / 10
    }
}

/// A slot that is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedSlot {
    /// Its start, microseconds since 1970.
    pub start_us: u64,
    /// Its length, microseconds.
    pub duration_us: u64,
}

/// A setting that must be larger.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedSetting {
    /// The point.
    pub point: String,
    /// The sysctl; its third value, the maximum, is the setting.
    pub sysctl: String,
    /// The required minimum of this value, bytes.
    pub at_least_bytes: u64,
    /// The rate whose bandwidth-delay product is half of this minimum, bit/s.
    pub for_bps: f64,
}

/// Makes the plan.
pub(crate) fn plan(request: &PlanRequest, known: &Known, now_us: u64) -> PlanDocument {
    let PlanRequest { from, to, bytes, deadline_us } = request.clone();
    let rate_bps = quantile(&known.goodputs_bps, SLOWER_SHARE).filter(|rate| *rate > 0.0);
    let rtt = Time::from_nanos((known.rtt_us.unwrap_or(0.0) * 1e3) as u64);
    let duration_us = rate_bps.map(|rate| duration_us(bytes, rate, rtt));
    // Sums saturate: calendars and round-trip times come from other points.
    let earliest_us = now_us.saturating_add(known.padding_us);
    let slot = duration_us.filter(|_| known.calendar_error.is_none()).and_then(|duration_us| {
        let slot_us = duration_us + duration_us / 4 + SLOT_MARGIN_US;
        let start_us = first_free(&known.calendars, earliest_us, slot_us, known.padding_us);
        let is_in_time = start_us.saturating_add(duration_us) <= deadline_us;
        is_in_time.then_some(PlannedSlot { start_us, duration_us: slot_us })
    });
    let start_us = slot.map_or(earliest_us, |slot| slot.start_us);
    let needed_bps = (deadline_us > start_us).then(|| bytes as f64 * 8e6 / (deadline_us - start_us) as f64);
    let ends_us = duration_us.map(|duration_us| earliest_us.saturating_add(duration_us));
    let (is_feasible, reason) = match (rate_bps, ends_us) {
        _ if deadline_us <= earliest_us => {
            (false, format!("the earliest start is in {}", seconds(known.padding_us)))
        }
        (None, _) | (_, None) => {
            (false, format!("no recent TCP test of {from} to {to} has a result; test the pair first"))
        }
        (Some(rate), Some(ends_us)) if ends_us > deadline_us => (
            false,
            format!(
                "at {} the transfer takes {}, and the deadline is in {}",
                number::rate(rate),
                seconds(ends_us - earliest_us),
                seconds(deadline_us - now_us)
            ),
        ),
        (_, Some(ends_us)) => match (&known.calendar_error, slot) {
            (Some(error), _) => (false, error.clone()),
            (None, None) => (false, format!("{from} and {to} have no common free slot before the deadline")),
            (None, Some(slot)) => {
                let ends_us = slot.start_us + (ends_us - earliest_us);
                (
                    true,
                    format!(
                        "the transfer ends {} before the deadline",
                        seconds(deadline_us.saturating_sub(ends_us))
                    ),
                )
            }
        },
    };
    let limit_text = known.cause.as_ref().map(|cause| cause::in_words(cause, &from, &to));
    // The highest of the rate that the deadline needs and the rates that the path has carried.
    let wanted = [needed_bps, known.best_bps, rate_bps].into_iter().flatten().reduce(f64::max);
    let settings = match (&known.cause, wanted) {
        (Some(cause), Some(wanted)) => settings(cause, &from, &to, wanted, rtt),
        _ => Vec::new(),
    };
    let planned = slot.zip(duration_us).filter(|_| is_feasible);
    let reservation = planned.map(|(slot, duration_us)| NewReservation {
        duration_us: Some(slot.duration_us),
        in_us: slot.start_us.saturating_sub(now_us),
        within_us: deadline_us.saturating_sub(slot.start_us + duration_us),
        ..NewReservation::new(&from, &to, Kind::Transfer)
    });
    PlanDocument {
        schema: SCHEMA.into(),
        now_us,
        from,
        to,
        bytes,
        deadline_us,
        is_feasible,
        reason,
        rate_bps,
        median_rate_bps: quantile(&known.goodputs_bps, 0.5),
        tests: known.goodputs_bps.len() as u64,
        tests_since_us: known.since_us,
        limit_text,
        needed_bps,
        duration_us,
        slot,
        settings,
        reservation,
    }
}

fn seconds(us: u64) -> String {
    number::seconds(us as f64 / 1e6)
}

/// The quantile: this share of the values is below it.
fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).floor() as usize).copied()
}

fn duration_us(bytes: u64, rate_bps: f64, rtt: Time) -> u64 {
    let window = (rate_bps / 8.0 * rtt.as_secs_f64()).max(f64::from(MSS));
    let seconds = model::SlowStart::new(window, MSS, rtt).time_for_bytes(bytes as f64, rate_bps / 8.0);
    // The bound is later than the end of every calendar, and sums with it do not overflow.
    ((seconds.unwrap_or(f64::MAX) * 1e6).ceil() as u64).min(u64::MAX / 8)
}

/// The first start at which a slot of an exclusive test fits into all calendars.
fn first_free(calendars: &[CalendarReport], earliest_us: u64, length_us: u64, padding_us: u64) -> u64 {
    let is_blocking = |slot: &&SlotReport| slot.class != "background";
    let mut blocked: Vec<(u64, u64)> = calendars
        .iter()
        .flat_map(|calendar| calendar.slots.iter().filter(is_blocking))
        .map(|slot| {
            let end_us = slot.start_us.saturating_add(slot.duration_us).saturating_add(slot.padding_us);
            (slot.start_us.saturating_sub(slot.padding_us), end_us)
        })
        .collect();
    blocked.sort_unstable();
    let mut start_us = earliest_us;
    for (from_us, until_us) in blocked {
        let is_before = start_us.saturating_add(length_us).saturating_add(padding_us) <= from_us;
        let is_after = start_us.saturating_sub(padding_us) >= until_us;
        if !is_before && !is_after {
            start_us = until_us.saturating_add(padding_us);
        }
    }
    start_us
}

/// The buffers that limit a pair, and the sizes that a rate needs.
fn settings(cause: &str, from: &str, to: &str, rate_bps: f64, rtt: Time) -> Vec<PlannedSetting> {
    let (point, sysctl) = match cause {
        "receive_window" | "receive_buffer" => (to, "net.ipv4.tcp_rmem"),
        "send_buffer" => (from, "net.ipv4.tcp_wmem"),
        _ => return Vec::new(),
    };
    let bdp = model::bdp_f64(BitRate(rate_bps as u64), rtt);
    vec![PlannedSetting {
        point: point.into(),
        sysctl: sysctl.into(),
        at_least_bytes: model::round_up_mib(2.0 * bdp).0,
        for_bps: rate_bps,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const NOW: u64 = 1_800_000_000 * SECOND;

    fn slot(start_s: u64, duration_s: u64, class: &str) -> SlotReport {
        SlotReport {
            id: "a/1".into(),
            phase: "booked".into(),
            from: "a".into(),
            to: "b".into(),
            kind: "throughput".into(),
            class: class.into(),
            start_us: NOW + start_s * SECOND,
            duration_us: duration_s * SECOND,
            padding_us: 2 * SECOND,
            priority: 0,
            user: None,
        }
    }

    fn calendar(slots: Vec<SlotReport>) -> CalendarReport {
        CalendarReport { point: "a".into(), slots, busy_share: 0.0 }
    }

    fn known() -> Known {
        Known {
            // Nine of ten are at least 100 Mb/s.
            goodputs_bps: (0..11).map(|n| 90e6 + f64::from(n) * 10e6).collect(),
            best_bps: Some(400e6),
            rtt_us: Some(100_000.0),
            cause: Some("path_rate".into()),
            padding_us: 4 * SECOND,
            ..Known::default()
        }
    }

    fn planned(known: &Known, bytes: u64, deadline_s: u64) -> PlanDocument {
        let request =
            PlanRequest { from: "a".into(), to: "b".into(), bytes, deadline_us: NOW + deadline_s * SECOND };
        plan(&request, known, NOW)
    }

    #[test]
    fn the_rate_is_the_first_decile_of_tests_and_slow_start_is_added() {
        let plan = planned(&known(), 1_250_000_000, 600);
        assert_eq!((plan.rate_bps, plan.median_rate_bps, plan.tests), (Some(100e6), Some(140e6), 11));
        // 100 s at the rate; 6.4 round trips of doubling deliver less than that rate would.
        let duration = plan.duration_us.unwrap();
        assert!((100 * SECOND..102 * SECOND).contains(&duration), "{duration}");
        assert!(plan.is_feasible, "{}", plan.reason);
        let slot = plan.slot.unwrap();
        assert_eq!(
            (slot.start_us, slot.duration_us),
            (NOW + 4 * SECOND, duration + duration / 4 + 5 * SECOND)
        );
        let reservation = plan.reservation.unwrap();
        assert_eq!((reservation.kind.as_str(), reservation.in_us), ("transfer", 4 * SECOND));
        assert_eq!(slot.start_us + duration + reservation.within_us, NOW + 600 * SECOND);
        assert!(plan.settings.is_empty());
    }

    #[test]
    fn the_reason_for_an_impossible_deadline_is_named() {
        let plan = planned(&known(), 1_250_000_000, 60);
        assert!(!plan.is_feasible && plan.reservation.is_none());
        assert!(plan.reason.starts_with("at 100 Mb/s the transfer takes 100."), "{}", plan.reason);
        let needed = plan.needed_bps.unwrap();
        assert!((needed - 1e10 / 56.0).abs() < 1e3, "{needed}");
        let limited = Known { cause: Some("receive_window".into()), ..known() };
        let plan = planned(&limited, 1_250_000_000, 60);
        // Twice 400 Mb/s x 100 ms, which the path has carried.
        let setting = &plan.settings[0];
        assert_eq!((setting.point.as_str(), setting.sysctl.as_str()), ("b", "net.ipv4.tcp_rmem"));
        assert_eq!(setting.at_least_bytes, 10 << 20);
        assert_eq!(plan.limit_text.as_deref(), Some("receive buffer of b"));
        let plan = planned(&Known { goodputs_bps: vec![], ..known() }, 1, 60);
        assert!(plan.reason.contains("test the pair first"), "{}", plan.reason);
        assert!(planned(&known(), 1, 3).reason.contains("the earliest start is in 4"));
        let silent = Known { calendar_error: Some("b does not reply".into()), ..known() };
        let plan = planned(&silent, 1_000_000, 600);
        assert!(!plan.is_feasible && plan.slot.is_none() && plan.reason == "b does not reply");
    }

    #[test]
    fn planned_slots_are_free_in_both_calendars() {
        let bytes = 125_000_000;
        let start_s = |calendars: Vec<CalendarReport>, deadline_s: u64| {
            let slot = planned(&Known { calendars, ..known() }, bytes, deadline_s).slot?;
            Some((slot.start_us - NOW) / SECOND)
        };
        assert_eq!(start_s(vec![], 600), Some(4));
        // 18.3 s and 4 s of padding do not fit before the first slot, nor between the first and the second.
        let a = || calendar(vec![slot(10, 10, "exclusive")]);
        let b = || calendar(vec![slot(40, 10, "normal")]);
        assert_eq!(start_s(vec![a()], 600), Some(26));
        assert_eq!(start_s(vec![a(), b()], 600), Some(56));
        assert_eq!(start_s(vec![a(), b()], 60), None);
        // Background tests may overlap; a later one leaves enough time before it.
        assert_eq!(start_s(vec![calendar(vec![slot(0, 500, "background")])], 600), Some(4));
        assert_eq!(start_s(vec![calendar(vec![slot(60, 10, "exclusive")])], 600), Some(4));
        // The transfer must end before the deadline; its slot may end later.
        assert_eq!(start_s(vec![], 16), Some(4));
        let refused = planned(
            &Known { calendars: vec![calendar(vec![slot(0, 590, "exclusive")])], ..known() },
            bytes,
            600,
        );
        assert!(refused.reason.contains("no common free slot"), "{}", refused.reason);
    }
}
