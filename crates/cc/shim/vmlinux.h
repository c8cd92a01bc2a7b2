/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The part of the kernel's types that congestion controls use, for both builds of a file.
 *
 * Names and types are the kernel's (6.18); members that no congestion control reads are omitted.
 *   - eBPF: libbpf finds each member in the running kernel by name (CO-RE), so order and omissions
 *     here do not matter.
 *   - native: this *is* the layout. crates/tcp/src/sock.rs mirrors it, and a test compares every offset.
 *   - WebAssembly: the same layout. Its long and its pointers have 32 bits, so members of these types are declared by
 *     kernel_long, kernel_ulong and kernel_pointer.
 *
 * A congestion control must not write members marked __kernel_owned: the kernel would not load it. Natively these
 * members are const, so the compiler rejects a write and reports its line.
 */
#ifndef __LONGFAT_VMLINUX_H__
#define __LONGFAT_VMLINUX_H__

#ifdef __bpf__
#define __kernel_owned
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#else
#define __kernel_owned const
#endif

typedef signed char __s8;
typedef unsigned char __u8;
typedef short __s16;
typedef unsigned short __u16;
typedef int __s32;
typedef unsigned int __u32;
#ifdef __bpf__
typedef long long __s64;
typedef unsigned long long __u64;
#else
/* As in the machine's headers, which a file may also include. */
__extension__ typedef long long __s64;
__extension__ typedef unsigned long long __u64;
#endif
#ifdef __wasm__
typedef __s64 kernel_long;
typedef __u64 kernel_ulong;
#define kernel_pointer(type) __u64
#else
typedef long kernel_long;
typedef unsigned long kernel_ulong;
#define kernel_pointer(type) type *
#endif
typedef __s8 s8;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __SIZE_TYPE__ size_t;
typedef __u64 netdev_features_t;

#if !defined(__bool_true_false_are_defined) && !defined(__cplusplus)
typedef _Bool bool;
enum { false = 0, true = 1 };
#endif

typedef struct {
	int counter;
} atomic_t;

typedef struct refcount_struct {
	atomic_t refs;
} refcount_t;

/* Windowed minimum (include/linux/win_minmax.h); s[0].v is the current one. */
struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_CWND_RESTART = 1,
	CA_EVENT_COMPLETE_CWR = 2,
	CA_EVENT_LOSS = 3,
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

enum tcp_ca_ack_event_flags {
	CA_ACK_SLOWPATH = 1,
	CA_ACK_WIN_UPDATE = 2,
	CA_ACK_ECE = 4,
};

enum sk_pacing {
	SK_PACING_NONE = 0,
	SK_PACING_NEEDED = 1,
	SK_PACING_FQ = 2,
};

enum inet_csk_ack_state_t {
	ICSK_ACK_SCHED = 1,
	ICSK_ACK_TIMER = 2,
	ICSK_ACK_PUSHED = 4,
	ICSK_ACK_PUSHED2 = 8,
	ICSK_ACK_NOW = 16,
	ICSK_ACK_NOMEM = 32,
};

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_FIN_WAIT1 = 4,
	TCP_FIN_WAIT2 = 5,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_CLOSE_WAIT = 8,
	TCP_LAST_ACK = 9,
	TCP_LISTEN = 10,
	TCP_CLOSING = 11,
};

/* eBPF: map types and flags for map definitions and helpers. */
enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC = 0,
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_HASH_OF_MAPS = 13,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_STRUCT_OPS = 26,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_ARENA = 33,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_CLONE = 512,
};

enum {
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_SK_STORAGE_GET_F_CREATE = 1,
};

struct bpf_spin_lock {
	__u32 val;
};

struct sock_common {
	__kernel_owned __be32 skc_daddr;
	__kernel_owned __be32 skc_rcv_saddr;
	__kernel_owned __be16 skc_dport;
	__kernel_owned __u16 skc_num;
	__kernel_owned unsigned short skc_family;
	__kernel_owned unsigned char skc_state;
	__kernel_owned unsigned char skc_reuse : 4;
	__kernel_owned unsigned char skc_reuseport : 1;
	__kernel_owned unsigned char skc_ipv6only : 1;
	__kernel_owned unsigned char skc_net_refcnt : 1;
};

struct sock {
	struct sock_common __sk_common;
	__kernel_owned u8 sk_shutdown;
	__kernel_owned u8 sk_pacing_shift;
	__kernel_owned u16 sk_protocol;
	__kernel_owned u16 sk_gso_max_segs;
	__kernel_owned unsigned int sk_gso_max_size;
	u32 sk_pacing_status;
	kernel_ulong sk_pacing_rate; /* bytes/s */
	__kernel_owned kernel_ulong sk_max_pacing_rate;
	__kernel_owned int sk_rcvbuf;
	__kernel_owned int sk_sndbuf;
	__kernel_owned int sk_wmem_queued;
	__kernel_owned int sk_forward_alloc;
	__kernel_owned u32 sk_priority;
	__kernel_owned u32 sk_mark;
	__kernel_owned refcount_t sk_wmem_alloc;
	__kernel_owned u32 sk_txhash;
	__kernel_owned netdev_features_t sk_route_caps;
};

