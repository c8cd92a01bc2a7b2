//! Which calendar files are opened and which are refused.

use std::path::Path;

use agent::{CalendarError as Error, CalendarFile};
use reservation::{AdmitAll, Class, Event, Now, Phase, Point, ReservationId, Role, Settings, Spec, Test};
use units::{Instant, Time};

fn now(seconds: u64) -> Now {
    let utc = Instant::from_secs(1_800_000_000 + seconds);
    Now { steady: Instant::from_secs(seconds), utc, error: Time::from_millis(1) }
}

fn open(path: &Path, name: &str) -> Result<(CalendarFile, Point), Error> {
    CalendarFile::open(path, name.into(), Settings::default())
}

fn trace(at: u64) -> Spec {
    Spec {
        peer: None,
        user: Some("alice".into()),
        test: Test { kind: "trace".into(), parameters: "{\"hops\": 3}".into(), ..Test::default() },
        class: Class::Exclusive,
        priority: 0,
        duration: Time::from_secs(10),
        earliest: now(at).utc,
        latest: now(at + 10_000).utc,
    }
}

#[test]
fn reservations_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("calendar.sqlite");
    let (mut file, mut point) = open(&path, "a").unwrap();
    for at in 0..20 {
        let (_, step) = point.reserve(now(0), trace(at), &AdmitAll);
        file.write(&step.events).unwrap();
    }
    drop(file);
    let (_, reopened) = open(&path, "a").unwrap();
    assert_eq!(reopened.state(), point.state());
    assert_eq!(reopened.reservations().filter(|known| known.phase == Phase::Booked).count(), 20);
}

#[test]
fn a_snapshot_replaces_many_events_and_numbers_are_not_reused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("calendar.sqlite");
    let (mut file, mut point) = open(&path, "a").unwrap();
    for number in 1..=400_u64 {
        let (id, step) = point.reserve(now(0), trace(0), &AdmitAll);
        assert_eq!(id.number, number);
        file.write(&step.events).unwrap();
        let step = point.cancel(now(0), &id, "", &AdmitAll);
        file.write(&step.events).unwrap();
    }
    // Long after the retention, the point has forgotten all reservations.
    let later = now(30 * 86_400);
    let step = point.handle_timeout(later, &AdmitAll);
    file.write(&step.events).unwrap();
    assert_eq!(point.reservations().count(), 0);
    drop(file);
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    let (file, reopened) = open(&path, "a").unwrap();
    assert_eq!(reopened.state(), point.state());
    drop(file);
    let (mut file, mut again) = open(&path, "a").unwrap();
    let (id, step) = again.reserve(
        later,
        Spec { earliest: later.utc, latest: later.utc + Time::from_secs(99), ..trace(0) },
        &AdmitAll,
    );
    file.write(&step.events).unwrap();
    assert_eq!(id.number, 401);
    assert!(size(&path) < 2_000_000);
}

#[test]
fn an_open_calendar_is_compacted_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("calendar.sqlite");
    let (mut file, mut point) = open(&path, "a").unwrap();
    assert!(file.is_empty());
    let step = point.begin_numbers(now(0), 1000, &AdmitAll);
    file.write(&step.events).unwrap();
    assert!(!file.is_empty());
    // Reservations that are forgotten one after another.
    let mut at = now(0);
    for number in 0..600 {
        let (id, step) = point.reserve(at, Spec { earliest: at.utc, latest: at.utc, ..trace(0) }, &AdmitAll);
        assert_eq!(id.number, 1000 + number);
        let mut events = step.events;
        events.extend(point.cancel(at, &id, &"x".repeat(10_000), &AdmitAll).events);
        at.utc += Time::from_secs(15 * 86_400);
        events.extend(point.handle_timeout(at, &AdmitAll).events);
        file.write(&events).unwrap();
        file.compact(point.state()).unwrap();
    }
    drop(file);
    let stored = rusqlite::Connection::open(&path).unwrap();
    let (events, longest): (i64, i64) = stored
        .query_row("SELECT count(*), max(length(event)) FROM events", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert!(events < 1100 && longest < 3000, "{events} events of up to {longest} bytes");
    drop(stored);
    assert_eq!(open(&path, "a").unwrap().1.state(), point.state());
}

