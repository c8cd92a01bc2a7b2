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

/* What the kernel's values that grow with time are made of, in jiffies. */
struct clocks {
	u32 now;
	u32 data_sent, data_received, ack_received; /* when it was last */
	u32 chrono_type;                            /* 1 busy, 2 receive window, 3 send buffer; 0 none */
	u32 chrono_start, chrono_stat[3];
	u32 zero;
};

/* A look at one connection. What `clocks` tells is 0 in `info`. */
struct sample {
	u64 cookie;
	u64 time_ns;
	u32 memory[9]; /* SK_MEMINFO_* */
	u32 rqueue, wqueue, info_bytes;
	struct clocks clocks;
	struct tcp_info info;
};
_Static_assert(sizeof(struct sample) == 384, "without holes");

/* The end of all looks: connections that were not told of are as they were before, at this time. */
struct pass {
	u64 time_ns;
	u32 now; /* jiffies */
	u32 zero;
};
_Static_assert(sizeof(struct pass) == 16, "without holes");

/* A connection that moved is told of once more at the next look, because the change may have been half done, and each that
 * did not once a second. */
enum told { UNTOLD = 0, TOLD_MOVING = 1, TOLD = 2 };

/* What is kept in a socket that is marked. */
struct kept {
	u32 told, told_at; /* enum told; jiffies */
	u32 segs_in, segs_out, write_seq, copied_seq, snd_una, packets_out, lost_out, snd_cwnd, mss_cache, window_clamp;
	u32 chrono_start, pmtu;
	u64 max_pacing_rate;
	u32 rmem_alloc, backlog, rcvbuf, sndbuf, wmem_alloc, wmem_queued, forward_alloc, omem_alloc, drops;
	u32 states, ca_state, locked;
};

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
