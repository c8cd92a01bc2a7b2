//! A process with two points and their calendar files is killed repeatedly, at any moment, and restarted with
//! the same files.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use agent::CalendarFile;
use reservation::{
    Action, AdmitAll, Class, Message, Now, Phase, Point, PointName, ReservationId, Role, Settings, Spec,
    Step, Test,
};
use units::{Instant, Time};

/// Set in the child: the directory of the calendar files.
const DIRECTORY: &str = "LONGFAT_TEST_CALENDARS";
/// Set in the child: virtual seconds at its start.
const START: &str = "LONGFAT_TEST_START";
/// Virtual seconds between two iterations of the child.
const TICK: u64 = 1;
const KILLS: u64 = 25;

fn now(seconds: u64) -> Now {
    let utc = Instant::from_secs(1_800_000_000 + seconds);
    Now { steady: Instant::from_secs(seconds), utc, error: Time::from_millis(1) }
}

fn settings() -> Settings {
    Settings { resend: Time::from_secs(1), ..Settings::default() }
}

struct Host {
    file: CalendarFile,
    point: Point,
    runs: Vec<(u64, ReservationId)>,
}

/// Opens both calendars. This fails if a point has overlapping bookings.
fn open(directory: &Path) -> BTreeMap<PointName, Host> {
    ["a", "b"]
        .map(|name| {
            let path = directory.join(name);
            let (file, point) = CalendarFile::open(&path, name.into(), settings()).unwrap();
            (PointName::from(name), Host { file, point, runs: Vec::new() })
        })
        .into()
}

/// Writes a step's events, reports them, and only then passes its messages on.
fn carry_out(host: &mut Host, seconds: u64, step: Step, out: &mut Vec<(PointName, PointName, Message)>) {
    host.file.write(&step.events).unwrap();
    let name = host.point.name().clone();
    for event in &step.events {
        if let reservation::Event::Created { request, .. } = event {
            // Output is not buffered: a printed line has reached the parent before a kill.
            println!("durable {name} {} {}", request.id.origin, request.id.number);
        }
    }
    out.extend(step.messages.into_iter().map(|(to, message)| (name.clone(), to, message)));
    for action in step.actions {
        match action {
            Action::Run(id) => host.runs.push((seconds + 5, id)),
            Action::Stop(id) => host.runs.retain(|(_, running)| *running != id),
        }
    }
}

/// Both points reserve with each other, as fast as the disk allows, for `iterations`.
fn work(directory: &Path, start: u64, iterations: u64, reserves: bool) -> BTreeMap<PointName, Host> {
    let mut hosts = open(directory);
    let mut messages = Vec::new();
    let mut seconds = start;
    for host in hosts.values_mut() {
        let step = host.point.restart(now(seconds), &AdmitAll);
        carry_out(host, seconds, step, &mut messages);
    }
    for iteration in 0..iterations {
        seconds += TICK;
        for (number, host) in hosts.values_mut().enumerate() {
            if reserves && iteration % 3 == number as u64 {
                let peer = if number == 0 { "b" } else { "a" };
                let spec = Spec {
                    peer: Some(peer.into()),
                    user: None,
                    test: Test::default(),
                    class: Class::Exclusive,
                    priority: (iteration % 2) as i32,
                    duration: Time::from_secs(5),
                    earliest: now(seconds + 10).utc,
                    latest: now(seconds + 100).utc,
                };
                let (_, step) = host.point.reserve(now(seconds), spec, &AdmitAll);
                carry_out(host, seconds, step, &mut messages);
            }
            let step = host.point.handle_timeout(now(seconds), &AdmitAll);
            carry_out(host, seconds, step, &mut messages);
            let (over, running) =
                std::mem::take(&mut host.runs).into_iter().partition(|(end, _)| *end <= seconds);
            host.runs = running;
            for (_, id) in over as Vec<_> {
                let step = host.point.finish(now(seconds), &id, Ok(()), &AdmitAll);
                carry_out(host, seconds, step, &mut messages);
            }
        }
        while let Some((from, to, message)) = messages.pop() {
            let host = hosts.get_mut(&to).unwrap();
            let step = host.point.handle_message(now(seconds), &from, message, &AdmitAll);
            carry_out(host, seconds, step, &mut messages);
        }
        println!("second {seconds}");
    }
    hosts
}

/// The process that is killed; does nothing in a normal test run.
#[test]
fn child() {
    let (Ok(directory), Ok(start)) = (env::var(DIRECTORY), env::var(START)) else { return };
    work(Path::new(&directory), start.parse().unwrap(), u64::MAX, true);
}

#[test]
fn a_kill_at_any_moment_loses_no_event_and_books_no_slot_twice() {
    let directory = tempfile::tempdir().unwrap();
    let mut start = 0;
    let mut durable: Vec<(PointName, ReservationId)> = Vec::new();
    for kill in 0..KILLS {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "killed::child", "--nocapture", "--test-threads=1"])
            .env(DIRECTORY, directory.path())
            .env(START, start.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The child is killed after a number of lines that differs each time, at any moment of the next
        // steps.
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut remaining = 1 + kill * 37 % 200;
        let mut is_killed = false;
        for line in lines {
            let Ok(line) = line else { break };
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["durable", point, origin, number] => {
                    let id = ReservationId { number: number.parse().unwrap(), origin: origin.into() };
                    durable.push((point.into(), id));
                }
                ["second", second] => start = second.parse().unwrap(),
                _ => {}
            }
            remaining = remaining.saturating_sub(1);
            if remaining == 0 && !is_killed {
                std::thread::sleep(Duration::from_micros(kill * 613 % 5000));
                child.kill().unwrap();
                is_killed = true;
            }
        }
        assert!(is_killed, "the child ended by itself");
        child.wait().unwrap();
        let hosts = open(directory.path());
        for (point, id) in &durable {
            assert!(hosts[point].point.reservation(id).is_some(), "kill {kill}: {point} has lost {id}");
        }
        for host in hosts.values() {
            host.point.calendar().verify().unwrap();
        }
        start += 1 + kill % 40;
    }
    // Without new requests all reservations end, and some tests have run.
    let hosts = work(directory.path(), start, 400, false);
    std::io::stdout().flush().unwrap();
    let mut finished = 0;
    for host in hosts.values() {
        assert_eq!(host.point.calendar().slots().next(), None);
        for known in host.point.reservations() {
            assert!(known.has_ended() && !known.must_notify, "{known:?}");
            let is_finished = known.phase == Phase::Ended(reservation::Outcome::Finished);
            finished += u64::from(is_finished && known.role == Role::Lead);
        }
    }
    assert!(durable.len() > 100, "{}", durable.len());
    assert!(finished > 10, "{finished}");
}
