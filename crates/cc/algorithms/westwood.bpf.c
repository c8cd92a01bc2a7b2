/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Westwood+: Reno, but after a loss the window is the product of measured bandwidth and minimum RTT.
 *
 * Sources: C. Casetti, M. Gerla, S. Mascolo, M. Y. Sanadidi, R. Wang, "TCP Westwood: End-to-End Congestion Control for
 * Wired/Wireless Networks", Wireless Networks 8, 2002; L. A. Grieco, S. Mascolo, "Performance Evaluation and Comparison
 * of Westwood+, New Reno and Vegas TCP Congestion Control", ACM CCR 34(2), 2004.
 *
 *   sample   = bytes acknowledged in an interval of max(RTT, 50 ms), divided by its length
 *   bandwidth: the sample through two cascaded filters, each 7/8 old + 1/8 new
 *   ssthresh = bandwidth x RTTmin / MSS, at the end of a recovery (also cwnd) and at a timeout
 *
 * Differences from the papers (the kernel has them too):
 *  1. Two filters in cascade, where the paper has one.
 *  2. After a timeout the minimum RTT is measured again: the path may have changed.
 *
 * Differences from the kernel's tcp_westwood:
 *  1. Times are in microseconds and the bandwidth in bytes per second: neither depends on HZ, and RTTs below one tick
 *     are exact.
 *  2. A loss before the end of the first interval halves the window as in Reno; the kernel sets the window to 2 packets.
 *  3. While data is outstanding, each duplicate ACK counts as one segment, which is subtracted when the sequence number
 *     advances over it. The kernel has a special case for the header-predicted ("fast") path; the sum is the same.
 *  4. get_info is missing: BPF does not support it.
 *
 * Unlike the kernel's: times in microseconds, not ticks; a loss before the first sample halves the window.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"

char _license[] SEC("license") = "Dual MIT/GPL";

#define FILTER_ONE 1024
/* Maximum bandwidth: 8.8 Tb/s. */
#define BW_MAX (1ULL << 40)

/* The shortest interval of a bandwidth sample, in microseconds. */
const volatile __u32 min_interval_us = 50000;
/* Weight of the old value in each of the two filters. */
const volatile __u16 filter = 896;
const volatile __u16 filter_scale = FILTER_ONE;

/* Initial RTT before the first sample: 20 s as in the kernel. */
#define INITIAL_RTT_US 20000000U

struct westwood_state {
	/* Bytes per second, after the first filter and after both. */
	__u64 bw_once;
	__u64 bw;
	__u64 interval_start_us;
	__u64 interval_bytes;
	__u32 snd_una;
	/* Bytes of duplicate ACKs that are already counted. */
	__u32 accounted;
	__u32 rtt_us;
	__u32 min_rtt_us;
	bool measured;
	bool first_ack;
	bool reset_min_rtt;
};

extern __u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

static __u64 filtered(__u64 old, __u64 sample)
{
	__u32 weight = filter < FILTER_ONE ? filter : FILTER_ONE;

	return (old * weight + sample * (FILTER_ONE - weight)) / FILTER_ONE;
}

/* Ends an interval of measurement if it is long enough. */
static void update_interval(const struct tcp_sock *tp, struct westwood_state *w)
{
	__u64 now_us = tp->tcp_mstamp, length_us = now_us - w->interval_start_us, sample;

	/* The handshake's ACK acknowledges no data. */
	if (w->first_ack) {
		w->snd_una = tp->snd_una;
		w->first_ack = false;
	}
	if (now_us <= w->interval_start_us || !w->rtt_us)
		return;
	if (length_us <= w->rtt_us || length_us <= min_interval_us)
		return;
	sample = (w->interval_bytes < BW_MAX ? w->interval_bytes : BW_MAX) * USEC_PER_SEC / length_us;
	if (sample > BW_MAX)
		sample = BW_MAX;
	if (w->measured) {
		w->bw_once = filtered(w->bw_once, sample);
		w->bw = filtered(w->bw, w->bw_once);
	} else if (w->interval_bytes) {
		/* The filters start at the first sample: from 0 they would converge slowly. */
		w->bw_once = w->bw = sample;
		w->measured = true;
	}
	w->interval_bytes = 0;
	w->interval_start_us = now_us;
}

