/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * BBR, version 3: paces at the measured bandwidth, within bounds of rate and inflight data that it learns from losses.
 *
 * Sources: draft-ietf-ccwg-bbr (N. Cardwell, I. Swett, J. Beshay), BBRv3; the constants of google/bbr, branch v3.
 *
 *   bandwidth = min(bw_hi, bw_lo)    bw_hi: maximum delivery rate of this and the last probing cycle
 *   cwnd      = gain x bandwidth x min_rtt + budget, at most inflight_hi and inflight_lo
 *   inflight_hi: long-term bound, the inflight data at which a probe lost over 2 %
 *   inflight_lo, bw_lo: short-term bounds, multiplied by 0.7 after each round with losses outside of probes
 *
 *   Modes, with the pacing gain: STARTUP (2.77), then DRAIN (0.34), then PROBE_BW, a cycle of DOWN (0.91), CRUISE (1),
 *   REFILL (1) and UP (1.25). The window gain is 2, in UP 2.25.
 *   PROBE_RTT: every 5 s, half a bandwidth-delay product in flight for 200 ms
 *
 * Differences from the draft and from google/bbr; 1 to 4 are limits of a loadable module in an unmodified kernel:
 *  1. The inflight data at the transmission of a packet is not recorded with the packet. It is estimated as the packets
 *     delivered and lost between its transmission and its ACK, which is exact for a path without reordering.
 *  2. Losses between transmission and ACK are those since the start of the round, not since the packet was sent: excessive
 *     loss of a probe is detected up to one round trip later.
 *  3. Losses are reported with the ACK that reveals them, not by a call for each lost packet: inflight_hi is the
 *     estimate of item 1 at that ACK, not at the packet with which the loss rate exceeded 2 %. A loss repaired by a
 *     tail loss probe is not detected.
 *  4. No ECN response (it needs a route feature and exact ACKs of the receiver), no path changes on congestion (PLB),
 *     no fast path when limited by the application. The kernel chooses the size of bursts.
 *  5. A spurious recovery removes the bounds bw_lo and inflight_lo instead of restoring them: the private area is full.
 *  6. Times are the low 32 bits of the socket's clock in us, not jiffies; products saturate. A change of the pacing rate
 *     changes the size of bursts one ACK later.
 *  7. get_info is missing: BPF does not support it.
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
/* Gains and fractions are in 1/256. */
#define GAIN_SHIFT 8
#define GAIN_ONE 256
/* Maximum window: sums with it fit into 32 bits. */
#define WINDOW_MAX (1U << 30)
#define UNKNOWN_US 0xffffffffU
#define UNBOUNDED 0xffffffffU
#define BURST_MAX_BYTES (65536 - 1 - MAX_TCP_HEADER)

/* Pacing gain of STARTUP: 4 ln 2. */
const volatile __u16 startup_gain = 710;
const volatile __u16 startup_gain_scale = GAIN_ONE;
/* Pacing gain that removes the queue of STARTUP in one round trip. */
const volatile __u16 drain_gain = 88;
const volatile __u16 drain_gain_scale = GAIN_ONE;
/* Window gain, in bandwidth-delay products. */
const volatile __u16 cwnd_gain = 512;
const volatile __u16 cwnd_gain_scale = GAIN_ONE;
/* Pacing gain of PROBE_BW UP. */
const volatile __u16 up_gain = 320;
const volatile __u16 up_gain_scale = GAIN_ONE;
/* Increase of the window gain in UP. */
const volatile __u16 up_cwnd_gain = 64;
const volatile __u16 up_cwnd_gain_scale = GAIN_ONE;
/* Pacing gain of PROBE_BW DOWN. */
const volatile __u16 down_gain = 232;
const volatile __u16 down_gain_scale = GAIN_ONE;
/* Fraction of a flight whose loss ends a probe. */
const volatile __u8 loss_threshold = 5;
const volatile __u16 loss_threshold_scale = GAIN_ONE;
/* Fraction by which a round with losses reduces the short-term bounds. */
const volatile __u8 beta = 76;
const volatile __u16 beta_scale = GAIN_ONE;
/* Fraction of inflight_hi that is left to other flows in CRUISE. */
const volatile __u8 headroom = 38;
const volatile __u16 headroom_scale = GAIN_ONE;
/* Lifetime of a minimum RTT, in milliseconds. */
const volatile __u32 min_rtt_window_ms = 10000;
/* Time from one PROBE_RTT to the next, in milliseconds. */
const volatile __u32 probe_rtt_interval_ms = 5000;
/* Duration of PROBE_RTT, in milliseconds; 0 for never. */
const volatile __u16 probe_rtt_ms = 200;
/* Fraction of a bandwidth-delay product that is in flight in PROBE_RTT. */
const volatile __u16 probe_rtt_gain = 128;
const volatile __u16 probe_rtt_gain_scale = GAIN_ONE;
/* Minimum time between two probes for bandwidth, in milliseconds. */
const volatile __u16 probe_wait_ms = 2000;
/* Maximum random addition to probe_wait_ms, in milliseconds. */
const volatile __u16 probe_wait_random_ms = 1000;
/* Maximum round trips between two probes, or the packets of the inflight target if fewer (Reno's recovery time). */
const volatile __u8 probe_wait_rounds = 63;
/* Number of losses in a round that ends STARTUP. */
const volatile __u8 startup_losses = 6;
/* The minimum window, in packets. */
const volatile __u8 min_cwnd = 4;
/* Margin of the pacing rate below the estimated bandwidth, in percent. */
const volatile __u8 pacing_margin_percent = 1;

