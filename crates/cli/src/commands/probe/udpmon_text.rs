//! The table, sentences and rows of `longfat probe udpmon`.

use std::fmt::Write;

use probe::{GridCell, GridResult, GridTrain, Interval, LatencyFit, RequestResponseResult, UdpmonResult};
use view::number::{rate, seconds, share};

use crate::output;

pub fn sentences(result: &UdpmonResult, stamps: &str) -> String {
    let mut lines = vec![table(&result.grid)];
    lines.push(bottleneck(&result.grid));
    lines.extend(order_and_jitter(&result.grid));
    lines.extend(latency(&result.latency));
    lines.push(format!("Arrivals have {stamps} timestamps."));
    lines.join("\n")
}

/// Received throughput and loss: spacings by sizes.
fn table(grid: &GridResult) -> String {
    let heads = grid.sizes_bytes.iter().map(|size| format!("{size} B"));
    let mut rows = vec![std::iter::once("SPACING".to_string()).chain(heads).collect::<Vec<_>>()];
    for spacing_us in &grid.spacings_us {
        let cells = grid.cells.iter().filter(|cell| cell.spacing_us == *spacing_us).map(cell_text);
        rows.push(std::iter::once(spacing(*spacing_us)).chain(cells).collect());
    }
    let right_aligned = vec![true; grid.sizes_bytes.len() + 1];
    let table = view::table::fitted(rows, &right_aligned, output::width(), &[]);
    format!("Rate received (IP) and share lost, by packet size and spacing:\n{}", table.trim_end())
}

fn cell_text(cell: &GridCell) -> String {
    let received = cell.received_bps.map_or("-".into(), rate);
    match cell.lost_share() {
        None => received,
        Some(lost) => format!("{received} -{}", share(lost)),
    }
}

fn spacing(us: f64) -> String {
    if us == 0.0 { "0".into() } else { seconds(us / 1e6) }
}

fn bottleneck(grid: &GridResult) -> String {
    let (Some(per_byte), Some(per_packet)) = (grid.per_byte_ns, grid.per_packet_us) else {
        return "The bottleneck's time per byte is unknown.".into();
    };
    let (is, the) = match grid.validity.valid {
        true => ("takes", "The"),
        false => ("may take", "Inconclusive: the"),
    };
    let wire = grid.rate_bps.map_or(String::new(), |found| {
        format!(": {} on the wire ({} to {})", rate(found.value), rate(found.low), rate(found.high))
    });
    let overhead =
        grid.overhead_bytes.map_or(String::new(), |bytes| format!(", the time of {bytes:.1} bytes"));
    format!(
        "{the} bottleneck {is} {} per byte{wire}. A packet takes {} more{overhead}.",
        range_ns(per_byte),
        signed_us(per_packet.value)
    )
}

fn range_ns(of: Interval) -> String {
    format!("{:.2} ns ({:.2} to {:.2})", of.value, of.low, of.high)
}

fn signed_us(us: f64) -> String {
    if us < 0.0 { format!("-{}", seconds(-us / 1e6)) } else { seconds(us / 1e6) }
}

/// Reordering, and the jitter of the widest spacing that did not fill the queue.
fn order_and_jitter(grid: &GridResult) -> Vec<String> {
    let mut lines = Vec::new();
    let (received, reordered) = grid.received_and_reordered();
    lines.push(format!("Reordered: {reordered} of {received} packets."));
    if let Some((cell, [median, p95, p99, max])) =
        grid.cells.iter().rev().find_map(|cell| Some((cell, cell.delay_variation_us?)))
    {
        let of = |us: f64| seconds(us / 1e6);
        lines.push(format!(
            "One-way delay above the minimum, {} bytes every {}: median {}, p95 {}, p99 {}, max {}.",
            cell.packet_bytes,
            spacing(cell.spacing_us),
            of(median),
            of(p95),
            of(p99),
            of(max)
        ));
    }
    lines
}

fn latency(result: &RequestResponseResult) -> Vec<String> {
    let mut lines = Vec::new();
    let line = |name: &str, fit: Option<LatencyFit>| {
        fit.map(|fit| {
            let per_byte = range_ns(fit.per_byte_ns);
            format!("{name}: {} and {per_byte} per byte.", signed_us(fit.intercept_us.value))
        })
    };
    lines.extend(line("Latency of requests with replies of their size", result.round_trip));
    lines.extend(line("Latency of requests with small replies", result.forward));
    if let Some(backward) = result.backward_per_byte_ns {
        lines.push(format!("So the backward direction takes {} per byte.", range_ns(backward)));
    }
    lines
}

/// A row for each cell of the grid. Absent figures are empty.
pub fn cells_csv(grid: &GridResult) -> String {
    let mut csv = String::from(
        "packet_bytes,spacing_us,trains,sent,received,lost,host_drops,reordered,sent_bps,received_bps,\
         sent_spacing_us,received_spacing_us,is_saturated,delay_p50_us,delay_p95_us,delay_p99_us,delay_max_us\n",
    );
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.3}"));
    for cell in &grid.cells {
        let delays =
            cell.delay_variation_us.map(|all| all.map(Some)).unwrap_or_default().map(number).join(",");
        // Writing into a String cannot fail.
        let _ = writeln!(
            csv,
            "{},{},{},{},{},{},{},{},{},{},{:.3},{},{},{delays}",
            cell.packet_bytes,
            cell.spacing_us,
            cell.trains,
            cell.sent,
            cell.received,
            cell.lost,
            cell.host_drops,
            cell.reordered,
            number(cell.sent_bps),
            number(cell.received_bps),
            cell.sent_spacing_us,
            number(cell.received_spacing_us),
            cell.is_saturated,
        );
    }
    csv
}

/// A row for each packet of the grid; times in ns since the first departure of its train by the sender's
/// clock, and since the first arrival by the receiver's. The arrival of a lost packet is empty.
pub fn packets_csv(grid: &GridResult, trains: &[GridTrain]) -> String {
    let mut csv = String::from("packet_bytes,spacing_us,round,number,sent_ns,arrived_ns\n");
    for train in trains {
        let (size, spacing) = (grid.sizes_bytes[train.size], grid.spacings_us[train.spacing]);
        for (number, (sent, arrived)) in train.relative_times_ns().enumerate() {
            let arrived = arrived.map_or(String::new(), |at| at.to_string());
            let _ = writeln!(csv, "{size},{spacing},{},{number},{sent},{arrived}", train.round);
        }
    }
    csv
}

/// A row for each size and kind of reply.
pub fn latency_csv(result: &RequestResponseResult) -> String {
    let mut csv = String::from("packet_bytes,replies,sent,received,min_us,error_us,median_us,p95_us\n");
    for point in &result.points {
        let replies = match point.replies {
            probe::ReplySize::Request => "request",
            probe::ReplySize::Smallest => "smallest",
        };
        let _ = writeln!(
            csv,
            "{},{replies},{},{},{:.3},{:.3},{:.3},{:.3}",
            point.packet_bytes,
            point.sent,
            point.received,
            point.min_us,
            point.error_us,
            point.median_us,
            point.p95_us
        );
    }
    csv
}
