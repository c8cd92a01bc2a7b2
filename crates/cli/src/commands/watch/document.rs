//! The document that `--json` prints: `longfat.watch/1`.

use measurement::watched::{PathChange, Trail, Trails};
use serde_json::{Map, Value, json};
use watch::{CongestionInfo, MinMax, SocketMemory, TcpInfo, TrackedConnection, Watcher, web100};

const SCHEMA: &str = "longfat.watch/1";

/// All connections; closed ones with their last sample.
pub fn document(watcher: &Watcher, trails: &Trails, all_of_web100: bool, record: Option<&str>) -> Value {
    let connections: Vec<Value> = watcher
        .connections()
        .map(|connection| {
            let mut value = of_connection(connection, trails.get(connection.sample.cookie));
            let changes = trails.path_changes(connection.sample.cookie);
            value["path_changes"] = changes.iter().map(path_change).collect();
            if all_of_web100 {
                value["web100"] = instruments(connection);
            }
            value
        })
        .collect();
    let sampled_by = if watcher.uses_bpf() { "bpf" } else { "sock_diag" };
    json!({
        "schema": SCHEMA,
        "sampled_by": sampled_by,
        // The former name of `sampled_by`.
        "looks_by": sampled_by,
        "lost_events": watcher.lost_events(),
        "connections": connections,
        "record": record,
    })
}

fn path_change(change: &PathChange) -> Value {
    json!({ "at_s": change.at_s, "before_bps": change.before_bps, "after_bps": change.after_bps, "sentence": change.sentence })
}

fn of_connection(connection: &TrackedConnection, trail: Option<&Trail>) -> Value {
    let sample = &connection.sample;
    let info = &sample.info;
    let (sent, received) = connection.rates_bps.unzip();
    json!({
        "cookie": sample.cookie.0,
        "namespace": connection.namespace,
        "local": sample.addresses.local,
        "peer": sample.addresses.peer,
        "state": sample.state.name(),
        "closed": connection.closed_ns.is_some(),
        "process": connection.process.as_ref().map(|process| json!({ "pid": process.pid, "name": process.name })),
        "uid": sample.uid,
        "congestion": sample.congestion,
        "congestion_info": sample.congestion_info.map(of_congestion),
        "tos": sample.tos,
        "rqueue_bytes": sample.rqueue_bytes,
        "wqueue_bytes": sample.wqueue_bytes,
        "memory": sample.memory.map(of_memory),
        "tcp_info": of_info(info),
        "sent_bps": sent,
        "received_bps": received,
        "delivery_to_pacing_rate": info.delivery_to_pacing_rate(),
        "limited": trail.map(Trail::limited),
        "verdict": trail.and_then(Trail::verdict),
        "receiver_verdict": trail.and_then(Trail::receiver_verdict),
        "counted": counted(connection),
    })
}

fn of_info(info: &TcpInfo) -> Value {
    let mut value: Map<String, Value> =
        info.fields().map(|(name, value)| (name.into(), json!(value))).collect();
    if let Some((snd, rcv)) = info.wscales() {
        value.insert("snd_wscale".into(), json!(snd));
        value.insert("rcv_wscale".into(), json!(rcv));
    }
    value.insert("delivery_rate_app_limited".into(), json!(info.delivery_rate_app_limited()));
    value.insert("in_flight".into(), json!(info.in_flight()));
    Value::Object(value)
}

fn of_memory(memory: SocketMemory) -> Value {
    json!({
        "rmem_alloc": memory.rmem_alloc, "rcvbuf": memory.rcvbuf, "wmem_alloc": memory.wmem_alloc,
        "sndbuf": memory.sndbuf, "fwd_alloc": memory.fwd_alloc, "wmem_queued": memory.wmem_queued,
        "optmem": memory.optmem, "backlog": memory.backlog, "drops": memory.drops,
    })
}

fn of_congestion(info: CongestionInfo) -> Value {
    match info {
        CongestionInfo::Vegas { enabled, rtt_count, rtt_us, min_rtt_us } => {
            json!({ "of": "vegas", "enabled": enabled, "rtt_count": rtt_count, "rtt_us": rtt_us, "min_rtt_us": min_rtt_us })
        }
        CongestionInfo::Bbr { bandwidth_bps, min_rtt_us, pacing_gain, cwnd_gain } => json!({
            "of": "bbr", "bandwidth_bps": bandwidth_bps, "min_rtt_us": min_rtt_us,
            "pacing_gain": pacing_gain, "cwnd_gain": cwnd_gain,
        }),
        CongestionInfo::Dctcp { enabled, ce_state, alpha, marked_bytes, total_bytes } => json!({
            "of": "dctcp", "enabled": enabled, "ce_state": ce_state, "alpha": alpha,
            "marked_bytes": marked_bytes, "total_bytes": total_bytes,
        }),
    }
}

fn counted(connection: &TrackedConnection) -> Value {
    let counters = &connection.counters;
    let range = |minmax: MinMax| minmax.range.map(|(min, max)| json!([min, max]));
    json!({
        "every_event": counters.is_traced,
        "looks": counters.samples,
        "slow_starts": counters.slow_starts,
        "avoidances": counters.avoidances,
        "slow_start_growths": counters.slow_start_growths,
        "avoidance_growths": counters.avoidance_growths,
        "duplicate_acks": counters.traces_acks.then_some(counters.duplicate_acks),
        "recoveries": counters.recoveries,
        "losses": counters.losses,
        "reductions": counters.reductions,
        "slow_start_us": counters.phase_us[0],
        "avoidance_us": counters.phase_us[1],
        "recovery_us": counters.phase_us[2],
        "slow_start_cwnd_segs": range(counters.slow_start_cwnd),
        "avoidance_cwnd_segs": range(counters.avoidance_cwnd),
        "ssthresh_segs": range(counters.ssthresh),
        "in_flight_segs": range(counters.in_flight),
        "srtt_us": range(counters.srtt_us),
        "round_trip_us": range(counters.round_trip_us),
        "round_trips": counters.round_trips,
        "retransmitted_segs": counters.is_traced.then_some(counters.retransmitted_segs),
        "zero_windows_received": counters.zero_windows_received,
        "zero_windows_sent": counters.zero_windows_sent,
    })
}

fn instruments(connection: &TrackedConnection) -> Value {
    let one = |instrument: &web100::Instrument| {
        let value = json!({
            "value": instrument.value(connection), "unit": instrument.unit,
            "nearness": instrument.fidelity.name(), "source": instrument.source,
        });
        (instrument.name.to_string(), value)
    };
    Value::Object(web100::INSTRUMENTS.iter().map(one).collect())
}