/* The pipe is full after this many round trips without growth by a quarter. */
#define FULL_BW_GROWTH 320
#define FULL_BW_ROUNDS 3
#define EXTRA_ACKED_ROUNDS 5
#define EXTRA_ACKED_MAX_US 100000ULL
#define EPOCH_ACKED_MAX 0xfffffU
#define UP_ROUNDS_MAX 30

enum mode { STARTUP, DRAIN, PROBE_BW, PROBE_RTT };
enum phase { UP, DOWN, CRUISE, REFILL };
/* The phase that the currently arriving ACKs belong to. */
enum ack_phase { ACKS_INIT, ACKS_REFILLING, ACKS_PROBE_STARTING, ACKS_PROBE_FEEDBACK, ACKS_PROBE_STOPPING };

/* At most 104 bytes: the size of a socket's private area. Times in us are the clock's low 32 bits. */
struct bbr3_state {
	__u32 min_rtt_us;
	__u32 min_rtt_stamp_us;
	__u32 probe_rtt_min_us;
	__u32 probe_rtt_stamp_us;
	/* tp->delivered at which the round ends; the same for rounds that start with a loss. */
	__u32 round_end;
	__u32 loss_round_end;
	/* Start of the cycle; in PROBE_RTT, the end of PROBE_RTT. */
	__u32 cycle_stamp;
	__u32 epoch_stamp_us;
	/* Maxima of the round. */
	__u32 bw_latest;
	__u32 inflight_latest;
	__u32 bw_lo;
	__u32 bw_hi_before, bw_hi_now;
	__u32 inflight_lo;
	__u32 inflight_hi;
	__u32 undo_inflight_hi;
	/* Acknowledged packets per packet of growth of inflight_hi, and those counted so far. */
	__u32 up_acks_needed, up_acks;
	__u32 probe_wait_us;
	__u32 prior_cwnd;
	__u32 full_bw;
	__u32 lost_before_round;
	__u16 extra_acked_0, extra_acked_1;
	__u32 epoch_acked : 20, extra_rounds : 5, extra_index : 1, mode : 2, phase : 2, full_bw_rounds : 2;
	__u32 rounds_since_probe : 8, up_rounds : 5, loss_events : 4, ack_phase : 3, prev_ca_state : 3;
	__u32 round_start : 1, loss_round_start : 1, idle_restart : 1, probe_rtt_timed : 1, probe_rtt_round_done : 1,
		full_bw_reached : 1, full_bw_now : 1, has_seen_rtt : 1, loss_in_round : 1, probe_samples : 1,
		prev_probe_too_high : 1, stopped_risky_probe : 1;
};

_Static_assert(sizeof(struct bbr3_state) <= 104, "the socket's private area has 104 bytes");

/* Data of an ACK in addition to the kernel's sample. */
struct measured {
	__u32 bw;
	__u32 lost;
	__u32 tx_in_flight;
	/* Segments per burst at the rate before this ACK. */
	__u32 burst;
};

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

static __u32 least(__u32 a, __u32 b)
{
	return a < b ? a : b;
}

static __u32 most(__u32 a, __u32 b)
{
	return a > b ? a : b;
}

static __u32 cut(__u32 value, __u32 fraction)
{
	return (__u64)value * (GAIN_ONE - fraction) >> GAIN_SHIFT;
}

static __u32 add_capped(__u32 cwnd, __u32 acked)
{
	__u32 room = WINDOW_MAX - least(cwnd, WINDOW_MAX);

	return acked < room ? cwnd + acked : WINDOW_MAX;
}

static __u32 max_bw(const struct bbr3_state *b)
{
	return most(b->bw_hi_before, b->bw_hi_now);
}

