/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Samples connections, and reports their events.
 *
 *   assign_slots     walks one namespace's connections and stores the address of each selected one in its slot. If round trips
 *                    are traced, it also sets the socket flag that makes the kernel call round_trip.
 *   sample_pattern   samples a socket with artificial contents; user space derives from it which cache lines a sample reads.
 *   sample_slots     walks some slots, and writes struct sample of the connections that changed to struct report. Its cost
 *                    depends on the number of slots only; the kernel's hash table of all connections has hundreds of thousands
 *                    of buckets on a large machine.
 *   all others       write struct event to a ring buffer; at the end of a connection also its last struct sample.
 *
 * fill_tcp_info() is the kernel's tcp_get_info() (net/ipv4/tcp.c, 6.18) without the socket's lock, so that members may be some
 * nanoseconds apart. User space computes the fields that advance with the clock alone (struct clocks). So a connection without
 * activity need not be reported again.
 *
 * A slot is emptied when its connection closes. If that event was missed, the memory may belong to another socket, or be
 * unmapped: failed reads yield no sample, and a reused socket has another cookie, because the kernel never reuses cookies.
 */
#include "kernel_types.h"
#include "bpf/bpf_helpers.h"
#include "bpf/bpf_tracing.h"
#include "bpf/bpf_core_read.h"
#include "contract.h"

#define MAP_HASH 1
#define MAP_ARRAY 2
#define MAP_RINGBUF 27
#define F_NO_PREALLOC 1
#define F_MMAPABLE 1024

#define AF_INET6 10
#define TCP_CLOSE 7
#define SOL_TCP 6
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008
#define OPS_ACTIVE_ESTABLISHED 4
#define OPS_PASSIVE_ESTABLISHED 5
#define OPS_RTT 12
#define FLAG_RTT 8

/* BTF ID of struct tcp_sock in the running kernel (BPF_TYPE_ID_TARGET). */
#define TCP_SOCK_TYPE __builtin_btf_type_id(*(struct tcp_sock *)0, 1)

static u64 (*const bpf_get_socket_cookie)(void *ctx) = (void *)46;
static long (*const bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *ops, int flags) = (void *)59;
static long (*const bpf_probe_read_kernel)(void *into, u32 bytes, const void *from) = (void *)113;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;

extern unsigned long CONFIG_HZ __kconfig __weak;
extern void *bpf_rdonly_cast(const void *of, u32 type) __ksym __weak; /* Linux 6.2 */

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct settings settings = {};
/* Events lost because the ring buffer was full. */
u64 lost_events = 0;
/* Copy of the socket being sampled: too large for the stack, and there is only one reader. Its size is doubled for the verifier,
 * which assumes that a range of MAX_LINES lines may begin at any line. */
static u8 copy[2 * MAX_LINES * LINE_BYTES] SEC(".bss.copy");
/* The cache lines of a socket that sample_slots copies. */
struct line_range line_ranges[MAX_LINE_RANGES] SEC(".bss.ranges") = {};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} filter_results SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, MAX_SLOTS);
	__type(key, u32);
	__type(value, struct slot);
} slots SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, F_MMAPABLE);
	__type(key, u32);
	__type(value, struct report);
} reports SEC(".maps");

struct {
	__uint(type, MAP_RINGBUF);
	__uint(max_entries, 16 << 20);
} events SEC(".maps");

static __always_inline u32 usecs(u64 jiffies)
{
	return CONFIG_HZ ? jiffies * 1000000 / CONFIG_HZ : 0;
}

