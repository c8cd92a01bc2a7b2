/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The kernel's tcp_slow_start and tcp_cong_avoid_ai for fractional increments.
 *
 * Growth is in 1/65536 segments (FRACTION_ONE). The remainder beyond whole segments is kept: in congestion avoidance the
 * whole part of the credit in snd_cwnd_cnt, where Linux also has it and clears it after a timeout, and the fraction in the
 * caller's struct. With a growth of FRACTION_ONE both functions do exactly the same as the kernel's.
 *
 * Not part of the kernel or of libbpf: a file that includes it needs this folder to build.
 */
#ifndef __FRACTIONAL_GROWTH_H__
#define __FRACTIONAL_GROWTH_H__

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include "bpf_tracing_net.h"

#define FRACTION_ONE 65536ULL
/* Maximum growth per segment or window: 65536 segments. The product with 2^28 acknowledged segments fits into 64 bits. */
#define FRACTION_MAX (1ULL << 32)

/* Credit in 1/65536 segments, each below one. */
struct fractions {
	__u32 slow_start;
	__u32 avoidance;
};

static __always_inline void add_to_cwnd(struct tcp_sock *tp, __u64 segments)
{
	__u64 cwnd = tp->snd_cwnd + segments;

	tp->snd_cwnd = min(cwnd, (__u64)tp->snd_cwnd_clamp);
}

/* cwnd += per_segment for each segment acknowledged, up to ssthresh; returns the unused segments. */
static __always_inline __u32 fractional_slow_start(struct tcp_sock *tp, struct fractions *kept, __u64 per_segment,
						   __u32 acked)
{
	__u64 room = (__u64)(tp->snd_ssthresh - tp->snd_cwnd) * FRACTION_ONE;
	__u64 credit = kept->slow_start % FRACTION_ONE;
	__u64 needed;

	per_segment = min(max(per_segment, 1ULL), FRACTION_MAX);
	needed = (room - credit + per_segment - 1) / per_segment;
	if (acked < needed) {
		credit += acked * per_segment;
		kept->slow_start = credit % FRACTION_ONE;
		add_to_cwnd(tp, credit / FRACTION_ONE);
		return 0;
	}
	kept->slow_start = 0;
	add_to_cwnd(tp, room / FRACTION_ONE);
	return acked - needed;
}

/* cwnd += per_window for each window of segments acknowledged. */
static __always_inline void fractional_avoidance(struct tcp_sock *tp, struct fractions *kept, __u64 per_window,
						 __u32 acked)
{
	__u64 window = max(tp->snd_cwnd, 1U) * FRACTION_ONE;
	__u64 credit = tp->snd_cwnd_cnt * FRACTION_ONE + kept->avoidance % FRACTION_ONE;
	__u64 segments = 0;

	/* Credit earned at a larger window counts as one segment now. */
	if (credit >= window) {
		credit = 0;
		segments = 1;
	}
	credit += acked * min(per_window, FRACTION_MAX);
	segments += credit / window;
	credit %= window;

	tp->snd_cwnd_cnt = credit / FRACTION_ONE;
	kept->avoidance = credit % FRACTION_ONE;
	add_to_cwnd(tp, segments);
}

#endif
