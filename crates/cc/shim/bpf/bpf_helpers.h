/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Included by congestion controls as <bpf/bpf_helpers.h>: sections, map definitions, helper functions.
 *
 * For eBPF the helpers are the kernel's, by number (include/uapi/linux/bpf.h). For the native build they are
 * functions of native/runtime.c and native/maps.c; the compiler reports the line that uses any other helper.
 */
#ifndef __LONGFAT_BPF_HELPERS_H__
#define __LONGFAT_BPF_HELPERS_H__

#ifndef __LONGFAT_VMLINUX_H__
#include "vmlinux.h"
#endif

#define SEC(name) __attribute__((section(name), used))

#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#ifndef __noinline
#define __noinline __attribute__((noinline))
#endif
#ifndef __weak
#define __weak __attribute__((weak))
#endif
#ifndef __hidden
#define __hidden __attribute__((visibility("hidden")))
#endif
#ifndef __arg_ctx
#define __arg_ctx
#endif
#ifndef NULL
#define NULL ((void *)0)
#endif
#ifndef offsetof
#define offsetof(type, member) ((unsigned long)&((type *)0)->member)
#endif
#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#endif
#ifndef barrier
#define barrier() __asm__ __volatile__("" ::: "memory")
#endif
#ifndef barrier_var
#define barrier_var(var) __asm__ __volatile__("" : "+r"(var))
#endif
#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif
#ifndef READ_ONCE
#define READ_ONCE(x) (*(const volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, value) ((*(volatile __typeof__(x) *)&(x)) = (value))
#endif

/* The types of the members of a variable in section .maps describe a map. */
#define __uint(name, val) int(*name)[val]
#define __type(name, val) __typeof__(val) *name
#define __array(name, val) __typeof__(val) *name[]

#ifdef __bpf__

#define __ksym __attribute__((section(".ksyms")))
#define __kconfig __attribute__((section(".kconfig")))

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value, __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_trace_printk)(const char *fmt, __u32 fmt_size, ...) = (void *)6;
static __u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_setsockopt)(void *ctx, int level, int optname, void *optval, int optlen) = (void *)49;
static long (*const bpf_getsockopt)(void *ctx, int level, int optname, void *optval, int optlen) = (void *)57;
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, __u64 flags) = (void *)107;
static void (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static void (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*const bpf_sk_storage_delete)(void *map, void *sk) = (void *)108;
static long (*const bpf_tcp_send_ack)(void *tp, __u32 rcv_nxt) = (void *)116;
static __u64 (*const bpf_jiffies64)(void) = (void *)118;
static __u64 (*const bpf_ktime_get_boot_ns)(void) = (void *)125;
static long (*const bpf_ringbuf_output)(void *ringbuf, void *data, __u64 size, __u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ringbuf, __u64 size, __u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, __u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *data, __u64 flags) = (void *)133;
static __u64 (*const bpf_ktime_get_coarse_ns)(void) = (void *)160;
static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *ctx, __u64 flags) = (void *)164;
static long (*const bpf_loop)(__u32 nr_loops, void *callback, void *ctx, __u64 flags) = (void *)181;
static void *(*const bpf_map_lookup_percpu_elem)(void *map, const void *key, __u32 cpu) = (void *)195;
static __u64 (*const bpf_ktime_get_tai_ns)(void) = (void *)208;

#define bpf_printk(fmt, ...)                                                                                           \
	({                                                                                                             \
		static const char ____fmt[] = fmt;                                                                     \
		bpf_trace_printk(____fmt, sizeof(____fmt), ##__VA_ARGS__);                                             \
	})

struct bpf_iter_num {
	__u64 __opaque[1];
} __attribute__((aligned(8)));
extern int bpf_iter_num_new(struct bpf_iter_num *it, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *it) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *it) __weak __ksym;

extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __weak __ksym;

/* for (i = start; i < end; i++), bounded for the verifier by the kernel's iterator of numbers. */
#define bpf_for(i, start, end)                                                                                         \
	for (struct bpf_iter_num ___it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))),                     \
	     *___p __attribute__((unused)) =                                                                           \
		     (bpf_iter_num_new(&___it, (start), (end)), (void)bpf_iter_num_destroy, (void *)0);                \
	     ({                                                                                                        \
		     int *___n = bpf_iter_num_next(&___it);                                                            \
		     int ___go = !!___n;                                                                               \
		     if (___go)                                                                                        \
			     (i) = *___n;                                                                              \
		     ___go && (i) >= (start) && (i) < (end);                                                           \
	     });)
#define bpf_repeat(n)                                                                                                  \
	for (struct bpf_iter_num ___it __attribute__((aligned(8), cleanup(bpf_iter_num_destroy))),                     \
	     *___p                                                                                                     \
	     __attribute__((unused)) = (bpf_iter_num_new(&___it, 0, (n)), (void)bpf_iter_num_destroy, (void *)0);      \
	     bpf_iter_num_next(&___it);)

#else
#include "native/helpers.h"
#endif

#endif
