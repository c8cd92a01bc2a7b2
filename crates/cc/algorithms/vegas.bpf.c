/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Vegas: keeps between alpha and beta packets in the queue, estimated from the round-trip time.
 *
 * Source: L. S. Brakmo, L. L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet", IEEE JSAC
 * 13(8), 1995. Once per round trip:
 *
 *   diff = cwnd x (RTT - baseRTT) / baseRTT        cwnd + 1 if diff < alpha, cwnd - 1 if diff > beta
 *   slow start ends when diff > gamma
 *
 * Differences from the paper (the kernel has them too):
 *  1. diff is divided by baseRTT, not by RTT: it is the queue that the window would build at the uncongested rate.
 *  2. Slow start doubles the window every round trip, not every other one.
 *  3. RTT is the smallest of the round, so that a delayed ACK does not count as a queue. After a round with fewer than
 *     three samples, growth is Reno's.
 *  4. The kernel handles losses: no early retransmission, and half the window after each loss, as in Reno.
 *
 * Differences from the kernel's tcp_vegas:
 *  1. Products have 64 bits: a window of 2^30 packets or an RTT of 100 s does not wrap.
 *  2. get_info is missing: BPF does not support it.
 *
 * Unlike the kernel's: no overflow at very large windows; ss shows no state (no get_info).
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "longfat_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Below this many packets in the queue the window grows. */
const volatile __u32 alpha = 2;
/* Above this many packets in the queue the window shrinks. */
const volatile __u32 beta = 4;
/* With more packets than this in the queue, slow start ends. */
const volatile __u32 slow_start_gamma = 1;

#define NO_RTT_US 0x7fffffffU
#define MIN_SAMPLES 3

struct vegas_state {
	/* snd_nxt at the start of the round: the round ends with its ACK. */
	__u32 round_end;
	__u32 samples;
	__u32 round_rtt_us;
	__u32 base_rtt_us;
	/* Off during recovery, when RTTs are meaningless. */
	bool on;
};

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;

static void start_round(const struct tcp_sock *tp, struct vegas_state *v)
{
	v->round_end = tp->snd_nxt;
	v->samples = 0;
	v->round_rtt_us = NO_RTT_US;
}

static void restart(const struct tcp_sock *tp, struct vegas_state *v)
{
	v->base_rtt_us = NO_RTT_US;
	v->on = true;
	start_round(tp, v);
}

/* Ends slow start: the window reached becomes the threshold. */
static void end_slow_start(struct tcp_sock *tp)
{
	if (tp->snd_ssthresh > tp->snd_cwnd)
		tp->snd_ssthresh = tp->snd_cwnd;
}

/* The threshold after a recovery is at least three quarters of the window, as the kernel's tcp_current_ssthresh. */
static void raise_threshold(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u8 state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
	__u32 most = (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2);

	if (state != TCP_CA_CWR && state != TCP_CA_Recovery && tp->snd_ssthresh < most)
		tp->snd_ssthresh = most;
}

static void set_window(struct tcp_sock *tp, __u32 cwnd)
{
	if (cwnd > tp->snd_cwnd_clamp)
		cwnd = tp->snd_cwnd_clamp;
	tp->snd_cwnd = cwnd < 2 ? 2 : cwnd;
}

/* Compares the packets in the queue with the target, once per round trip. */
static void adjust(struct sock *sk, const struct vegas_state *v, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 cwnd = tp->snd_cwnd, base_us = v->base_rtt_us, rtt_us = v->round_rtt_us;
	__u64 target, queued;

	if (!base_us || rtt_us < base_us)
		return;
	target = cwnd * base_us / rtt_us;
	queued = cwnd * (rtt_us - base_us) / base_us;

	if (tcp_in_slow_start(tp)) {
		if (queued > slow_start_gamma) {
			/* The window without a queue, plus one because the division rounds down. */
			set_window(tp, target + 1 < cwnd ? target + 1 : cwnd);
			end_slow_start(tp);
		} else {
			tcp_slow_start(tp, acked);
		}
	} else if (queued > beta) {
		set_window(tp, cwnd - 1);
		end_slow_start(tp);
	} else if (queued < alpha) {
		set_window(tp, cwnd + 1);
	} else {
		set_window(tp, cwnd);
	}
	raise_threshold(sk);
}

SEC("struct_ops")
void BPF_PROG(vegas_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct vegas_state *v = inet_csk_ca(sk);

	if (!v->on) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if (!after(ack, v->round_end)) {
		if (tcp_in_slow_start(tp))
			tcp_slow_start(tp, acked);
		return;
	}
	if (v->samples < MIN_SAMPLES)
		tcp_reno_cong_avoid(sk, ack, acked);
	else
		adjust(sk, v, acked);
	start_round(tp, v);
}

SEC("struct_ops")
void BPF_PROG(vegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct vegas_state *v = inet_csk_ca(sk);
	__u32 rtt_us;

	if (sample->rtt_us < 0)
		return;
	/* Never 0: it is a divisor. */
	rtt_us = (__u32)sample->rtt_us < NO_RTT_US ? (__u32)sample->rtt_us + 1 : NO_RTT_US;
	if (rtt_us < v->base_rtt_us)
		v->base_rtt_us = rtt_us;
	if (rtt_us < v->round_rtt_us)
		v->round_rtt_us = rtt_us;
	v->samples++;
}

SEC("struct_ops")
void BPF_PROG(vegas_set_state, struct sock *sk, __u8 new_state)
{
	struct vegas_state *v = inet_csk_ca(sk);

	v->on = new_state == TCP_CA_Open;
	if (v->on)
		start_round(tcp_sk(sk), v);
}

SEC("struct_ops")
void BPF_PROG(vegas_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	/* The path may have changed during the pause: measure again. */
	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		restart(tcp_sk(sk), inet_csk_ca(sk));
}

/* Linux 7.2 and later call this when sending starts after a pause; older kernels ignore it. */
SEC("?struct_ops")
void BPF_PROG(vegas_cwnd_event_tx_start, struct sock *sk)
{
	restart(tcp_sk(sk), inet_csk_ca(sk));
}

SEC("struct_ops")
void BPF_PROG(vegas_init, struct sock *sk)
{
	restart(tcp_sk(sk), inet_csk_ca(sk));
}

SEC("struct_ops")
__u32 BPF_PROG(vegas_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(vegas_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops vegas = {
	.init = (void *)vegas_init,
	.ssthresh = (void *)vegas_ssthresh,
	.cong_avoid = (void *)vegas_cong_avoid,
	.undo_cwnd = (void *)vegas_undo_cwnd,
	.pkts_acked = (void *)vegas_pkts_acked,
	.set_state = (void *)vegas_set_state,
	.cwnd_event = (void *)vegas_cwnd_event,
	.cwnd_event_tx_start = (void *)vegas_cwnd_event_tx_start,
	.name = "vegas",
};
