/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BBR, version 1: paces at the measured bottleneck bandwidth and keeps about two bandwidth-delay products in flight.
 *
 * Sources: N. Cardwell, Y. Cheng, C. S. Gunn, S. H. Yeganeh, V. Jacobson, "BBR: Congestion-Based Congestion Control",
 * ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00; draft-cheng-iccrg-delivery-rate-estimation-00.
 *
 *   bandwidth  = max(delivery rate) over 10 round trips            rtprop = min(RTT) over 10 s
 *   pacing     = pacing_gain x bandwidth x 0.99                    cwnd   = cwnd_gain x bandwidth x rtprop + budget
 *
 *   Modes, with (pacing_gain, cwnd_gain): STARTUP (2.89, 2.89), then DRAIN (1/2.89, 2.89), then PROBE_BW, a cycle of
 *   eight phases (5/4, 2), (3/4, 2), six times (1, 2). PROBE_RTT keeps 4 packets in flight for 200 ms.
 *
 * Differences from the paper and the draft (the kernel has them too):
 *  1. The window includes a budget for three bursts of the sender, and the measured excess of aggregated ACKs.
 *  2. A policer is detected when two consecutive intervals of 4 to 16 round trips have a loss of at least 20 % and
 *     similar rates. Their mean rate then replaces the bandwidth for 48 round trips.
 *  3. Gains are multiples of 1/256; 2/ln 2 is 739/256.
 *
 * Differences from the kernel's tcp_bbr:
 *  1. Time windows use the low 32 bits of the socket's clock (tcp_mstamp, us), not jiffies, so HZ does not
 *     matter. After an idle hour PROBE_RTT may be up to ten seconds late.
 *  2. Products saturate where the kernel's would wrap: above a bandwidth of 2^32 / 2^24 packets per microsecond, and
 *     above a window of 2^30 packets.
 *  3. get_info is missing, because BPF does not support it: ss does not show the model.
 *  4. A change of the pacing rate changes the size of bursts one ACK later.
 *  5. The excess of aggregated ACKs is stored saturated at 65535 packets; the kernel truncates it to 16 bits.
 *
 * Unlike the kernel's: times in microseconds, not ticks; ss shows no model (no get_info).
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "longfat_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* Bandwidth is in packets per microsecond, times 2^24. */
#define BW_SHIFT 24
#define BW_ONE (1ULL << BW_SHIFT)
/* Gains are in 1/256. */
#define GAIN_SHIFT 8
#define GAIN_ONE 256
/* Maximum window: sums with it fit into 32 bits. */
#define WINDOW_MAX (1U << 30)
#define UNKNOWN_US 0xffffffffU
#define CYCLE_PHASES 8
/* The largest burst below 64 KiB with its headers (GSO_LEGACY_MAX_SIZE - 1 - MAX_TCP_HEADER on x86-64). */
#define BURST_MAX_BYTES (65536 - 1 - MAX_TCP_HEADER)
#define BURST_MAX_SEGS 127

/* Pacing and window gain of STARTUP: 2/ln 2, doubles the rate each round trip. */
const volatile __u16 startup_gain = 739;
const volatile __u16 startup_gain_scale = GAIN_ONE;
/* Pacing gain that removes the queue of STARTUP in one round trip. */
const volatile __u16 drain_gain = 88;
const volatile __u16 drain_gain_scale = GAIN_ONE;
/* Window gain in PROBE_BW: two bandwidth-delay products. */
const volatile __u16 cwnd_gain = 512;
const volatile __u16 cwnd_gain_scale = GAIN_ONE;
/* Pacing gain of the phase that probes for more bandwidth. */
const volatile __u16 up_gain = 320;
const volatile __u16 up_gain_scale = GAIN_ONE;
/* Pacing gain of the phase that drains the queue of the probe. */
const volatile __u16 down_gain = 192;
const volatile __u16 down_gain_scale = GAIN_ONE;
/* Length of the bandwidth filter, in round trips. */
const volatile __u16 bw_window_rounds = 10;
/* Lifetime of a minimum RTT before PROBE_RTT, in milliseconds. */
const volatile __u32 min_rtt_window_ms = 10000;
/* Duration of PROBE_RTT with the minimum window, in milliseconds; 0 for never. */
const volatile __u16 probe_rtt_ms = 200;
/* The minimum window, also that of PROBE_RTT, in packets. */
const volatile __u8 min_cwnd = 4;
/* Margin of the pacing rate below the estimated bandwidth, in percent. */
const volatile __u8 pacing_margin_percent = 1;
/* Detects a policer: a steady rate with heavy loss. */
const volatile bool detect_policer = 1;

