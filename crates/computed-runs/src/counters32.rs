//! The kernel's counters of segments have 32 bits (`struct tcp_info`), as those of the simulator's sockets.
//! At 10 Gb/s they wrap after 83 minutes. Rows continue to count.

use schema::FlowSample;

/// A counter that falls from the last to the first quarter of its range has wrapped. Any other decrease is
/// another connection.
const QUARTER: i64 = 1 << 30;

/// The columns that come from such counters.
const COLUMNS: [fn(&mut FlowSample) -> &mut Option<i64>; 6] = [
    |row| &mut row.total_retrans_segs,
    |row| &mut row.segs_out,
    |row| &mut row.data_segs_out_segs,
    |row| &mut row.delivered_segs,
    |row| &mut row.delivered_ce_segs,
    |row| &mut row.rcv_ooopack_segs,
];

/// Extends the counters in the rows of one flow, which are in the order of time.
pub fn extend(rows: &mut [FlowSample]) {
    for column in COLUMNS {
        let (mut last, mut added) = (0, 0);
        for count in rows.iter_mut().filter_map(|row| column(row).as_mut()) {
            let wrapped = *count;
            if last >= 3 * QUARTER && (0..QUARTER).contains(&wrapped) && last <= i64::from(u32::MAX) {
                added += 4 * QUARTER;
            }
            last = wrapped;
            *count += added;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_continue_after_they_wrap() {
        let rows = |counts: &[u64]| -> Vec<FlowSample> {
            let row = |count: &u64| FlowSample {
                data_segs_out_segs: Some(i64::from(*count as u32)),
                total_retrans_segs: Some(7),
                ..FlowSample::default()
            };
            counts.iter().map(row).collect()
        };
        let counts = |rows: &[FlowSample]| -> Vec<u64> {
            rows.iter().map(|row| row.data_segs_out_segs.unwrap() as u64).collect()
        };
        let long = [0, 3 << 30, (4 << 30) + 5, 6 << 30, (7 << 30) + 1, (8 << 30) + 2, 9 << 30];
        let mut extended = rows(&long);
        // A row without the column changes nothing.
        extended.insert(2, FlowSample::default());
        extend(&mut extended);
        extended.remove(2);
        assert_eq!(counts(&extended), long);
        assert!(extended.iter().all(|row| row.total_retrans_segs == Some(7)));
        // Another connection begins at zero.
        let mut restarted = rows(&[0, 1000, 2000, 10, 3_000_000_000, 2_000_000_000]);
        let before = counts(&restarted);
        extend(&mut restarted);
        assert_eq!(counts(&restarted), before);
    }
}