/* Writes the same members on every call; all others are 0 already. */
static __always_inline void fill_tcp_info(struct tcp_sock *tp, struct tcp_info *info)
{
	struct sock *sk = (struct sock *)tp;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;

	info->state = sk->__sk_common.skc_state;
	info->ca_state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	info->retransmits = icsk->icsk_retransmits;
	info->probes = icsk->icsk_probes_out;
	info->backoff = icsk->icsk_backoff;
	info->options = !!BPF_CORE_READ_BITFIELD(tp, rx_opt.tstamp_ok) |
			!!BPF_CORE_READ_BITFIELD(tp, rx_opt.sack_ok) << 1 |
			!!BPF_CORE_READ_BITFIELD(tp, rx_opt.wscale_ok) << 2 | !!(tp->ecn_flags & 0x11) << 3 |
			!!(tp->ecn_flags & 8) << 4 | !!BPF_CORE_READ_BITFIELD(tp, syn_data_acked) << 5;
	if (bpf_core_field_exists(tp->tcp_usec_ts))
		info->options |= !!BPF_CORE_READ_BITFIELD(tp, tcp_usec_ts) << 6;
	bool has_scales = BPF_CORE_READ_BITFIELD(tp, rx_opt.wscale_ok);
	info->wscales = has_scales ? BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale) |
					     BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale) << 4
				   : 0;
	info->flags = BPF_CORE_READ_BITFIELD(tp, rate_app_limited);
	if (bpf_core_field_exists(tp->fastopen_client_fail))
		info->flags |= BPF_CORE_READ_BITFIELD(tp, fastopen_client_fail) << 1;
	info->rto = usecs(icsk->icsk_rto);
	info->ato = usecs(BPF_CORE_READ_BITFIELD(icsk, icsk_ack.ato));
	info->snd_mss = tp->mss_cache;
	info->rcv_mss = icsk->icsk_ack.rcv_mss;
	info->unacked = tp->packets_out;
	info->sacked = tp->sacked_out;
	info->lost = tp->lost_out;
	info->retrans = tp->retrans_out;
	info->pmtu = icsk->icsk_pmtu_cookie;
	info->rcv_ssthresh = tp->rcv_ssthresh;
	info->rtt = tp->srtt_us >> 3;
	info->rttvar = tp->mdev_us >> 2;
	info->snd_ssthresh = tp->snd_ssthresh;
	info->snd_cwnd = tp->snd_cwnd;
	info->advmss = tp->advmss;
	info->reordering = tp->reordering;
	info->rcv_rtt = tp->rcv_rtt_est.rtt_us >> 3;
	info->rcv_space = tp->rcvq_space.space;
	info->total_retrans = tp->total_retrans;
	info->pacing_rate = sk->sk_pacing_rate;
	info->max_pacing_rate = sk->sk_max_pacing_rate;
	info->bytes_acked = tp->bytes_acked;
	info->bytes_received = tp->bytes_received;
	info->segs_out = tp->segs_out;
	info->segs_in = tp->segs_in;
	s32 notsent = tp->write_seq - tp->snd_nxt;
	info->notsent_bytes = notsent > 0 ? notsent : 0;
	info->min_rtt = tp->rtt_min.s[0].v;
	info->data_segs_in = tp->data_segs_in;
	info->data_segs_out = tp->data_segs_out;
	u64 delivered = tp->rate_delivered, interval = tp->rate_interval_us;
	info->delivery_rate = interval ? delivered * tp->mss_cache * 1000000 / interval : 0;
	info->delivered = tp->delivered;
	info->delivered_ce = tp->delivered_ce;
	info->bytes_sent = tp->bytes_sent;
	info->bytes_retrans = tp->bytes_retrans;
	info->dsack_dups = tp->dsack_dups;
	info->reord_seen = tp->reord_seen;
	info->rcv_ooopack = tp->rcv_ooopack;
	info->snd_wnd = tp->snd_wnd;
	info->rcv_wnd = tp->rcv_wnd;
	if (bpf_core_field_exists(tp->plb_rehash))
		info->rehash = tp->plb_rehash + tp->timeout_rehash;
	if (bpf_core_field_exists(tp->total_rto)) {
		info->total_rto = tp->total_rto;
		info->total_rto_recoveries = tp->total_rto_recoveries;
		info->total_rto_time = tp->total_rto_time;
	}
	if (bpf_core_field_exists(tp->received_ce)) {
		info->received_ce = tp->received_ce;
		/* ECT(1), ECT(0), CE (include/net/inet_ecn.h). */
		info->delivered_e1 = tp->delivered_ecn_bytes[0];
		info->delivered_e0 = tp->delivered_ecn_bytes[1];
		info->delivered_ce_bytes = tp->delivered_ecn_bytes[2];
		info->received_e1 = tp->received_ecn_bytes[0];
		info->received_e0 = tp->received_ecn_bytes[1];
		info->received_ce_bytes = tp->received_ecn_bytes[2];
		info->accecn_fail_mode = BPF_CORE_READ_BITFIELD(tp, accecn_fail_mode);
		info->accecn_opt_seen = BPF_CORE_READ_BITFIELD(tp, saw_accecn_opt);
	}
}