/* The pipe is full after this many round trips without growth by a quarter. */
#define FULL_BW_GROWTH 320
#define FULL_BW_ROUNDS 3
#define POLICER_MIN_ROUNDS 4
#define POLICER_MAX_ROUNDS 16
/* Ratio of lost to delivered packets, in 1/256: 20 %. */
#define POLICER_LOSS 50
/* The rates of two intervals are similar if they differ by at most an eighth, or by at most 4 kbit/s. */
#define POLICER_ALIKE_SHIFT 3
#define POLICER_ALIKE_BYTES_PER_S 500
#define POLICER_USE_ROUNDS 48
#define EXTRA_ACKED_ROUNDS 5
#define EXTRA_ACKED_MAX_US 100000ULL
#define EPOCH_ACKED_MAX 0xfffffU

enum mode { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };

/* A bandwidth and the round in which it was measured. */
struct peak {
	__u32 round;
	__u32 bw;
};

/* At most 104 bytes: the size of a socket's private area. */
struct bbr_state {
	__u32 min_rtt_us;
	__u32 min_rtt_stamp_us;
	__u32 probe_rtt_done_us;
	/* The largest, second and third largest bandwidth of the filter's window, oldest first. */
	struct peak first, second, third;
	__u32 round;
	/* tp->delivered at which the current round ends. */
	__u32 round_end;
	__u32 prior_cwnd;
	__u64 cycle_stamp_us;
	__u64 epoch_stamp_us;
	__u32 full_bw;
	__u32 policer_bw;
	__u32 policer_delivered;
	__u32 policer_lost;
	__u32 policer_stamp_us;
	__u16 extra_acked_0, extra_acked_1;
	__u32 epoch_acked : 20, extra_rounds : 5, extra_index : 1, full_bw_rounds : 2, mode : 2, probe_rtt_timed : 1;
	__u32 prev_ca_state : 3, packet_conservation : 1, round_start : 1, idle_restart : 1, probe_rtt_round_done : 1,
		full_bw_reached : 1, has_seen_rtt : 1, cycle_phase : 3, policer_sampling : 1, policer_in_use : 1,
		policer_rounds : 7;
};

_Static_assert(sizeof(struct bbr_state) <= 104, "the socket's private area has 104 bytes");

/* value * factor >> shift, saturating; exact while value < 2^40 (a factor has at most 24 bits, a shift at least 8). */
static __u64 scaled(__u64 value, __u32 factor, __u32 shift)
{
	if (likely(!(value >> 40)))
		return (value * factor) >> shift;
	value >>= shift;
	return value >> 40 ? ~0ULL >> 8 : value * factor;
}

/* A thousandth of a value below 2^40, exact to 3 in a million. A division would take a large part of a call's time. */
static __u64 thousandth(__u64 value)
{
	return (value * 67109) >> 26;
}

static __u32 in_flight(const struct tcp_sock *tp)
{
	__u32 left = tp->sacked_out + tp->lost_out;
	__u32 out = tp->packets_out + tp->retrans_out;

	return out > left ? out - left : 0;
}

static __u32 now_us(const struct tcp_sock *tp)
{
	return (__u32)tp->tcp_mstamp;
}

static __u64 since_us(__u64 now_us, __u64 then_us)
{
	return now_us > then_us ? now_us - then_us : 0;
}

static __u32 max_bw(const struct bbr_state *b)
{
	return b->first.bw;
}

/* The bandwidth in use: a policer's rate if one was detected, else the maximum of the filter. */
static __u32 bandwidth(const struct bbr_state *b)
{
	return b->policer_in_use ? b->policer_bw : max_bw(b);
}

static void peaks_reset(struct bbr_state *b, __u32 round, __u32 bw)
{
	b->first.round = b->second.round = b->third.round = round;
	b->first.bw = b->second.bw = b->third.bw = bw;
}

