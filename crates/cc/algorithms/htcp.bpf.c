/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * H-TCP: the growth increases with the time since the last loss; the reduction depends on the queueing delay.
 *
 * Source: D. Leith and R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004; their
 * draft-leith-tcp-htcp. With Delta the seconds since the last loss, the window grows per round trip by
 *     alpha = 2 (1 - beta) f,   f = 1 up to Delta = 1 s, then 1 + 10 (Delta - 1) + ((Delta - 1) / 2)^2
 * where f is scaled by the RTT so that rates grow equally fast on all paths: it becomes f RTT / 100 ms, at least 1, with
 * RTT limited to between 10 and 200 ms. After a loss w = beta w with beta = RTT_min / RTT_max, limited to between 0.5 and
 * 0.8: this just empties the bottleneck's queue. beta is 0.5 if the throughput has changed by more than a fifth since
 * the previous loss.
 *
 * By default this is Linux's tcp_htcp; `draft` selects the draft's growth.
 *
 * Differences from the draft, in both forms:
 *  1. RTT_max increases by at most 20 ms per sample, only in state Open, and decays by 5 % of its distance to RTT_min
 *     at each loss.
 *  2. beta is 0.5 if RTT_min is at most 10 ms.
 * Linux's alone:
 *  3. Times are in ticks, f is a whole number, also after the scaling, and alpha and beta have 7 fraction bits.
 *  4. The window grows by one segment with the first ACK after w / alpha segments have been acknowledged. That ACK is not
 *     counted, and no fraction is kept: growth is slower than alpha per round trip, for example by a seventh with 12
 *     segments and delayed ACKs. Outside of state Open an ACK counts as one segment.
 *  5. alpha changes with each segment of growth and each loss, not with each ACK.
 *  6. A throughput sample takes alpha segments less than a window. An undo does not restore the values that the loss
 *     itself has changed: RTT_max and the previous throughput.
 *
 * With `draft`, times are in microseconds, and f, alpha and beta have 10 fraction bits. Growth is per acknowledged
 * segment and keeps fractions. The part of an ACK that slow start does not use counts for congestion avoidance. Delta
 * is at most 1000 s.
 *
 * Differences from the kernel's tcp_htcp: none in behaviour.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "fractional_growth.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* The draft's growth per acknowledged segment and exact times, instead of Linux's. */
const volatile bool draft = false;
/* Scales growth by the RTT. */
const volatile bool rtt_scaling = true;
/* Keeps beta_min of the window if the throughput has changed by more than a fifth since the previous loss. */
const volatile bool bandwidth_switch = true;
/* Minimum share of the window that is kept after a loss. */
const volatile __u32 beta_min = 512;
const volatile __u32 beta_min_scale = 1024;
/* Maximum share of the window that is kept after a loss. */
const volatile __u32 beta_max = 819;
const volatile __u32 beta_max_scale = 1024;
/* Time after a loss during which growth is Reno's, in microseconds. */
const volatile __u32 low_speed_us = 1000000;

/* The draft's alpha, beta and f carry 10 fraction bits, Linux's alpha and beta 7. */
#define ONE 1024ULL
#define LINUX_ONE 128U
#define ALPHA_LEAST_RTT_US 10000U
#define ALPHA_MOST_RTT_US 200000U
#define ALPHA_REFERENCE_RTT_US 100000U
#define BETA_LEAST_RTT_US 10000U
/* Maximum increase of RTT_max per sample. */
#define RTT_STEP_US 20000U
#define DELTA_MAX_MS 1000000ULL

extern unsigned long CONFIG_HZ __kconfig;

/* Times are in microseconds, Linux's in ticks. */
struct htcp {
	struct fractions kept;
	__u64 last_loss; /* start of Delta */
	__u64 undo_last_loss;
	__u64 interval_start; /* throughput is measured from here */
	__u32 interval_segs;
	__u32 alpha;	  /* Linux's */
	__u32 pkts_acked; /* Linux's: segments that the next ACK counts for */
	__u32 beta;
	__u32 min_rtt; /* 0: no sample yet */
	__u32 max_rtt;
	__u32 undo_max_rtt;
	/* Throughput in segments per second: smoothed, its maximum since the last loss, and the maximum before that. */
	__u32 rate;
	__u32 max_rate;
	__u32 old_max_rate;
	__u32 undo_old_max_rate;
	bool may_undo;
	bool adapt; /* beta has been beta_min once since the throughput changed */
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
	__u64 delta_us = now_us - ca->last_loss;
	__u64 f = ONE, x_ms, rtt_us;

