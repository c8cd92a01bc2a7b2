/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * H-TCP: the growth increases with the time since the last loss; the reduction depends on the queueing delay.
 *
 * Source: D. Leith and R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004; their
 * draft-leith-tcp-htcp. With Delta the seconds since the last loss, the window grows per round trip by
 *     alpha = 2 (1 - beta) f,   f = 1 up to Delta = 1 s, then 1 + 10 (Delta - 1) + ((Delta - 1) / 2)^2
 * where f is scaled by the RTT, f RTT / 100 ms, with RTT between 10 and 200 ms, so that rates grow alike on all
 * paths; it is at least 1. After a loss w = beta w with beta = RTT_min / RTT_max, from 0.5 to 0.8, which just
 * empties the bottleneck's queue; 0.5 if the throughput has changed by more than a fifth since the previous loss.
 *
 * Differences from the paper, both as in Linux:
 *  1. RTT_max increases by at most 20 ms per sample, only in state Open, and decays by 5 % of its distance to RTT_min
 *     at each loss.
 *  2. beta is 0.5 if RTT_min is at most 10 ms.
 *
 * Differences from the kernel's tcp_htcp:
 *  1. Times are in microseconds, not in jiffies, f and alpha have 10 fraction bits (the kernel's f is a whole
 *     number, also after the scaling), and beta is at most 0.8 where the kernel's is 0.797.
 *  2. alpha follows Delta with each ACK; in the kernel with each segment of growth.
 *  3. Growth is per acknowledged segment, and fractions of segments accumulate.
 *  4. Delta is at most 1000 s. A throughput sample takes a whole window; in the kernel alpha segments less.
 *  5. An undo restores RTT_max and the throughput from before the loss; the kernel saves them after the loss has
 *     changed them.
 *
 * Unlike the kernel's: times in microseconds and alpha in 1/1024; the kernel has ticks and whole numbers.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "fractional_growth.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Scales growth by the RTT. */
const volatile bool rtt_scaling = true;
/* Resets the share to its minimum if the throughput has changed by over a fifth between two losses. */
const volatile bool bandwidth_switch = true;
/* Minimum share of the window that is kept after a loss. */
const volatile __u32 beta_min = 512;
const volatile __u32 beta_min_scale = 1024;
/* Maximum share of the window that is kept after a loss. */
const volatile __u32 beta_max = 819;
const volatile __u32 beta_max_scale = 1024;
/* Time after a loss in which growth is Reno's. */
const volatile __u32 low_speed_us = 1000000;

/* alpha, beta and f carry 10 fraction bits. */
#define ONE 1024ULL
#define ALPHA_LEAST_RTT_US 10000U
#define ALPHA_MOST_RTT_US 200000U
#define ALPHA_REFERENCE_RTT_US 100000U
#define BETA_LEAST_RTT_US 10000U
/* Maximum increase of RTT_max per sample. */
#define RTT_STEP_US 20000U
#define DELTA_MAX_MS 1000000ULL

struct htcp {
	struct fractions kept;
	__u64 last_loss_us; /* start of Delta */
	__u64 undo_last_loss_us;
	__u64 interval_start_us; /* throughput is measured from here */
	__u32 interval_segs;
	__u32 beta;
	__u32 min_rtt_us; /* 0: no sample yet */
	__u32 max_rtt_us;
	__u32 undo_max_rtt_us;
	/* Throughput in segments per second: smoothed, its maximum since the last loss, and the maximum before that. */
	__u32 rate;
	__u32 max_rate;
	__u32 old_max_rate;
	__u32 undo_old_max_rate;
	bool may_undo;
	bool adapt; /* beta has been 0.5 once since the throughput changed */
};

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

static __always_inline __u64 least_beta(void)
{
	return min(beta_min * ONE / max(beta_min_scale, 1U), ONE);
}

/* f of Delta and RTT. */
static __always_inline __u64 growth(const struct htcp *ca, __u64 now_us)
{
	__u64 delta_us = now_us - ca->last_loss_us;
	__u64 f = ONE, x_ms, rtt_us;

	if (delta_us > low_speed_us) {
		x_ms = min((delta_us - low_speed_us) / 1000, DELTA_MAX_MS);
		f += 10 * x_ms * ONE / 1000 + x_ms * x_ms * ONE / (4 * 1000 * 1000);
	}
	if (rtt_scaling && ca->min_rtt_us) {
		rtt_us = min(max(ca->min_rtt_us, ALPHA_LEAST_RTT_US), ALPHA_MOST_RTT_US);
		f = max(f * rtt_us / ALPHA_REFERENCE_RTT_US, ONE);
	}
	return f;
}

/* Whether two throughputs differ by at most a fifth of the older. */
static __always_inline bool alike(__u64 newer, __u64 older)
{
	return 5 * newer >= 4 * older && 5 * newer <= 6 * older;
}

/* At a loss: computes beta from the RTTs and throughputs since the previous one. */
static __always_inline void adapt_beta(struct htcp *ca)
{
	__u64 least = least_beta(), most = min(beta_max * ONE / max(beta_max_scale, 1U), ONE);
	__u32 before = ca->old_max_rate;

	ca->beta = least;
	if (bandwidth_switch) {
		ca->old_max_rate = ca->max_rate;
		if (!alike(ca->max_rate, before)) {
			ca->adapt = false;
			return;
		}
	}
	if (ca->adapt && ca->min_rtt_us > BETA_LEAST_RTT_US && ca->max_rtt_us)
		ca->beta = max(min(ca->min_rtt_us * ONE / ca->max_rtt_us, most), least);
	else
		ca->adapt = true;
}

