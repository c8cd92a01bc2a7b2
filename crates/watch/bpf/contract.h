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
};

/* A look at one connection. What `clocks` tells is 0 in `info`. */
struct sample {
	u64 cookie;
	u64 time_ns;
	u32 memory[9]; /* SK_MEMINFO_* */
	u32 rqueue, wqueue, info_bytes;
	struct clocks clocks;
	u32 slot; /* 0 in a last look */
	struct tcp_info info;
};
_Static_assert(sizeof(struct sample) == 384, "without holes");

/* What a run of look tells: the connections of so many slots that moved. The others are as they were before, at this time. */
#define SAMPLES_MOST 256
struct report {
	u64 time_ns;
	u32 now; /* jiffies */
	u32 count;
	struct sample samples[SAMPLES_MOST];
};
_Static_assert(sizeof(struct report) == 16 + SAMPLES_MOST * sizeof(struct sample), "without holes");

/* A connection that moved is told of once more at the next look, because the change may have been half done, and each that
 * did not once a second. */
enum told { UNTOLD = 0, TOLD_MOVING = 1, TOLD = 2 };

/* Where a wanted connection is, and how it was at the latest look. */
#define SLOTS_MOST (1 << 18)
struct slot {
	u64 sk; /* 0: there is none */
	u64 cookie;
	u64 fingerprint;
	u32 told, told_at; /* enum told; jiffies */
};
_Static_assert(sizeof(struct slot) == 32, "without holes");

/* Cache lines of a socket, one after another; a struct tcp_sock has 36 of them in 6.18. */
#define LINES 64
#define LINE_BYTES 64
#define RUNS_MOST 16
struct run {
	u32 line, lines;
};

/* What the program sets before it loads this. */
#define NETNS_MOST 64
struct settings {
	u32 info_bytes;             /* length of the kernel's own struct tcp_info */
	u32 per_ack;                /* whether ACKs and round trips are told */
	u32 namespace_count;
	u32 namespaces[NETNS_MOST]; /* those that are watched, by inode */
};

/* wanted: what is known of a connection by its cookie: this, or its slot and one. */
#define UNWANTED 0

#endif
