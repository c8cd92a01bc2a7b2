/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BIC: after a loss, a binary search for the window between the reduced window and that of the loss.
 *
 * Source: L. Xu, K. Harfoush and I. Rhee, "Binary increase congestion control for fast long-distance networks", IEEE
 * INFOCOM 2004. With w_max the window at the loss and gap = w_max - w, the window grows per round trip by
 *     gap / 4, at most max_increment (16), while gap / 4 is above 1
 *     4 / smooth_part (0.2), near w_max, below and above it
 *     (w - w_max) / 3, at most 16, further above w_max: the search for a new maximum
 * After a loss w = 0.8 w_max. With fast convergence, a loss at a window w below the last w_max sets
 * w_max = w (1 + 0.8) / 2. Up to 14 segments BIC behaves as Reno.
 *
 * By default this is Linux's tcp_bic; `per_round_trip` selects the paper's growth.
 *
 * Differences from the paper, all of them Linux's:
 *  1. A quarter of the gap per round trip, not half of it. The only minimum of growth (S_min in the paper) is the 0.2.
 *  2. If w_max is unknown (no loss yet), growth is at least 5 % per round trip.
 *  3. Smax is 16 segments (32 in the paper), beta 0.8 (0.875 in the paper).
 *  4. Growth counts acknowledged segments, and is then multiplied by the mean number of segments per ACK. The mean starts
 *     at 2 and, by its rounding, never falls below 31/16: growth is about twice that of the formulas, and faster still
 *     with stretched ACKs. Up to 14 segments this does not apply. `per_round_trip` removes it.
 *  5. The increment is computed when the window has changed, and otherwise after more than 1/32 s.
 *
 * Differences from the kernel's tcp_bic: none in behaviour. Products have 64 bits.
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
/* The paper's growth per round trip, whatever the number of segments per ACK, instead of Linux's. */
const volatile bool per_round_trip = false;
/* Window at which the first slow start ends, in segments; 0: it ends with the first loss. */
const volatile __u32 initial_ssthresh = 0;

/* The search covers 1 / PARTS of the gap per round trip. */
#define PARTS 4U
/* The mean number of segments per ACK is in 1/16, with 2 segments as its first value. */
#define PER_ACK_ONE 16U
#define FIRST_PER_ACK (2 * PER_ACK_ONE)

extern unsigned long CONFIG_HZ __kconfig;

struct bic {
	__u32 w_max;	  /* window before the last reduction; 0: none yet */
	__u32 count;	  /* acknowledged segments per segment of growth */
	__u32 count_cwnd; /* window of the last computation of `count`; 0: none yet */
	__u32 count_time; /* time of the last computation of `count`, in jiffies */
	__u32 per_ack;	  /* mean of the segments per ACK, in 1/16 */
};

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

static __always_inline void forget_path(struct bic *ca)
{
	ca->w_max = 0;
	ca->count = 0;
	ca->count_cwnd = 0;
	ca->count_time = 0;
	ca->per_ack = FIRST_PER_ACK;
}

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
	if (!per_round_trip)
		is = is * PER_ACK_ONE / max(ca->per_ack, 1U);
	return min(max(is, 1ULL), (__u64)~0U);
}

/* `count`, computed again when the window has changed, and after more than 1/32 s. */
static __always_inline __u32 current_count(struct bic *ca, __u32 cwnd)
{
	__u32 now = tcp_jiffies32;

	if (ca->count_cwnd == cwnd && (__s32)(now - ca->count_time) <= (__s32)(CONFIG_HZ / 32))
		return max(ca->count, 1U);
	ca->count_cwnd = cwnd;
	ca->count_time = now;
	ca->count = per_increment(ca, cwnd);
	return max(ca->count, 1U);
}

SEC("struct_ops")
void BPF_PROG(bic_init, struct sock *sk)
{
	forget_path(inet_csk_ca(sk));
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
	tcp_cong_avoid_ai(tp, current_count(inet_csk_ca(sk), tp->snd_cwnd), acked);
}

SEC("struct_ops")
void BPF_PROG(bic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct bic *ca = inet_csk_ca(sk);

	if (inet_csk(sk)->icsk_ca_state == TCP_CA_Open)
		ca->per_ack += sample->pkts_acked - ca->per_ack / PER_ACK_ONE;
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
	if (new_state == TCP_CA_Loss)
		forget_path(inet_csk_ca(sk));
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
	.pkts_acked = (void *)bic_pkts_acked,
	.undo_cwnd = (void *)bic_undo_cwnd,
	.name = "bic",
};
