//! Events of a flow, detected by comparing two of its samples.

use schema::{Event, EventKind, FlowSample};

/// Appends the events that must have happened between `previous` and `row`, two samples of one flow:
/// congestion state changed, segments retransmitted, retransmission timeouts. They get the time of `row`.
pub fn detect_events(previous: &FlowSample, row: &FlowSample, events: &mut Vec<Event>) {
    let increase = |before: Option<i64>, after: Option<i64>| match (before, after) {
        (Some(before), Some(after)) if after > before => Some(after - before),
        _ => None,
    };
    let changed = row.ca_state.filter(|state| Some(*state) != previous.ca_state);
    for (kind, value) in [
        (EventKind::CaState, changed),
        (EventKind::Retransmit, increase(previous.total_retrans_segs, row.total_retrans_segs)),
        (EventKind::Rto, increase(previous.total_rto, row.total_rto)),
    ] {
        if let Some(value) = value {
            events.push(Event { time_us: row.time_us, subject: row.flow.clone(), kind, value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_increases_between_samples_is_an_event() {
        let previous = FlowSample { ca_state: Some(0), total_retrans_segs: Some(3), ..FlowSample::default() };
        let row = FlowSample {
            ca_state: Some(3),
            total_retrans_segs: Some(10),
            total_rto: Some(1),
            ..FlowSample::default()
        };
        let mut events = Vec::new();
        detect_events(&previous, &row, &mut events);
        let found: Vec<_> = events.iter().map(|e| (e.kind, e.value)).collect();
        // The first timeout count does not count as an increase, because the previous value is unknown.
        assert_eq!(found, [(EventKind::CaState, 3), (EventKind::Retransmit, 7)]);
    }
}
