// SPDX-License-Identifier: GPL-2.0 OR MIT
/* All features that a file in the style of the kernel's selftests can use: maps, globals, switching, several operations. */
#include "bpf_tracing_net.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define EBUSY 16
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
static bool before(__u32 seq1, __u32 seq2)
{
	return (__s32)(seq1 - seq2) < 0;
}

char _license[] SEC("license") = "GPL";

extern unsigned long CONFIG_HZ __kconfig;
extern __u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked) __ksym;
extern void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked) __ksym;
extern __u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;

/* Share of the window that is kept after a loss. */
const volatile __u32 keep = 512;
const volatile __u32 keep_scale = 1024;
/* Switch sockets without ECN to reno. */
const volatile bool give_up = false;
const volatile __s8 small = -3; // From -128.
volatile const char fallback[TCP_CA_NAME_MAX] = "reno";
static int calls;
int total_calls;

struct stored {
	__u64 acks;
	__u32 random;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stored);
} of_socket SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} by_window SEC(".maps");

SEC("struct_ops")
void BPF_PROG(maps_init, struct sock *sk)
{
	struct stored first = { .random = bpf_get_prandom_u32() };

	if (give_up) {
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, (void *)fallback, sizeof(fallback));
		return;
	}
	bpf_sk_storage_get(&of_socket, sk, &first, BPF_SK_STORAGE_GET_F_CREATE);
}

SEC("struct_ops")
void BPF_PROG(maps_cong_avoid, struct sock *sk, __u32 ack, __u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct stored *stored = bpf_sk_storage_get(&of_socket, sk, NULL, 0);
	__u32 *seen = inet_csk_ca(sk), index = 1, window = tp->snd_cwnd;
	__u64 *counter = bpf_map_lookup_elem(&counters, &index), one = 1;

	calls++;
	total_calls = calls;
	if (stored)
		stored->acks++;
	if (counter)
		*counter += acked;
	/* Two windows fit; a third one returns -E2BIG. */
	seen[0] = -bpf_map_update_elem(&by_window, &window, &one, BPF_ANY);
	seen[1] = stored ? stored->acks : 0;
	seen[2] = counter ? *counter : 0;
	seen[3] = calls;
	seen[4] = tcp_jiffies32;
	seen[5] = bpf_ktime_get_ns() / 1000;
	seen[6] = stored ? stored->random : 0;
	seen[7] = CONFIG_HZ;
	seen[8] = small;
	if (before(ack, 1))
		bpf_tcp_send_ack(tp, 77);
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
	bpf_printk("cwnd %u", tp->snd_cwnd);
}

SEC("struct_ops")
__u32 BPF_PROG(maps_ssthresh, struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd * keep / keep_scale, 2U);
}

SEC("struct_ops")
__u32 BPF_PROG(maps_undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(control, struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	tcp_sk(sk)->snd_cwnd = max(rs->acked_sacked, 4U);
	sk->sk_pacing_rate = 1000000;
}

SEC(".struct_ops")
struct tcp_congestion_ops maps_incomplete = {
	.init = (void *)maps_init,
	.name = "t_incomplete",
};

SEC(".struct_ops")
struct tcp_congestion_ops first = {
	.init = (void *)maps_init,
	.ssthresh = (void *)maps_ssthresh,
	.cong_avoid = (void *)maps_cong_avoid,
	.undo_cwnd = (void *)maps_undo_cwnd,
	.name = "t_first",
};

SEC(".struct_ops.link")
struct tcp_congestion_ops second = {
	.ssthresh = (void *)maps_ssthresh,
	.cong_control = (void *)control,
	.undo_cwnd = (void *)maps_undo_cwnd,
	.flags = TCP_CONG_NEEDS_ECN,
	.name = "t_second",
};
