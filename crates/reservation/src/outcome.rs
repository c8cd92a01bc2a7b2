//! How a reservation ended, and why it was not run.

use std::fmt;

use serde::{Deserialize, Serialize};
use units::{Instant, Time};

use crate::{Class, PointName, ReservationId};

/// The longest text of a reason, bytes.
const MAX_REASON_TEXT_BYTES: usize = 2048;

/// Why a test was not run, or failed: the rule or the conflict, and the point that has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Reason {
    /// A rule of a point does not allow it.
    Rule {
        /// The point.
        point: PointName,
        /// The rule in words.
        rule: String,
    },
    /// No slot was free in the requested time.
    Conflict {
        /// The point whose calendar is full.
        point: PointName,
        /// The conflicting reservation.
        with: ReservationId,
        /// Its class.
        class: Class,
        /// Start of its padded slot, UTC.
        from: Instant,
        /// End of its padded slot, UTC.
        until: Instant,
    },
    /// The requested time has passed.
    TooLate {
        /// The latest start, UTC.
        latest: Instant,
    },
    /// A reservation of higher priority displaced it.
    Preempted {
        /// The point where it happened.
        point: PointName,
        /// The reservation of higher priority.
        by: ReservationId,
        /// Its priority.
        priority: i32,
    },
    /// A point did not reply.
    Unreachable {
        /// The point.
        point: PointName,
    },
    /// A hold ended without a confirmation.
    HoldExpired {
        /// The point that held the slot.
        point: PointName,
    },
    /// A user cancelled it.
    Cancelled {
        /// The point at which it was cancelled.
        point: PointName,
        /// The user's text.
        text: String,
    },
    /// The clocks of both ends differ by more than their stated errors allow.
    ClocksDisagree {
        /// The point that detected it.
        point: PointName,
        /// The difference.
        difference: Time,
        /// The maximum that the stated errors and the round trip allow.
        allowed: Time,
    },
    /// The slot began and the other end did not start the test.
    NotStarted {
        /// The other end.
        point: PointName,
    },
    /// The slot passed while this point did not run, or its clock was stepped over it.
    SlotPassed {
        /// The point.
        point: PointName,
    },
    /// Another test was still running when the slot began.
    StillRunning {
        /// The point.
        point: PointName,
        /// The test that was running.
        test: ReservationId,
    },
    /// The point was restarted during the test.
    Restarted {
        /// The point.
        point: PointName,
    },
    /// The program that ran the test reported a failure, or did not end in its slot.
    TestFailed {
        /// The point.
        point: PointName,
        /// The message.
        text: String,
    },
    /// A point has no such reservation.
    Unknown {
        /// The point.
        point: PointName,
    },
    /// The request contradicts itself or an earlier one.
    Invalid {
        /// The point that detected it.
        point: PointName,
        /// The mistake.
        text: String,
    },
}

impl Reason {
    /// The kind of reason, as in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::Rule { .. } => "rule",
            Reason::Conflict { .. } => "conflict",
            Reason::TooLate { .. } => "too_late",
            Reason::Preempted { .. } => "preempted",
            Reason::Unreachable { .. } => "unreachable",
            Reason::HoldExpired { .. } => "hold_expired",
            Reason::Cancelled { .. } => "cancelled",
            Reason::ClocksDisagree { .. } => "clocks_disagree",
            Reason::NotStarted { .. } => "not_started",
            Reason::SlotPassed { .. } => "slot_passed",
            Reason::StillRunning { .. } => "still_running",
            Reason::Restarted { .. } => "restarted",
            Reason::TestFailed { .. } => "test_failed",
            Reason::Unknown { .. } => "unknown",
            Reason::Invalid { .. } => "invalid",
        }
    }

    /// The reason with a text of at most [`MAX_REASON_TEXT_BYTES`].
    pub(crate) fn shortened(mut self) -> Reason {
        if let Reason::Rule { rule: text, .. }
        | Reason::Cancelled { text, .. }
        | Reason::TestFailed { text, .. }
        | Reason::Invalid { text, .. } = &mut self
            && text.len() > MAX_REASON_TEXT_BYTES
        {
            text.truncate(text.floor_char_boundary(MAX_REASON_TEXT_BYTES - 3));
            text.push_str("...");
        }
        self
    }

    /// Whether a lead may propose another slot.
    pub(crate) fn permits_retry(&self) -> bool {
        matches!(
            self,
            Reason::Conflict { .. }
                | Reason::Preempted { .. }
                | Reason::HoldExpired { .. }
                | Reason::Unreachable { .. }
                | Reason::Unknown { .. }
                | Reason::SlotPassed { .. }
        )
    }
}

