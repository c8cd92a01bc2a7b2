/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The older name of bpf_tracing_net.h, with the older macros for the start of a program. */
#ifndef __LONGFAT_BPF_TCP_HELPERS_H__
#define __LONGFAT_BPF_TCP_HELPERS_H__

#include "bpf/bpf_tracing.h"
#include "longfat_tcp.h"

extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;

static __always_inline bool tcp_cc_eq(const char *a, const char *b)
{
	int i;

	for (i = 0; i < TCP_CA_NAME_MAX; i++) {
		if (a[i] != b[i])
			return false;
		if (!a[i])
			break;
	}
	return true;
}

#define BPF_STRUCT_OPS(name, args...) SEC("struct_ops/" #name) BPF_PROG(name, ##args)
#define BPF_TCP_OPS_0(name, ret) SEC("struct_ops/" #name) ret BPF_PROG(name)
#define BPF_TCP_OPS_1(name, ret, t0, a0) SEC("struct_ops/" #name) ret BPF_PROG(name, t0 a0)
#define BPF_TCP_OPS_2(name, ret, t0, a0, t1, a1) SEC("struct_ops/" #name) ret BPF_PROG(name, t0 a0, t1 a1)
#define BPF_TCP_OPS_3(name, ret, t0, a0, t1, a1, t2, a2)                                                               \
	SEC("struct_ops/" #name) ret BPF_PROG(name, t0 a0, t1 a1, t2 a2)

#endif
