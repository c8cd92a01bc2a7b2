/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * FAST: the window follows an equation whose solution keeps exactly alpha packets of the flow in the queue.
 *
 * Source: C. Jin, D. X. Wei, S. H. Low, "FAST TCP: Motivation, Architecture, Algorithms, Performance", INFOCOM 2004
 * (journal version: IEEE/ACM Transactions on Networking 14(6), 2006). Once per round trip:
 *
 *   w = min(2 w, (1 - gamma) w + gamma (baseRTT / RTT x w + alpha))
 *
 * Differences from the paper (the kernel has no FAST):
 *  1. RTT is the mean of the round's samples; the paper smooths with a weight that depends on the window.
 *  2. Slow start doubles the window until the flow has alpha packets queued, or until a loss: then the equation applies.
 *     The paper's own start phase is not published in detail.
 *  3. Between two rounds the window grows to its new value by one packet per acknowledged packet, so that an
 *     increase causes no burst; a decrease is immediate.
 *  4. alpha is fixed for a flow; the paper also describes a choice of alpha by the measured rate. After a loss the window
 *     is halved, as in Reno and in the paper's experiments.
 *  5. Fractions of packets are kept (1/1024): without them the window stops up to 1/gamma packets from the solution.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "longfat_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define ONE 1024
#define NO_RTT_US 0x7fffffffU
/* Maximum window: sums with it fit into 32 bits. */
#define WINDOW_MAX (1U << 30)

/* Packets that the flow keeps in the queue: at least one for each 10 Mb/s, so that the delay can be measured. */
const volatile __u32 alpha = 100;
/* Fraction of the distance to the solution that a round covers. */
const volatile __u16 gain = 512;
const volatile __u16 gain_scale = ONE;

struct fast_state {
	__u64 rtt_sum_us;
	__u32 samples;
	__u32 base_rtt_us;
	/* snd_nxt at the start of the round: the round ends with its ACK. */
	__u32 round_end;
	/* The window from the equation, in packets and 1/1024; 0 packets: none yet. */
	__u32 target;
	__u32 fraction;
	bool on;
};

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;

static void start_round(const struct tcp_sock *tp, struct fast_state *f)
{
	f->round_end = tp->snd_nxt;
	f->samples = 0;
	f->rtt_sum_us = 0;
}

/* Solves the equation once. */
static void end_round(struct sock *sk, struct fast_state *f)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 weight = gain < ONE ? gain : ONE;
	__u64 rtt_us, window, empty, next;

	if (!f->samples)
		return;
	rtt_us = f->rtt_sum_us / f->samples;
	if (!rtt_us)
		rtt_us = 1;

	/* All in 1/1024 packets; empty is the window without a queue. */
	window = (__u64)(tp->snd_cwnd < WINDOW_MAX ? tp->snd_cwnd : WINDOW_MAX) * ONE;
	if (tp->snd_cwnd == f->target)
		window += f->fraction;
	/* 2^40 times an RTT below 2^24 us (16 s) fits into 64 bits; the last 8 bits of longer RTTs do not matter. */
	if (rtt_us >> 24)
		empty = window * (f->base_rtt_us >> 8) / (rtt_us >> 8);
	else
		empty = window * f->base_rtt_us / rtt_us;

	if (tcp_in_slow_start(tp)) {
		if (window - empty < (__u64)alpha * ONE)
			return;
		tp->snd_ssthresh = tp->snd_cwnd < 2 ? 2 : tp->snd_cwnd;
	}
	next = (window * (ONE - weight) + (empty + (__u64)alpha * ONE) * weight) / ONE;
	if (next > 2 * window)
		next = 2 * window;
	if (next > (__u64)WINDOW_MAX * ONE)
		next = (__u64)WINDOW_MAX * ONE;
	if (next < 2 * ONE)
		next = 2 * ONE;
	f->target = next / ONE;
	f->fraction = next % ONE;
	if (f->target < tp->snd_cwnd) {
		tp->snd_cwnd = f->target;
		/* Otherwise slow start would start again. */
		if (tp->snd_ssthresh > f->target)
			tp->snd_ssthresh = f->target;
	}
}

SEC("struct_ops")
void BPF_PROG(fast_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fast_state *f = inet_csk_ca(sk);
	__u32 step;

	if (!f->on) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if (after(ack, f->round_end)) {
		end_round(sk, f);
		start_round(tp, f);
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
	} else if (tp->snd_cwnd < f->target) {
		step = f->target - tp->snd_cwnd < acked ? f->target - tp->snd_cwnd : acked;
		tp->snd_cwnd = tp->snd_cwnd + step < tp->snd_cwnd_clamp ? tp->snd_cwnd + step : tp->snd_cwnd_clamp;
	}
}

SEC("struct_ops")
void BPF_PROG(fast_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct fast_state *f = inet_csk_ca(sk);
	__u32 rtt_us = sample->rtt_us;

	if (sample->rtt_us < 0)
		return;
	if (!rtt_us)
		rtt_us = 1;
	if (rtt_us < f->base_rtt_us)
		f->base_rtt_us = rtt_us;
	f->rtt_sum_us += rtt_us;
	f->samples++;
}

SEC("struct_ops")
void BPF_PROG(fast_set_state, struct sock *sk, __u8 new_state)
{
	struct fast_state *f = inet_csk_ca(sk);

	/* In recovery RTTs are meaningless, and the kernel sets the window. */
	f->on = new_state == TCP_CA_Open;
	f->target = 0;
	start_round(tcp_sk(sk), f);
}

SEC("struct_ops")
__u32 BPF_PROG(fast_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(fast_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(fast_init, struct sock *sk)
{
	struct fast_state *f = inet_csk_ca(sk);

	__builtin_memset(f, 0, sizeof(*f));
	f->base_rtt_us = NO_RTT_US;
	f->on = true;
	start_round(tcp_sk(sk), f);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops fast = {
	.init = (void *)fast_init,
	.ssthresh = (void *)fast_ssthresh,
	.cong_avoid = (void *)fast_cong_avoid,
	.undo_cwnd = (void *)fast_undo_cwnd,
	.pkts_acked = (void *)fast_pkts_acked,
	.set_state = (void *)fast_set_state,
	.name = "fast",
};
