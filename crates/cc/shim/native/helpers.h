/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The eBPF helpers of the native build, given by native/runtime.c.
 */
#ifndef __LONGFAT_NATIVE_HELPERS_H__
#define __LONGFAT_NATIVE_HELPERS_H__

#define __ksym
#define __kconfig

extern __u64 bpf_ktime_get_ns(void);
extern __u64 bpf_jiffies64(void);

#define bpf_printk(fmt, ...) ((void)(0, ##__VA_ARGS__))

#endif