static __u32 bandwidth(const struct bbr3_state *b)
{
	return least(max_bw(b), b->bw_lo);
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

static __noinline void init_pacing_rate(struct sock *sk, struct bbr3_state *b)
{
	struct tcp_sock *tp = tcp_sk(sk);
	__u32 rtt_us = USEC_PER_MSEC;
	__u64 bw;

	if (tp->srtt_us) {
		rtt_us = most(tp->srtt_us >> 3, 1);
		b->has_seen_rtt = 1;
	}
	bw = (__u64)tp->snd_cwnd * BW_ONE / rtt_us;
	sk->sk_pacing_rate = pacing_rate(sk, bw < UNBOUNDED ? bw : UNBOUNDED, startup_gain);
}

static void set_pacing_rate(struct sock *sk, struct bbr3_state *b, __u32 bw, __u32 gain)
{
	__u64 rate = pacing_rate(sk, bw, gain);

	if (!b->has_seen_rtt && tcp_sk(sk)->srtt_us)
		init_pacing_rate(sk, b);
	if (b->full_bw_reached || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

/* Maximum segments per burst: short RTTs allow up to 64 KiB more, halved for every 512 us of RTT. */
static __u32 burst_segs(struct sock *sk, const struct bbr3_state *b)
{
	__u64 bytes = (__u64)sk->sk_pacing_rate >> (sk->sk_pacing_shift & 63);
	__u32 halvings = b->min_rtt_us >> 9, mss = tcp_sk(sk)->mss_cache;

	if (halvings < 17)
		bytes += 65536 >> halvings;
	if (bytes > BURST_MAX_BYTES)
		bytes = BURST_MAX_BYTES;
	return most((__u32)bytes / (mss ? mss : 1), 2);
}

/* gain/256 bandwidth-delay products, in packets, rounded up. */
static __u32 bdp(const struct bbr3_state *b, __u32 bw, __u32 gain)
{
	__u64 packets;

	if (b->min_rtt_us == UNKNOWN_US)
		return TCP_INIT_CWND;
	packets = (scaled((__u64)bw * b->min_rtt_us, gain, GAIN_SHIFT) + BW_ONE - 1) >> BW_SHIFT;
	return packets < WINDOW_MAX ? packets : WINDOW_MAX;
}

/* Budget for three bursts (one queued at the sender, one in its adapter, one held by the receiver). */
static __u32 with_budget(const struct bbr3_state *b, __u32 cwnd, __u32 burst)
{
	cwnd = most(most(cwnd, 3 * burst), min_cwnd);
	if (b->mode == PROBE_BW && b->phase == UP)
		cwnd += 2;
	return cwnd;
}

static __u32 inflight_at(const struct bbr3_state *b, __u32 bw, __u32 burst)
{
	return with_budget(b, bdp(b, bw, GAIN_ONE), burst);
}

static __u32 target_inflight(const struct tcp_sock *tp, const struct bbr3_state *b, __u32 burst)
{
	return least(inflight_at(b, bandwidth(b), burst), tp->snd_cwnd);
}

static __u32 inflight_with_headroom(const struct bbr3_state *b)
{
	__u32 left;

	if (b->inflight_hi == UNBOUNDED)
		return UNBOUNDED;
	left = (__u64)b->inflight_hi * headroom >> GAIN_SHIFT;
	left = least(most(left, 1), b->inflight_hi);
	return most(b->inflight_hi - left, min_cwnd);
}

static __u32 probe_rtt_cwnd(const struct bbr3_state *b)
{
	return most(bdp(b, bandwidth(b), probe_rtt_gain), min_cwnd);
}

static __u32 current_pacing_gain(const struct bbr3_state *b)
{
	if (b->mode == STARTUP)
		return startup_gain;
	if (b->mode == DRAIN)
		return drain_gain;
	if (b->mode == PROBE_BW && b->phase == UP)
		return up_gain;
	if (b->mode == PROBE_BW && b->phase == DOWN)
		return down_gain;
	return GAIN_ONE;
}

static __u32 current_cwnd_gain(const struct bbr3_state *b)
{
	if (b->mode == PROBE_RTT)
		return GAIN_ONE;
	if (b->mode == PROBE_BW && b->phase == UP)
		return (__u32)cwnd_gain + up_cwnd_gain;
	return cwnd_gain;
}

/* Packets in the network when the next packet can leave; until then the bottleneck continues to deliver. */
static __u32 in_net_at_departure(const struct tcp_sock *tp, const struct bbr3_state *b, __u32 inflight, __u32 burst)
{
	__u64 now_ns = tp->tcp_clock_cache, next_ns = tp->tcp_wstamp_ns;
	__u64 wait_ns = next_ns > now_ns ? next_ns - now_ns : 0, delivered;

	delivered = wait_ns >> 40 ? ~0U : ((__u64)bandwidth(b) * thousandth(wait_ns)) >> BW_SHIFT;
	if (current_pacing_gain(b) > GAIN_ONE)
		inflight += burst;
	return delivered < inflight ? inflight - (__u32)delivered : 0;
}

static __noinline void save_cwnd(struct sock *sk, struct bbr3_state *b)
{
	__u32 cwnd = tcp_sk(sk)->snd_cwnd;

	if ((b->prev_ca_state < TCP_CA_Recovery && b->mode != PROBE_RTT) || cwnd > b->prior_cwnd)
		b->prior_cwnd = cwnd;
}

static void restore_cwnd(struct tcp_sock *tp, const struct bbr3_state *b)
{
	if (tp->snd_cwnd < b->prior_cwnd)
		tp->snd_cwnd = b->prior_cwnd;
}

static bool is_probing(const struct bbr3_state *b)
{
	return b->mode == STARTUP || (b->mode == PROBE_BW && (b->phase == REFILL || b->phase == UP));
}

static void full_bw_restart(struct bbr3_state *b, __u32 bw)
{
	b->full_bw = bw;
	b->full_bw_rounds = 0;
	b->full_bw_now = 0;
}

static void lift_lower_bounds(struct bbr3_state *b)
{
	b->bw_lo = UNBOUNDED;
	b->inflight_lo = UNBOUNDED;
}

static void forget_signals(struct bbr3_state *b)
{
	b->loss_in_round = 0;
	b->bw_latest = 0;
	b->inflight_latest = 0;
}

/* In each round of UP, inflight_hi grows twice as fast as in the one before. */
static void raise_slope(const struct tcp_sock *tp, struct bbr3_state *b)
{
	__u32 needed = tp->snd_cwnd >> b->up_rounds;

	if (b->up_rounds < UP_ROUNDS_MAX)
		b->up_rounds++;
	b->up_acks_needed = most(needed, 1);
}

static __noinline void start_refill(const struct tcp_sock *tp, struct bbr3_state *b)
{
	lift_lower_bounds(b);
	b->up_rounds = 0;
	b->up_acks = 0;
	b->stopped_risky_probe = 0;
	b->ack_phase = ACKS_REFILLING;
	b->round_end = tp->delivered;
	b->phase = REFILL;
}

static __noinline void start_up(const struct tcp_sock *tp, struct bbr3_state *b, __u32 bw)
{
	b->ack_phase = ACKS_PROBE_STARTING;
	b->round_end = tp->delivered;
	b->cycle_stamp = now_us(tp);
	full_bw_restart(b, bw);
	b->phase = UP;
	raise_slope(tp, b);
}

/* Starts a cycle. The time until its probe is partly random, so that flows do not probe together. */
static __noinline void start_down(const struct tcp_sock *tp, struct bbr3_state *b)
{
	__u32 chance_us = probe_wait_random_ms * USEC_PER_MSEC;

	forget_signals(b);
	b->up_acks_needed = UNBOUNDED;
	b->rounds_since_probe = bpf_get_prandom_u32() & 1;
	b->probe_wait_us = probe_wait_ms * USEC_PER_MSEC;
	if (chance_us)
		b->probe_wait_us += bpf_get_prandom_u32() % chance_us;
	b->cycle_stamp = now_us(tp);
	b->ack_phase = ACKS_PROBE_STOPPING;
	b->round_end = tp->delivered;
	b->phase = DOWN;
}

static void start_cruise(struct bbr3_state *b)
{
	if (b->inflight_lo != UNBOUNDED)
		b->inflight_lo = least(b->inflight_lo, b->inflight_hi);
	b->phase = CRUISE;
}

static __noinline void leave_probe_rtt(struct tcp_sock *tp, struct bbr3_state *b)
{
	lift_lower_bounds(b);
	if (!b->full_bw_reached) {
		b->mode = STARTUP;
		return;
	}
	b->mode = PROBE_BW;
	/* The queue is empty: CRUISE starts, until the next probe. */
	start_down(tp, b);
	start_cruise(b);
}

static void update_round(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs)
{
	b->round_start = 0;
	if (rs->interval_us <= 0 || before(rs->prior_delivered, b->round_end))
		return;
	b->round_end = tp->delivered;
	b->round_start = 1;
	b->lost_before_round = tp->lost - (rs->losses > 0 ? rs->losses : 0);
	if (b->rounds_since_probe < 255)
		b->rounds_since_probe++;
}

static struct measured measure(const struct tcp_sock *tp, const struct bbr3_state *b, const struct rate_sample *rs)
{
	struct measured m = {};
	__u64 bw;

	if (rs->interval_us > 0 && rs->delivered >= 0) {
		bw = ((__u64)rs->delivered * BW_ONE + rs->interval_us - 1) / (__u64)rs->interval_us;
		m.bw = bw < UNBOUNDED ? bw : UNBOUNDED - 1;
	}
	m.lost = tp->lost - b->lost_before_round;
	if (rs->delivered > 0)
		m.tx_in_flight = add_capped(least(rs->delivered, WINDOW_MAX), m.lost);
	return m;
}

/* The first loss of a round starts a separate loss round: the whole flight after it shows what the path can carry. */
static void note_loss(const struct tcp_sock *tp, struct bbr3_state *b)
{
	if (!b->loss_in_round)
		b->loss_round_end = tp->delivered;
	b->loss_in_round = 1;
}

static void update_latest(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs,
			  const struct measured *m)
{
	b->loss_round_start = 0;
	if (rs->interval_us <= 0 || !rs->acked_sacked)
		return;
	b->bw_latest = most(b->bw_latest, m->bw);
	b->inflight_latest = most(b->inflight_latest, rs->delivered > 0 ? rs->delivered : 0);
	if (!before(rs->prior_delivered, b->loss_round_end)) {
		b->loss_round_end = tp->delivered;
		b->loss_round_start = 1;
	}
}

/* A round with losses outside of probes reduces the short-term bounds, but not below the amount delivered in it. */
static __noinline void adapt_lower_bounds(struct tcp_sock *tp, struct bbr3_state *b)
{
	if (is_probing(b) || !b->loss_in_round)
		return;
	if (b->bw_lo == UNBOUNDED)
		b->bw_lo = max_bw(b);
	if (b->inflight_lo == UNBOUNDED)
		b->inflight_lo = tp->snd_cwnd;
	b->bw_lo = most(most(b->bw_latest, cut(b->bw_lo, beta)), 1);
	b->inflight_lo = most(b->inflight_latest, cut(b->inflight_lo, beta));
}

static void update_signals(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs,
			   const struct measured *m)
{
	if (rs->interval_us <= 0 || !rs->acked_sacked)
		return;
	if (!rs->is_app_limited || m->bw >= max_bw(b))
		b->bw_hi_now = most(b->bw_hi_now, m->bw);
	if (!b->loss_round_start)
		return;
	adapt_lower_bounds(tp, b);
	b->loss_in_round = 0;
}

/* Packets acknowledged in excess of the estimated bandwidth: ACKs were delayed and arrive together. */
static void update_aggregation(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs)
{
	__u32 extra, acked = rs->acked_sacked, expected;
	__u64 expected_all;

	if (!acked || rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (b->round_start) {
		if (b->extra_rounds < 31)
			b->extra_rounds++;
		if (b->extra_rounds >= (b->full_bw_reached ? EXTRA_ACKED_ROUNDS : 1)) {
			b->extra_rounds = 0;
			b->extra_index ^= 1;
			if (b->extra_index)
				b->extra_acked_1 = 0;
			else
				b->extra_acked_0 = 0;
		}
	}
	expected_all = ((__u64)bandwidth(b) * ((__u32)tp->delivered_mstamp - b->epoch_stamp_us)) >> BW_SHIFT;
	expected = expected_all < WINDOW_MAX ? expected_all : WINDOW_MAX;
	if (b->epoch_acked <= expected || (__u64)b->epoch_acked + acked > EPOCH_ACKED_MAX) {
		b->epoch_acked = 0;
		b->epoch_stamp_us = (__u32)tp->delivered_mstamp;
		expected = 0;
	}
	extra = least(add_capped(b->epoch_acked, acked), EPOCH_ACKED_MAX);
	b->epoch_acked = extra;
	extra = extra > expected ? extra - expected : 0;
	extra = least(least(extra, tp->snd_cwnd), 0xffff);
	if (b->extra_index)
		b->extra_acked_1 = most(b->extra_acked_1, extra);
	else
		b->extra_acked_0 = most(b->extra_acked_0, extra);
}

static __u32 aggregation_cwnd(const struct bbr3_state *b)
{
	__u32 cap = (bandwidth(b) * EXTRA_ACKED_MAX_US) >> BW_SHIFT;

	return least(most(b->extra_acked_0, b->extra_acked_1), cap);
}

static bool is_inflight_too_high(const struct measured *m)
{
	return m->lost && m->tx_in_flight && m->lost > (__u64)m->tx_in_flight * loss_threshold >> GAIN_SHIFT;
}

/* STARTUP also ends when a round of recovery has too many separate losses. */
static __noinline void check_startup_loss(struct sock *sk, struct bbr3_state *b, const struct rate_sample *rs,
					  const struct measured *m)
{
	__u8 state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);

	if (b->full_bw_reached)
		return;
	if (rs->losses > 0 && b->loss_events < 15)
		b->loss_events++;
	if (!b->loss_round_start)
		return;
	if (startup_losses && state == TCP_CA_Recovery && b->loss_events >= startup_losses && is_inflight_too_high(m)) {
		b->full_bw_reached = 1;
		b->inflight_hi = most(inflight_at(b, max_bw(b), m->burst), b->inflight_latest);
	}
	b->loss_events = 0;
}

/* Checks in STARTUP and in each UP whether the bandwidth has stopped growing. */
static void check_full_bw(struct bbr3_state *b, const struct rate_sample *rs, const struct measured *m)
{
	if (b->full_bw_now || rs->is_app_limited)
		return;
	if (m->bw >= ((__u64)b->full_bw * FULL_BW_GROWTH) >> GAIN_SHIFT) {
		full_bw_restart(b, m->bw);
		return;
	}
	if (!b->round_start)
		return;
	b->full_bw_rounds++;
	if (b->full_bw_rounds >= FULL_BW_ROUNDS) {
		b->full_bw_now = 1;
		b->full_bw_reached = 1;
	}
}

static void check_drain(struct tcp_sock *tp, struct bbr3_state *b, const struct measured *m)
{
	if (b->mode == STARTUP && b->full_bw_reached) {
		b->mode = DRAIN;
		tp->snd_ssthresh = inflight_at(b, max_bw(b), m->burst);
		forget_signals(b);
	}
	if (b->mode == DRAIN &&
	    in_net_at_departure(tp, b, in_flight(tp), m->burst) <= inflight_at(b, max_bw(b), m->burst)) {
		b->mode = PROBE_BW;
		start_down(tp, b);
	}
}

static __noinline void inflight_too_high(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs,
					 const struct measured *m)
{
	b->prev_probe_too_high = 1;
	/* One reaction per probe. */
	b->probe_samples = 0;
	if (!rs->is_app_limited)
		b->inflight_hi = most(m->tx_in_flight, cut(target_inflight(tp, b, m->burst), beta));
	if (b->mode == PROBE_BW && b->phase == UP)
		start_down(tp, b);
}

static __noinline void probe_upward(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs)
{
	/* An unused bound is not evidence that more would fit. */
	if (!BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) || tp->snd_cwnd < b->inflight_hi)
		return;
	b->up_acks = add_capped(b->up_acks, rs->acked_sacked);
	if (b->up_acks >= b->up_acks_needed) {
		__u32 needed = most(b->up_acks_needed, 1), grow = b->up_acks / needed;

		b->up_acks -= grow * needed;
		b->inflight_hi = add_capped(b->inflight_hi, grow);
	}
	if (b->round_start)
		raise_slope(tp, b);
}

/* Returns whether the phase changed. */
static bool adapt_upper_bounds(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs,
			       const struct measured *m)
{
	if (b->ack_phase == ACKS_PROBE_STARTING && b->round_start)
		b->ack_phase = ACKS_PROBE_FEEDBACK;
	if (b->ack_phase == ACKS_PROBE_STOPPING && b->round_start) {
		/* All packets of the probe are acknowledged: drops the bandwidth of the cycle before last. */
		b->probe_samples = 0;
		b->ack_phase = ACKS_INIT;
		if (b->mode == PROBE_BW && !rs->is_app_limited && b->bw_hi_now) {
			b->bw_hi_before = b->bw_hi_now;
			b->bw_hi_now = 0;
		}
		/* The probe stopped as a precaution and nothing was lost: continue probing at once. */
		if (b->mode == PROBE_BW && b->stopped_risky_probe && !b->prev_probe_too_high) {
			start_refill(tp, b);
			return true;
		}
	}
	if (is_inflight_too_high(m)) {
		if (b->probe_samples)
			inflight_too_high(tp, b, rs, m);
		return false;
	}
	if (b->inflight_hi == UNBOUNDED)
		return false;
	/* An inflight level that was safe in any phase is safe. */
	b->inflight_hi = most(b->inflight_hi, m->tx_in_flight);
	if (b->mode == PROBE_BW && b->phase == UP)
		probe_upward(tp, b, rs);
	return false;
}

static bool is_time_to_probe(const struct tcp_sock *tp, const struct bbr3_state *b, __u32 burst)
{
	__s32 waited_us = now_us(tp) - b->cycle_stamp - b->probe_wait_us;

	if (waited_us > 0)
		return true;
	/* The number of rounds changes only at the start of a round. */
	return b->round_start && b->rounds_since_probe >= least(probe_wait_rounds, target_inflight(tp, b, burst));
}

/* UP ends at the level where an earlier probe lost too much, or if the bandwidth stops growing within the bound. */
static bool is_probe_done(struct tcp_sock *tp, struct bbr3_state *b, __u32 inflight, __u32 bw)
{
	if (b->prev_probe_too_high && inflight >= b->inflight_hi) {
		b->stopped_risky_probe = 1;
		return true;
	}
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) && tp->snd_cwnd >= b->inflight_hi) {
		full_bw_restart(b, bw);
		return false;
	}
	return b->full_bw_now;
}