/* Maximum over a sliding window from three candidates (K. Nichols' algorithm). */
static void peaks_add(struct bbr_state *b, __u32 round, __u32 bw)
{
	__u32 window = bw_window_rounds, age;

	if (bw >= b->first.bw || round - b->third.round > window) {
		peaks_reset(b, round, bw);
		return;
	}
	if (bw >= b->second.bw) {
		b->second.round = b->third.round = round;
		b->second.bw = b->third.bw = bw;
	} else if (bw >= b->third.bw) {
		b->third.round = round;
		b->third.bw = bw;
	}

	age = round - b->first.round;
	if (age > window) {
		/* The best is too old: the others move up, and again if the next is also too old. */
		b->first = b->second;
		b->second = b->third;
		b->third.round = round;
		b->third.bw = bw;
		if (round - b->first.round > window) {
			b->first = b->second;
			b->second = b->third;
		}
	} else if (b->second.round == b->first.round && age > window / 4) {
		/* A quarter of the window without a second best: take one from the second quarter. */
		b->second.round = b->third.round = round;
		b->second.bw = b->third.bw = bw;
	} else if (b->third.round == b->second.round && age > window / 2) {
		b->third.round = round;
		b->third.bw = bw;
	}
}

/* gain/256 times a bandwidth, less a margin in percent, in bytes per second. */
static __u64 bytes_per_second(const struct tcp_sock *tp, __u32 bw, __u32 gain, __u32 margin)
{
	__u64 rate = scaled((__u64)bw * tp->mss_cache, gain, GAIN_SHIFT);

	if (margin > 100)
		margin = 100;
	rate = scaled(rate, USEC_PER_SEC / 100 * (100 - margin), BW_SHIFT);
	return rate ? rate : 1;
}

static __u64 pacing_rate(struct sock *sk, __u32 bw, __u32 gain)
{
	__u64 rate = bytes_per_second(tcp_sk(sk), bw, gain, pacing_margin_percent);

	return rate < sk->sk_max_pacing_rate ? rate : sk->sk_max_pacing_rate;
}

/* Before the first measurement: startup_gain times the window per RTT, or per 1 ms if the RTT is also unknown. */
static __noinline void init_pacing_rate(struct sock *sk, struct bbr_state *b)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 rtt_us = USEC_PER_MSEC;
	__u64 bw;

	if (tp->srtt_us) {
		rtt_us = tp->srtt_us >> 3;
		if (!rtt_us)
			rtt_us = 1;
		b->has_seen_rtt = 1;
	}
	bw = (__u64)tp->snd_cwnd * BW_ONE / rtt_us;
	if (bw > 0xffffffffU)
		bw = 0xffffffffU;
	sk->sk_pacing_rate = pacing_rate(sk, bw, startup_gain);
}