static __always_inline void fill_sample(struct tcp_sock *tp, struct sample *sample)
{
	struct sock *sk = (struct sock *)tp;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;

	sample->cookie = sk->__sk_common.skc_cookie.counter;
	sample->memory[0] = sk->sk_backlog.rmem_alloc.counter;
	sample->memory[1] = sk->sk_rcvbuf;
	sample->memory[2] = sk->sk_wmem_alloc.refs.counter - 1; /* the socket itself holds one reference */
	sample->memory[3] = sk->sk_sndbuf;
	sample->memory[4] = sk->sk_forward_alloc;
	sample->memory[5] = sk->sk_wmem_queued;
	sample->memory[6] = sk->sk_omem_alloc.counter;
	sample->memory[7] = sk->sk_backlog.len;
	sample->memory[8] = sk->sk_drops.counter;
	sample->rqueue = tp->rcv_nxt - tp->copied_seq;
	sample->wqueue = tp->write_seq - tp->snd_una;
	sample->info_bytes = settings.info_bytes;
	sample->clocks.now = bpf_jiffies64();
	sample->clocks.data_sent = tp->lsndtime;
	sample->clocks.data_received = icsk->icsk_ack.lrcvtime;
	sample->clocks.ack_received = tp->rcv_tstamp;
	sample->clocks.chrono_type = BPF_CORE_READ_BITFIELD(tp, chrono_type);
	sample->clocks.chrono_start = tp->chrono_start;
	sample->clocks.chrono_stat[0] = tp->chrono_stat[0];
	sample->clocks.chrono_stat[1] = tp->chrono_stat[1];
	sample->clocks.chrono_stat[2] = tp->chrono_stat[2];
	fill_tcp_info(tp, &sample->info);
	sample->cwnd_clamp = tp->snd_cwnd_clamp;
	sample->window_clamp = tp->window_clamp;
}

/* Run by user space (BPF_PROG_TEST_RUN) with three words: background, line, pattern. Writes the sample of a socket whose memory is
 * filled with the background, except that the given cache line is filled with the pattern. */
SEC("raw_tp")
int sample_pattern(u64 *ctx)
{
	u32 zero = 0, line = ctx[1] & (MAX_LINES - 1);
	struct report *report = bpf_map_lookup_elem(&reports, &zero);
	if (!report)
		return 0;
	/* volatile: clang would otherwise emit a call of memset(), which eBPF does not have. */
	volatile u64 *socket = (u64 *)copy, *changed = (u64 *)(copy + line * LINE_BYTES);
	for (u32 i = 0; i < MAX_LINES * LINE_BYTES / sizeof(u64); i++)
		socket[i] = ctx[0];
	for (u32 i = 0; i < LINE_BYTES / sizeof(u64); i++)
		changed[i] = ctx[2];
	fill_sample((struct tcp_sock *)copy, &report->samples[0]);
	report->samples[0].clocks.now = 0;
	report->count = 1;
	return 0;
}