static void update_phase(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs,
			 const struct measured *m)
{
	__u32 inflight;

	if (!b->full_bw_reached || adapt_upper_bounds(tp, b, rs, m) || b->mode != PROBE_BW)
		return;
	switch (b->phase) {
	case DOWN:
		inflight = in_net_at_departure(tp, b, rs->prior_in_flight, m->burst);
		if (is_time_to_probe(tp, b, m->burst))
			start_refill(tp, b);
		else if (inflight <= inflight_with_headroom(b) && inflight <= inflight_at(b, max_bw(b), m->burst))
			start_cruise(b);
		break;
	case CRUISE:
		if (is_time_to_probe(tp, b, m->burst))
			start_refill(tp, b);
		break;
	case REFILL:
		/* After one round trip the pipe is full, and the samples start to show it. */
		if (b->round_start) {
			b->probe_samples = 1;
			start_up(tp, b, m->bw);
		}
		break;
	case UP:
		inflight = in_net_at_departure(tp, b, rs->prior_in_flight, m->burst);
		if (is_probe_done(tp, b, inflight, m->bw)) {
			b->prev_probe_too_high = 0;
			start_down(tp, b);
		}
		break;
	}
}

static __noinline void check_probe_rtt_done(struct tcp_sock *tp, struct bbr3_state *b)
{
	/* after() would be wrong after a pause of 36 to 72 minutes: more than half of the 32-bit clock's period. */
	if (!b->probe_rtt_timed || b->cycle_stamp - now_us(tp) <= probe_rtt_ms * (__u32)USEC_PER_MSEC)
		return;
	b->probe_rtt_stamp_us = now_us(tp);
	restore_cwnd(tp, b);
	leave_probe_rtt(tp, b);
}

