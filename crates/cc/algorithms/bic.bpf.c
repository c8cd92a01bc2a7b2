/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BIC: after a loss, a binary search for the window between the reduced window and that of the loss.
 *
 * Source: L. Xu, K. Harfoush and I. Rhee, "Binary increase congestion control for fast long-distance networks", IEEE
 * INFOCOM 2004. With w_max the window at the loss and gap = w_max - w, the window grows per round trip by
 *     gap / 4, at most max_increment (16), while that is above 1; near w_max by 4 / smooth_part (0.2);
 *     above w_max by (w - w_max) / 3, first 0.2, at most 16: the search for a new maximum, as slow as the end of the old one
 * After a loss w = 0.8 w_max; with fast convergence a loss below w_max takes w_max = w (1 + 0.8) / 2. Up to 14
 * segments: Reno.
 *
 * Departures from the paper, all as in Linux:
 *  1. A quarter of the gap per round trip, not half of it. The only minimum increment (S_min) is the 0.2.
 *  2. If w_max is unknown (no loss yet), growth is at least 5 % per round trip.
 *  3. Smax is 16 segments (32 in the paper), beta 0.8 (0.875 in the paper).
 *
 * Departures from the kernel's tcp_bic:
 *  1. Growth is as above per round trip. The kernel counts acknowledged segments and also divides by the segments per
 *     ACK, so it grows twice as fast with delayed ACKs.
 *  2. The increment is computed at each ACK, not only when the window has changed or after 1/32 s; the increment depends
 *     only on the window.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Maximum growth, in segments per round trip. */
const volatile __u32 max_increment = 16;
/* Up to this window BIC behaves as Reno, in segments. */
const volatile __u32 low_window = 14;
/* Share of the window that is kept after a loss. */
const volatile __u32 beta = 819;
const volatile __u32 beta_scale = 1024;
/* Near w_max growth is 4 / smooth_part segments per round trip. */
const volatile __u32 smooth_part = 20;
/* A loss below the last w_max reduces w_max further, which frees bandwidth for new flows. */
const volatile bool fast_convergence = true;
/* Segments at which the first slow start ends; 0 leaves it to the first loss. */
const volatile __u32 initial_ssthresh = 0;

/* The search covers 1 / PARTS of the gap per round trip. */
#define PARTS 4U

struct bic {
	__u32 w_max; /* window before the last reduction; 0: none yet */
};

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* Acknowledged segments per segment of growth. */
static __always_inline __u32 per_increment(const struct bic *ca, __u64 cwnd)
{
	__u64 at_most = max(max_increment, 1U);
	__u64 fast = cwnd / at_most, slow = cwnd * smooth_part / PARTS;
	__u64 is;

	if (cwnd <= low_window)
		return cwnd;
	if (cwnd < ca->w_max) {
		__u64 step = (ca->w_max - cwnd) / PARTS;

		is = step > at_most ? fast : step <= 1 ? slow : cwnd / step;
	} else {
		__u64 beyond = cwnd - ca->w_max;

		if (beyond < PARTS)
			is = slow;
		else if (beyond < at_most * (PARTS - 1))
			is = cwnd * (PARTS - 1) / beyond;
		else
			is = fast;
	}
	/* The path is still unknown: at least 5 % per round trip. */
	if (!ca->w_max)
		is = min(is, 20ULL);
	return min(max(is, 1ULL), (__u64)~0U);
}

SEC("struct_ops")
void BPF_PROG(bic_init, struct sock *sk)
{
	struct bic *ca = inet_csk_ca(sk);

	ca->w_max = 0;
	if (initial_ssthresh)
		tcp_sk(sk)->snd_ssthresh = max(initial_ssthresh, 2U);
}

SEC("struct_ops")
void BPF_PROG(bic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, per_increment(inet_csk_ca(sk), tp->snd_cwnd), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(bic_ssthresh, struct sock *sk)
{
	struct bic *ca = inet_csk_ca(sk);
	__u64 cwnd = tcp_sk(sk)->snd_cwnd;
	__u64 scale = max(beta_scale, 1U), kept = min((__u64)beta, scale);

	if (cwnd < ca->w_max && fast_convergence)
		ca->w_max = cwnd * (scale + kept) / (2 * scale);
	else
		ca->w_max = cwnd;
	if (cwnd <= low_window)
		return max(cwnd / 2, 2ULL);
	return max(cwnd * kept / scale, 2ULL);
}

/* After a timeout the path is unknown. */
SEC("struct_ops")
void BPF_PROG(bic_set_state, struct sock *sk, __u8 new_state)
{
	struct bic *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		ca->w_max = 0;
}

SEC("struct_ops")
__u32 BPF_PROG(bic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bic = {
	.init = (void *)bic_init,
	.ssthresh = (void *)bic_ssthresh,
	.cong_avoid = (void *)bic_cong_avoid,
	.set_state = (void *)bic_set_state,
	.undo_cwnd = (void *)bic_undo_cwnd,
	.name = "bic",
};
