/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The members of kernel types that the eBPF programs read. Names are the kernel's (6.18). The loader relocates each member by its
 * name in the running kernel's BTF (CO-RE), so order and omissions do not matter. struct bpf_sock_ops and struct tcp_info are
 * UAPI and have fixed layouts.
 */
#ifndef __LONGFAT_VMLINUX_H__
#define __LONGFAT_VMLINUX_H__

typedef signed char __s8;
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long __s64;
typedef unsigned long long __u64;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __s64 s64;
typedef __u64 u64;
typedef _Bool bool;
enum { false = 0, true = 1 };
struct bpf_spin_lock;

/* include/uapi/linux/tcp.h: the first 280 bytes, which crates/watch/src/tcp_info.rs decodes. */
struct tcp_info {
	u8 state, ca_state, retransmits, probes, backoff, options, wscales, flags;
	u32 rto, ato, snd_mss, rcv_mss;
	u32 unacked, sacked, lost, retrans, fackets;
	u32 last_data_sent, last_ack_sent, last_data_recv, last_ack_recv;
	u32 pmtu, rcv_ssthresh, rtt, rttvar, snd_ssthresh, snd_cwnd, advmss, reordering;
	u32 rcv_rtt, rcv_space, total_retrans;
	u64 pacing_rate, max_pacing_rate, bytes_acked, bytes_received;
	u32 segs_out, segs_in, notsent_bytes, min_rtt, data_segs_in, data_segs_out;
	u64 delivery_rate, busy_time, rwnd_limited, sndbuf_limited;
	u32 delivered, delivered_ce;
	u64 bytes_sent, bytes_retrans;
	u32 dsack_dups, reord_seen, rcv_ooopack, snd_wnd, rcv_wnd, rehash;
	u16 total_rto, total_rto_recoveries;
	u32 total_rto_time;
	u32 received_ce, delivered_e1, delivered_e0, delivered_ce_bytes, received_e1, received_e0, received_ce_bytes;
	u16 accecn_fail_mode, accecn_opt_seen;
};
_Static_assert(sizeof(struct tcp_info) == 280, "the kernel's layout");

/* include/uapi/linux/bpf.h: up to the last member that is read. */
struct bpf_sock_ops {
	u32 op;
	u32 args[4];
	u32 family, remote_ip4, local_ip4, remote_ip6[4], local_ip6[4], remote_port, local_port, is_fullsock;
	u32 snd_cwnd, srtt_us, bpf_sock_ops_cb_flags;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;
typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;
typedef struct {
	s64 counter;
} atomic64_t;

struct ns_common {
	unsigned int inum;
};
struct net {
	struct ns_common ns;
};
typedef struct {
	struct net *net;
} possible_net_t;
struct in6_addr {
	union {
		u8 u6_addr8[16];
	} in6_u;
};
struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
	atomic64_t skc_cookie;
};
struct sock {
	struct sock_common __sk_common;
	struct {
		atomic_t rmem_alloc;
		int len;
	} sk_backlog;
	int sk_rcvbuf, sk_sndbuf, sk_wmem_queued;
	int sk_forward_alloc;
	struct {
		int owned;
	} sk_lock;
	refcount_t sk_wmem_alloc;
	atomic_t sk_omem_alloc, sk_drops;
	unsigned long sk_pacing_rate, sk_max_pacing_rate;
};
struct inet_connection_sock {
	u32 icsk_rto, icsk_pmtu_cookie;
	u8 icsk_ca_state : 5;
	u8 icsk_retransmits, icsk_backoff, icsk_probes_out;
	struct {
		u32 ato : 8;
		u32 lrcvtime;
		u16 rcv_mss;
	} icsk_ack;
};
struct minmax_sample {
	u32 t, v;
};
struct minmax {
	struct minmax_sample s[3];
};
struct tcp_options_received {
	u16 tstamp_ok : 1, wscale_ok : 1, sack_ok : 3, snd_wscale : 4, rcv_wscale : 4;
};
struct tcp_sock {
	u32 rcv_ssthresh, reordering, snd_wnd, mss_cache, snd_cwnd, lost_out, sacked_out;
	u8 tcp_usec_ts : 1;
	u32 copied_seq, retrans_out;
	u16 advmss;
	u32 snd_ssthresh;
	struct minmax rtt_min;
	u32 segs_out, data_segs_out;
	u64 bytes_sent;
	u8 chrono_type : 2; /* a whole byte in newer kernels; BPF_CORE_READ_BITFIELD reads both */
	u32 chrono_start, chrono_stat[3];
	u32 write_seq, lsndtime, mdev_us;
	u8 ecn_flags;
	u8 rate_app_limited : 1;
	u32 rcv_nxt, snd_nxt, snd_una, srtt_us, packets_out, delivered, delivered_ce, received_ce, rcv_wnd, rcv_tstamp,
		window_clamp;
	struct tcp_options_received rx_opt;
	u64 bytes_received;
	u32 segs_in, data_segs_in, rate_delivered, rate_interval_us;
	u32 received_ecn_bytes[3], delivered_ecn_bytes[3];
	u64 bytes_acked;
	struct {
		u32 rtt_us;
	} rcv_rtt_est;
	struct {
		int space;
	} rcvq_space;
	u32 snd_cwnd_clamp, dsack_dups;
	u8 syn_data_acked : 1, syn_fastopen_child : 1, fastopen_client_fail : 2;
	u32 reord_seen;
	u64 bytes_retrans;
	u32 total_retrans;
	u16 total_rto, total_rto_recoveries;
	u32 total_rto_time;
	u8 bpf_sock_ops_cb_flags;
	u16 timeout_rehash;
	u32 rcv_ooopack, plb_rehash;
	u8 accecn_fail_mode : 4, saw_accecn_opt : 2;
};
struct sk_buff {
	unsigned int len;
	char cb[48];
};
struct tcp_skb_cb {
	u32 seq, end_seq;
	union {
		struct {
			u16 tcp_gso_segs, tcp_gso_size;
		};
	};
	u32 ack_seq;
};

struct bpf_iter__tcp {
	struct sock_common *sk_common;
};

#pragma clang attribute pop

#endif
