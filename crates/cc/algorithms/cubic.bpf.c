/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * CUBIC with HyStart: after a loss the window is a cubic function of time, with its plateau at the window of the loss.
 *
 * Source: RFC 9438 (CUBIC, 2023); S. Ha and I. Rhee, "Taming the elephants: new TCP slow start", Computer Networks
 * 55(9), 2011 (HyStart). With w_max the window at the loss and t the time since growth resumed:
 *     W(t) = C (t - K)^3 + w_max,   K = cbrt((w_max - cwnd) / C),   C = 0.4 segments / s^3;   a loss: cwnd = 0.7 w_max
 * A Reno flow with the same losses grows by alpha = 3 (1 - beta) / (1 + beta) per round trip; the larger growth
 * applies. HyStart ends slow start before the loss: when the ACK train of one round trip lasts for half the
 * minimum RTT (for all of it if the sender paces), or when the minimum of 8 RTTs of a round is 1/8, at least 4 and at
 * most 16 ms, above the minimum so far.
 *
 * Differences from RFC 9438:
 *  1. The target W(t + RTT) uses the minimum RTT, not the smoothed one. It is evaluated when the window has
 *     changed, at most once per jiffy, and otherwise every 1/32 s: on shorter paths growth comes in bursts.
 *  2. If the last w_max is unknown (no loss yet), growth is at least 5 % per round trip.
 *  3. HyStart instead of HyStart++ (RFC 9406): there is no conservative slow start, and its decision is final.
 *  4. The Reno-friendly window is an integer that counts acknowledged segments; alpha is 8/15 for the default beta.
 * All four are as in Linux. Differences from the kernel's tcp_cubic:
 *  1. The cube root is exact; the kernel's is off by 0.2 % on average.
 *  2. (t - K)^3 does not overflow for large windows and long times.
 *  3. No HyStart counters (TcpExtTCPHystart...): BPF cannot write the kernel's counters.
 *
 * Unlike the kernel's: the cube root is exact; the kernel's is 0.2 % off on average.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "bpf_tracing_net.h"
#include "longfat_tcp.h"

char _license[] SEC("license") = "Dual MIT/GPL";

/* C, in segments / s^3. */
const volatile __u32 c = 410;
const volatile __u32 c_scale = 1024;
/* Share of the window that is kept after a loss. */
const volatile __u32 beta = 717;
const volatile __u32 beta_scale = 1024;
/* A loss below the last w_max reduces w_max further, which frees bandwidth for new flows (RFC 9438, 4.7). */
const volatile bool fast_convergence = true;
/* Never slower than a Reno flow with the same losses (RFC 9438, 4.3). */
const volatile bool tcp_friendliness = true;
/* Leaves slow start before the first loss. */
const volatile bool hystart = true;
/* HyStart's criteria: 1 = ACK trains, 2 = delay, 3 = both. */
const volatile __u32 hystart_detect = 3;
/* HyStart does not end slow start below this window, in segments. */
const volatile __u32 hystart_low_window = 16;
/* Maximum time between two ACKs of a train, in microseconds. */
const volatile __u32 hystart_ack_delta_us = 2000;
/* Without HyStart: window at which the first slow start ends, in segments; 0: it ends with the first loss. */
const volatile __u32 initial_ssthresh = 0;

#define DETECT_TRAIN 1
#define DETECT_DELAY 2
#define HYSTART_SAMPLES 8
#define HYSTART_DELAY_MIN_US 4000U
#define HYSTART_DELAY_MAX_US 16000U

/* Time in the cubic function: 1/1024 s. */
#define TICK_BITS 10
/* Maxima of t - K (34 minutes) and of C (1024 segments / s^3), so that their product fits into 64 bits. */
#define MAX_TICKS (1ULL << 21)
#define MAX_C (1ULL << 20)

