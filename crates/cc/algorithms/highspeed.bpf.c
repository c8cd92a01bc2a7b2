/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * HighSpeed TCP: the larger the window, the larger the increase and the smaller the decrease.
 *
 * Source: RFC 3649 (S. Floyd, 2003). An average window of w segments corresponds to a loss rate of
 * p(w) = 0.078 / w^1.2, for w from Low_Window 38 (below it: Reno) to High_Window 83000. Then
 *     b(w) = 0.5 - 0.4 (ln w - ln 38) / (ln 83000 - ln 38)        share of the window subtracted after a loss
 *     a(w) = w^2 p(w) 2 b(w) / (2 - b(w))                         segments per round trip
 *
 * By default this is Linux's tcp_highspeed; `rfc3649` selects the RFC's form.
 *
 * Differences from the RFC, all of them Linux's:
 *  1. a and b come from the rows of its Appendix B, which are the windows where a(w) reaches the next whole segment.
 *     The first row at or above the window applies: a is rounded up, b down. Both are constant above the row with a = 72.
 *  2. b has 8 fraction bits.
 *  3. An ACK adds a / w, however many segments it acknowledges: delayed and stretched ACKs slow growth down.
 *  4. The row changes only with an ACK in congestion avoidance. A loss in slow start therefore halves the window, and
 *     each loss before the next such ACK has the same b.
 *  5. Up to 38 segments, and only there, a is 1: from 39 on it is at least 2.
 *
 * With `rfc3649`, a and b are interpolated between the rows, and growth counts acknowledged segments. The window at the
 * loss gives b. The part of an ACK that slow start does not use counts for congestion avoidance, as in Reno.
 *
 * Differences from the kernel's tcp_highspeed: none in behaviour. Products have 64 bits, so the window may exceed
 * 33,554,431 segments.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "fractional_growth.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* The RFC's growth per acknowledged segment and interpolated table, instead of Linux's. */
const volatile bool rfc3649 = false;

/* Row i: at this window a is i + 1. `decrease` is b of the formula above, in 1/65536 (golden_highspeed.rs has both). */
static const struct {
	__u32 window;
	__u32 decrease;
} rows[] = {
	{ 38, 32768 },	  { 118, 28905 },   { 221, 26766 },   { 347, 25227 },	{ 495, 24016 },	  { 663, 23020 },
	{ 851, 22169 },	  { 1058, 21427 },  { 1284, 20767 },  { 1529, 20171 },	{ 1793, 19628 },  { 2076, 19129 },
	{ 2378, 18666 },  { 2699, 18234 },  { 3039, 17829 },  { 3399, 17448 },	{ 3778, 17087 },  { 4177, 16745 },
	{ 4596, 16419 },  { 5036, 16107 },  { 5497, 15809 },  { 5979, 15522 },	{ 6483, 15246 },  { 7009, 14980 },
	{ 7558, 14723 },  { 8130, 14474 },  { 8726, 14233 },  { 9346, 13999 },	{ 9991, 13772 },  { 10661, 13550 },
	{ 11358, 13334 }, { 12082, 13124 }, { 12834, 12918 }, { 13614, 12717 }, { 14424, 12520 }, { 15265, 12327 },
	{ 16137, 12137 }, { 17042, 11951 }, { 17981, 11768 }, { 18955, 11588 }, { 19965, 11411 }, { 21013, 11237 },
	{ 22101, 11065 }, { 23230, 10895 }, { 24402, 10727 }, { 25618, 10561 }, { 26881, 10397 }, { 28193, 10235 },
	{ 29557, 10074 }, { 30975, 9914 },  { 32450, 9755 },  { 33986, 9598 },	{ 35586, 9441 },  { 37253, 9285 },
	{ 38992, 9129 },  { 40808, 8974 },  { 42707, 8819 },  { 44694, 8664 },	{ 46776, 8509 },  { 48961, 8353 },
	{ 51258, 8197 },  { 53677, 8040 },  { 56230, 7881 },  { 58932, 7721 },	{ 61799, 7559 },  { 64851, 7395 },
	{ 68113, 7228 },  { 71617, 7057 },  { 75401, 6881 },  { 79517, 6700 },	{ 84035, 6511 },  { 89053, 6314 },
	{ 94717, 6103 },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))
