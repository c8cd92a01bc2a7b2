/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What passes between the program and a native congestion control; src/native/runtime.rs mirrors it.
 *
 * Each copy of the shared object has one struct lf_runtime. Before every call into the copy the program points it to
 * the struct lf_call of the socket.
 */
#ifndef __LONGFAT_NATIVE_RUNTIME_H__
#define __LONGFAT_NATIVE_RUNTIME_H__

#include "vmlinux.h"

struct lf_stored;

/* One socket. */
struct lf_call {
	__u64 now_ns;
	__u64 random;		   /* state of the generator of bpf_get_prandom_u32 */
	struct lf_stored *storage; /* what the socket has in SK_STORAGE maps */
	char congestion[16];	   /* the name of its congestion control */
	__u32 changed;		   /* ... which this call has changed */
	__u32 changing;		   /* the call is the init of one that was changed to */
	__u32 ack_wanted;	   /* bpf_tcp_send_ack was called, with this: */
	__u32 ack_rcv_nxt;
};

struct lf_runtime {
	struct lf_call *call;
	/* Jiffies: the number and the start of the present one, its length. */
	__u64 jiffies;
	__u64 jiffy_start_ns;
	__u64 jiffy_ns;
	/* Names that a socket may be switched to, 16 bytes each. */
	const char *known;
	__u64 known_count;
};

extern struct lf_runtime longfat_runtime;

/* A congestion control of the program, which stands for the kernel's of that name in native/kernel_functions.c. */
struct lf_module {
	const struct tcp_congestion_ops *operations;
	struct lf_runtime *runtime;
};

/* Makes the storage of a map that the file defines; 0, or -1 without memory. */
int longfat_map_create(void *definition, __u32 type, __u32 key_size, __u32 value_size, __u32 max_entries);
void longfat_map_free(void *definition);
/* Frees what a socket has in SK_STORAGE maps. */
void longfat_storage_free(struct lf_call *call);

#endif