/* Copies the cache lines that a sample reads; returns false if memory could not be read. */
static __always_inline bool copy_socket(void *socket)
{
	for (u32 i = 0; i < MAX_LINE_RANGES; i++) {
		u32 offset = (line_ranges[i].first & (MAX_LINES - 1)) * LINE_BYTES, lines = line_ranges[i].count;
		if (!lines || lines > MAX_LINES)
			break;
		if (bpf_probe_read_kernel(copy + offset, lines * LINE_BYTES, socket + offset))
			return false;
	}
	return true;
}

/* The members that indicate whether a connection changed since the latest sample.
 *
 * They are a small part of the members that a sample reads, and lie in half of its cache lines. No other member changes without
 * one of them: each packet increases segs_in or segs_out; writes of the application advance write_seq, reads copied_seq; losses
 * detected by a timer change lost_out; a timeout that could not send changes icsk_retransmits or icsk_backoff; socket options
 * set sk_rcvbuf, sk_sndbuf, sk_max_pacing_rate, window_clamp; an ICMP message changes icsk_pmtu_cookie or mss_cache. While the
 * socket is locked, a change may be in progress.
 */
#define CHANGE_INDICATORS(each)                                                                                        \
	each(tp->segs_in) each(tp->segs_out) each(tp->write_seq) each(tp->copied_seq) each(tp->snd_una)                \
		each(tp->packets_out) each(tp->lost_out) each(tp->snd_cwnd) each(tp->mss_cache) each(tp->window_clamp) \
			each(tp->chrono_start) each(icsk->icsk_pmtu_cookie) each(sk->sk_max_pacing_rate) each(         \
				sk->sk_backlog.rmem_alloc.counter) each(sk->sk_backlog.len) each(sk->sk_rcvbuf)        \
				each(sk->sk_sndbuf) each(sk->sk_wmem_alloc.refs.counter) each(sk->sk_wmem_queued)      \
					each(sk->sk_forward_alloc) each(sk->sk_omem_alloc.counter)                     \
						each(sk->sk_drops.counter)                                             \
							each(sk->__sk_common.skc_state |                               \
							     icsk->icsk_retransmits << 16 | icsk->icsk_backoff << 24)  \
								each(BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) |     \
								     icsk->icsk_probes_out << 8 |                      \
								     BPF_CORE_READ_BITFIELD(tp, chrono_type) << 16)

/* The sum of the change indicators, each multiplied by a different odd number: a change of one of them always changes the sum,
 * and changes of several leave it unchanged with probability 2^-64. */
static __always_inline u64 fingerprint(struct tcp_sock *tp)
{
	struct sock *sk = (struct sock *)tp;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	u64 sum = 0, factor = 0x9e3779b97f4a7c15;

#define ADD(value)                                                                                                     \
	sum += (u64)(value)*factor;                                                                                    \
	factor = factor * 0xd1342543de82ef95 + 2;
	CHANGE_INDICATORS(ADD)
#undef ADD
	return sum;
}

/* Samples the connection in slot `index`, and writes the sample if the connection changed or a report is due; returns the number
 * of samples written. A global function, because the kernel then verifies it once and not at each call. */
