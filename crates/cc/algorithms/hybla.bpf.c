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
 * By default this is Linux's tcp_hybla; `per_segment` selects the paper's growth.
 *
 * Differences from the paper, 1 and 2 in both forms:
 *  1. The paper's packet spacing, and its bandwidth estimate for the first ssthresh, are not implemented.
 *  2. Outside of state Open growth is Reno's.
 * Only in Linux's form:
 *  3. An ACK adds the increment of one segment, however many it acknowledges: delayed and stretched ACKs slow growth
 *     down, in slow start too.
 *  4. rho is rounded down to a multiple of 1/8. 2^rho is at most 2^17, and fractions of segments are multiples of 1/128.
 *     In congestion avoidance a window above 128 rho^2 grows by one segment in as many ACKs as it has segments.
 *  5. The first window is rho, at least 1, also where the initial window of the socket is larger. The window is at most
 *     65535 segments.
 *  6. Without an RTT sample at the start, rho is 1 for the life of the connection.
 *
 * With `per_segment`, the increments are per acknowledged segment. rho has 10 fraction bits and is at most 1000; 2^rho is
 * at most 2^16. The first window is the larger of rho and the socket's. rho is first computed from the first RTT sample.
 *
 * Differences from the kernel's tcp_hybla: none in behaviour.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "fractional_growth.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* RTT of the Reno flow whose growth is the reference, in microseconds. */
const volatile __u32 reference_rtt_us = 25000;

/* The paper's growth per acknowledged segment, instead of Linux's per ACK. */
const volatile bool per_segment = false;

/* Linux's rho is in 1/8, its increments in 1/128 segments, its largest window in segments. */
#define EIGHTHS 8U
#define CENTS 128U
#define LARGEST_WINDOW 65535U

/* The paper's rho carries 10 fraction bits. */
#define RHO_ONE 1024U
#define RHO_MAX (1000U * RHO_ONE)
#define RHO_BITS 10

struct hybla {
	struct fractions kept;
	__u32 rho;	   /* in 1/1024, 0: no RTT sample yet; Linux's in 1/8 */
	__u32 min_srtt_us; /* in 1/8 us, as tcp_sock has it */
	__u32 cents;	   /* Linux's fraction of a segment, in 1/128 */
	bool open;	   /* state Open */
};

/* 2^(i/8) in 1/65536; Linux has the first eight in 1/128, rounded down. */
static const __u32 eighth_powers[9] = { 65536, 71468, 77936, 84990, 92682, 101070, 110218, 120194, 131072 };

extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* Linux's rho in 1/8, at least 1. */
static __always_inline __u32 linux_rho(const struct tcp_sock *tp)
{
	/* srtt_us is in 1/8 us. */
	return max(tp->srtt_us / max(reference_rtt_us, 1U), EIGHTHS);
}

/* Updates rho for a new minimum of the smoothed RTT. */
static __always_inline void update_rho(const struct tcp_sock *tp, struct hybla *ca)
{
	__u64 rho;

	if (!per_segment) {
		if (tp->srtt_us < ca->min_srtt_us) {
			ca->rho = linux_rho(tp);
			ca->min_srtt_us = tp->srtt_us;
		}
		return;
	}
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

/* One ACK, in Linux's fixed-point numbers. */
static __always_inline void grow_by_ack(struct tcp_sock *tp, struct hybla *ca)
{
	__u32 whole = ca->rho / EIGHTHS, eighth = ca->rho % EIGHTHS;
	bool is_slow_start = tcp_in_slow_start(tp);
	__u64 cwnd = max(tp->snd_cwnd, 1U), increment;
	__u32 fraction;

	if (is_slow_start) {
		__u64 power = eighth_powers[eighth] / (FRACTION_ONE / CENTS);

		increment = (power << min(whole, 16U)) - CENTS;
	} else {
		/* rho^2 / w: rho^2 is in 1/64. */
		increment = (__u64)ca->rho * ca->rho * (CENTS / (EIGHTHS * EIGHTHS)) / cwnd;
		if (increment < CENTS)
			tp->snd_cwnd_cnt++;
	}
	fraction = ca->cents + increment % CENTS;
	cwnd += increment / CENTS;
	if (fraction >= CENTS) {
		fraction -= CENTS;
		cwnd++;
		tp->snd_cwnd_cnt = 0;
	}
	ca->cents = fraction;
	/* Too small for the fixed-point number: one segment per window of ACKs. */
	if (!increment && tp->snd_cwnd_cnt >= cwnd) {
		cwnd++;
		tp->snd_cwnd_cnt = 0;
	}
	if (is_slow_start)
		cwnd = min(cwnd, (__u64)tp->snd_ssthresh);
	tp->snd_cwnd = min(cwnd, (__u64)min(tp->snd_cwnd_clamp, LARGEST_WINDOW));
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
	ca->cents = 0;
	ca->open = true;
	if (!per_segment) {
		ca->rho = linux_rho(tp);
		ca->min_srtt_us = tp->srtt_us;
		tp->snd_cwnd = min(ca->rho / EIGHTHS, LARGEST_WINDOW);
		return;
	}
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
		if (!per_segment)
			tp->snd_cwnd = min(tp->snd_cwnd, LARGEST_WINDOW);
		return;
	}
	if (!per_segment) {
		grow_by_ack(tp, ca);
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
