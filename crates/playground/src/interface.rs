//! The functions that the page calls (`web/src/playground/instance.ts`). Texts are UTF-8; results stay in
//! memory until the next call.

#![allow(unsafe_code)]

use std::{
    alloc::{Layout, alloc_zeroed},
    cell::RefCell,
};

use computed_runs::MeasuredRun;
use schema::{Cause, Event, FlowSample, LinkSample, Metrics};
use units::Time;

use crate::{Answer, Library, compute, controls::Controls};

#[link(wasm_import_module = "page")]
unsafe extern "C" {
    /// Reports the simulated time, seconds.
    fn progress(elapsed_s: f64);
}

/// The results of the last call.
#[derive(Default)]
struct State {
    run: Option<MeasuredRun>,
    text: String,
    cells: Vec<f64>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::default());
}

/// Allocates zeroed memory that is never freed: texts of requests, and the variables of side modules. Null
/// without memory.
#[unsafe(no_mangle)]
pub extern "C" fn allocate(bytes: usize, alignment: usize) -> *mut u8 {
    match Layout::from_size_align(bytes.max(1), alignment.max(1)) {
        // SAFETY: the size is not 0.
        Ok(layout) => unsafe { alloc_zeroed(layout) },
        Err(_) => std::ptr::null_mut(),
    }
}

/// Computes the run of a request; `text_bytes` and `text_address` then have the answer, and `cells` the rows.
///
/// # Safety
/// The request is a text of this length in memory from [`allocate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn run(request: *const u8, bytes: usize) {
    // SAFETY: as this function's.
    let request = unsafe { std::slice::from_raw_parts(request, bytes) };
    let (answer, run) = match serde_json::from_slice(request) {
        Ok(request) => compute(&request, &mut Controls::default(), &mut Progress),
        Err(error) => (Answer::Failed(format!("invalid request: {error}")), None),
    };
    let text = serde_json::to_string(&answer).unwrap_or_default();
    STATE.with_borrow_mut(|state| *state = State { run, text, cells: Vec::new() });
}

/// Replaces the answer by the names of the built-in congestion controls, a list.
#[unsafe(no_mangle)]
pub extern "C" fn read_algorithms() {
    let text = serde_json::to_string(&Controls::default().names()).unwrap_or_default();
    STATE.with_borrow_mut(|state| state.text = text);
}

/// Length of the answer, bytes.
#[unsafe(no_mangle)]
pub extern "C" fn text_bytes() -> usize {
    STATE.with_borrow(|state| state.text.len())
}

/// Address of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn text_address() -> *const u8 {
    STATE.with_borrow(|state| state.text.as_ptr())
}

/// Reads a column of a flow or of a link's direction, with NaN for rows without a value; returns the number
/// of rows. `name` has the table (`flows` or `links`), the flow or the link with its direction, and the
/// column, separated by tabs. `limited_by` is a column of flows: the index of the cause.
///
/// # Safety
/// The name is a text of this length in memory from [`allocate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cells(name: *const u8, bytes: usize) -> usize {
    // SAFETY: as this function's.
    let name = unsafe { std::slice::from_raw_parts(name, bytes) };
    let name = String::from_utf8_lossy(name).into_owned();
    STATE.with_borrow_mut(|state| {
        state.cells = state.run.as_ref().map(|run| column(run, &name)).unwrap_or_default();
        state.cells.len()
    })
}

/// Address of the cells.
#[unsafe(no_mangle)]
pub extern "C" fn cells_address() -> *const f64 {
    STATE.with_borrow(|state| state.cells.as_ptr())
}

/// Replaces the answer by the events of the run: a list of time (microseconds), subject, kind and value.
#[unsafe(no_mangle)]
pub extern "C" fn read_events() {
    STATE.with_borrow_mut(|state| {
        let events = state.run.as_ref().map(|run| run.events.as_slice()).unwrap_or_default();
        let row =
            |event: &Event| serde_json::json!([event.time_us, event.subject, event.kind.name(), event.value]);
        let rows: Vec<serde_json::Value> = events.iter().map(row).collect();
        state.text = serde_json::Value::from(rows).to_string();
    });
}

fn column(run: &MeasuredRun, name: &str) -> Vec<f64> {
    let mut parts = name.split('\t');
    let (Some(table), Some(subject), Some(column)) = (parts.next(), parts.next(), parts.next()) else {
        return Vec::new();
    };
    if table == "links" {
        let rows = run.links.iter().filter(|row| format!("{} {}", row.link, row.direction) == subject);
        return values(rows, column, |row: &LinkSample| row.time_us);
    }
    let rows = run.flows.iter().filter(|row| row.flow == subject);
    if column == "limited_by" {
        let index = |cause: Cause| Cause::ALL.iter().position(|one| *one == cause);
        return rows.map(|row| row.limited_by.and_then(index).map_or(f64::NAN, |at| at as f64)).collect();
    }
    values(rows, column, |row: &FlowSample| row.time_us)
}

fn values<'a, T: Metrics + 'a>(
    rows: impl Iterator<Item = &'a T>,
    column: &str,
    time_us: impl Fn(&T) -> i64,
) -> Vec<f64> {
    match T::column(column) {
        Some(index) => rows.map(|row| row.metric(index).map_or(f64::NAN, |value| value as f64)).collect(),
        None if column == "time_us" => rows.map(|row| time_us(row) as f64).collect(),
        None => Vec::new(),
    }
}

/// Reports progress to the page. Rows stay in the run.
struct Progress;

impl sim::Observer for Progress {
    fn rows(
        &mut self,
        _: &[FlowSample],
        _: &[LinkSample],
        _: &[Event],
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }

    fn progress(&mut self, elapsed: Time, _: &[FlowSample]) -> bool {
        // SAFETY: the page's function takes any number.
        unsafe { progress(elapsed.as_secs_f64()) };
        true
    }
}