/* Two windows: the minimum RTT of 5 s decides when to measure again, that of 10 s is the estimate. */
static void update_min_rtt(struct sock *sk, struct bbr3_state *b, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool expired = now_us(tp) - b->probe_rtt_stamp_us > probe_rtt_interval_ms * USEC_PER_MSEC;

	if (rs->rtt_us >= 0 && (rs->rtt_us < b->probe_rtt_min_us || (expired && !rs->is_ack_delayed))) {
		b->probe_rtt_min_us = rs->rtt_us < UNKNOWN_US ? rs->rtt_us : UNKNOWN_US - 1;
		b->probe_rtt_stamp_us = now_us(tp);
	}
	if (b->probe_rtt_min_us <= b->min_rtt_us ||
	    now_us(tp) - b->min_rtt_stamp_us > min_rtt_window_ms * USEC_PER_MSEC) {
		b->min_rtt_us = b->probe_rtt_min_us;
		b->min_rtt_stamp_us = b->probe_rtt_stamp_us;
	}

	if (probe_rtt_ms && expired && !b->idle_restart && b->mode != PROBE_RTT) {
		b->mode = PROBE_RTT;
		save_cwnd(sk, b);
		b->probe_rtt_timed = 0;
		b->ack_phase = ACKS_PROBE_STOPPING;
		b->round_end = tp->delivered;
	}
	if (b->mode == PROBE_RTT) {
		__u32 inflight = in_flight(tp);

		/* Samples with these small windows do not show the bandwidth. */
		tp->app_limited = most(tp->delivered + inflight, 1);
		if (!b->probe_rtt_timed) {
			if (inflight <= probe_rtt_cwnd(b)) {
				b->cycle_stamp = now_us(tp) + probe_rtt_ms * (__u32)USEC_PER_MSEC;
				b->probe_rtt_timed = 1;
				b->probe_rtt_round_done = 0;
				b->round_end = tp->delivered;
			}
		} else {
			if (b->round_start)
				b->probe_rtt_round_done = 1;
			if (b->probe_rtt_round_done)
				check_probe_rtt_done(tp, b);
		}
	}
	if (rs->delivered > 0)
		b->idle_restart = 0;
}