struct cubic {
	__u32 per_increment; /* acknowledged segments per segment of growth */
	__u32 w_max;	     /* window before the last reduction; 0: none yet */
	__u32 origin;	     /* W(K) */
	__u32 k;	     /* in 1/1024 s */
	__u32 epoch_start;   /* jiffies; 0: growth has not resumed since the last reduction */
	__u32 w_est;	     /* window of the Reno flow */
	__u32 est_acked;     /* acknowledged segments not yet counted in w_est */
	__u32 last_cwnd;     /* window and time when per_increment was last computed */
	__u32 last_time;
	__u32 min_rtt_us;
	/* HyStart, for the current round: */
	__u32 round_start_us;
	__u32 round_end_seq;
	__u32 train_end_us;
	__u32 round_min_rtt_us;
	__u8 samples;
	bool found;
};

extern unsigned long CONFIG_HZ __kconfig;
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

static __always_inline void forget_losses(struct cubic *ca)
{
	ca->per_increment = 0;
	ca->w_max = 0;
	ca->origin = 0;
	ca->k = 0;
	ca->epoch_start = 0;
	ca->w_est = 0;
	ca->est_acked = 0;
	ca->last_cwnd = 0;
	ca->last_time = 0;
	ca->min_rtt_us = 0;
	ca->found = false;
}

static __always_inline void begin_round(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);

	ca->round_start_us = ca->train_end_us = tp->tcp_mstamp;
	ca->round_end_seq = tp->snd_nxt;
	ca->round_min_rtt_us = ~0U;
	ca->samples = 0;
}

/*
 * The largest root with root^3 <= value, for a value below 2^63, bit by bit. Without branches: the verifier would
 * explore both paths at each of the 21 bits.
 */
static __always_inline __u32 cube_root(__u64 value)
{
	__u64 root = 0, next, too_large;
	int bit;

	for (bit = 20; bit >= 0; bit--) {
		next = root | 1ULL << bit;
		too_large = (value - next * next * next) >> 63;
		root |= (too_large ^ 1) << bit;
	}
	return root;
}

/* K for a window `missing` segments below w_max: K^3 = missing / C, in ticks. */
static __always_inline __u32 time_to_origin(__u32 missing)
{
	__u64 ticks_cubed = (1ULL << 3 * TICK_BITS) * min(c_scale, 1024U) / max(c, 1U);

	/* At most 2^40, times less than 2^23. */
	return cube_root(ticks_cubed * min(missing, (1U << 23) - 1));
}

/* C ticks^3, in segments. */
static __always_inline __u64 cubed(__u64 ticks)
{
	__u64 c_1024ths = min((__u64)c * 1024 / max(c_scale, 1U), MAX_C);

	if (ticks < 1 << 14)
		return ticks * ticks * ticks * c_1024ths >> (3 * TICK_BITS + 10);
	ticks = min(ticks, MAX_TICKS);
	return ((ticks * ticks >> TICK_BITS) * ticks >> TICK_BITS) * c_1024ths >> (TICK_BITS + 10);
}

static __always_inline __u64 jiffies_from_us(__u32 us)
{
	__u64 us_per_jiffy = USEC_PER_SEC / CONFIG_HZ;

	return (us + us_per_jiffy - 1) / us_per_jiffy;
}

/* Segments per segment of growth from the cubic function, to reach W(t + RTT) in a round trip. */
static __always_inline __u32 cubic_increment(const struct cubic *ca, __u32 cwnd, __u32 now)
{
	__s32 elapsed = now - ca->epoch_start;
	__u64 ticks = max(elapsed, 0) + jiffies_from_us(ca->min_rtt_us);
	__u64 target, per_increment = 100ULL * cwnd;

	ticks = (ticks << TICK_BITS) / CONFIG_HZ;
	if (ticks < ca->k) {
		__u64 below = cubed(ca->k - ticks);

		target = ca->origin - min(below, (__u64)ca->origin);
	} else {
		target = ca->origin + cubed(ticks - ca->k);
	}
	if (target > cwnd)
		per_increment = cwnd / (target - cwnd);
	/* The path is still unknown: at least 5 % per round trip. */
	if (!ca->w_max)
		per_increment = min(per_increment, 20ULL);
	return min(per_increment, (__u64)~0U);
}