	if (delta_us > low_speed_us) {
		x_ms = min((delta_us - low_speed_us) / 1000, DELTA_MAX_MS);
		f += 10 * x_ms * ONE / 1000 + x_ms * x_ms * ONE / (4 * 1000 * 1000);
	}
	if (rtt_scaling && ca->min_rtt) {
		rtt_us = min(max(ca->min_rtt, ALPHA_LEAST_RTT_US), ALPHA_MOST_RTT_US);
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
	if (ca->adapt && ca->min_rtt > BETA_LEAST_RTT_US && ca->max_rtt)
		ca->beta = max(min(ca->min_rtt * ONE / ca->max_rtt, most), least);
	else
		ca->adapt = true;
}

static __always_inline void measure_rtt(struct htcp *ca, __u32 rtt_us, __u8 state)
{
	if (!ca->min_rtt || rtt_us < ca->min_rtt)
		ca->min_rtt = rtt_us;
	if (state != TCP_CA_Open)
		return;
	if (ca->max_rtt < ca->min_rtt)
		ca->max_rtt = ca->min_rtt;
	if (rtt_us > ca->max_rtt && rtt_us - ca->max_rtt <= RTT_STEP_US)
		ca->max_rtt = rtt_us;
}

/* One sample per acknowledged window, and at most one per round trip. */
static __always_inline void measure_rate(struct tcp_sock *tp, struct htcp *ca, __u32 acked, __u8 state)
{
	__u64 now_us = tp->tcp_mstamp, taken_us = now_us - ca->interval_start;
	__u32 sample;

	if (state != TCP_CA_Open && state != TCP_CA_Disorder) {
		ca->interval_segs = 0;
		ca->interval_start = now_us;
		return;
	}
	ca->interval_segs += acked;
	if (ca->interval_segs < tp->snd_cwnd || !ca->min_rtt || taken_us < ca->min_rtt)
		return;

	sample = min(ca->interval_segs * USEC_PER_SEC / taken_us, ~0U);
	if (now_us - ca->last_loss < 4ULL * ca->min_rtt)
		ca->max_rate = ca->rate = sample;
	else
		ca->rate = (3ULL * ca->rate + sample) / 4;
	ca->max_rate = max(ca->max_rate, ca->rate);
	ca->interval_segs = 0;
	ca->interval_start = now_us;
}

/* A share in 1/128, as Linux has it. */
static __always_inline __u32 in_128ths(__u32 share, __u32 scale)
{
	return min((__u64)share * LINUX_ONE / max(scale, 1U), (__u64)LINUX_ONE);
}

/* Ticks of a time, rounded up as usecs_to_jiffies does. */
static __always_inline __u32 ticks(__u64 us)
{
	return (us * CONFIG_HZ + USEC_PER_SEC - 1) / USEC_PER_SEC;
}

/* htcp_alpha_update: Delta, f and its scale are whole numbers. */
static __always_inline void linux_update_alpha(struct htcp *ca)
{
	__u32 hz = CONFIG_HZ, low_speed = (__u64)low_speed_us * hz / USEC_PER_SEC;
	__u32 delta = tcp_jiffies32 - (__u32)ca->last_loss, factor = 1, scale;

	if (delta > low_speed) {
		delta -= low_speed;
		factor = 1 + (10 * delta + (delta / 2) * (delta / 2) / hz) / hz;
	}
	if (rtt_scaling && ca->min_rtt) {
		/* 100 ms / RTT in 1/8, between 0.5 and 10. */
		scale = min(max(hz * 8 / (10 * ca->min_rtt), 4U), 80U);
		factor = max(factor * 8 / scale, 1U);
	}
	ca->alpha = 2 * factor * (LINUX_ONE - ca->beta);
	if (!ca->alpha)
		ca->alpha = LINUX_ONE;
}

/* htcp_beta_update. */
static __always_inline void linux_adapt_beta(struct htcp *ca)
{
	__u32 least = in_128ths(beta_min, beta_min_scale), most = in_128ths(beta_max, beta_max_scale);
	__u32 before = ca->old_max_rate;

	ca->beta = least;
	if (bandwidth_switch) {
		ca->old_max_rate = ca->max_rate;
		/* The kernel's between(), in 32-bit arithmetic. */
		if (2 * before < 5 * ca->max_rate - 4 * before) {
			ca->adapt = false;
			return;
		}
	}
	if (ca->adapt && ca->min_rtt > ticks(BETA_LEAST_RTT_US) && ca->max_rtt)
		ca->beta = max(min(ca->min_rtt * LINUX_ONE / ca->max_rtt, most), least);
	else
		ca->adapt = true;
}

/* measure_rtt. */
static __always_inline void linux_measure_rtt(struct htcp *ca, __u32 rtt, __u8 state)
{
	if (!ca->min_rtt || rtt < ca->min_rtt)
		ca->min_rtt = rtt;
	if (state != TCP_CA_Open)
		return;
	if (ca->max_rtt < ca->min_rtt)
		ca->max_rtt = ca->min_rtt;
	if (rtt > ca->max_rtt && rtt <= ca->max_rtt + ticks(RTT_STEP_US))
		ca->max_rtt = rtt;
}

/* measure_achieved_throughput. */
static __always_inline void linux_measure_rate(struct tcp_sock *tp, struct htcp *ca, __u32 acked, __u8 state)
{
	__u32 now = tcp_jiffies32, taken = now - (__u32)ca->interval_start, whole = ca->alpha / LINUX_ONE;
	__u32 sample;

	if (state != TCP_CA_Open && state != TCP_CA_Disorder) {
		ca->interval_segs = 0;
		ca->interval_start = now;
		return;
	}
	ca->interval_segs += acked;
	if (ca->interval_segs < tp->snd_cwnd - max(whole, 1U) || taken < ca->min_rtt || !ca->min_rtt)
		return;
	sample = ca->interval_segs * (__u32)CONFIG_HZ / taken;
	if ((now - (__u32)ca->last_loss) / ca->min_rtt <= 3) {
		ca->max_rate = ca->rate = sample;
	} else {
		ca->rate = (3 * ca->rate + sample) / 4;
		ca->max_rate = max(ca->max_rate, ca->rate);
	}
	ca->interval_segs = 0;
	ca->interval_start = now;
}

static __always_inline void linux_cong_avoid(struct tcp_sock *tp, struct htcp *ca, __u32 acked)
{
	if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	if (tp->snd_cwnd_cnt * ca->alpha / LINUX_ONE >= tp->snd_cwnd) {
		if (tp->snd_cwnd < tp->snd_cwnd_clamp)
			tp->snd_cwnd++;
		tp->snd_cwnd_cnt = 0;
		linux_update_alpha(ca);
	} else {
		tp->snd_cwnd_cnt += ca->pkts_acked;
	}
	ca->pkts_acked = 1;
}

/* htcp_recalc_ssthresh. */
static __always_inline __u32 linux_ssthresh(struct tcp_sock *tp, struct htcp *ca)
{
	linux_adapt_beta(ca);
	linux_update_alpha(ca);
	if (ca->min_rtt && ca->max_rtt > ca->min_rtt)
		ca->max_rtt = ca->min_rtt + (ca->max_rtt - ca->min_rtt) * 95 / 100;
	return max(tp->snd_cwnd * ca->beta / LINUX_ONE, 2U);
}

/* The clock of Delta and of the throughput. */
static __always_inline __u64 time_now(const struct tcp_sock *tp)
{
	return draft ? tp->tcp_mstamp : tcp_jiffies32;
}

SEC("struct_ops")
void BPF_PROG(htcp_init, struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	ca->kept.slow_start = 0;
	ca->kept.avoidance = 0;
	ca->last_loss = time_now(tcp_sk(sk));
	ca->interval_start = draft ? ca->last_loss : 0;
	ca->interval_segs = 0;
	ca->alpha = LINUX_ONE;
	ca->pkts_acked = 1;
	ca->beta = draft ? least_beta() : in_128ths(beta_min, beta_min_scale);
	ca->min_rtt = 0;
	ca->max_rtt = 0;
	ca->undo_max_rtt = 0;
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

	if (!draft) {
		if (state == TCP_CA_Open)
			ca->pkts_acked = (__u16)sample->pkts_acked;
		if (sample->rtt_us > 0)
			linux_measure_rtt(ca, ticks(sample->rtt_us), state);
		if (bandwidth_switch)
			linux_measure_rate(tcp_sk(sk), ca, sample->pkts_acked, state);
		return;
	}
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
	if (!draft) {
		linux_cong_avoid(tp, ca, acked);
		return;
	}
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

	if (!draft)
		return linux_ssthresh(tcp_sk(sk), ca);
	ca->undo_max_rtt = ca->max_rtt;
	ca->undo_old_max_rate = ca->old_max_rate;
	adapt_beta(ca);
	if (ca->max_rtt > ca->min_rtt)
		ca->max_rtt = ca->min_rtt + (ca->max_rtt - ca->min_rtt) * 95ULL / 100;
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
		ca->last_loss = time_now(tcp_sk(sk));
	}
	if (new_state < TCP_CA_CWR)
		return;
	ca->may_undo = true;
	ca->undo_last_loss = ca->last_loss;
	ca->last_loss = time_now(tcp_sk(sk));
	if (!draft) {
		ca->undo_max_rtt = ca->max_rtt;
		ca->undo_old_max_rate = ca->old_max_rate;
	}
}

SEC("struct_ops")
__u32 BPF_PROG(htcp_undo_cwnd, struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	if (ca->may_undo) {
		ca->may_undo = false;
		ca->last_loss = ca->undo_last_loss;
		ca->max_rtt = ca->undo_max_rtt;
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
