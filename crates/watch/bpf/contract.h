/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* What watch.bpf.c and the program tell each other: src/bpf/contract.rs has the same. */
#ifndef __LONGFAT_WATCH_CONTRACT_H__
#define __LONGFAT_WATCH_CONTRACT_H__

enum event_kind {
	EVENT_STATE = 1,      /* value: old state << 8 | new state */
	EVENT_CA_STATE = 2,   /* value: new congestion state */
	EVENT_RETRANSMIT = 3, /* value: segments */
	EVENT_RTT = 4,        /* value: sample, us */
	EVENT_ACK = 5,        /* a segment came; the fields are as before it was taken in */
};

struct event {
	u64 cookie;
	u64 time_ns; /* CLOCK_MONOTONIC */
	u64 value;
	u64 bytes_acked;
	u32 kind, netns;
	u32 snd_cwnd, snd_ssthresh, in_flight, srtt_us, snd_wnd, rcv_wnd, snd_mss, total_rto;
	u16 family, local_port, peer_port, ca_state; /* ports as numbers */
	u8 local[16], peer[16];
};
_Static_assert(sizeof(struct event) == 112, "without holes");

/* A look at one connection. */
struct sample {
	u64 cookie;
	u64 time_ns;
	u32 memory[9]; /* SK_MEMINFO_* */
	u32 rqueue, wqueue, info_bytes;
	struct tcp_info info;
};
_Static_assert(sizeof(struct sample) == 344, "without holes");

/* What the program sets before it loads this. */
#define NETNS_MOST 64
struct settings {
	u32 info_bytes;             /* length of the kernel's own struct tcp_info */
	u32 per_ack;                /* whether ACKs and round trips are told */
	u32 namespace_count;
	u32 namespaces[NETNS_MOST]; /* those that are watched, by inode */
};

/* wanted: what is known of a connection by its cookie. */
enum wanted { UNWANTED = 0, WANTED = 1 };

#endif
