/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Native versions of the kernel's functions for congestion controls: functions of the TCP stack (kfuncs), clocks, options.
 *
 * All are weak: a file can define a function of the same name, as in eBPF. Differences from the kernel:
 *
 * 1. All clocks are the socket's time (tcp_clock_cache), which does not advance during a call.
 * 2. bpf_setsockopt of TCP_CONGESTION takes effect when the program that called it returns.
 * 3. SO_MAX_PACING_RATE is the only other socket option supported; TCP_NODELAY returns -EOPNOTSUPP, others -EINVAL.
 * 4. A division by zero ends the process, as it would in a kernel module; in eBPF its result is 0.
 */
#include "native/runtime.h"
#include "bpf_tracing_net.h"

#include <string.h>

#define EBUSY 16
#define EINVAL 22
#define ENOENT 2
#define EOPNOTSUPP 95

struct lf_runtime longfat_runtime = { .jiffy_ns = 4000000 };

/* Values of the kernel's configuration; CONFIG_HZ follows the scenario. */
__weak unsigned long CONFIG_HZ = 250;
__weak int LINUX_KERNEL_VERSION = 6 << 16 | 18 << 8;

__u64 bpf_ktime_get_ns(void)
{
	return longfat_runtime.call->now_ns;
}

__u64 bpf_ktime_get_boot_ns(void)
{
	return longfat_runtime.call->now_ns;
}

__u64 bpf_ktime_get_coarse_ns(void)
{
	return longfat_runtime.call->now_ns;
}

__u64 bpf_ktime_get_tai_ns(void)
{
	return longfat_runtime.call->now_ns;
}

__u64 bpf_jiffies64(void)
{
	struct lf_runtime *rt = &longfat_runtime;
	__u64 now_ns = rt->call->now_ns;

	/* A division is needed only when the jiffy has changed. */
	if (unlikely(now_ns - rt->jiffy_start_ns >= rt->jiffy_ns)) {
		rt->jiffies = now_ns / rt->jiffy_ns;
		rt->jiffy_start_ns = rt->jiffies * rt->jiffy_ns;
	}
	return rt->jiffies;
}

/* The upper half of SplitMix64 (Steele, Lea, Flood 2014). */
__u32 bpf_get_prandom_u32(void)
{
	__u64 z = longfat_runtime.call->random += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return (z ^ z >> 31) >> 32;
}

__u32 bpf_get_smp_processor_id(void)
{
	return 0;
}

long bpf_loop(__u32 nr_loops, void *callback, void *ctx, __u64 flags)
{
	int (*body)(__u64 index, void *ctx) = callback;
	__u32 i;

	if (flags)
		return -EINVAL;
	for (i = 0; i < nr_loops; i++)
		if (body(i, ctx))
			return i + 1;
	return i;
}

long bpf_tcp_send_ack(void *tp, __u32 rcv_nxt)
{
	longfat_runtime.call->ack_wanted = 1;
	longfat_runtime.call->ack_rcv_nxt = rcv_nxt;
	return 0;
}

static long set_congestion(const char *value, int length)
{
	struct lf_call *call = longfat_runtime.call;
	char name[16] = {};
	__u64 i;

	/* Recursion guard: an init after a change must not change the congestion control again. */
	if (call->changing)
		return -EBUSY;
	memcpy(name, value, min(length, 15));
	/* Only the first string counts. */
	memset(name + strlen(name), 0, 16 - strlen(name));
	for (i = 0; i < longfat_runtime.known_count; i++) {
		if (memcmp(longfat_runtime.known + 16 * i, name, 16) == 0) {
			memcpy(call->congestion, name, 16);
			call->changed = 1;
			return 0;
		}
	}
	return -ENOENT;
}

long bpf_setsockopt(void *ctx, int level, int optname, void *optval, int optlen)
{
	struct sock *sk = ctx;

	if (level == SOL_TCP && optname == TCP_CONGESTION && optlen >= 2)
		return set_congestion(optval, optlen);
	if (level == SOL_SOCKET && optname == SO_MAX_PACING_RATE && optlen >= 4) {
		/* Only the kernel writes this variable; this function has the kernel's role. */
		unsigned long *most = (unsigned long *)&sk->sk_max_pacing_rate;

		*most = optlen >= 8 ? *(__u64 *)optval : *(__u32 *)optval == ~0U ? ~0UL : *(__u32 *)optval;
		if (*most != ~0UL && sk->sk_pacing_status == SK_PACING_NONE)
			sk->sk_pacing_status = SK_PACING_NEEDED;
		sk->sk_pacing_rate = min(sk->sk_pacing_rate, *most);
		return 0;
	}
	/* As in newer kernels: the option would send waiting data, which calls the congestion control again. */
	if (level == SOL_TCP && optname == TCP_NODELAY)
		return -EOPNOTSUPP;
	return -EINVAL;
}

long bpf_getsockopt(void *ctx, int level, int optname, void *optval, int optlen)
{
	if (level != SOL_TCP || optname != TCP_CONGESTION || optlen < 2)
		return -EINVAL;
	memset(optval, 0, optlen);
	memcpy(optval, longfat_runtime.call->congestion, min(optlen - 1, 15));
	return 0;
}

/* Slow start (RFC 5681; tcp_slow_start of net/ipv4/tcp_cong.c): up to the threshold; returns the unused part of acked. */
__weak __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked)
{
	__u32 cwnd = min(tp->snd_cwnd + acked, tp->snd_ssthresh);

	acked -= cwnd - tp->snd_cwnd;
	tp->snd_cwnd = min(cwnd, tp->snd_cwnd_clamp);
	return acked;
}

/* Grows by one packet for every w acknowledged packets (tcp_cong_avoid_ai of net/ipv4/tcp_cong.c). */
__weak void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked)
{
	/* Credit earned at a larger w counts as one packet, not several. */
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		__u32 more = tp->snd_cwnd_cnt / w;

		tp->snd_cwnd_cnt -= more * w;
		tp->snd_cwnd += more;
	}
	tp->snd_cwnd = min(tp->snd_cwnd, tp->snd_cwnd_clamp);
}

__weak void tcp_reno_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

__weak __u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd >> 1, 2U);
}

__weak __u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd, tcp_sk(sk)->prior_cwnd);
}