/* The model's bound of the window in this phase. */
static __u32 inflight_bound(const struct bbr3_state *b)
{
	__u32 cap = UNBOUNDED;

	if (b->mode == PROBE_RTT || (b->mode == PROBE_BW && b->phase == CRUISE))
		cap = inflight_with_headroom(b);
	else if (b->mode == PROBE_BW)
		cap = b->inflight_hi;
	return most(least(cap, b->inflight_lo), min_cwnd);
}

static void set_cwnd(struct tcp_sock *tp, struct bbr3_state *b, const struct rate_sample *rs, __u32 burst)
{
	__u32 cwnd = tp->snd_cwnd, target;

	if (rs->acked_sacked) {
		target = with_budget(b, bdp(b, bandwidth(b), current_cwnd_gain(b)) + aggregation_cwnd(b), burst);
		if (b->full_bw_reached)
			cwnd = least(add_capped(cwnd, rs->acked_sacked), target);
		else if (cwnd < target || cwnd < 2 * TCP_INIT_CWND)
			cwnd = add_capped(cwnd, rs->acked_sacked);
		cwnd = most(cwnd, min_cwnd);
	}
	cwnd = least(cwnd, tp->snd_cwnd_clamp);
	if (b->mode == PROBE_RTT)
		cwnd = least(cwnd, probe_rtt_cwnd(b));
	cwnd = least(cwnd, inflight_bound(b));
	tp->snd_cwnd = most(cwnd, 1);
}