static __always_inline void measure_rtt(struct htcp *ca, __u32 rtt_us, __u8 state)
{
	if (!ca->min_rtt_us || rtt_us < ca->min_rtt_us)
		ca->min_rtt_us = rtt_us;
	if (state != TCP_CA_Open)
		return;
	if (ca->max_rtt_us < ca->min_rtt_us)
		ca->max_rtt_us = ca->min_rtt_us;
	if (rtt_us > ca->max_rtt_us && rtt_us - ca->max_rtt_us <= RTT_STEP_US)
		ca->max_rtt_us = rtt_us;
}

/* One sample per acknowledged window, and at most one per round trip. */
static __always_inline void measure_rate(struct tcp_sock *tp, struct htcp *ca, __u32 acked, __u8 state)
{
	__u64 now_us = tp->tcp_mstamp, taken_us = now_us - ca->interval_start_us;
	__u32 sample;

	if (state != TCP_CA_Open && state != TCP_CA_Disorder) {
		ca->interval_segs = 0;
		ca->interval_start_us = now_us;
		return;
	}
	ca->interval_segs += acked;
	if (ca->interval_segs < tp->snd_cwnd || !ca->min_rtt_us || taken_us < ca->min_rtt_us)
		return;

	sample = min(ca->interval_segs * USEC_PER_SEC / taken_us, ~0U);
	if (now_us - ca->last_loss_us < 4ULL * ca->min_rtt_us)
		ca->max_rate = ca->rate = sample;
	else
		ca->rate = (3ULL * ca->rate + sample) / 4;
	ca->max_rate = max(ca->max_rate, ca->rate);
	ca->interval_segs = 0;
	ca->interval_start_us = now_us;
}

SEC("struct_ops")
void BPF_PROG(htcp_init, struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	ca->kept.slow_start = 0;
	ca->kept.avoidance = 0;
	ca->last_loss_us = tcp_sk(sk)->tcp_mstamp;
	ca->interval_start_us = ca->last_loss_us;
	ca->interval_segs = 0;
	ca->beta = least_beta();
	ca->min_rtt_us = 0;
	ca->max_rtt_us = 0;
	ca->undo_max_rtt_us = 0;
	ca->rate = 0;
	ca->max_rate = 0;
	ca->old_max_rate = 0;
	ca->undo_old_max_rate = 0;
	ca->may_undo = false;
	ca->adapt = false;
}

SEC("struct_ops")
void BPF_PROG(htcp_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct htcp *ca = inet_csk_ca(sk);
	__u8 state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);

	if (sample->rtt_us > 0)
		measure_rtt(ca, sample->rtt_us, state);
	if (bandwidth_switch)
		measure_rate(tcp_sk(sk), ca, sample->pkts_acked, state);
}

SEC("struct_ops")
void BPF_PROG(htcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);
	__u64 alpha;

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	alpha = 2 * (ONE - min((__u64)ca->beta, ONE)) * growth(ca, tp->tcp_mstamp) / ONE;
	fractional_avoidance(tp, &ca->kept, alpha * (FRACTION_ONE / ONE), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_ssthresh, struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);
	__u64 kept;

	ca->undo_max_rtt_us = ca->max_rtt_us;
	ca->undo_old_max_rate = ca->old_max_rate;
	adapt_beta(ca);
	if (ca->max_rtt_us > ca->min_rtt_us)
		ca->max_rtt_us = ca->min_rtt_us + (ca->max_rtt_us - ca->min_rtt_us) * 95ULL / 100;
	kept = (__u64)tcp_sk(sk)->snd_cwnd * ca->beta / ONE;
	return max(kept, 2ULL);
}

/* Delta starts when the window is reduced, and again when the losses are repaired. */
SEC("struct_ops")
void BPF_PROG(htcp_set_state, struct sock *sk, __u8 new_state)
{
	struct htcp *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Open && ca->may_undo) {
		ca->may_undo = false;
		ca->last_loss_us = tcp_sk(sk)->tcp_mstamp;
	}
	if (new_state < TCP_CA_CWR)
		return;
	ca->may_undo = true;
	ca->undo_last_loss_us = ca->last_loss_us;
	ca->last_loss_us = tcp_sk(sk)->tcp_mstamp;
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_undo_cwnd, struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	if (ca->may_undo) {
		ca->may_undo = false;
		ca->last_loss_us = ca->undo_last_loss_us;
		ca->max_rtt_us = ca->undo_max_rtt_us;
		ca->old_max_rate = ca->undo_old_max_rate;
	}
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops htcp = {
	.init = (void *)htcp_init,
	.ssthresh = (void *)htcp_ssthresh,
	.cong_avoid = (void *)htcp_cong_avoid,
	.set_state = (void *)htcp_set_state,
	.pkts_acked = (void *)htcp_pkts_acked,
	.undo_cwnd = (void *)htcp_undo_cwnd,
	.name = "htcp",
};