__noinline int sample_slot(u32 index, u32 count, u64 time_ns)
{
	u32 zero = 0, now = bpf_jiffies64();
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	struct report *report = bpf_map_lookup_elem(&reports, &zero);
	if (!slot || !report || !slot->sk)
		return 0;
	void *socket = (void *)slot->sk;

	/* A connection that was unchanged is checked in place, which touches half of its cache lines. Each member read in place
	 * costs eight instructions (the kernel checks each address), so the lines of a changed connection are copied first. */
	bool is_due = slot->status != REPORTED_UNCHANGED || now - slot->reported_at >= CONFIG_HZ;
	if (bpf_rdonly_cast && !is_due) {
		struct tcp_sock *tp = bpf_rdonly_cast(socket, TCP_SOCK_TYPE);
		if (fingerprint(tp) == slot->fingerprint && !((struct sock *)tp)->sk_lock.owned)
			return 0;
	}
	struct tcp_sock *tp = (struct tcp_sock *)copy;
	struct sock *sk = (struct sock *)copy;
	if (!copy_socket(socket))
		return 0;
	/* The cookie is read after the copy: if it still matches, the copied memory belonged to this connection. */
	s64 *cookie = &sk->__sk_common.skc_cookie.counter;
	if (bpf_probe_read_kernel(cookie, sizeof(*cookie), socket + ((u8 *)cookie - copy)) || *cookie != slot->cookie)
		return 0;
	u64 current = fingerprint(tp);
	bool is_changed = slot->status == NEVER_REPORTED || current != slot->fingerprint || sk->sk_lock.owned;
	if (!is_changed && !is_due)
		return 0;
	slot->fingerprint = current;
	slot->status = is_changed ? REPORTED_CHANGED : REPORTED_UNCHANGED;
	slot->reported_at = now;
	struct sample *sample = &report->samples[count & (MAX_SAMPLES - 1)];
	fill_sample(tp, sample);
	sample->time_ns = time_ns;
	sample->slot = index;
	return 1;
}

/* Run by user space (BPF_PROG_TEST_RUN) with the index of the first slot. */
SEC("raw_tp")
int sample_slots(u64 *ctx)
{
	u32 zero = 0, count = 0, first = ctx[0];
	u64 time_ns = 0;
	struct report *report = bpf_map_lookup_elem(&reports, &zero);
	if (!report)
		return 0;
	for (u32 i = 0; i < MAX_SAMPLES; i++) {
		/* Reading the time stalls the processor until pending loads complete, so it is not read for each connection. */
		if (i % 16 == 0)
			time_ns = bpf_ktime_get_ns();
		count += sample_slot(first + i, count, time_ns);
	}
	report->time_ns = bpf_ktime_get_ns();
	report->now = bpf_jiffies64();
	report->count = count;
	return 0;
}

SEC("iter/tcp")
int assign_slots(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;

	if (!skc)
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	u64 cookie = bpf_get_socket_cookie(tp);
	u32 *result = bpf_map_lookup_elem(&filter_results, &cookie);
	if (!result || *result == FILTERED_OUT)
		return 0;
	u32 index = *result - 1;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (slot && slot->sk != (u64)tp) {
		slot->sk = 0;
		slot->cookie = cookie;
		slot->status = NEVER_REPORTED;
		slot->sk = (u64)tp;
	}
	if (settings.per_ack && !(tp->bpf_sock_ops_cb_flags & FLAG_RTT)) {
		int flags = tp->bpf_sock_ops_cb_flags | FLAG_RTT;
		bpf_setsockopt(skc, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags));
	}
	return 0;
}

static __always_inline bool is_watched(u32 netns)
{
	for (u32 i = 0; i < MAX_NAMESPACES && i < settings.namespace_count; i++)
		if (settings.namespaces[i] == netns)
			return true;
	return false;
}

/* Whether to report a connection: user space selected it, or has not decided yet. */
static __always_inline bool passes_filter(u64 cookie)
{
	u32 *result = bpf_map_lookup_elem(&filter_results, &cookie);
	return !result || *result != FILTERED_OUT;
}