/* Linux's table ends with the row of 89053. */
#define LAST_LINUX_ROW (ROWS - 2)

struct highspeed {
	struct fractions kept; /* of the RFC's growth */
	__u32 row;	       /* of the last ACK in congestion avoidance */
};

struct response {
	__u64 increase; /* a, segments per round trip, in 1/65536 */
	__u64 decrease; /* b, share of the window, in 1/65536 */
};

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* Linux's row: the first whose window is not below this one, else the last. */
static __always_inline __u32 row_from(__u32 window)
{
	__u32 below = 0, step;

	/* Counts the rows below the window, by steps of 64, 32, ... 1. */
	for (step = 64; step; step /= 2) {
		if (below + step <= LAST_LINUX_ROW && rows[below + step - 1].window < window)
			below += step;
	}
	return below;
}

/* The RFC's a and b for a window. */
static __always_inline struct response respond(__u32 window)
{
	__u32 lower = 0, step, into, width;
	struct response is;

	/* The last row at or below the window: halving steps of 64, 32, ... 1. */
	for (step = 64; step; step /= 2) {
		if (lower + step < ROWS && rows[lower + step].window <= window)
			lower += step;
	}
	if (lower >= ROWS - 1)
		lower = ROWS - 1;

	is.increase = (lower + 1) * FRACTION_ONE;
	is.decrease = rows[lower].decrease;
	if (lower + 1 < ROWS && window > rows[lower].window) {
		into = window - rows[lower].window;
		width = rows[lower + 1].window - rows[lower].window;
		is.increase += into * FRACTION_ONE / width;
		is.decrease -= (__u64)into * (rows[lower].decrease - rows[lower + 1].decrease) / width;
	}
	return is;
}

SEC("struct_ops")
void BPF_PROG(highspeed_init, struct sock *sk)
{
	struct highspeed *ca = inet_csk_ca(sk);

	ca->kept.avoidance = 0;
	ca->row = 0;
}

/* One ACK in congestion avoidance: a / w of a segment. The credit is counted in snd_cwnd_cnt. */
static __always_inline void grow_by_ack(struct tcp_sock *tp, struct highspeed *ca)
{
	ca->row = row_from(tp->snd_cwnd);
	if (tp->snd_cwnd >= tp->snd_cwnd_clamp)
		return;
	tp->snd_cwnd_cnt += ca->row + 1;
	if (tp->snd_cwnd_cnt >= tp->snd_cwnd) {
		tp->snd_cwnd_cnt -= tp->snd_cwnd;
		tp->snd_cwnd += 1;
	}
}

SEC("struct_ops")
void BPF_PROG(highspeed_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked || !rfc3649)
			return;
	}
	if (rfc3649)
		fractional_avoidance(tp, &ca->kept, respond(tp->snd_cwnd).increase, acked);
	else
		grow_by_ack(tp, ca);
}

SEC("struct_ops")
__u32 BPF_PROG(highspeed_ssthresh, struct sock *sk)
{
	__u64 cwnd = tcp_sk(sk)->snd_cwnd, removed;
	struct highspeed *ca = inet_csk_ca(sk);
	__u32 row = ca->row;

	if (rfc3649)
		removed = cwnd * respond(cwnd).decrease / FRACTION_ONE;
	else
		removed = cwnd * (rows[row <= LAST_LINUX_ROW ? row : LAST_LINUX_ROW].decrease / 256) / 256;
	return max(cwnd - removed, 2ULL);
}

SEC("struct_ops")
__u32 BPF_PROG(highspeed_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops highspeed = {
	.init = (void *)highspeed_init,
	.ssthresh = (void *)highspeed_ssthresh,
	.cong_avoid = (void *)highspeed_cong_avoid,
	.undo_cwnd = (void *)highspeed_undo_cwnd,
	.name = "highspeed",
};
