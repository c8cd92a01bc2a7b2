//! Compiles a congestion control from a C file and drives it over a small path with the test kit.
//!
//! `cargo run -p longfat-cc --example drive` uses the C code below; pass the path of a C file to use another
//! one. A C compiler is needed (clang or gcc).

use cc::{ParameterValue, ParameterValues, Source, native::Library};
use std::path::Path;
use tcp::test_kit::{Path as NetworkPath, Rounds};

/// AIMD with a configurable decrease: grows by one segment per round trip.
const AIMD: &str = r#"
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"

char _license[] SEC("license") = "GPL";

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;

/* Percentage of the window that is kept after a loss. */
const volatile __u32 keep_percent = 50;

SEC("struct_ops")
__u32 BPF_PROG(aimd_ssthresh, struct sock *sk)
{
	__u32 kept = tcp_sk(sk)->snd_cwnd * keep_percent / 100;

	return kept < 2 ? 2 : kept;
}

SEC("struct_ops")
void BPF_PROG(aimd_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(aimd_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->prior_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops aimd = {
	.ssthresh = (void *)aimd_ssthresh,
	.cong_avoid = (void *)aimd_cong_avoid,
	.undo_cwnd = (void *)aimd_undo_cwnd,
	.name = "aimd",
};
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let given = std::env::args_os().nth(1);
    let source = match &given {
        Some(path) => Source::file(Path::new(path))?,
        None => Source::File { path: "aimd.bpf.c".into(), text: AIMD.into() },
    };
    let mut values = ParameterValues::new();
    if given.is_none() {
        values.insert("keep_percent".into(), ParameterValue::Integer(80));
    }
    for parameter in source.parameters()? {
        println!("parameter {} (default {}): {}", parameter.name, parameter.default(), parameter.doc);
    }

    // One loaded copy with these parameters, and one controller for each connection.
    let library = Library::open(&source, &values)?;
    let controller = library.controller(None)?;
    let path =
        NetworkPath { rate_bps: 100_000_000, rtt_us: 20_000, queue_packets: 50, ..NetworkPath::default() };
    let mut rounds = Rounds::new(path, controller);
    rounds.sk_mut().snd_ssthresh = 100;

    println!(
        "{:>5} {:>8} {:>5} {:>9} {:>6} {:>6}  state",
        "round", "ms", "cwnd", "ssthresh", "queue", "lost"
    );
    for row in rounds.run(200).iter().step_by(10) {
        println!(
            "{:>5} {:>8.1} {:>5} {:>9} {:>6} {:>6}  {:?}",
            row.number,
            row.time_us as f64 / 1e3,
            row.cwnd,
            row.ssthresh,
            row.queue_packets,
            row.lost,
            row.state
        );
    }
    Ok(())
}
