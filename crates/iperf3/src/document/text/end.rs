//! iperf3's lines at the end of a test: each stream by both ends, and their sums.

use std::fmt::Write;

use super::{SEPARATOR, TextFormat, header_with, losses, span, with_title};
use crate::{
    document::{
        directions::{Group, groups},
        json_end::{EndSum, of_group},
        object::percent,
        units_text::amount,
    },
    report::{Cpu, Datagrams, Direction, End, Protocol, Role, ServerOutput, Start, StreamEnd, StreamTotals},
};

/// The lines after the last interval, with the other end's report if requested.
pub fn end_text(start: &Start, end: &End, format: TextFormat) -> String {
    let mut out = String::from(SEPARATOR);
    if format.verbose {
        out.push_str("Test Complete. Summary Results:\n");
    }
    // A server knows retransmissions only if it has sent itself.
    let has_retransmits = start.role == Role::Client || groups(start).iter().any(|group| group.sender);
    let known = has_retransmits
        && end.streams.iter().any(|stream| stream.tcp.is_some_and(|tcp| tcp.retransmits.is_some()));
    out.push_str(&header_with(
        start,
        match start.spec.protocol {
            Protocol::Tcp if known => "Retr",
            Protocol::Tcp => "",
            Protocol::Udp => "Jitter    Lost/Total Datagrams",
        },
    ));
    for group in groups(start) {
        let own = of_group(start, end, group);
        for stream in &own {
            out.push_str(&both_ends(
                start,
                group,
                &format!("{:3}", stream.id),
                &EndSum::of(&[stream]),
                format,
            ));
            out.push_str(&reordering(group, start, stream));
            out.push_str(&file_share(group, start, end, stream));
        }
        if own.len() > 1 {
            out.push_str(&both_ends(start, group, "SUM", &EndSum::of(&own), format));
        }
    }
    if format.verbose {
        out.push_str(&verbose_lines(start, end));
    }
    match &end.server_output {
        Some(ServerOutput::Text(text)) => out.push_str(&format!("\nServer output:\n{text}\n")),
        Some(ServerOutput::Json(value)) => out.push_str(&format!("\nServer JSON output:\n{value:#}\n")),
        None => {}
    }
    if start.role == Role::Client {
        out.push_str("\niperf Done.\n");
    }
    with_title(start, out)
}

/// One line for the sender's totals and one for the receiver's. A server does not get its client's totals.
fn both_ends(start: &Start, group: Group, name: &str, sum: &EndSum, format: TextFormat) -> String {
    let tag = group.tag(start);
    let mut out = String::new();
    let client = start.role == Role::Client;
    let mut side = |account: &StreamTotals, figures: String, who: &str| {
        let begin = span(name, &tag, (account.start_s, account.end_s), account.bytes, format);
        let _ = writeln!(out, "{begin}{figures}{who}");
    };
    let (sent, received) = (sum.sent.udp.unwrap_or_default(), sum.received.udp.unwrap_or_default());
    let udp = start.spec.protocol == Protocol::Udp;
    if client || group.sender {
        let figures = match (udp, sum.retransmits) {
            (true, _) => format!("{}  ", losses(0.0, 0, sent.packets)),
            (false, Some(retransmits)) => format!("{retransmits:3}             "),
            (false, None) => " ".repeat(16),
        };
        side(&sum.sent, figures, "sender");
    }
    if client || !group.sender {
        let figures = match udp {
            true => format!("{}  ", losses(received.jitter_s, received.lost, received.packets)),
            false => " ".repeat(16),
        };
        side(&sum.received, figures, "receiver");
    }
    out
}

fn reordering(group: Group, start: &Start, stream: &StreamEnd) -> String {
    let Some(Datagrams { out_of_order: count @ 1.., .. }) = stream.received.udp else { return String::new() };
    let (tag, account) = (group.tag(start), &stream.received);
    format!(
        "[{:3}]{tag} {:6.2}-{:<6.2} sec  {count} datagrams received out-of-order\n",
        stream.id, account.start_s, account.end_s
    )
}

/// The part of this end's file that was sent or written.
fn file_share(group: Group, start: &Start, end: &End, stream: &StreamEnd) -> String {
    let (Some(path), Some(size)) = (&start.spec.file, end.file_bytes) else { return String::new() };
    let (name, size_text) = (path.display(), amount(size));
    if group.sender {
        let sent = stream.sent.bytes;
        let share = percent(i64::try_from(sent).unwrap_or(i64::MAX), size);
        format!("        Sent {} / {size_text} ({share:.0}%) of {name}\n", amount(sent))
    } else {
        format!("        Received {} into {name}\n", amount(stream.received.bytes))
    }
}

/// Processor time and congestion controls.
fn verbose_lines(start: &Start, end: &End) -> String {
    let sends = groups(start).first().is_some_and(|group| group.sender);
    let (local, remote) = match (start.spec.direction, sends) {
        (Direction::Both, _) => ("sender and receiver", "sender and receiver"),
        (_, true) => ("sender", "receiver"),
        (_, false) => ("receiver", "sender"),
    };
    let cpu = |cpu: &Cpu| format!("{:.1}% ({:.1}%u/{:.1}%s)", cpu.total, cpu.user, cpu.system);
    let mut out = format!(
        "CPU Utilization: local/{local} {}, remote/{remote} {}\n",
        cpu(&end.cpu_local),
        cpu(&end.cpu_remote)
    );
    for (key, name) in [("snd", &end.sender_congestion), ("rcv", &end.receiver_congestion)] {
        if let Some(name) = name {
            let _ = writeln!(out, "{key}_tcp_congestion {name}");
        }
    }
    out
}
