/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Reno: grows by one segment per round trip, halves the window after a loss.
 *
 * Source: V. Jacobson, "Congestion avoidance and control", ACM SIGCOMM 1988; RFC 5681. Slow start w += 1 for each
 * segment acknowledged, up to ssthresh; congestion avoidance w += 1 / w for each; after a loss ssthresh = w / 2, at
 * least 2.
 *
 * Differences from RFC 5681, all of them Linux's:
 *  1. Growth counts acknowledged segments, not ACKs: delayed and stretched ACKs do not slow growth down, and one ACK may
 *     add more than one segment.
 *  2. ssthresh is half of the window, not of the packets in flight.
 *  3. The window grows only while it limits the sender, not the application (in the spirit of RFC 7661).
 *
 * Differences from the kernel's reno: none; it consists of functions that the kernel offers to all congestion controls.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char _license[] SEC("license") = "Dual MIT/GPL";

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

SEC("struct_ops")
__u32 BPF_PROG(reno_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
void BPF_PROG(reno_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(reno_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops reno = {
	.ssthresh = (void *)reno_ssthresh,
	.cong_avoid = (void *)reno_cong_avoid,
	.undo_cwnd = (void *)reno_undo_cwnd,
	.name = "reno",
};