static void set_pacing_rate(struct sock *sk, struct bbr_state *b, __u32 bw, __u32 gain)
{
	__u64 rate = pacing_rate(sk, bw, gain);

	if (!b->has_seen_rtt && tcp_sk(sk)->srtt_us)
		init_pacing_rate(sk, b);
	/* In STARTUP an estimate below the current rate only means that the pipe is not full yet. */
	if (b->full_bw_reached || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

/* On slow links bursts are single packets, so that a burst never causes a significant queue. */
static __u32 min_burst_segs(struct sock *sk)
{
	return sk->sk_pacing_rate < 1200000 / 8 ? 1 : 2;
}

/* Segments per burst at this rate. */
static __u32 burst_segs(struct sock *sk)
{
	__u64 bytes = (__u64)sk->sk_pacing_rate >> (sk->sk_pacing_shift & 63);
	__u32 mss = tcp_sk(sk)->mss_cache, segs, least = min_burst_segs(sk);

	if (bytes > BURST_MAX_BYTES)
		bytes = BURST_MAX_BYTES;
	segs = (__u32)bytes / (mss ? mss : 1);
	if (segs < least)
		segs = least;
	return segs < BURST_MAX_SEGS ? segs : BURST_MAX_SEGS;
}

/* gain/256 bandwidth-delay products, in packets, rounded up. */
static __u32 bdp(const struct bbr_state *b, __u32 bw, __u32 gain)
{
	__u64 packets;

	/* No RTT sample yet: a window that is safe on any path. */
	if (b->min_rtt_us == UNKNOWN_US)
		return TCP_INIT_CWND;
	packets = (scaled((__u64)bw * b->min_rtt_us, gain, GAIN_SHIFT) + BW_ONE - 1) >> BW_SHIFT;
	return packets < WINDOW_MAX ? packets : WINDOW_MAX;
}

/* Adds a budget for three bursts (one queued at the sender, one in its adapter, one held by the receiver). */
static __u32 with_budget(const struct bbr_state *b, __u32 cwnd, __u32 burst)
{
	cwnd += 3 * burst;
	/* With an even window, the last ACK does not wait for the delayed ACK timer. */
	cwnd = (cwnd + 1) & ~1U;
	/* Probing must exceed the bandwidth-delay product on small pipes as well. */
	if (b->mode == PROBE_BW && b->cycle_phase == 0)
		cwnd += 2;
	return cwnd;
}

static __u32 inflight_target(const struct bbr_state *b, __u32 gain, __u32 burst)
{
	return with_budget(b, bdp(b, max_bw(b), gain), burst);
}

static __u32 cycle_gain(const struct bbr_state *b)
{
	return b->cycle_phase == 0 ? up_gain : b->cycle_phase == 1 ? down_gain : GAIN_ONE;
}

static __u32 current_pacing_gain(const struct bbr_state *b)
{
	switch (b->mode) {
	case STARTUP:
		return startup_gain;
	case DRAIN:
		return drain_gain;
	case PROBE_BW:
		return b->policer_in_use ? GAIN_ONE : cycle_gain(b);
	default:
		return GAIN_ONE;
	}
}

static __u32 current_cwnd_gain(const struct bbr_state *b)
{
	switch (b->mode) {
	case STARTUP:
	case DRAIN:
		return startup_gain;
	case PROBE_BW:
		return cwnd_gain;
	default:
		return GAIN_ONE;
	}
}

/*
 * Packets in the network when the next packet can leave: with pacing its departure is in the future, and until then
 * the bottleneck continues to deliver.
 */
static __u32 in_net_at_departure(const struct tcp_sock *tp, const struct bbr_state *b, __u32 inflight, __u32 burst)
{
	__u64 now_ns = tp->tcp_clock_cache, next_ns = tp->tcp_wstamp_ns;
	__u64 wait_ns = next_ns > now_ns ? next_ns - now_ns : 0, delivered;

	delivered = wait_ns >> 40 ? ~0U : ((__u64)bandwidth(b) * thousandth(wait_ns)) >> BW_SHIFT;
	if (current_pacing_gain(b) > GAIN_ONE)
		inflight += burst;
	return delivered < inflight ? inflight - (__u32)delivered : 0;
}

static __noinline void save_cwnd(struct sock *sk, struct bbr_state *b)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	/* Recovery and PROBE_RTT reduce the window temporarily: the window before them is restored afterwards. */
	if ((b->prev_ca_state < TCP_CA_Recovery && b->mode != PROBE_RTT) || cwnd > b->prior_cwnd)
		b->prior_cwnd = cwnd;
}

static void next_phase(struct tcp_sock *tp, struct bbr_state *b)
{
	b->cycle_phase = (b->cycle_phase + 1) & (CYCLE_PHASES - 1);
	b->cycle_stamp_us = tp->delivered_mstamp;
}

/* Starts in a random phase, so that flows do not probe together, but not in the draining one: no queue exists yet. */
static __noinline void enter_probe_bw(struct tcp_sock *tp, struct bbr_state *b)
{
	b->mode = PROBE_BW;
	b->cycle_phase = CYCLE_PHASES - 1 - bpf_get_prandom_u32() % (CYCLE_PHASES - 1);
	next_phase(tp, b);
}

static __noinline void leave_probe_rtt(struct tcp_sock *tp, struct bbr_state *b)
{
	if (b->full_bw_reached)
		enter_probe_bw(tp, b);
	else
		b->mode = STARTUP;
}

static void policer_interval_start(struct tcp_sock *tp, struct bbr_state *b)
{
	b->policer_stamp_us = (__u32)tp->delivered_mstamp;
	b->policer_delivered = tp->delivered;
	b->policer_lost = tp->lost;
	b->policer_rounds = 0;
}

static __noinline void policer_forget(struct tcp_sock *tp, struct bbr_state *b)
{
	b->policer_bw = 0;
	b->policer_in_use = 0;
	b->policer_sampling = 0;
	policer_interval_start(tp, b);
}

/* Ends an interval between losses. Two consecutive intervals with similar rates indicate a policer. */
static __noinline void policer_interval_end(struct tcp_sock *tp, struct bbr_state *b, __u32 bw)
{
	__u32 known = b->policer_bw;

	if (known) {
		__u32 apart = bw > known ? bw - known : known - bw;

		if (apart <= known >> POLICER_ALIKE_SHIFT ||
		    bytes_per_second(tp, apart, GAIN_ONE, 0) <= POLICER_ALIKE_BYTES_PER_S) {
			b->policer_bw = ((__u64)bw + known) >> 1;
			b->policer_in_use = 1;
			b->policer_rounds = 0;
			return;
		}
	}
	b->policer_bw = bw;
	policer_interval_start(tp, b);
}

/* A token bucket passes packets at a high rate until it is empty, then at its token rate: pacing at this avoids loss. */
static void policer_sample(struct tcp_sock *tp, struct bbr_state *b, bool lost_now, bool app_limited)
{
	__u32 lost, delivered, elapsed_us;
	__u64 bw;

	if (b->policer_in_use) {
		if (b->mode == PROBE_BW && b->round_start && ++b->policer_rounds >= POLICER_USE_ROUNDS) {
			policer_forget(tp, b);
			enter_probe_bw(tp, b);
		}
		return;
	}
	/* An interval starts with a loss: then the bucket is empty. */
	if (!b->policer_sampling) {
		if (!lost_now || !detect_policer)
			return;
		policer_interval_start(tp, b);
		b->policer_sampling = 1;
	}
	/* An interval limited by the application does not show the token rate. */
	if (app_limited) {
		policer_forget(tp, b);
		return;
	}
	if (b->round_start && b->policer_rounds < 127)
		b->policer_rounds++;
	if (b->policer_rounds < POLICER_MIN_ROUNDS)
		return;
	if (b->policer_rounds > POLICER_MAX_ROUNDS) {
		policer_forget(tp, b);
		return;
	}
	/* An interval ends with a loss: then the bucket is empty again. */
	if (!lost_now)
		return;
	lost = tp->lost - b->policer_lost;
	delivered = tp->delivered - b->policer_delivered;
	if (!delivered || ((__u64)lost << 8) < (__u64)POLICER_LOSS * delivered)
		return;
	elapsed_us = (__u32)tp->delivered_mstamp - b->policer_stamp_us;
	if (elapsed_us < USEC_PER_MSEC)
		return;
	bw = (__u64)delivered * BW_ONE / elapsed_us;
	policer_interval_end(tp, b, bw < ~0U ? bw : ~0U);
}

/* Counts rounds, and adds the delivery rate to the filter. */
static void update_bandwidth(struct sock *sk, struct bbr_state *b, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u64 bw;

	b->round_start = 0;
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (!before(rs->prior_delivered, b->round_end)) {
		b->round_end = tp->delivered;
		b->round++;
		b->round_start = 1;
		b->packet_conservation = 0;
	}
	policer_sample(tp, b, rs->losses > 0, rs->is_app_limited);

	bw = (__u64)rs->delivered * BW_ONE / (__u64)rs->interval_us;
	if (bw > 0xffffffffU)
		bw = 0xffffffffU;
	/* A rate limited by the application is a lower bound only. */
	if (!rs->is_app_limited || bw >= max_bw(b))
		peaks_add(b, b->round, bw);
}

/* Packets acknowledged in excess of the estimated bandwidth: ACKs were delayed and arrive together. */
static void update_aggregation(struct tcp_sock *tp, struct bbr_state *b, const struct rate_sample *rs)
{
	__u64 epoch_us, expected;
	__u32 extra, acked = rs->acked_sacked;

	if (!acked || rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (b->round_start) {
		if (b->extra_rounds < 31)
			b->extra_rounds++;
		if (b->extra_rounds >= EXTRA_ACKED_ROUNDS) {
			b->extra_rounds = 0;
			b->extra_index ^= 1;
			if (b->extra_index)
				b->extra_acked_1 = 0;
			else
				b->extra_acked_0 = 0;
		}
	}

	epoch_us = since_us(tp->delivered_mstamp, b->epoch_stamp_us);
	expected = epoch_us >> 32 ? ~0U : ((__u64)bandwidth(b) * epoch_us) >> BW_SHIFT;
	if (b->epoch_acked <= expected || (__u64)b->epoch_acked + acked >= EPOCH_ACKED_MAX + 1) {
		/* The ACK rate is not above the expected one: no aggregation, a new epoch starts. */
		b->epoch_acked = 0;
		b->epoch_stamp_us = tp->delivered_mstamp;
		expected = 0;
	}
	extra = acked < EPOCH_ACKED_MAX - b->epoch_acked ? b->epoch_acked + acked : EPOCH_ACKED_MAX;
	b->epoch_acked = extra;
	extra = extra > expected ? extra - (__u32)expected : 0;
	if (extra > tp->snd_cwnd)
		extra = tp->snd_cwnd;
	if (extra > 0xffff)
		extra = 0xffff;
	if (b->extra_index) {
		if (extra > b->extra_acked_1)
			b->extra_acked_1 = extra;
	} else if (extra > b->extra_acked_0) {
		b->extra_acked_0 = extra;
	}
}

static __u32 aggregation_cwnd(const struct bbr_state *b)
{
	__u32 extra = b->extra_acked_0 > b->extra_acked_1 ? b->extra_acked_0 : b->extra_acked_1;
	__u32 most = (bandwidth(b) * EXTRA_ACKED_MAX_US) >> BW_SHIFT;

	if (!b->full_bw_reached)
		return 0;
	return extra < most ? extra : most;
}

static bool phase_is_over(const struct tcp_sock *tp, const struct bbr_state *b, const struct rate_sample *rs,
			  __u32 burst)
{
	bool full_length = since_us(tp->delivered_mstamp, b->cycle_stamp_us) > b->min_rtt_us;
	__u32 gain = current_pacing_gain(b), inflight;

	if (gain == GAIN_ONE)
		return full_length;
	inflight = in_net_at_departure(tp, b, rs->prior_in_flight, burst);
	/* Probing lasts until the inflight data reaches the gain's target, or losses show that the path cannot hold it. */
	if (gain > GAIN_ONE)
		return full_length && (rs->losses > 0 || inflight >= inflight_target(b, gain, burst));
	/* Draining ends early once the queue should be empty. */
	return full_length || inflight <= inflight_target(b, GAIN_ONE, burst);
}

static void check_full_bw(struct bbr_state *b, const struct rate_sample *rs)
{
	if (b->full_bw_reached || !b->round_start || rs->is_app_limited)
		return;
	if (max_bw(b) >= ((__u64)b->full_bw * FULL_BW_GROWTH) >> GAIN_SHIFT) {
		b->full_bw = max_bw(b);
		b->full_bw_rounds = 0;
		return;
	}
	b->full_bw_rounds++;
	b->full_bw_reached = b->full_bw_rounds >= FULL_BW_ROUNDS;
}

static void check_drain(struct tcp_sock *tp, struct bbr_state *b, __u32 burst)
{
	if (b->mode == STARTUP && b->full_bw_reached) {
		b->mode = DRAIN;
		tp->snd_ssthresh = inflight_target(b, GAIN_ONE, burst);
	}
	if (b->mode == DRAIN && in_net_at_departure(tp, b, in_flight(tp), burst) <= inflight_target(b, GAIN_ONE, burst))
		enter_probe_bw(tp, b);
}

static __noinline void check_probe_rtt_done(struct sock *sk, struct bbr_state *b)
{
	struct tcp_sock *tp = tcp_sk(sk);

	/* after() would be wrong after a pause of 36 to 72 minutes: more than half of the 32-bit clock's period. */
	if (!b->probe_rtt_timed || b->probe_rtt_done_us - now_us(tp) <= probe_rtt_ms * (__u32)USEC_PER_MSEC)
		return;
	b->min_rtt_stamp_us = now_us(tp);
	if (tp->snd_cwnd < b->prior_cwnd)
		tp->snd_cwnd = b->prior_cwnd;
	leave_probe_rtt(tp, b);
}

/* Minimum RTT of the time window. When it expires, all flows of a bottleneck drain the queue together to measure it. */
static void update_min_rtt(struct sock *sk, struct bbr_state *b, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool expired = now_us(tp) - b->min_rtt_stamp_us > min_rtt_window_ms * USEC_PER_MSEC;
	__u32 inflight = in_flight(tp);

	if (rs->rtt_us >= 0 && (rs->rtt_us < b->min_rtt_us || (expired && !rs->is_ack_delayed))) {
		b->min_rtt_us = rs->rtt_us < UNKNOWN_US ? rs->rtt_us : UNKNOWN_US - 1;
		b->min_rtt_stamp_us = now_us(tp);
	}
	if (probe_rtt_ms && expired && !b->idle_restart && b->mode != PROBE_RTT) {
		b->mode = PROBE_RTT;
		save_cwnd(sk, b);
		b->probe_rtt_timed = 0;
	}
	if (b->mode == PROBE_RTT) {
		__u32 until = tp->delivered + inflight;

		/* Samples with these small windows do not show the bandwidth. */
		tp->app_limited = until ? until : 1;
		if (!b->probe_rtt_timed) {
			if (inflight <= min_cwnd) {
				b->probe_rtt_done_us = now_us(tp) + probe_rtt_ms * (__u32)USEC_PER_MSEC;
				b->probe_rtt_timed = 1;
				b->probe_rtt_round_done = 0;
				b->round_end = tp->delivered;
			}
		} else {
			if (b->round_start)
				b->probe_rtt_round_done = 1;
			if (b->probe_rtt_round_done)
				check_probe_rtt_done(sk, b);
		}
	}
	if (rs->delivered > 0)
		b->idle_restart = 0;
}

static __u32 add_capped(__u32 cwnd, __u32 acked)
{
	return acked < WINDOW_MAX - (cwnd < WINDOW_MAX ? cwnd : WINDOW_MAX) ? cwnd + acked : WINDOW_MAX;
}

/*
 * Recovery: in the first round the sender sends as much as is delivered, afterwards at most twice as much; at the end the
 * previous window is restored. Returns true if packet conservation alone sets the window.
 */
static bool recover_or_restore(struct sock *sk, struct bbr_state *b, const struct rate_sample *rs, __u32 *cwnd_out)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u8 before_state = b->prev_ca_state, state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
	__u32 cwnd = tp->snd_cwnd, conserving = add_capped(in_flight(tp), rs->acked_sacked);

	if (rs->losses > 0)
		cwnd = cwnd > (__u32)rs->losses ? cwnd - rs->losses : 1;
	if (state == TCP_CA_Recovery && before_state != TCP_CA_Recovery) {
		b->packet_conservation = 1;
		b->round_end = tp->delivered;
		cwnd = conserving;
	} else if (before_state >= TCP_CA_Recovery && state < TCP_CA_Recovery) {
		if (cwnd < b->prior_cwnd)
			cwnd = b->prior_cwnd;
		b->packet_conservation = 0;
	}
	b->prev_ca_state = state;

	if (b->packet_conservation && cwnd < conserving)
		cwnd = conserving;
	*cwnd_out = cwnd;
	return b->packet_conservation;
}

static void set_cwnd(struct sock *sk, struct bbr_state *b, const struct rate_sample *rs, __u32 bw, __u32 burst)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 cwnd = tp->snd_cwnd, target;

	if (rs->acked_sacked && !recover_or_restore(sk, b, rs, &cwnd)) {
		target = with_budget(b, bdp(b, bw, current_cwnd_gain(b)) + aggregation_cwnd(b), burst);
		if (b->full_bw_reached) {
			cwnd = add_capped(cwnd, rs->acked_sacked);
			if (cwnd > target)
				cwnd = target;
		} else if (cwnd < target || tp->delivered < TCP_INIT_CWND) {
			cwnd = add_capped(cwnd, rs->acked_sacked);
		}
		if (cwnd < min_cwnd)
			cwnd = min_cwnd;
	}
	if (cwnd > tp->snd_cwnd_clamp)
		cwnd = tp->snd_cwnd_clamp;
	if (b->mode == PROBE_RTT && cwnd > min_cwnd)
		cwnd = min_cwnd;
	tp->snd_cwnd = cwnd ? cwnd : 1;
}

