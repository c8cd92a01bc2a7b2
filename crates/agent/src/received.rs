//! Results that other points send: which ones are accepted, and their bounds. A point of the mesh is
//! authenticated, but not trusted.

use reservation::{Now, PointName, ReservationId, Settings};

use crate::{
    State, TestRow,
    control::CalendarReport,
    mesh::check_name,
    test::Kind,
    test_row::micros,
    texts::{is_word, plain},
};

/// The longest reason, evidence and path, bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// The largest packet, bytes (RFC 791: the total length has 16 bits).
const MAX_PACKET_BYTES: u64 = 65_535;
/// The largest number of hops (RFC 791: the time to live has 8 bits).
const MAX_HOPS: u64 = 255;
/// The longest name of a recurring test, of a cause and of a kind of reason, bytes.
const MAX_NAME_BYTES: usize = 128;

/// Why a result is not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The result is invalid and stays so: resending it does not help.
    Invalid(&'static str),
    /// Its start is too far in the future: one of the two clocks is wrong.
    Future,
}

/// A reason in words, which may quote texts of other points.
pub(crate) fn plain_reason(text: &str) -> String {
    plain(text, MAX_TEXT_BYTES)
}

/// A calendar that another point has sent.
pub(crate) fn plain_calendar(mut report: CalendarReport) -> CalendarReport {
    let short = |text: &mut String| *text = plain(text, MAX_NAME_BYTES);
    short(&mut report.point);
    for slot in &mut report.slots {
        let texts =
            [&mut slot.id, &mut slot.phase, &mut slot.from, &mut slot.to, &mut slot.kind, &mut slot.class];
        texts.into_iter().chain(&mut slot.user).for_each(short);
    }
    report
}

/// The latest start of a test that is not in the future by mistake, microseconds since 1970.
pub(crate) fn latest_start_us(now: Now, settings: &Settings) -> i64 {
    micros((now.utc + settings.horizon).since_origin())
}

/// The reservation of a row.
pub(crate) fn id_of(text: &str) -> Option<ReservationId> {
    let (origin, number) = text.rsplit_once('/')?;
    check_name(origin).ok()?;
    let id = ReservationId { number: number.parse().ok()?, origin: origin.into() };
    (id.to_string() == text).then_some(id)
}

/// Checks a result that `from` has sent; its texts are cut, and control characters in them replaced.
pub(crate) fn checked(
    row: TestRow,
    from: &PointName,
    now: Now,
    settings: &Settings,
) -> Result<TestRow, Refusal> {
    let figures = &row.figures;
    let numbers = [
        figures.goodput_bps,
        figures.loss_share,
        figures.min_rtt_us,
        figures.typical_rtt_us,
        figures.capacity_bps,
        figures.available_bps,
    ];
    let words = [&figures.verdict, &row.reason_kind];
    for (is_valid, text) in [
        (row.from == from.0, "it is of another point"),
        (check_name(&row.to).is_ok() && row.to != row.from, "its other end has no valid name"),
        (row.kind.parse::<Kind>().is_ok(), "it is of an unknown kind"),
        (row.state != State::Running, "its test has not ended"),
        (row.start_us >= 0, "its start is before 1970"),
        ((0..=micros(settings.max_duration)).contains(&row.duration_us), "its duration is not valid"),
        (words.into_iter().flatten().all(|word| is_word(word, MAX_NAME_BYTES)), "a name in it is not valid"),
        (
            numbers.into_iter().flatten().all(|number| number.is_finite() && number >= 0.0),
            "a figure is not valid",
        ),
        (figures.mtu_bytes.is_none_or(|bytes| bytes <= MAX_PACKET_BYTES), "its path MTU is not valid"),
        (figures.hops.is_none_or(|hops| hops <= MAX_HOPS), "its number of hops is not valid"),
    ] {
        if !is_valid {
            return Err(Refusal::Invalid(text));
        }
    }
    if row.start_us > latest_start_us(now, settings) {
        return Err(Refusal::Future);
    }
    let text = |text: Option<String>| text.map(|text| plain(&text, MAX_TEXT_BYTES));
    let mut row = row;
    row.task = row.task.map(|name| plain(&name, MAX_NAME_BYTES));
    // A newer version may have other options: their text is only compared.
    row.options = row.options.map(|text| plain(&text, MAX_NAME_BYTES)).filter(|text| !text.is_empty());
    row.reason = text(row.reason);
    row.record = text(row.record);
    row.figures.evidence = text(row.figures.evidence);
    Ok(row)
}

#[cfg(test)]
mod tests {
    use units::{Instant, Time};

    use super::*;
    use crate::test_row::tests::row;

    #[test]
    fn impossible_results_are_refused() {
        let now = Now { steady: Instant::ZERO, utc: Instant::from_secs(1_800_000_000), error: Time::ZERO };
        let settings = Settings::default();
        let now_us = 1_800_000_000_000_000;
        let day_us = 86_400_000_000;
        let good = || row("a/1", now_us);
        let check = |row: TestRow| checked(row, &"a".into(), now, &settings);
        assert_eq!(check(good()), Ok(good()));
        let changed = |change: &dyn Fn(&mut TestRow)| {
            let mut row = good();
            change(&mut row);
            check(row)
        };
        let invalid: [&dyn Fn(&mut TestRow); 18] = [
            &|row| row.from = "b".into(),
            &|row| row.to = "a".into(),
            &|row| row.to = "d\r\nBcc: x".into(),
            &|row| row.to = String::new(),
            &|row| row.kind = "dns".into(),
            &|row| row.state = State::Running,
            &|row| row.start_us = i64::MIN,
            &|row| row.start_us = -1,
            &|row| row.duration_us = i64::MAX,
            &|row| row.duration_us = -1,
            &|row| row.figures.verdict = Some("x".repeat(1 << 17)),
            &|row| row.figures.verdict = Some("loss\nBcc: x".into()),
            &|row| row.reason_kind = Some("test failed".into()),
            &|row| row.figures.goodput_bps = Some(-1.0),
            &|row| row.figures.capacity_bps = Some(f64::INFINITY),
            &|row| row.figures.available_bps = Some(-1.0),
            &|row| row.figures.mtu_bytes = Some(65_536),
            &|row| row.figures.hops = Some(u64::MAX),
        ];
        for (number, change) in invalid.iter().enumerate() {
            assert!(matches!(changed(change), Err(Refusal::Invalid(_))), "{number}");
        }
        let largest = |row: &mut TestRow| {
            (row.figures.mtu_bytes, row.figures.hops) = (Some(65_535), Some(255));
            (row.figures.capacity_bps, row.figures.available_bps) = (Some(1e12), Some(0.0));
        };
        assert!(changed(&largest).is_ok());
        assert_eq!(changed(&|row| row.start_us = now_us + 8 * day_us), Err(Refusal::Future));
        assert!(changed(&|row| row.start_us = now_us + 6 * day_us).is_ok());
        let long = changed(&|row| {
            row.reason = Some("\u{1b}[2J".repeat(1 << 18));
            row.figures.evidence = row.reason.clone();
            row.record = row.reason.clone();
            row.task = row.reason.clone();
            row.options = row.reason.clone();
        });
        assert!(serde_json::to_vec(&long.unwrap()).unwrap().len() < 4 * MAX_TEXT_BYTES);
        for id in ["", "a", "a/", "/1", "a/-1", "a/+1", "a/01", "A/1", "a/1/2", "a/18446744073709551616"] {
            assert_eq!(id_of(id), None, "{id}");
        }
        assert_eq!(id_of("a/12"), Some(ReservationId { number: 12, origin: "a".into() }));
    }
}