#[test]
fn overlapping_bookings_are_found_on_opening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("calendar.sqlite");
    let (mut file, mut point) = open(&path, "a").unwrap();
    let mut slots = Vec::new();
    for _ in 0..2 {
        let (id, step) = point.reserve(now(0), trace(0), &AdmitAll);
        file.write(&step.events).unwrap();
        slots.push((id.clone(), point.reservation(&id).unwrap().slot.unwrap()));
    }
    // Another program moves the second booking to the first one's time.
    let (id, slot) = (slots[1].0.clone(), slots[0].1);
    let expires = now(30).utc;
    file.write(&[Event::Held { id: id.clone(), revision: 2, slot, expires }, Event::Booked { id }]).unwrap();
    drop(file);
    let error = open(&path, "a").unwrap_err().to_string();
    assert!(error.contains("a/1 and a/2 are booked for overlapping slots"), "{error}");
}

#[test]
fn other_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("calendar.sqlite");
    let error = |name: &str| open(&path, name).unwrap_err().to_string();

    std::fs::write(&path, "this is not a database, but long enough to have a header of its own".repeat(20))
        .unwrap();
    assert!(error("a").contains("not a database"), "{}", error("a"));
    std::fs::remove_file(&path).unwrap();

    rusqlite::Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (a)").unwrap();
    assert!(error("a").contains("is not a calendar of this version"));
    std::fs::remove_file(&path).unwrap();

    let (file, _) = open(&path, "a").unwrap();
    assert!(error("a").contains("in use by another process"), "{}", error("a"));
    drop(file);
    assert!(error("b").contains("is the calendar of the point a, not of b"));
    assert!(open(&path, "a").is_ok());
    assert!(open(&dir.path().join("missing/calendar"), "a").unwrap_err().to_string().contains("cannot open"));
}

#[test]
fn an_event_without_its_reservation_means_a_damaged_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("calendar.sqlite");
    let (mut file, _) = open(&path, "a").unwrap();
    let id = ReservationId { number: 7, origin: "b".into() };
    file.write(&[Event::Booked { id }]).unwrap();
    drop(file);
    let error = open(&path, "a").unwrap_err().to_string();
    assert!(error.contains("event 0 changes b/7, which no earlier event created"), "{error}");
}

/// The text of events in files must stay readable: a change of this text needs a new `VERSION`.
#[test]
fn the_text_of_events_is_stable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("calendar.sqlite");
    let (mut file, mut point) = open(&path, "a").unwrap();
    let (id, step) = point.reserve(now(0), trace(5), &AdmitAll);
    file.write(&step.events).unwrap();
    assert_eq!(point.reservation(&id).unwrap().role, Role::Lead);
    drop(file);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let mut statement = connection.prepare("SELECT event FROM events ORDER BY number").unwrap();
    let texts: Vec<String> = statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(
        texts[0],
        r#"{"event":"created","request":{"id":{"number":1,"origin":"a"},"lead":"a","spec":{"peer":null,"user":"alice","test":{"kind":"trace","transport":"tcp","rate":null,"parameters":"{\"hops\": 3}"},"class":"exclusive","priority":0,"duration":10000000000,"earliest":1800000005000000000,"latest":1800010005000000000}},"role":"lead","task":null,"at":1800000000000000000}"#
    );
    assert_eq!(
        texts[1],
        r#"{"event":"held","id":{"number":1,"origin":"a"},"revision":1,"slot":{"start":1800000005000000000,"duration":10000000000,"padding":1001000000},"expires":1800000030000000000}"#
    );
    assert_eq!(texts[2], r#"{"event":"booked","id":{"number":1,"origin":"a"}}"#);
}