/* The Reno flow's window; if it is larger, limits the segments per segment of growth so that cwnd catches up. */
static __always_inline void follow_reno(struct cubic *ca, __u32 cwnd)
{
	__u64 scale = max(beta_scale, 1U), kept = min((__u64)beta, scale);
	/* 1 / alpha in eighths, at least 1, as the kernel rounds it. */
	__u64 eighths = max(8 * (scale + kept) / 3 / max(scale - kept, 1ULL), 8ULL);
	__u64 per_step = max(cwnd * eighths >> 3, 1ULL);

	if (ca->est_acked > per_step) {
		__u32 steps = (ca->est_acked - 1) / per_step;

		ca->est_acked -= steps * per_step;
		ca->w_est += steps;
	}
	if (ca->w_est > cwnd)
		ca->per_increment = min(ca->per_increment, cwnd / (ca->w_est - cwnd));
}

static __always_inline void begin_epoch(struct cubic *ca, __u32 cwnd, __u32 acked, __u32 now)
{
	ca->epoch_start = now;
	ca->est_acked = acked;
	ca->w_est = cwnd;
	ca->k = 0;
	ca->origin = cwnd;
	if (ca->w_max > cwnd) {
		ca->k = time_to_origin(ca->w_max - cwnd);
		ca->origin = ca->w_max;
	}
}

static __always_inline void update(struct cubic *ca, __u32 cwnd, __u32 acked)
{
	__u32 now = tcp_jiffies32;

	ca->est_acked += acked;
	if (ca->last_cwnd == cwnd && (__s32)(now - ca->last_time) <= (__s32)(CONFIG_HZ / 32))
		return;
	/* The cubic function changes once per jiffy. */
	if (!ca->epoch_start || now != ca->last_time) {
		ca->last_cwnd = cwnd;
		ca->last_time = now;
		if (!ca->epoch_start)
			begin_epoch(ca, cwnd, acked, now);
		ca->per_increment = cubic_increment(ca, cwnd, now);
	}
	if (tcp_friendliness)
		follow_reno(ca, cwnd);
	/* At most half the window per round trip. */
	ca->per_increment = max(ca->per_increment, 2U);
}

SEC("struct_ops")
void BPF_PROG(cubic_init, struct sock *sk)
{
	forget_losses(inet_csk_ca(sk));
	begin_round(sk);
	if (!hystart && initial_ssthresh)
		tcp_sk(sk)->snd_ssthresh = max(initial_ssthresh, 2U);
}

SEC("struct_ops")
void BPF_PROG(cubic_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	update(ca, tp->snd_cwnd, acked);
	tcp_cong_avoid_ai(tp, ca->per_increment, acked);
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_ssthresh, struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);
	__u64 cwnd = tcp_sk(sk)->snd_cwnd;
	__u64 scale = max(beta_scale, 1U), kept = min((__u64)beta, scale);

	ca->epoch_start = 0;
	if (cwnd < ca->w_max && fast_convergence)
		ca->w_max = cwnd * (scale + kept) / (2 * scale);
	else
		ca->w_max = cwnd;
	return max(cwnd * kept / scale, 2ULL);
}

SEC("struct_ops")
void BPF_PROG(cubic_set_state, struct sock *sk, __u8 new_state)
{
	if (new_state != TCP_CA_Loss)
		return;
	forget_losses(inet_csk_ca(sk));
	begin_round(sk);
}

/* Sending resumes after a pause: the time without data does not count for W(t). */
static __always_inline void resume(struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);
	__u32 now = tcp_jiffies32;
	__s32 idle = now - tcp_sk(sk)->lsndtime;

	if (!ca->epoch_start || idle <= 0)
		return;
	ca->epoch_start += idle;
	if (after(ca->epoch_start, now))
		ca->epoch_start = now;
}