/* Bytes that this ACK reports as delivered. */
static __u32 newly_delivered(const struct tcp_sock *tp, struct westwood_state *w)
{
	__u32 advance = tp->snd_una - w->snd_una, mss = tp->mss_cache;

	w->snd_una = tp->snd_una;
	/* A duplicate ACK: an unknown segment has left the network. */
	if (!advance) {
		if (!tp->packets_out)
			return 0;
		w->accounted += mss;
		return mss;
	}
	/* Beyond one segment, the advance covers bytes that duplicates reported: these are not counted again. */
	if (advance > mss) {
		if (w->accounted >= advance) {
			w->accounted -= advance;
			return mss;
		}
		advance -= w->accounted;
		w->accounted = 0;
	}
	return advance;
}

static void update_min_rtt(struct westwood_state *w)
{
	if (w->reset_min_rtt || w->rtt_us < w->min_rtt_us) {
		w->min_rtt_us = w->rtt_us;
		w->reset_min_rtt = false;
	}
}

/* Product of the measured bandwidth and the minimum RTT, in packets. */
static __u32 pipe_packets(struct sock *sk, const struct westwood_state *w)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 packets, mss = tp->mss_cache ? tp->mss_cache : 1;

	if (!w->measured)
		return tcp_reno_ssthresh(sk);
	/* 2^40 bytes per second times 2^24 us fits into 64 bits; a longer RTT loses its last bits. */
	if (w->min_rtt_us >> 24)
		packets = w->bw * (w->min_rtt_us >> 8) / USEC_PER_SEC * 256 / mss;
	else
		packets = w->bw * w->min_rtt_us / USEC_PER_SEC / mss;
	if (packets > 0x7fffffff)
		packets = 0x7fffffff;
	return packets < 2 ? 2 : packets;
}

SEC("struct_ops")
void BPF_PROG(westwood_in_ack_event, struct sock *sk, __u32 flags)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood_state *w = inet_csk_ca(sk);

	update_interval(tp, w);
	w->interval_bytes += newly_delivered(tp, w);
	update_min_rtt(w);
}

SEC("struct_ops")
void BPF_PROG(westwood_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct westwood_state *w = inet_csk_ca(sk);

	if (sample->rtt_us > 0)
		w->rtt_us = sample->rtt_us;
}

SEC("struct_ops")
void BPF_PROG(westwood_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood_state *w = inet_csk_ca(sk);

	if (event == CA_EVENT_COMPLETE_CWR) {
		__u32 pipe = pipe_packets(sk, w);

		tp->snd_ssthresh = pipe;
		tp->snd_cwnd = pipe < tp->snd_cwnd_clamp ? pipe : tp->snd_cwnd_clamp;
	} else if (event == CA_EVENT_LOSS) {
		tp->snd_ssthresh = pipe_packets(sk, w);
		w->reset_min_rtt = true;
	}
}

SEC("struct_ops")
void BPF_PROG(westwood_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood_state *w = inet_csk_ca(sk);

	__builtin_memset(w, 0, sizeof(*w));
	w->rtt_us = w->min_rtt_us = INITIAL_RTT_US;
	w->interval_start_us = tp->tcp_mstamp;
	w->snd_una = tp->snd_una;
	w->first_ack = true;
	w->reset_min_rtt = true;
}

SEC("struct_ops")
void BPF_PROG(westwood_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(westwood_ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(westwood_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops westwood = {
	.init = (void *)westwood_init,
	.ssthresh = (void *)westwood_ssthresh,
	.cong_avoid = (void *)westwood_cong_avoid,
	.undo_cwnd = (void *)westwood_undo_cwnd,
	.cwnd_event = (void *)westwood_cwnd_event,
	.in_ack_event = (void *)westwood_in_ack_event,
	.pkts_acked = (void *)westwood_pkts_acked,
	.name = "westwood",
};
