/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * DCTCP: reduces the window by half the fraction of marked packets.
 *
 * Source: RFC 8257; M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010. Once per round trip:
 *
 *   alpha = (1 - g) alpha + g F            F: ratio of marked to delivered packets, g = 1/16
 *   cwnd  = cwnd (1 - alpha / 2)           if there were marks
 *
 * A loss halves the window (section 3.5). The receiver acknowledges each change of the mark at once, so that the sender can
 * count marked packets (section 3.2).
 *
 * Difference from the RFC: F counts packets, not bytes (as in the kernel).
 *
 * Differences from the kernel's tcp_dctcp:
 *  1. Without negotiated ECN, the functions of this file behave as Reno, and ss still shows the name dctcp. The kernel
 *     replaces the whole set of functions.
 *  2. The kernel sets ECT on sent packets (also SYN and retransmissions) because of the NEEDS_ECN flag.
 *  3. alpha has 20 fraction bits. The kernel's has 10, and below 16/1024 it decreases in steps of 1/1024.
 *  4. get_info is missing: BPF does not support it.
 *
 * Unlike the kernel's: alpha in finer steps; without ECN it behaves as Reno, but keeps the name dctcp.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "longfat_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define ONE 1024
/* alpha in 1/2^20. */
#define ALPHA_ONE (1U << 20)

/* g: weight of the last round's marks. */
const volatile __u16 g = 64;
const volatile __u16 g_scale = ONE;
/* Initial alpha: 1 halves the window at the first mark. */
const volatile __u16 initial_alpha = ONE;
const volatile __u16 initial_alpha_scale = ONE;

struct dctcp_state {
	__u32 alpha;
	__u32 delivered;
	__u32 delivered_ce;
	/* snd_nxt at the start of the round: the round ends with its ACK. */
	__u32 round_end;
	__u32 prior_rcv_nxt;
	__u32 loss_cwnd;
	bool ecn;
	bool ce;
};

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;

static void start_round(const struct tcp_sock *tp, struct dctcp_state *d)
{
	d->round_end = tp->snd_nxt;
	d->delivered = tp->delivered;
	d->delivered_ce = tp->delivered_ce;
}

static void halve(struct tcp_sock *tp, struct dctcp_state *d)
{
	__u32 half = tp->snd_cwnd >> 1;

	d->loss_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = half < 2 ? 2 : half;
}

/* As a receiver: sets whether ACKs report a mark. */
static void echo(struct tcp_sock *tp, bool ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_state *d = inet_csk_ca(sk);
	__u8 state = sk->sk_state;

	__builtin_memset(d, 0, sizeof(*d));
	/* A socket that is not connected yet may still negotiate ECN. */
	d->ecn = (tp->ecn_flags & TCP_ECN_OK) || state == TCP_LISTEN || state == TCP_CLOSE;
	d->alpha = (__u32)(initial_alpha < ONE ? initial_alpha : ONE) * (ALPHA_ONE / ONE);
	d->prior_rcv_nxt = tp->rcv_nxt;
	start_round(tp, d);
}

SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_state *d = inet_csk_ca(sk);
	__u32 weight = g < ONE ? g : ONE, delivered, marked, part;

	if (!d->ecn || before(tp->snd_una, d->round_end))
		return;
	delivered = tp->delivered - d->delivered;
	marked = tp->delivered_ce - d->delivered_ce;
	if (marked > delivered)
		marked = delivered;
	part = (__u64)marked * ALPHA_ONE / (delivered ? delivered : 1);
	d->alpha = ((__u64)d->alpha * (ONE - weight) + (__u64)part * weight) / ONE;
	start_round(tp, d);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_state *d = inet_csk_ca(sk);
	__u32 kept;

	d->loss_cwnd = tp->snd_cwnd;
	if (!d->ecn)
		return tcp_reno_ssthresh(sk);
	kept = tp->snd_cwnd - (__u32)((__u64)tp->snd_cwnd * d->alpha / (2 * ALPHA_ONE));
	return kept < 2 ? 2 : kept;
}

SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, __u8 new_state)
{
	__u8 old_state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);

	/* ssthresh was computed for marks; this is a loss. */
	if (new_state == TCP_CA_Recovery && old_state != TCP_CA_Recovery)
		halve(tcp_sk(sk), inet_csk_ca(sk));
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp_state *d = inet_csk_ca(sk);
	bool ce = event == CA_EVENT_ECN_IS_CE;

	if (event == CA_EVENT_LOSS) {
		halve(tp, d);
		return;
	}
	if (event == CA_EVENT_TX_START) {
		/* Everything is acknowledged: a round across the pause would mix two states of the path. */
		start_round(tp, d);
		return;
	}
	if (!d->ecn || (!ce && event != CA_EVENT_ECN_NO_CE))
		return;
	if (ce != d->ce) {
		/* The delayed ACK is for packets with the previous mark, so it is sent first and separately. */
		if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			echo(tp, d->ce);
			bpf_tcp_send_ack(tp, d->prior_rcv_nxt);
		}
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	d->prior_rcv_nxt = tp->rcv_nxt;
	d->ce = ce;
	echo(tp, ce);
}

/* Linux 7.2 and later call this when sending starts after a pause; older kernels ignore it. */
SEC("?struct_ops")
void BPF_PROG(dctcp_cwnd_event_tx_start, struct sock *sk)
{
	start_round(tcp_sk(sk), inet_csk_ca(sk));
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	struct dctcp_state *d = inet_csk_ca(sk);
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	return cwnd > d->loss_cwnd ? cwnd : d->loss_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops dctcp = {
	.init = (void *)dctcp_init,
	.ssthresh = (void *)dctcp_ssthresh,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.cwnd_event_tx_start = (void *)dctcp_cwnd_event_tx_start,
	.set_state = (void *)dctcp_set_state,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "dctcp",
};
