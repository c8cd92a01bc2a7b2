/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Hybla: on a long path the rate grows as fast, in segments per second, as that of a Reno flow on a short path.
 *
 * Source: C. Caini and R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", International
 * Journal of Satellite Communications and Networking 22(5), 2004. With rho = RTT / RTT0, at least 1, and RTT0 = 25
 * ms, for each segment acknowledged
 *     slow start            w += 2^rho - 1
 *     congestion avoidance  w += rho^2 / w
 * so that the window is always rho times that of a Reno flow with RTT0, and the rate w / RTT is the same. A loss
 * halves the window.
 *
 * Departures from the paper:
 *  1. The paper's packet spacing, and its bandwidth estimate for the first ssthresh, are not implemented.
 *  2. Outside of state Open growth is Reno's.
 *  3. rho is at most 1000, 2^rho at most 2^16.
 *
 * Departures from the kernel's tcp_hybla:
 *  1. Increments are per acknowledged segment, as in the paper; the kernel's are per ACK, so delayed ACKs halve them.
 *  2. The first window is rho if this is larger than the socket's window; the kernel takes rho even if it is smaller.
 *  3. rho has 10 fraction bits, not 3, and there is no largest window of 65535 segments.
 *  4. Without an RTT sample at the start rho waits for the first one; the kernel keeps 1 for the connection's life.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "fractional_growth.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* RTT of the Reno flow whose growth is the model. */
const volatile __u32 reference_rtt_us = 25000;

/* rho carries 10 fraction bits. */
#define RHO_ONE 1024U
#define RHO_MAX (1000U * RHO_ONE)
#define RHO_BITS 10

struct hybla {
	struct fractions kept;
	__u32 rho;	   /* in 1/1024; 0: no RTT sample yet */
	__u32 min_srtt_us; /* eighths, as tcp_sock has it */
	bool open;	   /* state Open */
};

/* 2^(i/8) in 1/65536. */
static const __u32 eighth_powers[9] = { 65536, 71468, 77936, 84990, 92682, 101070, 110218, 120194, 131072 };

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* Updates rho for a new minimum of the smoothed RTT. */
static __always_inline void update_rho(const struct tcp_sock *tp, struct hybla *ca)
{
	__u64 rho;

	if (!tp->srtt_us || (ca->rho && tp->srtt_us >= ca->min_srtt_us))
		return;
	ca->min_srtt_us = tp->srtt_us;
	rho = (__u64)tp->srtt_us * (RHO_ONE / 8) / max(reference_rtt_us, 1U);
	ca->rho = min(max(rho, (__u64)RHO_ONE), (__u64)RHO_MAX);
}

/* 2^rho - 1 in 1/65536: the whole part by a shift, the fraction by linear interpolation between the eighths. */
static __always_inline __u64 slow_start_increment(__u32 rho)
{
	__u32 whole = min(rho / RHO_ONE, 15U), fraction = rho % RHO_ONE;
	__u32 eighth = fraction / (RHO_ONE / 8) & 7, beyond = fraction % (RHO_ONE / 8);
	__u64 power = eighth_powers[eighth];

	power += (__u64)(eighth_powers[eighth + 1] - power) * beyond / (RHO_ONE / 8);
	return (power << whole) - FRACTION_ONE;
}

SEC("struct_ops")
void BPF_PROG(hybla_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	ca->kept.slow_start = 0;
	ca->kept.avoidance = 0;
	ca->rho = 0;
	ca->min_srtt_us = 0;
	ca->open = true;
	update_rho(tp, ca);
	tp->snd_cwnd = max(tp->snd_cwnd, ca->rho / RHO_ONE);
}

SEC("struct_ops")
void BPF_PROG(hybla_set_state, struct sock *sk, __u8 new_state)
{
	struct hybla *ca = inet_csk_ca(sk);

	ca->open = new_state == TCP_CA_Open;
}

SEC("struct_ops")
void BPF_PROG(hybla_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	update_rho(tp, ca);
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (!ca->open || !ca->rho) {
		tcp_reno_cong_avoid(sk, ack, acked);
		return;
	}
	if (tcp_in_slow_start(tp)) {
		acked = fractional_slow_start(tp, &ca->kept, slow_start_increment(ca->rho), acked);
		if (!acked)
			return;
	}
	fractional_avoidance(tp, &ca->kept, (__u64)ca->rho * ca->rho >> (2 * RHO_BITS - 16), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(hybla_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(hybla_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops hybla = {
	.init = (void *)hybla_init,
	.ssthresh = (void *)hybla_ssthresh,
	.cong_avoid = (void *)hybla_cong_avoid,
	.set_state = (void *)hybla_set_state,
	.undo_cwnd = (void *)hybla_undo_cwnd,
	.name = "hybla",
};