static __always_inline void report_event(struct sock *sk, u32 kind, u64 value)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	u32 netns = sk->__sk_common.skc_net.net->ns.inum;
	if (!is_watched(netns))
		return;
	u64 cookie = bpf_get_socket_cookie(sk);
	if (!passes_filter(cookie))
		return;
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&lost_events, 1);
		return;
	}
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	event->cookie = cookie;
	event->time_ns = bpf_ktime_get_ns();
	event->value = value;
	event->bytes_acked = tp->bytes_acked;
	event->kind = kind;
	event->netns = netns;
	event->snd_cwnd = tp->snd_cwnd;
	event->snd_ssthresh = tp->snd_ssthresh;
	/* Negative values are possible while the kernel is marking losses. */
	s32 in_flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
	event->in_flight = in_flight > 0 ? in_flight : 0;
	event->srtt_us = tp->srtt_us >> 3;
	event->snd_wnd = tp->snd_wnd;
	event->rcv_wnd = tp->rcv_wnd;
	event->snd_mss = tp->mss_cache;
	event->total_rto = bpf_core_field_exists(tp->total_rto) ? tp->total_rto : 0;
	event->family = sk->__sk_common.skc_family;
	event->local_port = sk->__sk_common.skc_num;
	event->peer_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	event->ca_state = BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state);
	__builtin_memset(event->local, 0, sizeof(event->local));
	__builtin_memset(event->peer, 0, sizeof(event->peer));
	if (event->family == AF_INET6) {
		*(struct in6_addr *)event->local = sk->__sk_common.skc_v6_rcv_saddr;
		*(struct in6_addr *)event->peer = sk->__sk_common.skc_v6_daddr;
	} else {
		*(u32 *)event->local = sk->__sk_common.skc_rcv_saddr;
		*(u32 *)event->peer = sk->__sk_common.skc_daddr;
	}
	bpf_ringbuf_submit(event, 0);
}

/* Writes the final sample of a selected connection to the ring buffer, and empties its slot. User space distinguishes samples from
 * events by their length. */
static __always_inline void report_final_sample(struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u64 cookie = bpf_get_socket_cookie(sk);
	u32 *result = bpf_map_lookup_elem(&filter_results, &cookie);

	if (!tp || !result || *result == FILTERED_OUT)
		return;
	u32 index = *result - 1;
	struct slot *slot = bpf_map_lookup_elem(&slots, &index);
	if (slot && slot->cookie == cookie)
		slot->sk = 0;
	struct sample *sample = bpf_ringbuf_reserve(&events, sizeof(*sample), 0);
	if (!sample) {
		__sync_fetch_and_add(&lost_events, 1);
		return;
	}
	__builtin_memset(sample, 0, sizeof(*sample));
	fill_sample(tp, sample);
	sample->time_ns = bpf_ktime_get_ns();
	bpf_ringbuf_submit(sample, 0);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state, struct sock *sk, int old, int new)
{
	if (new == TCP_CLOSE)
		report_final_sample(sk);
	report_event(sk, EVENT_STATE, (u64)(old & 0xff) << 8 | (new & 0xff));
	return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(congestion_state, struct sock *sk, u8 new)
{
	report_event(sk, EVENT_CA_STATE, new);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)skb->cb;
	report_event(sk, EVENT_RETRANSMIT, cb->tcp_gso_segs);
	return 0;
}

/* Fires for each segment received on an established connection, before the kernel processes it. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(segment, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)skb->cb;
	if (settings.per_ack && tp)
		report_event(sk, EVENT_ACK, cb->seq == cb->end_seq && cb->ack_seq == tp->snd_una && tp->packets_out);
	return 0;
}

SEC("sockops")
int round_trip(struct bpf_sock_ops *ops)
{
	if (ops->op == OPS_ACTIVE_ESTABLISHED || ops->op == OPS_PASSIVE_ESTABLISHED) {
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | FLAG_RTT);
		return 1;
	}
	if (ops->op != OPS_RTT)
		return 1;
	u64 cookie = bpf_get_socket_cookie(ops);
	u32 *result = bpf_map_lookup_elem(&filter_results, &cookie);
	if (!result || *result == FILTERED_OUT)
		return 1;
	struct event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		__sync_fetch_and_add(&lost_events, 1);
		return 1;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->cookie = cookie;
	event->time_ns = bpf_ktime_get_ns();
	event->kind = EVENT_RTT;
	event->value = ops->args[0];
	event->srtt_us = ops->args[1] >> 3;
	event->snd_cwnd = ops->snd_cwnd;
	bpf_ringbuf_submit(event, 0);
	return 1;
}
