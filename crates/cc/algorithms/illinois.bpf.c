/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Illinois: losses trigger reductions; the queueing delay sets the growth and the size of reductions.
 *
 * Source: S. Liu, T. Basar, R. Srikant, "TCP-Illinois: A loss- and delay-based congestion control algorithm for
 * high-speed networks", Performance Evaluation 65, 2008. Once per round trip, with da the mean and dm the largest
 * queueing delay (RTT less the smallest RTT):
 *
 *   alpha = alpha_max                     if da <= d1            d1 = 1 % of dm
 *           k1 / (k2 + da)                otherwise              from alpha_max at d1 to alpha_min at dm
 *   beta  = beta_min                      if da <= d2            d2 = 10 % of dm
 *           k3 + k4 da                    between                linear
 *           beta_max                      if da >= d3            d3 = 80 % of dm
 *   cwnd grows by alpha packets per round trip; a loss reduces it by beta cwnd
 *
 * Differences from the paper (the kernel has them too):
 *  1. Below window_min packets alpha is 1 and beta 1/2, as in Reno.
 *  2. After a timeout alpha and beta are Reno's until the next round.
 *
 * Differences from the kernel's tcp_illinois:
 *  1. alpha and beta are multiples of 1/1024 (in the kernel of 1/128 and 1/64): alpha_min is 0.2998, not 0.2969.
 *  2. Fractions that remain when the window grows by whole packets are kept; the kernel drops them. One ACK adds at most as
 *     many packets as it acknowledges.
 *  3. Products have 64 bits; RTTs above 3.3 s are not truncated.
 *  4. get_info is missing: BPF does not support it.
 *
 * Unlike the kernel's: alpha and beta in 1/1024, fractions of segments kept; the kernel has 1/128 and 1/64.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "longfat_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define ONE 1024

/* Growth at full delay, packets per round trip. */
const volatile __u32 alpha_min = 307;
const volatile __u32 alpha_min_scale = ONE;
/* Growth without delay, packets per round trip. */
const volatile __u32 alpha_max = 10240;
const volatile __u32 alpha_max_scale = ONE;
/* Fraction of the window that a loss subtracts at low queueing delay. */
const volatile __u16 beta_min = 128;
const volatile __u16 beta_min_scale = ONE;
/* Fraction of the window that a loss subtracts at high queueing delay. */
const volatile __u16 beta_max = 512;
const volatile __u16 beta_max_scale = ONE;
/* Delay up to which alpha is at its maximum, in percent of the largest delay. */
const volatile __u8 alpha_delay_percent = 1;
/* Delay up to which beta is at its minimum, in percent of the largest delay. */
const volatile __u8 beta_low_percent = 10;
/* Delay from which beta is at its maximum, in percent of the largest delay. */
const volatile __u8 beta_high_percent = 80;
/* Consecutive round trips with low queueing delay before alpha returns to its maximum. */
const volatile __u16 theta = 5;
/* Windows below this many packets behave as in Reno. */
const volatile __u32 window_min = 15;

#define NO_RTT_US 0x7fffffffU

struct illinois_state {
	__u64 rtt_sum_us;
	/* Accumulated growth of less than a packet, in packets of window times 1/1024 packets. */
	__u64 earned;
	__u32 samples;
	__u32 base_rtt_us;
	__u32 max_rtt_us;
	/* snd_nxt at the start of the round: the round ends with its ACK. */
	__u32 round_end;
	/* In 1/1024. */
	__u32 alpha;
	__u32 beta;
	__u32 low_delay_rounds;
	bool was_delayed;
};

extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;

static void start_round(const struct tcp_sock *tp, struct illinois_state *i)
{
	i->round_end = tp->snd_nxt;
	i->samples = 0;
	i->rtt_sum_us = 0;
}

static void be_reno(struct illinois_state *i)
{
	i->alpha = ONE;
	i->beta = ONE / 2;
}

/*
 * The hyperbola through (d1, alpha_max) and (dm, alpha_min), with x = da - d1 and range = dm - d1:
 * alpha = range alpha_max / (range + x (alpha_max - alpha_min) / alpha_min).
 */