/// An instant of UTC as `2027-01-15 08:00:00 UTC`.
pub fn utc_text(utc: Instant) -> String {
    let seconds = utc.as_nanos() / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a date in the Gregorian calendar (Hinnant, "chrono-compatible low-level date algorithms",
    // civil_from_days).
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Rule { point, rule } => write!(out, "point {point} does not allow it: {rule}"),
            Reason::Conflict { point, with, class, from, until } => write!(
                out,
                "no free slot at {point}: the {class} test {with} occupies {} to {}",
                utc_text(*from),
                utc_text(*until)
            ),
            Reason::TooLate { latest } => write!(out, "its latest start, {}, has passed", utc_text(*latest)),
            Reason::Preempted { point, by, priority } => {
                write!(out, "{by} of priority {priority} displaced it at {point}")
            }
            Reason::Unreachable { point } => write!(out, "{point} did not reply"),
            Reason::HoldExpired { point } => {
                write!(out, "{point} held a slot and got no confirmation in time")
            }
            Reason::Cancelled { point, text } if text.is_empty() => write!(out, "cancelled at {point}"),
            Reason::Cancelled { point, text } => write!(out, "cancelled at {point}: {text}"),
            Reason::ClocksDisagree { point, difference, allowed } => write!(
                out,
                "the clocks differ by {difference}, and their stated errors allow {allowed} (detected by {point}); synchronize both"
            ),
            Reason::NotStarted { point } => write!(out, "{point} did not start the test when its slot began"),
            Reason::SlotPassed { point } => write!(
                out,
                "the slot passed while the agent of {point} did not run, or while its clock was stepped"
            ),
            Reason::StillRunning { point, test } => {
                write!(out, "{test} was still running at {point} when the slot began")
            }
            Reason::Restarted { point } => write!(out, "the agent of {point} was restarted during the test"),
            Reason::TestFailed { point, text } => write!(out, "the test failed at {point}: {text}"),
            Reason::Unknown { point } => write!(out, "{point} has no such reservation"),
            Reason::Invalid { point, text } => write!(out, "{point} rejects the request: {text}"),
        }
    }
}

/// How a reservation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The test completed.
    Finished,
    /// The test was not started.
    NotRun(Reason),
    /// The test was started and did not complete.
    Failed(Reason),
}

impl Outcome {
    /// Why it was not run, or failed.
    pub fn reason(&self) -> Option<&Reason> {
        match self {
            Outcome::Finished => None,
            Outcome::NotRun(reason) | Outcome::Failed(reason) => Some(reason),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Finished => out.write_str("finished"),
            Outcome::NotRun(reason) => write!(out, "not run: {reason}"),
            Outcome::Failed(reason) => write!(out, "failed: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_in_json() {
        let point = || PointName("a".into());
        let id = ReservationId { number: 1, origin: point() };
        let (text, zero, none) = (String::new(), Instant::ZERO, Time::ZERO);
        for reason in [
            Reason::Rule { point: point(), rule: text.clone() },
            Reason::Conflict {
                point: point(),
                with: id.clone(),
                class: Class::Normal,
                from: zero,
                until: zero,
            },
            Reason::TooLate { latest: zero },
            Reason::Preempted { point: point(), by: id.clone(), priority: 1 },
            Reason::Unreachable { point: point() },
            Reason::HoldExpired { point: point() },
            Reason::Cancelled { point: point(), text: text.clone() },
            Reason::ClocksDisagree { point: point(), difference: none, allowed: none },
            Reason::NotStarted { point: point() },
            Reason::SlotPassed { point: point() },
            Reason::StillRunning { point: point(), test: id },
            Reason::Restarted { point: point() },
            Reason::TestFailed { point: point(), text: text.clone() },
            Reason::Unknown { point: point() },
            Reason::Invalid { point: point(), text },
        ] {
            assert_eq!(serde_json::to_value(&reason).unwrap()["why"], reason.name());
        }
    }

    #[test]
    fn instants_are_printed_as_dates() {
        // date -u -d @1709210096
        assert_eq!(utc_text(Instant::from_secs(1_709_210_096)), "2024-02-29 12:34:56 UTC");
        assert_eq!(utc_text(Instant::ZERO), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc_text(Instant::from_secs(4_102_444_799)), "2099-12-31 23:59:59 UTC");
        assert_eq!(utc_text(Instant::NEVER), "2554-07-21 23:34:33 UTC");
    }
}
