//! What two looks at a flow say has happened between them.

use schema::{Event, EventKind, FlowSample};

/// The events between two samples of one flow.
pub fn notice(last: &FlowSample, row: &FlowSample, events: &mut Vec<Event>) {
    let grown = |before: Option<i64>, after: Option<i64>| match (before, after) {
        (Some(before), Some(after)) if after > before => Some(after - before),
        _ => None,
    };
    let changed = row.ca_state.filter(|state| Some(*state) != last.ca_state);
    for (kind, value) in [
        (EventKind::CaState, changed),
        (EventKind::Retransmit, grown(last.total_retrans_segs, row.total_retrans_segs)),
        (EventKind::Rto, grown(last.total_rto, row.total_rto)),
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
    fn what_grows_between_two_samples_is_an_event() {
        let last = FlowSample { ca_state: Some(0), total_retrans_segs: Some(3), ..FlowSample::default() };
        let row = FlowSample {
            ca_state: Some(3),
            total_retrans_segs: Some(10),
            total_rto: Some(1),
            ..FlowSample::default()
        };
        let mut events = Vec::new();
        notice(&last, &row, &mut events);
        let found: Vec<_> = events.iter().map(|e| (e.kind, e.value)).collect();
        // The first timeout count is no growth: nothing was known before.
        assert_eq!(found, [(EventKind::CaState, 3), (EventKind::Retransmit, 7)]);
    }
}