SEC("struct_ops")
void BPF_PROG(bbr3_cong_control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	struct bbr3_state *b = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct measured m;

	if (rs->losses > 0)
		note_loss(tp, b);
	update_round(tp, b, rs);
	m = measure(tp, b, rs);
	m.burst = burst_segs(sk, b);
	update_latest(tp, b, rs, &m);
	update_signals(tp, b, rs, &m);
	update_aggregation(tp, b, rs);
	check_startup_loss(sk, b, rs, &m);
	check_full_bw(b, rs, &m);
	check_drain(tp, b, &m);
	update_phase(tp, b, rs, &m);
	update_min_rtt(sk, b, rs);

	set_pacing_rate(sk, b, bandwidth(b), current_pacing_gain(b));
	set_cwnd(tp, b, rs, m.burst);

	if (b->loss_round_start) {
		b->bw_latest = m.bw;
		b->inflight_latest = rs->delivered > 0 ? rs->delivered : 0;
	}
	b->prev_ca_state = BPF_CORE_READ_BITFIELD(inet_csk(sk), icsk_ca_state);
}

SEC("struct_ops")
void BPF_PROG(bbr3_init, struct sock *sk)
{
	struct bbr3_state *b = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	__builtin_memset(b, 0, sizeof(*b));
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	b->prior_cwnd = tp->snd_cwnd;
	b->round_end = tp->delivered;
	b->loss_round_end = tp->delivered + 1;
	b->lost_before_round = tp->lost;
	/* The socket's minimum RTT so far; all ones if none. */
	b->min_rtt_us = b->probe_rtt_min_us = tp->rtt_min.s[0].v;
	b->min_rtt_stamp_us = b->probe_rtt_stamp_us = now_us(tp);
	b->epoch_stamp_us = now_us(tp);
	b->inflight_hi = UNBOUNDED;
	b->undo_inflight_hi = UNBOUNDED;
	b->up_acks_needed = UNBOUNDED;
	lift_lower_bounds(b);
	init_pacing_rate(sk, b);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

SEC("struct_ops")
void BPF_PROG(bbr3_set_state, struct sock *sk, __u8 new_state)
{
	struct bbr3_state *b = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (new_state == TCP_CA_Loss) {
		b->prev_ca_state = TCP_CA_Loss;
		note_loss(tp, b);
		full_bw_restart(b, 0);
		/* The bound starts from the window before the timeout. */
		if (!is_probing(b) && b->inflight_lo == UNBOUNDED)
			b->inflight_lo = most(tp->snd_cwnd, b->prior_cwnd);
	} else if (b->prev_ca_state == TCP_CA_Loss) {
		restore_cwnd(tp, b);
	}
}

/* Sending resumes after a pause. */
static __always_inline void resume(struct sock *sk)
{
	struct bbr3_state *b = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tp->app_limited)
		return;
	b->idle_restart = 1;
	b->epoch_stamp_us = now_us(tp);
	b->epoch_acked = 0;
	if (b->mode == PROBE_BW)
		set_pacing_rate(sk, b, bandwidth(b), GAIN_ONE);
	else if (b->mode == PROBE_RTT)
		check_probe_rtt_done(tp, b);
}

