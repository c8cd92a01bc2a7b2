/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* Data shared by watch.bpf.c and user space. src/bpf/contract.rs has the same layouts. */
#ifndef __LONGFAT_WATCH_CONTRACT_H__
#define __LONGFAT_WATCH_CONTRACT_H__

enum event_kind {
	EVENT_STATE = 1,      /* value: old state << 8 | new state */
	EVENT_CA_STATE = 2,   /* value: new congestion state */
	EVENT_RETRANSMIT = 3, /* value: segments */
	EVENT_RTT = 4,	      /* value: sample, us */
	EVENT_ACK =
		5, /* a segment arrived; the other fields are the state before it is processed; value: 1 if it has no data and
				 acknowledges nothing new while data is outstanding */
};

struct event {
	u64 cookie;
	u64 time_ns; /* CLOCK_MONOTONIC */
	u64 value;
	u64 bytes_acked;
	u32 kind, netns;
	u32 snd_cwnd, snd_ssthresh, in_flight, srtt_us, snd_wnd, rcv_wnd, snd_mss, total_rto;
	u16 family, local_port, peer_port, ca_state; /* ports in host byte order */
	u8 local[16], peer[16];
};
_Static_assert(sizeof(struct event) == 112, "no padding");

/* The values from which user space computes the fields of tcp_info that advance with the clock alone; in jiffies. */
struct clocks {
	u32 now;
	u32 data_sent, data_received, ack_received; /* times of the latest */
	u32 chrono_type;			    /* 1 busy, 2 receive window, 3 send buffer; 0 none */
	u32 chrono_start, chrono_stat[3];
};

/* A sample of one connection. The fields that `clocks` determines are 0 in `info`. */
struct sample {
	u64 cookie;
	u64 time_ns;
	u32 memory[9]; /* SK_MEMINFO_* */
	u32 rqueue, wqueue, info_bytes;
	struct clocks clocks;
	u32 slot; /* 0 in a final sample */
	struct tcp_info info;
	u32 cwnd_clamp, window_clamp; /* segments, bytes */
};
_Static_assert(sizeof(struct sample) == 392, "no padding");

/* Result of one run of sample_slots, which walks MAX_SAMPLES slots: the connections that changed. All others are unchanged at
 * `time_ns`. */
#define MAX_SAMPLES 256
struct report {
	u64 time_ns;
	u32 now; /* jiffies */
	u32 count;
	struct sample samples[MAX_SAMPLES];
};
_Static_assert(sizeof(struct report) == 16 + MAX_SAMPLES * sizeof(struct sample), "no padding");

/* What was last reported about a slot. A changed connection is reported once more at the next sample, because the kernel may
 * have been in the middle of the change; an unchanged one is reported once a second. */
enum report_status { NEVER_REPORTED = 0, REPORTED_CHANGED = 1, REPORTED_UNCHANGED = 2 };

/* Address of a selected connection, and its state at the latest sample. */
#define MAX_SLOTS (1 << 18)
struct slot {
	u64 sk; /* struct sock *; 0: the slot is empty */
	u64 cookie;
	u64 fingerprint;
	u32 status, reported_at; /* enum report_status; jiffies */
};
_Static_assert(sizeof(struct slot) == 32, "no padding");

/* Consecutive cache lines of a socket; a struct tcp_sock has 36 cache lines in 6.18. */
#define MAX_LINES 64
#define LINE_BYTES 64
#define MAX_LINE_RANGES 16
struct line_range {
	u32 first, count;
};

/* Constants that user space sets before it loads the programs. */
#define MAX_NAMESPACES 64
struct settings {
	u32 info_bytes; /* size of the running kernel's struct tcp_info */
	u32 per_ack;	/* whether ACKs and round trips are reported */
	u32 namespace_count;
	u32 namespaces[MAX_NAMESPACES]; /* watched namespaces, by inode */
};

/* Values of the map filter_results, by socket cookie: this, or the slot number plus one. */
#define FILTERED_OUT 0

#endif