SEC("struct_ops")
void BPF_PROG(bbr_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct bbr_state *b = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	/* Uses the rate before this ACK. */
	__u32 bw, burst = burst_segs(sk);

	update_bandwidth(sk, b, rs);
	update_aggregation(tp, b, rs);
	if (b->mode == PROBE_BW && phase_is_over(tp, b, rs, burst))
		next_phase(tp, b);
	check_full_bw(b, rs);
	check_drain(tp, b, burst);
	update_min_rtt(sk, b, rs);

	bw = bandwidth(b);
	set_pacing_rate(sk, b, bw, current_pacing_gain(b));
	set_cwnd(sk, b, rs, bw, burst);
}

SEC("struct_ops")
void BPF_PROG(bbr_init, struct sock *sk)
{
	struct bbr_state *b = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(b, 0, sizeof(*b));
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	b->round_end = tp->delivered;
	b->prev_ca_state = TCP_CA_Open;
	/* The socket's minimum RTT so far; all ones if none. */
	b->min_rtt_us = tp->rtt_min.s[0].v;
	b->min_rtt_stamp_us = now_us(tp);
	b->epoch_stamp_us = tp->tcp_mstamp;
	init_pacing_rate(sk, b);
	policer_forget(tp, b);
	b->mode = STARTUP;
	/* If the device has the fq discipline, it paces (the status already shows this); otherwise the socket paces. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(bbr_set_state, struct sock *sk, __u8 new_state)
{
	struct bbr_state *b = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	b->prev_ca_state = TCP_CA_Loss;
	b->full_bw = 0;
	/* A timeout ends the round: all packets in flight are lost. */
	b->round_start = 1;
	policer_sample(tcp_sk(sk), b, true, false);
}

