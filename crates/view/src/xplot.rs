//! A traced flow in the format of xplot: the time-sequence graph of tcptrace, as in Stevens's books.
//!
//! Each segment is a white arrow from its first to its last byte, red if it is a retransmission. The green
//! line below shows the acknowledged bytes, the yellow line above the end of the receiver's window. Purple
//! ticks are ACKs with SACK blocks.

use std::fmt::Write;

use schema::{TraceKind, TraceRow};

/// The graph of one flow; `None` if the flow has no rows. `rows` are in order of time.
pub fn xplot(rows: &[TraceRow], flow: &str) -> Option<String> {
    let own: Vec<&TraceRow> = rows.iter().filter(|row| row.flow == flow).collect();
    own.first()?;
    let name: String = flow.chars().filter(|c| !c.is_control()).collect();
    let mut text = format!(
        "timeval unsigned\ntitle\n{name} (time sequence graph)\nxlabel\ntime\nylabel\nsequence number\n"
    );
    // Writing to a string cannot fail.
    for row in &own {
        let _ = segment(row, &mut text);
    }
    let acks: Vec<(i64, i64, Option<i64>)> =
        own.iter().filter_map(|row| Some((row.time_us, row.ack_bytes?, row.snd_wnd_bytes))).collect();
    let allowed: Vec<(i64, i64)> =
        acks.iter().filter_map(|(at, acked, window)| Some((*at, acked + (*window)?))).collect();
    let acked: Vec<(i64, i64)> = acks.iter().map(|(at, acked, _)| (*at, *acked)).collect();
    let _ = staircase("green", &acked, &mut text);
    let _ = staircase("yellow", &allowed, &mut text);
    for row in own.iter().filter(|row| row.kind == TraceKind::Sack) {
        if let Some(acked) = row.ack_bytes {
            let _ = writeln!(text, "purple\nutick {} {acked}", time(row.time_us));
        }
    }
    text.push_str("go\n");
    Some(text)
}

fn segment(row: &TraceRow, text: &mut String) -> std::fmt::Result {
    let (Some(from), Some(len)) = (row.seq_bytes, row.len_bytes) else { return Ok(()) };
    let (at, to) = (time(row.time_us), from + len);
    let is_retransmission = row.kind == TraceKind::Retransmit;
    let color = if is_retransmission { "red" } else { "white" };
    writeln!(text, "{color}\ndarrow {at} {from}\nuarrow {at} {to}\nline {at} {from} {at} {to}")?;
    if is_retransmission { writeln!(text, "atext {at} {to}\nR") } else { Ok(()) }
}

/// A line that holds each value until the next.
fn staircase(color: &str, points: &[(i64, i64)], text: &mut String) -> std::fmt::Result {
    writeln!(text, "{color}")?;
    let ends = [points.last().copied()];
    // A line needs only the first and the last of several equal values.
    let mut points: Vec<(i64, i64)> = points.to_vec();
    points.dedup_by_key(|(_, value)| *value);
    points.extend(ends.into_iter().flatten());
    for pair in points.windows(2) {
        let ((from, before), (to, after)) = (pair[0], pair[1]);
        let (from, to) = (time(from), time(to));
        writeln!(text, "line {from} {before} {to} {before}")?;
        if after != before {
            writeln!(text, "line {to} {before} {to} {after}")?;
        }
    }
    Ok(())
}

/// Seconds and microseconds, as xplot reads them.
fn time(us: i64) -> String {
    format!("{}.{:06}", us.div_euclid(1_000_000), us.rem_euclid(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_acks_are_drawn() {
        let sent = |time_us, kind, from| TraceRow {
            time_us,
            flow: "f".into(),
            kind,
            seq_bytes: Some(from),
            len_bytes: Some(1000),
            ..TraceRow::default()
        };
        let ack = |time_us, kind, acked| TraceRow {
            time_us,
            flow: "f".into(),
            kind,
            ack_bytes: Some(acked),
            snd_wnd_bytes: Some(5000),
            ..TraceRow::default()
        };
        let rows = [
            sent(0, TraceKind::Sent, 0),
            ack(1_500_000, TraceKind::Ack, 1000),
            sent(1_600_000, TraceKind::Retransmit, 1000),
            ack(2_000_000, TraceKind::Sack, 2000),
        ];
        let text = xplot(&rows, "f").unwrap();
        for part in [
            "timeval unsigned\ntitle\nf (time",
            "white\ndarrow 0.000000 0\nuarrow 0.000000 1000\nline 0.000000 0 0.000000 1000\n",
            "red\ndarrow 1.600000 1000\n",
            "green\nline 1.500000 1000 2.000000 1000\nline 2.000000 1000 2.000000 2000\n",
            "yellow\nline 1.500000 6000 2.000000 6000\n",
            "purple\nutick 2.000000 2000\ngo\n",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert_eq!(xplot(&rows, "other"), None);
        // A name does not act as a command of xplot.
        let renamed = rows.map(|row| TraceRow { flow: "f\ngo\nx".into(), ..row });
        assert!(xplot(&renamed, "f\ngo\nx").unwrap().starts_with("timeval unsigned\ntitle\nfgox (time"));
    }
}