SEC("struct_ops")
void BPF_PROG(cubic_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		resume(sk);
}

/* Linux 7.2 and later call this instead of cwnd_event; older kernels ignore it. */
SEC("?struct_ops")
void BPF_PROG(cubic_cwnd_event_tx_start, struct sock *sk)
{
	resume(sk);
}

/* Time that a TSO burst and its aggregation at the receiver may add to an ACK train, at most 1 ms. */
static __always_inline __u32 burst_us(const struct sock *sk)
{
	__u64 rate = sk->sk_pacing_rate;

	if (!rate)
		return 0;
	return min((__u64)sk->sk_gso_max_size * 4 * USEC_PER_SEC / rate, (__u64)USEC_PER_MSEC);
}

static __always_inline bool long_train(const struct sock *sk, struct cubic *ca)
{
	__u32 now = tcp_sk(sk)->tcp_mstamp;
	__u32 limit = ca->min_rtt_us + burst_us(sk);

	if ((__s32)(now - ca->train_end_us) > (__s32)hystart_ack_delta_us)
		return false;
	ca->train_end_us = now;
	/* Pacing spreads a round of slow start over half the RTT. */
	if (sk->sk_pacing_status == SK_PACING_NONE)
		limit /= 2;
	return (__s32)(now - ca->round_start_us) > (__s32)limit;
}

static __always_inline bool longer_delay(struct cubic *ca, __u32 rtt_us)
{
	__u32 margin = min(max(ca->min_rtt_us / 8, HYSTART_DELAY_MIN_US), HYSTART_DELAY_MAX_US);

	ca->round_min_rtt_us = min(ca->round_min_rtt_us, rtt_us);
	if (ca->samples < HYSTART_SAMPLES) {
		ca->samples++;
		return false;
	}
	return ca->round_min_rtt_us > ca->min_rtt_us + margin;
}

static __always_inline void look_for_end_of_slow_start(struct sock *sk, __u32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);

	if (after(tp->snd_una, ca->round_end_seq))
		begin_round(sk);
	if (tp->snd_cwnd < hystart_low_window)
		return;
	if (hystart_detect & DETECT_TRAIN && long_train(sk, ca))
		ca->found = true;
	if (hystart_detect & DETECT_DELAY && longer_delay(ca, rtt_us))
		ca->found = true;
	if (ca->found)
		tp->snd_ssthresh = tp->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(cubic_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct cubic *ca = inet_csk_ca(sk);
	__u32 rtt_us;

	if (sample->rtt_us < 0)
		return;
	/* RTTs of the first second after a reduction include queueing delay: they do not show the minimum RTT. */
	if (ca->epoch_start && (__s32)(tcp_jiffies32 - ca->epoch_start) < (__s32)CONFIG_HZ)
		return;

	rtt_us = max(sample->rtt_us, 1);
	if (!ca->min_rtt_us || rtt_us < ca->min_rtt_us)
		ca->min_rtt_us = rtt_us;
	if (hystart && !ca->found && tcp_in_slow_start(tcp_sk(sk)))
		look_for_end_of_slow_start(sk, rtt_us);
}

SEC("struct_ops")
__u32 BPF_PROG(cubic_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops cubic = {
	.init = (void *)cubic_init,
	.ssthresh = (void *)cubic_ssthresh,
	.cong_avoid = (void *)cubic_cong_avoid,
	.set_state = (void *)cubic_set_state,
	.cwnd_event = (void *)cubic_cwnd_event,
	.cwnd_event_tx_start = (void *)cubic_cwnd_event_tx_start,
	.pkts_acked = (void *)cubic_pkts_acked,
	.undo_cwnd = (void *)cubic_undo_cwnd,
	.name = "cubic",
};
