/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Scalable TCP: increase and decrease are proportional to the window; the time between losses does not depend on it.
 *
 * Source: T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks", ACM CCR 33(2), 2003. For
 * each segment acknowledged without loss w += 0.01, for a loss w -= 0.125 w. After a loss, growth to the previous window
 * takes ln(1 / 0.875) / ln(1.01) = 13.4 round trips, whatever that window was.
 *
 * Differences from the paper:
 *  1. Below 100 segments growth is Reno's (one segment per round trip), which is then faster.
 *
 * Differences from the kernel's tcp_scalable: none in behaviour; its two constants are parameters here.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Acknowledged segments per segment of growth; for a smaller window, a whole window of segments. */
const volatile __u32 segments_per_increment = 100;
/* Share of the window that is kept after a loss. */
const volatile __u32 backoff = 896;
const volatile __u32 backoff_scale = 1024;

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

SEC("struct_ops")
void BPF_PROG(scalable_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, max(min(tp->snd_cwnd, segments_per_increment), 1U), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(scalable_ssthresh, struct sock *sk)
{
	__u64 cwnd = tcp_sk(sk)->snd_cwnd;
	__u32 scale = max(backoff_scale, 1U);

	/* The reduction is rounded down, as in the kernel: 15 becomes 14. */
	return max(cwnd - cwnd * (scale - min(backoff, scale)) / scale, 2ULL);
}

SEC("struct_ops")
__u32 BPF_PROG(scalable_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops scalable = {
	.ssthresh = (void *)scalable_ssthresh,
	.cong_avoid = (void *)scalable_cong_avoid,
	.undo_cwnd = (void *)scalable_undo_cwnd,
	.name = "scalable",
};