static __u32 increase(struct illinois_state *i, __u64 delay_us, __u64 max_us)
{
	__u64 least = alpha_min ? alpha_min : 1, most = alpha_max > least ? alpha_max : least;
	__u64 low_us = max_us * alpha_delay_percent / 100, range, steeper;

	if (delay_us <= low_us) {
		/* A single round with low delay does not restore the maximum. */
		if (i->was_delayed && ++i->low_delay_rounds < theta)
			return i->alpha;
		i->low_delay_rounds = 0;
		i->was_delayed = false;
		return most;
	}
	i->was_delayed = true;
	range = max_us > low_us ? max_us - low_us : 1;
	steeper = (delay_us - low_us) * (most - least) / least;
	return range * most / (range + steeper);
}

static __u32 decrease(__u64 delay_us, __u64 max_us)
{
	__u32 least = beta_min < ONE ? beta_min : ONE;
	__u32 most = beta_max < least ? least : beta_max < ONE ? beta_max : ONE;
	__u64 low_us = max_us * beta_low_percent / 100, high_us = max_us * beta_high_percent / 100;

	if (delay_us <= low_us)
		return least;
	if (delay_us >= high_us || high_us <= low_us)
		return most;
	return least + (most - least) * (delay_us - low_us) / (high_us - low_us);
}

static void end_round(const struct tcp_sock *tp, struct illinois_state *i)
{
	if (tp->snd_cwnd < window_min) {
		be_reno(i);
	} else if (i->samples) {
		__u64 mean_us = i->rtt_sum_us / i->samples;
		__u64 delay_us = mean_us - i->base_rtt_us, max_us = i->max_rtt_us - i->base_rtt_us;

		i->alpha = increase(i, delay_us, max_us);
		i->beta = decrease(delay_us, max_us);
	}
	start_round(tp, i);
}

SEC("struct_ops")
void BPF_PROG(illinois_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct illinois_state *i = inet_csk_ca(sk);
	__u64 packet, grow;

	if (after(ack, i->round_end))
		end_round(tp, i);
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	/* Each acknowledged packet adds alpha / cwnd packets to the window. */
	packet = (__u64)(tp->snd_cwnd ? tp->snd_cwnd : 1) * ONE;
	i->earned += (__u64)acked * i->alpha;
	if (i->earned < packet)
		return;
	grow = i->earned / packet;
	i->earned -= grow * packet;
	if (grow > acked)
		grow = acked;
	grow += tp->snd_cwnd;
	tp->snd_cwnd = grow < tp->snd_cwnd_clamp ? grow : tp->snd_cwnd_clamp;
}

SEC("struct_ops")
void BPF_PROG(illinois_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct illinois_state *i = inet_csk_ca(sk);
	__u32 rtt_us = sample->rtt_us;

	if (sample->rtt_us < 0)
		return;
	if (rtt_us < i->base_rtt_us)
		i->base_rtt_us = rtt_us;
	if (rtt_us > i->max_rtt_us)
		i->max_rtt_us = rtt_us;
	i->rtt_sum_us += rtt_us;
	i->samples++;
}

SEC("struct_ops")
void BPF_PROG(illinois_set_state, struct sock *sk, __u8 new_state)
{
	struct illinois_state *i = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	be_reno(i);
	i->low_delay_rounds = 0;
	i->was_delayed = false;
	i->earned = 0;
	start_round(tcp_sk(sk), i);
}

SEC("struct_ops")
__u32 BPF_PROG(illinois_ssthresh, struct sock *sk)
{
	struct illinois_state *i = inet_csk_ca(sk);
	__u32 cwnd = tcp_sk(sk)->snd_cwnd, kept = cwnd - (__u32)((__u64)cwnd * i->beta / ONE);

	return kept < 2 ? 2 : kept;
}

SEC("struct_ops")
void BPF_PROG(illinois_init, struct sock *sk)
{
	struct illinois_state *i = inet_csk_ca(sk);

	__builtin_memset(i, 0, sizeof(*i));
	i->alpha = alpha_max;
	i->beta = beta_max < ONE ? beta_max : ONE;
	i->base_rtt_us = NO_RTT_US;
	start_round(tcp_sk(sk), i);
}

SEC("struct_ops")
__u32 BPF_PROG(illinois_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops illinois = {
	.init = (void *)illinois_init,
	.ssthresh = (void *)illinois_ssthresh,
	.cong_avoid = (void *)illinois_cong_avoid,
	.undo_cwnd = (void *)illinois_undo_cwnd,
	.pkts_acked = (void *)illinois_pkts_acked,
	.set_state = (void *)illinois_set_state,
	.name = "illinois",
};