SEC("struct_ops")
void BPF_PROG(bbr3_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		resume(sk);
}

/* Linux 7.2 and later call this instead of cwnd_event; older kernels ignore it. */
SEC("?struct_ops")
void BPF_PROG(bbr3_cwnd_event_tx_start, struct sock *sk)
{
	resume(sk);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_ssthresh, struct sock *sk)
{
	struct bbr3_state *b = inet_csk_ca(sk);

	save_cwnd(sk, b);
	b->undo_inflight_hi = b->inflight_hi;
	return tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_undo_cwnd, struct sock *sk)
{
	struct bbr3_state *b = inet_csk_ca(sk);

	/* The recovery was spurious: discards its conclusions. */
	full_bw_restart(b, 0);
	b->loss_in_round = 0;
	lift_lower_bounds(b);
	b->inflight_hi = most(b->inflight_hi, b->undo_inflight_hi);
	return most(b->prior_cwnd, 1);
}

SEC("struct_ops")
__u32 BPF_PROG(bbr3_sndbuf_expand, struct sock *sk)
{
	/* Three windows: one in flight, one to continue sending in recovery, one for the application. */
	return 3;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops bbr3 = {
	.init = (void *)bbr3_init,
	.cong_control = (void *)bbr3_cong_control,
	.sndbuf_expand = (void *)bbr3_sndbuf_expand,
	.undo_cwnd = (void *)bbr3_undo_cwnd,
	.cwnd_event = (void *)bbr3_cwnd_event,
	.cwnd_event_tx_start = (void *)bbr3_cwnd_event_tx_start,
	.ssthresh = (void *)bbr3_ssthresh,
	.set_state = (void *)bbr3_set_state,
	.name = "bbr3",
};