/* Sending resumes after a pause. */
static __always_inline void resume(struct sock *sk)
{
	struct bbr_state *b = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tp->app_limited)
		return;
	b->idle_restart = 1;
	b->epoch_stamp_us = tp->tcp_mstamp;
	b->epoch_acked = 0;
	/* After a pause the pipe is empty, so a rate above the bandwidth is not needed. */
	if (b->mode == PROBE_BW)
		set_pacing_rate(sk, b, bandwidth(b), GAIN_ONE);
	else if (b->mode == PROBE_RTT)
		check_probe_rtt_done(sk, b);
}

SEC("struct_ops")
void BPF_PROG(bbr_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		resume(sk);
}

/* Linux 7.2 and later call this instead of cwnd_event; older kernels ignore it. */
SEC("?struct_ops")
void BPF_PROG(bbr_cwnd_event_tx_start, struct sock *sk)
{
	resume(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_ssthresh, struct sock *sk)
{
	save_cwnd(sk, inet_csk_ca(sk));
	/* BBR does not treat loss as congestion: the threshold does not change. */
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_undo_cwnd, struct sock *sk)
{
	struct bbr_state *b = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	/* The recovery was spurious: discards the conclusions of STARTUP and of the policer detection. */
	b->full_bw = 0;
	b->full_bw_rounds = 0;
	policer_forget(tp, b);
	return tp->snd_cwnd;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_sndbuf_expand, struct sock *sk)
{
	/* Three windows: one in flight, one to continue sending in recovery, one for the application. */
	return 3;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr_min_tso_segs, struct sock *sk)
{
	return min_burst_segs(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bbr = {
	.init = (void *)bbr_init,
	.cong_control = (void *)bbr_cong_control,
	.sndbuf_expand = (void *)bbr_sndbuf_expand,
	.undo_cwnd = (void *)bbr_undo_cwnd,
	.cwnd_event = (void *)bbr_cwnd_event,
	.cwnd_event_tx_start = (void *)bbr_cwnd_event_tx_start,
	.ssthresh = (void *)bbr_ssthresh,
	.min_tso_segs = (void *)bbr_min_tso_segs,
	.set_state = (void *)bbr_set_state,
	.name = "bbr",
};
