//! Waits for a reservation.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use agent::{Client, Explained};

use super::failure;
use crate::{exit::Exit, output};

/// Interval between two requests for the state.
const POLL: Duration = Duration::from_millis(500);
/// Timeout for the result of a test of two other points after the report of its end.
const RESULT_TIMEOUT: Duration = Duration::from_secs(10);

/// Polls until `is_enough` returns true, or the reservation is over and its result has arrived. Shows changes
/// unless `is_quiet`.
pub fn wait_until(
    client: &Client,
    first: Explained,
    is_quiet: bool,
    stop: &AtomicBool,
    is_enough: impl Fn(&Explained) -> bool,
) -> anyhow::Result<Explained> {
    let mut last = first;
    let mut over: Option<Instant> = None;
    if !is_quiet {
        output::note(&last.text);
    }
    loop {
        // The result of a test of two other points arrives after the report of its end.
        let has_result = last.phase != "finished" || last.result.is_some();
        let is_late = over.is_some_and(|since| since.elapsed() > RESULT_TIMEOUT);
        if is_enough(&last) || last.is_over() && (has_result || is_late) {
            return Ok(last);
        }
        if last.is_over() && over.is_none() {
            over = Some(Instant::now());
        }
        if stop.load(Ordering::Acquire) {
            return Err(Exit::Interrupted.into());
        }
        sleep(POLL);
        let next = client.why(&last.id).map_err(failure)?;
        let Some(next) = next.into_iter().next() else { return Ok(last) };
        if next.text != last.text && !next.is_over() && !is_quiet {
            output::note(&next.text);
        }
        last = next;
    }
}
