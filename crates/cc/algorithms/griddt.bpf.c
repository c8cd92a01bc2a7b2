/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Grid DT: Reno with configurable increment, slow start and back-off.
 *
 * Source: S. Ravot, "TCP transfers over high latency/bandwidth networks - Grid DT", PFLDnet 2003, a patch to Linux 2.4:
 * configurable initial ssthresh; congestion avoidance cwnd += A * MSS * MSS / cwnd per ACK, that is A segments per round
 * trip; slow start cwnd += M segments per ACK; a smaller back-off after a loss. Only the sender changes. As "next
 * work" it proposes A from the MTU (9000 bytes gives 1, 3000 gives 3, 1500 gives 6) and from the square of the RTT (10 ms
 * gives 1, 100 ms gives 100).
 *
 * With the default parameters the window is that of Linux's Reno after every ACK.
 *
 * Differences from the patch:
 *  1. Growth per acknowledged segment, not per ACK, as in Linux's Reno since 4.0: delayed and stretched ACKs do not slow
 *     growth down.
 *  2. A, M and the back-off may be fractions. Fractions of segments accumulate, so that A = 0.01
 *     grows by one segment in 100 round trips.
 *  3. `auto_rtt` uses the kernel's minimum RTT, not the smoothed one: otherwise the flow's own queue would increase
 *     A, which increases the queue.
 *  4. `auto_mtu` and `auto_rtt` multiply `a`; the product is limited to between 1/65536 and 65536.
 *
 * The kernel has no module of this name.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "fractional_growth.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Additive increase A: segments per round trip in congestion avoidance. */
const volatile __u32 a = 65536;
const volatile __u32 a_scale = 65536;
/* Slow-start increment M: segments per acknowledged segment. */
const volatile __u32 m = 65536;
const volatile __u32 m_scale = 65536;
/* Share of the window that is kept after a loss. */
const volatile __u32 backoff = 512;
const volatile __u32 backoff_scale = 1024;
/* Window at which the first slow start ends, in segments; 0: it ends with the first loss. */
const volatile __u32 initial_ssthresh = 0;
/* Multiplies A by reference_mtu_bytes / MTU. */
const volatile bool auto_mtu = false;
/* Multiplies A by the square of RTT / reference_rtt_us. */
const volatile bool auto_rtt = false;
/* MTU for which auto_mtu does not change A. */
const volatile __u32 reference_mtu_bytes = 9000;
/* RTT for which auto_rtt does not change A. */
const volatile __u32 reference_rtt_us = 10000;

extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* The connection's MTU: payload of a full segment, TCP header with the usual options, IP header. */
static __always_inline __u32 mtu_bytes(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	__u32 ip_header = sk->__sk_common.skc_family == AF_INET6 ? 40 : 20;

	return tp->mss_cache + tp->tcp_header_len + ip_header;
}

/* A, in 1/65536 segments per round trip. */
static __always_inline __u64 increment(const struct sock *sk)
{
	__u32 rtt_us = tcp_sk(sk)->rtt_min.s[0].v;
	__u64 is = min((__u64)a * FRACTION_ONE / max(a_scale, 1U), FRACTION_MAX);

	if (auto_mtu)
		is = min(is * min(reference_mtu_bytes, 65536U) / max(mtu_bytes(sk), 1U), FRACTION_MAX);
	/* 0 or all ones: no sample yet. */
	if (auto_rtt && rtt_us && rtt_us != ~0U) {
		/* Once for each factor of the square, so that each product fits into 64 bits. */
		is = min(is * rtt_us / max(reference_rtt_us, 1U), FRACTION_MAX);
		is = min(is * rtt_us / max(reference_rtt_us, 1U), FRACTION_MAX);
	}
	return max(is, 1ULL);
}

SEC("struct_ops")
void BPF_PROG(griddt_init, struct sock *sk)
{
	struct fractions *kept = inet_csk_ca(sk);

	kept->slow_start = 0;
	kept->avoidance = 0;
	if (initial_ssthresh)
		tcp_sk(sk)->snd_ssthresh = max(initial_ssthresh, 2U);
}

SEC("struct_ops")
void BPF_PROG(griddt_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fractions *kept = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = fractional_slow_start(tp, kept, (__u64)m * FRACTION_ONE / max(m_scale, 1U), acked);
		if (!acked)
			return;
	}
	fractional_avoidance(tp, kept, increment(sk), acked);
}

SEC("struct_ops")
__u32 BPF_PROG(griddt_ssthresh, struct sock *sk)
{
	__u64 kept = (__u64)tcp_sk(sk)->snd_cwnd * min(backoff, backoff_scale) / max(backoff_scale, 1U);

	return max(kept, 2ULL);
}

SEC("struct_ops")
__u32 BPF_PROG(griddt_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops griddt = {
	.init = (void *)griddt_init,
	.ssthresh = (void *)griddt_ssthresh,
	.cong_avoid = (void *)griddt_cong_avoid,
	.undo_cwnd = (void *)griddt_undo_cwnd,
	.name = "griddt",
};
