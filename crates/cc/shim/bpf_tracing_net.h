/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Included by congestion controls as "bpf_tracing_net.h": constants that are macros in the kernel (and so not in
 * its type information), and small inline functions of include/net/tcp.h.
 */
#ifndef __BPF_TRACING_NET_H__
#define __BPF_TRACING_NET_H__

#include "vmlinux.h"
#include "bpf/bpf_core_read.h"
#include "bpf/bpf_helpers.h"

#define AF_INET 2
#define AF_INET6 10
#define SOL_SOCKET 1
#define SO_SNDBUF 7
#define SO_RCVBUF 8
#define SO_MAX_PACING_RATE 47
#define SOL_TCP 6
#define TCP_NODELAY 1
#define TCP_MAXSEG 2
#define TCP_WINDOW_CLAMP 10
#define TCP_CONGESTION 13
#define TCP_NOTSENT_LOWAT 25
#define TCP_CA_NAME_MAX 16

#define TCP_ECN_OK 1
#define TCP_ECN_QUEUE_CWR 2
#define TCP_ECN_DEMAND_CWR 4
#define TCP_ECN_SEEN 8

#define TCP_CONG_NON_RESTRICTED 0x1
#define TCP_CONG_NEEDS_ECN 0x2

#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_INIT_CWND 10
#define MAX_TCP_HEADER 320

/* Effects of an ACK (net/ipv4/tcp_input.c): the argument flag of cong_control. */
#define FLAG_DATA 0x01
#define FLAG_WIN_UPDATE 0x02
#define FLAG_DATA_ACKED 0x04
#define FLAG_RETRANS_DATA_ACKED 0x08
#define FLAG_SYN_ACKED 0x10
#define FLAG_DATA_SACKED 0x20
#define FLAG_ECE 0x40
#define FLAG_LOST_RETRANS 0x80
#define FLAG_SLOWPATH 0x100
#define FLAG_ORIG_SACK_ACKED 0x200
#define FLAG_SND_UNA_ADVANCED 0x400
#define FLAG_DSACKING_ACK 0x800
#define FLAG_ACKED (FLAG_DATA_ACKED | FLAG_SYN_ACKED)
#define FLAG_NOT_DUP (FLAG_DATA | FLAG_WIN_UPDATE | FLAG_ACKED)
#define FLAG_CA_ALERT (FLAG_DATA_SACKED | FLAG_ECE | FLAG_DSACKING_ACK)
#define FLAG_FORWARD_PROGRESS (FLAG_ACKED | FLAG_DATA_SACKED)

#define NSEC_PER_SEC 1000000000L
#define NSEC_PER_MSEC 1000000L
#define NSEC_PER_USEC 1000L
#ifndef USEC_PER_SEC
#define USEC_PER_SEC ((kernel_ulong)1000000)
#endif
#ifndef USEC_PER_MSEC
#define USEC_PER_MSEC ((kernel_ulong)1000)
#endif

#define sk_num __sk_common.skc_num
#define sk_dport __sk_common.skc_dport
#define sk_family __sk_common.skc_family
#define sk_state __sk_common.skc_state

#define tcp_jiffies32 ((__u32)bpf_jiffies64())

#ifndef min
#define min(a, b) ((a) < (b) ? (a) : (b))
#endif
#ifndef max
#define max(a, b) ((a) > (b) ? (a) : (b))
#endif
#ifndef min_not_zero
#define min_not_zero(x, y)                                                                                             \
	({                                                                                                             \
		__typeof__(x) ___x = (x);                                                                              \
		__typeof__(y) ___y = (y);                                                                              \
		___x == 0 ? ___y : (___y == 0 ? ___x : min(___x, ___y));                                               \
	})
#endif

/*
 * Order of sequence numbers, which wrap. The selftests of kernels up to 6.12 define before() themselves, later ones expect
 * it here: __LONGFAT_FILE_DEFINES_BEFORE is defined if the file has its own.
 */
#ifndef __LONGFAT_FILE_DEFINES_BEFORE
static __always_inline bool before(__u32 seq1, __u32 seq2)
{
	return (__s32)(seq1 - seq2) < 0;
}
#endif
#ifndef after
#define after(seq2, seq1) before(seq1, seq2)
#endif

static __always_inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline void *inet_csk_ca(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/* Whether the window, not the application, limits the sender: only then may it grow. */
static __always_inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return true;
	/* In slow start the window may be twice the packets in flight. */
	return tcp_in_slow_start(tp) && tp->snd_cwnd < 2 * tp->max_packets_out;
}

#endif
