/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Included by congestion controls as <bpf/bpf_tracing.h>: BPF_PROG, which declares a program with named arguments.
 *
 * The kernel calls an eBPF program with one pointer to an array of its arguments; natively a program is a plain
 * C function with these arguments.
 */
#ifndef __LONGFAT_BPF_TRACING_H__
#define __LONGFAT_BPF_TRACING_H__

#include "bpf/bpf_helpers.h"

#ifdef __bpf__

#define __lf_count(...) __lf_count_(0, ##__VA_ARGS__, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define __lf_count_(_0, _1, _2, _3, _4, _5, _6, _7, _8, count, ...) count
#define __lf_join(a, b) __lf_join_(a, b)
#define __lf_join_(a, b) a##b
#define __lf_args_0(f)
#define __lf_args_1(f) , (void *)ctx[0]
#define __lf_args_2(f) __lf_args_1(f), (void *)ctx[__lf_is_short_cong_control(f) ? __LONGFAT_RATE_SAMPLE_AT : 1]
#define __lf_args_3(f) , (void *)ctx[0], (void *)ctx[1], (void *)ctx[2]
#define __lf_args_4(f) __lf_args_3(f), (void *)ctx[3]
#define __lf_args_5(f) __lf_args_4(f), (void *)ctx[4]
#define __lf_args_6(f) __lf_args_5(f), (void *)ctx[5]
#define __lf_args_7(f) __lf_args_6(f), (void *)ctx[6]
#define __lf_args_8(f) __lf_args_7(f), (void *)ctx[7]

/*
 * Before Linux 6.10 the arguments of cong_control were (struct sock *sk, const struct rate_sample *rs), which no other
 * operation has; since 6.10 ack and flag are between the two. A program with the older form gets the sample from the
 * position at which this machine's kernel passes it.
 */
struct sock;
struct rate_sample;
#ifndef __LONGFAT_RATE_SAMPLE_AT
#define __LONGFAT_RATE_SAMPLE_AT 3
#endif
#define __lf_is_short_cong_control(f)                                                                                  \
	__builtin_types_compatible_p(__typeof__(f),                                                                    \
				     void(unsigned long long *, struct sock *, const struct rate_sample *))

#define BPF_PROG(name, args...)                                                                                        \
	name(unsigned long long *ctx);                                                                                 \
	static __always_inline __typeof__(name(0)) ____##name(unsigned long long *ctx, ##args);                        \
	__typeof__(name(0)) name(unsigned long long *ctx)                                                              \
	{                                                                                                              \
		_Pragma("GCC diagnostic push")                                                                         \
			_Pragma("GCC diagnostic ignored \"-Wint-conversion\"") return ____##name(                      \
				ctx __lf_join(__lf_args_, __lf_count(args))(____##name));                              \
		_Pragma("GCC diagnostic pop")                                                                          \
	}                                                                                                              \
	static __always_inline __typeof__(name(0)) ____##name(unsigned long long *ctx, ##args)

#else

#define BPF_PROG(name, args...) name(args)

#endif

#endif