struct inet_sock {
	struct sock sk;
	__kernel_owned __be32 inet_saddr;
	__kernel_owned __be16 inet_sport;
	__kernel_owned __u8 tos;
};

struct tcp_congestion_ops;

/* 104 bytes per socket for the congestion control: inet_csk_ca() points to them. */
#define ICSK_CA_PRIV_SIZE 104

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__kernel_owned __u32 icsk_rto;	   /* jiffies */
	__kernel_owned __u32 icsk_rto_min; /* jiffies */
	__kernel_owned __u32 icsk_delack_max;
	__kernel_owned __u32 icsk_pmtu_cookie;
	kernel_pointer(const struct tcp_congestion_ops) __kernel_owned icsk_ca_ops;
	__kernel_owned __u8 icsk_ca_state : 5;
	__kernel_owned __u8 icsk_ca_initialized : 1;
	__kernel_owned __u8 icsk_ca_setsockopt : 1;
	__kernel_owned __u8 icsk_ca_dst_locked : 1;
	__kernel_owned __u8 icsk_retransmits;
	__kernel_owned __u8 icsk_pending;
	__kernel_owned __u8 icsk_backoff;
	__kernel_owned __u8 icsk_syn_retries;
	__kernel_owned __u8 icsk_probes_out;
	__kernel_owned __u16 icsk_ext_hdr_len;
	struct {
		__u8 pending;
		__kernel_owned __u8 quick;
		__kernel_owned __u8 pingpong;
		__kernel_owned __u8 retry;
		__kernel_owned __u32 ato : 8;
		__kernel_owned __u32 lrcv_flowlabel : 20;
		__kernel_owned __u32 dst_quick_ack : 1;
		__kernel_owned __u32 unused : 3;
		__kernel_owned __u32 lrcvtime;
		__kernel_owned __u16 last_seg_size;
		__kernel_owned __u16 rcv_mss;
	} icsk_ack;
	__kernel_owned u32 icsk_user_timeout;
	u64 icsk_ca_priv[ICSK_CA_PRIV_SIZE / sizeof(u64)];
};

struct tcp_options_received {
	__kernel_owned u32 rcv_tsval;
	__kernel_owned u32 rcv_tsecr;
	__kernel_owned u16 saw_tstamp : 1;
	__kernel_owned u16 tstamp_ok : 1;
	__kernel_owned u16 dsack : 1;
	__kernel_owned u16 wscale_ok : 1;
	__kernel_owned u16 sack_ok : 3;
	__kernel_owned u16 smc_ok : 1;
	__kernel_owned u16 snd_wscale : 4;
	__kernel_owned u16 rcv_wscale : 4;
	__kernel_owned u8 num_sacks;
	__kernel_owned u16 user_mss;
	__kernel_owned u16 mss_clamp;
};

