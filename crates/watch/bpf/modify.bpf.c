/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Reads and sets the maximum congestion window (snd_cwnd_clamp) of connections. No socket option of user space does that.
 *
 * Map `clamps` has one entry for each connection to process; src/modify/clamp.rs has the same layout. The kernel holds the
 * socket's lock while an iterator visits it.
 */
#include "kernel_types.h"
#include "bpf/bpf_helpers.h"

#define MAP_HASH 1
#define SOL_TCP 6
#define TCP_BPF_SNDCWND_CLAMP 1002

static u64 (*const bpf_get_socket_cookie)(void *ctx) = (void *)46;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;

char LICENSE[] SEC("license") = "Dual MIT/GPL";

struct clamp {
	u32 wanted;  /* segments; 0: only read */
	u32 current; /* segments, after the change; 0: the connection was not visited */
	s32 error;   /* of bpf_setsockopt(), 0 or -errno */
};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct clamp);
} clamps SEC(".maps");

SEC("iter/tcp")
int apply_clamps(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;

	if (!skc)
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	u64 cookie = bpf_get_socket_cookie(tp);
	struct clamp *clamp = bpf_map_lookup_elem(&clamps, &cookie);
	if (!clamp)
		return 0;
	if (clamp->wanted) {
		int wanted = clamp->wanted;
		clamp->error = bpf_setsockopt(skc, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, &wanted, sizeof(wanted));
	}
	clamp->current = tp->snd_cwnd_clamp;
	return 0;
}
