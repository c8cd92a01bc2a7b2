/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The eBPF helpers of the native build, implemented in native/runtime.c and native/maps.c.
 *
 * A helper without a native implementation has the attribute `error`, so that the compiler reports the line that uses it.
 */
#ifndef __LONGFAT_NATIVE_HELPERS_H__
#define __LONGFAT_NATIVE_HELPERS_H__

#define __ksym
#define __kconfig

extern void *bpf_map_lookup_elem(void *map, const void *key);
extern long bpf_map_update_elem(void *map, const void *key, const void *value, __u64 flags);
extern long bpf_map_delete_elem(void *map, const void *key);
extern __u64 bpf_ktime_get_ns(void);
extern __u64 bpf_ktime_get_boot_ns(void);
extern __u64 bpf_ktime_get_coarse_ns(void);
extern __u64 bpf_ktime_get_tai_ns(void);
extern __u64 bpf_jiffies64(void);
extern __u32 bpf_get_prandom_u32(void);
extern __u32 bpf_get_smp_processor_id(void);
extern long bpf_setsockopt(void *ctx, int level, int optname, void *optval, int optlen);
extern long bpf_getsockopt(void *ctx, int level, int optname, void *optval, int optlen);
extern void *bpf_sk_storage_get(void *map, void *sk, void *value, __u64 flags);
extern long bpf_sk_storage_delete(void *map, void *sk);
extern long bpf_tcp_send_ack(void *tp, __u32 rcv_nxt);
extern long bpf_loop(__u32 nr_loops, void *callback, void *ctx, __u64 flags);

/* There is only one thread, so locks do nothing; printed text is discarded. */
#define bpf_spin_lock(lock) ((void)(lock))
#define bpf_spin_unlock(lock) ((void)(lock))
#define bpf_rcu_read_lock() ((void)0)
#define bpf_rcu_read_unlock() ((void)0)
#define bpf_printk(fmt, ...) ((void)sizeof(#__VA_ARGS__))
#define bpf_trace_printk(fmt, size, ...) (0L)

#define bpf_for(i, start, end) for (int ___end = ((i) = (start), (end)); (i) < ___end; (i)++)
#define bpf_repeat(n) for (int ___left = (n); ___left > 0; ___left--)
#define can_loop true

#define __lf_unsupported(name) __attribute__((error(name " is not supported natively")))
extern long bpf_ringbuf_output(void *ringbuf, void *data, __u64 size, __u64 flags)
	__lf_unsupported("bpf_ringbuf_output");
extern void *bpf_ringbuf_reserve(void *ringbuf, __u64 size, __u64 flags) __lf_unsupported("bpf_ringbuf_reserve");
extern void bpf_ringbuf_submit(void *data, __u64 flags) __lf_unsupported("bpf_ringbuf_submit");
extern void bpf_ringbuf_discard(void *data, __u64 flags) __lf_unsupported("bpf_ringbuf_discard");
extern long bpf_for_each_map_elem(void *map, void *callback, void *ctx, __u64 flags)
	__lf_unsupported("bpf_for_each_map_elem");
extern void *bpf_map_lookup_percpu_elem(void *map, const void *key, __u32 cpu)
	__lf_unsupported("bpf_map_lookup_percpu_elem");
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __lf_unsupported("bpf_rdonly_cast");

#endif
