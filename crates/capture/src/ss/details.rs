//! The details of a socket: words such as `cwnd:10`, and the line's addresses.

use std::net::SocketAddr;

use schema::FlowSample;

/// Words that may precede the congestion control.
const FLAGS: [&str; 5] = ["ts", "sack", "ecn", "ecnseen", "fastopen"];

fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Parses the words of the details into a row, and the name of the congestion control, which is not replaced.
pub(super) fn parse_details(words: &[&str], row: &mut FlowSample, cc: &mut Option<String>) {
    for (index, word) in words.iter().enumerate() {
        // The name of the congestion control has no key; it precedes the window scales or the RTO.
        if word.starts_with("wscale:") || word.starts_with("rto:") {
            let before = index.checked_sub(1).map(|i| words[i]);
            if let Some(name) = before.filter(|w| is_name(w) && !FLAGS.contains(w)) {
                cc.get_or_insert_with(|| name.into());
            }
        }
        let next = words.get(index + 1).copied().unwrap_or_default();
        parse_detail(word, next, row);
    }
}

/// Parses a word of the details; `next` is the following word, which has the value of some keys.
fn parse_detail(word: &str, next: &str, row: &mut FlowSample) {
    if let Some(memory) = word.strip_prefix("skmem:(") {
        return parse_skmem(memory.trim_end_matches(')'), row);
    }
    match word {
        // Followed by the maximum, if there is one: `2.5Gbps/10Gbps`.
        "pacing_rate" => return row.pacing_rate_bps = next.split('/').next().and_then(parse_rate),
        "delivery_rate" => return row.delivery_rate_bps = parse_rate(next),
        "app_limited" => return row.delivery_rate_app_limited = Some(1),
        _ => {}
    }
    let Some((key, value)) = word.split_once(':') else { return };
    let (first, second) = value.split_once('/').map_or((value, None), |(a, b)| (a, Some(b)));
    let count = || first.parse::<i64>().ok();
    match key {
        "rtt" => {
            (row.srtt_us, row.rttvar_us) = (parse_milliseconds(first), second.and_then(parse_milliseconds))
        }
        "minrtt" => row.min_rtt_us = parse_milliseconds(first),
        "rcv_rtt" => row.rcv_rtt_us = parse_milliseconds(first),
        "rto" => row.rto_us = parse_milliseconds(first),
        "mss" => row.snd_mss_bytes = count(),
        "cwnd" => row.snd_cwnd_segs = count(),
        "ssthresh" => row.snd_ssthresh_segs = count(),
        "snd_wnd" => row.snd_wnd_bytes = count(),
        "rcv_wnd" => row.rcv_wnd_bytes = count(),
        "rcv_ooopack" => row.rcv_ooopack_segs = count(),
        "rcv_space" => row.rcv_space_bytes = count(),
        "rcv_ssthresh" => row.rcv_ssthresh_bytes = count(),
        "bytes_sent" => row.bytes_sent = count(),
        "bytes_retrans" => row.bytes_retrans = count(),
        "bytes_acked" => row.bytes_acked = count(),
        "bytes_received" => row.bytes_received = count(),
        "segs_out" => row.segs_out = count(),
        "data_segs_out" => row.data_segs_out_segs = count(),
        "delivered" => row.delivered_segs = count(),
        "delivered_ce" => row.delivered_ce_segs = count(),
        "unacked" => row.unacked_segs = count(),
        "sacked" => row.sacked_segs = count(),
        "lost" => row.lost_segs = count(),
        "notsent" => row.notsent_bytes = count(),
        "retrans" => {
            (row.retrans_segs, row.total_retrans_segs) = (count(), second.and_then(|n| n.parse().ok()));
        }
        "busy" => row.busy_time_us = parse_milliseconds(first),
        "rwnd_limited" => row.rwnd_limited_us = parse_milliseconds(first),
        "sndbuf_limited" => row.sndbuf_limited_us = parse_milliseconds(first),
        _ => {}
    }
}

/// Parses `r0,rb131072,t0,tb87040,f0,w0,o0,bl0,d0`.
fn parse_skmem(text: &str, row: &mut FlowSample) {
    for part in text.split(',') {
        let digits = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
        let (key, value) = part.split_at(digits);
        let value = value.parse().ok();
        match key {
            "r" => row.rmem_alloc_bytes = value,
            "rb" => row.rcvbuf_bytes = value,
            "tb" => row.sndbuf_bytes = value,
            "w" => row.wmem_queued_bytes = value,
            _ => {}
        }
    }
}

/// Parses `0.05`, `44ms` or `44ms(1.2%)`; returns microseconds.
fn parse_milliseconds(text: &str) -> Option<i64> {
    let number = text.split("ms").next()?;
    let us = number.parse::<f64>().ok()? * 1e3;
    (0.0..1e18).contains(&us).then(|| us.round() as i64)
}

/// Parses `27009144bps` or `9.41Gbps`; returns bit/s.
fn parse_rate(text: &str) -> Option<i64> {
    let number = text.strip_suffix("bps")?;
    let (number, scale) = match number.chars().last()? {
        'K' => (&number[..number.len() - 1], 1e3),
        'M' => (&number[..number.len() - 1], 1e6),
        'G' => (&number[..number.len() - 1], 1e9),
        'T' => (&number[..number.len() - 1], 1e12),
        _ => (number, 1.0),
    };
    let bps = number.parse::<f64>().ok()? * scale;
    (0.0..9e18).contains(&bps).then(|| bps.round() as i64)
}

/// Finds two consecutive addresses in a line; returns the index of the first, and both.
pub(super) fn find_addresses<'a>(words: &[&'a str]) -> Option<(usize, &'a str, &'a str)> {
    let index = words.windows(2).position(|pair| is_address(pair[0]) && is_address(pair[1]))?;
    Some((index, words[index], words[index + 1]))
}

/// Whether a word is an address such as `10.0.0.1:80`, `[::1]:80` or `10.0.0.1%eth0:80`.
fn is_address(word: &str) -> bool {
    if word.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let without_device = |(address, rest): (&str, &str)| {
        let port = rest.rsplit_once(':')?.1;
        let bracket = if address.starts_with('[') { "]" } else { "" };
        format!("{address}{bracket}:{port}").parse::<SocketAddr>().ok()
    };
    word.split_once('%').and_then(without_device).is_some()
}