struct tcp_rack {
	__kernel_owned u64 mstamp;
	__kernel_owned u32 rtt_us;
	__kernel_owned u32 end_seq;
	__kernel_owned u32 last_delivered;
	__kernel_owned u8 reo_wnd_steps;
	__kernel_owned u8 reo_wnd_persist : 5;
	__kernel_owned u8 dsack_seen : 1;
	__kernel_owned u8 advanced : 1;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	/* Clocks. */
	__kernel_owned u64 tcp_clock_cache; /* ns */
	__kernel_owned u64 tcp_mstamp;	    /* us */
	__kernel_owned u64 tcp_wstamp_ns;
	/* Windows, in packets. */
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_ssthresh;
	__kernel_owned u32 snd_cwnd_clamp;
	__kernel_owned u32 snd_cwnd_used;
	u32 snd_cwnd_stamp;
	__kernel_owned u32 prior_cwnd;
	__kernel_owned u32 prior_ssthresh;
	__kernel_owned u32 prr_delivered;
	__kernel_owned u32 prr_out;
	/* Packets that are not acknowledged. */
	__kernel_owned u32 packets_out;
	__kernel_owned u32 sacked_out;
	__kernel_owned u32 lost_out;
	__kernel_owned u32 retrans_out;
	__kernel_owned u32 max_packets_out;
	__kernel_owned u32 cwnd_usage_seq;
	__kernel_owned u8 repair : 1;
	__kernel_owned u8 tcp_usec_ts : 1;
	__kernel_owned u8 is_sack_reneg : 1;
	__kernel_owned u8 is_cwnd_limited : 1;
	__kernel_owned u8 recvmsg_inq : 1;
	u8 ecn_flags;
	__kernel_owned u8 nonagle : 4;
	__kernel_owned u8 rate_app_limited : 1;
	__kernel_owned u8 chrono_type;
	/* Sequence space, in bytes. */
	__kernel_owned u32 snd_una;
	__kernel_owned u32 snd_nxt;
	__kernel_owned u32 write_seq;
	__kernel_owned u32 high_seq;
	__kernel_owned u32 rcv_nxt;
	__kernel_owned u32 copied_seq;
	__kernel_owned u32 snd_wl1;
	__kernel_owned u32 snd_wnd;
	__kernel_owned u32 max_window;
	__kernel_owned u32 rcv_wnd;
	__kernel_owned u32 rcv_ssthresh;
	__kernel_owned u32 window_clamp;
	__kernel_owned u32 mss_cache;
	__kernel_owned u16 advmss;
	__kernel_owned u16 gso_segs;
	__kernel_owned u16 tcp_header_len;
	/* Round-trip times: srtt_us is 8 times the mean, mdev_us and rttvar_us 4 times the deviation. */
	__kernel_owned u32 srtt_us;
	__kernel_owned u32 mdev_us;
	__kernel_owned u32 mdev_max_us;
	__kernel_owned u32 rttvar_us;
	__kernel_owned u32 rtt_seq;
	__kernel_owned struct minmax rtt_min; /* us */
	/* Delivery, in packets. */
	__kernel_owned u32 delivered;
	__kernel_owned u32 delivered_ce;
	__kernel_owned u32 lost;
	u32 app_limited;
	__kernel_owned u64 first_tx_mstamp;  /* us */
	__kernel_owned u64 delivered_mstamp; /* us */
	__kernel_owned u32 rate_delivered;
	__kernel_owned u32 rate_interval_us;
	__kernel_owned u64 bytes_sent;
	__kernel_owned u64 bytes_acked;
	__kernel_owned u64 bytes_received;
	__kernel_owned u64 bytes_retrans;
	__kernel_owned u32 segs_out;
	__kernel_owned u32 segs_in;
	__kernel_owned u32 data_segs_out;
	__kernel_owned u32 data_segs_in;
	__kernel_owned u32 total_retrans;
	/* Loss recovery. */
	__kernel_owned u32 reordering;
	__kernel_owned u32 reord_seen;
	__kernel_owned u32 dsack_dups;
	__kernel_owned u32 undo_marker;
	__kernel_owned int undo_retrans;
	__kernel_owned u32 retrans_stamp;
	__kernel_owned u32 tlp_high_seq;
	__kernel_owned u16 total_rto;
	__kernel_owned u16 total_rto_recoveries;
	__kernel_owned u32 rto_stamp;
	__kernel_owned u32 total_rto_time;
	__kernel_owned u32 lsndtime; /* jiffies */
	__kernel_owned u32 rcv_tstamp;
	__kernel_owned u32 notsent_lowat;
	__kernel_owned u32 plb_rehash;
	struct {
		__kernel_owned u32 rtt_us;
		__kernel_owned u32 seq;
		__kernel_owned u64 time;
	} rcv_rtt_est;
	struct tcp_rack rack;
	struct tcp_options_received rx_opt;
};

/* The kernel's measurement over the round trip that the last ACK ended (net/ipv4/tcp_rate.c). */
struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered;
	u32 prior_delivered_ce;
	s32 delivered;
	s32 delivered_ce;
	kernel_long interval_us;
	u32 snd_interval_us;
	u32 rcv_interval_us;
	kernel_long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

/* One ACK, for pkts_acked. rtt_us is -1 without a sample. */
struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct tcpvegas_info {
	__u32 tcpv_enabled;
	__u32 tcpv_rttcnt;
	__u32 tcpv_rtt;
	__u32 tcpv_minrtt;
};

struct tcp_dctcp_info {
	__u16 dctcp_enabled;
	__u16 dctcp_ce_state;
	__u32 dctcp_alpha;
	__u32 dctcp_ab_ecn;
	__u32 dctcp_ab_tot;
};

struct tcp_bbr_info {
	__u32 bbr_bw_lo;
	__u32 bbr_bw_hi;
	__u32 bbr_min_rtt;
	__u32 bbr_pacing_gain;
	__u32 bbr_cwnd_gain;
};

union tcp_cc_info {
	struct tcpvegas_info vegas;
	struct tcp_dctcp_info dctcp;
	struct tcp_bbr_info bbr;
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	/* Called instead of cwnd_event with CA_EVENT_TX_START from Linux 7.2 on. */
	void (*cwnd_event_tx_start)(struct sock *sk);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	size_t (*get_info)(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info);
	char name[16];
	u32 key;
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#ifdef __bpf__
#pragma clang attribute pop
#endif

#endif
