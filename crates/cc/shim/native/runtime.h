/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The interface between the program and a native congestion control; src/native/runtime.rs mirrors it.
 *
 * Each copy of the shared object has one struct lf_runtime. Before every call into the copy the program sets its pointer to
 * the struct lf_call of the socket.
 */
#ifndef __LONGFAT_NATIVE_RUNTIME_H__
#define __LONGFAT_NATIVE_RUNTIME_H__

#include "vmlinux.h"

struct lf_stored;

/* The context of calls for one socket. */
struct lf_call {
	__u64 now_ns;
	__u64 random;		   /* state of bpf_get_prandom_u32's generator */
	struct lf_stored *storage; /* the socket's values in SK_STORAGE maps */
	char congestion[16];	   /* the name of its congestion control */
	__u32 changed;		   /* whether this call has changed the name */
	__u32 changing;		   /* whether the call is the init after a change */
	__u32 ack_wanted;	   /* whether bpf_tcp_send_ack was called, and its argument */
	__u32 ack_rcv_nxt;
};

struct lf_runtime {
	struct lf_call *call;
	/* Number, start and length of the current jiffy. */
	__u64 jiffies;
	__u64 jiffy_start_ns;
	__u64 jiffy_ns;
	/* Names of congestion controls that a socket can be switched to, 16 bytes each. */
	const char *known;
	__u64 known_count;
};

extern struct lf_runtime longfat_runtime;

/* A built-in congestion control, which native/kernel_functions.c uses for the kernel module of that name. */
struct lf_module {
	const struct tcp_congestion_ops *operations;
	struct lf_runtime *runtime;
};

/* Allocates the storage of a map that the file defines. Returns 0, or -1 without memory. */
int longfat_map_create(void *definition, __u32 type, __u32 key_size, __u32 value_size, __u32 max_entries);
void longfat_map_free(void *definition);
/* Frees a socket's values in SK_STORAGE maps. */
void longfat_storage_free(struct lf_call *call);

#endif
