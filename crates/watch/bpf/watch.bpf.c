/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Looks at connections, and tells what happens to them.
 *
 *   choose   walks one namespace's connections and puts those that are wanted into their slots, and, where round trips are
 *            traced, sets the flag that has the kernel call round_trip.
 *   survey   has the program find out which cache lines of a socket a look reads.
 *   look     walks some slots, and writes struct sample of the connections that moved into struct report. It costs as much as
 *            there is wanted; the kernel's table of all connections has hundreds of thousands of places on a large machine.
 *   others   write struct event into a ring.
 *
 * fill() is the kernel's tcp_get_info() (net/ipv4/tcp.c, 6.18) without taking the socket's lock, so that members may be some
 * nanoseconds apart. What grows with the clock alone is left to the program (struct clocks), so that a connection on which
 * nothing happens need not be told of again.
 *
 * A slot is emptied when its connection closes. Should that have been missed, the memory may be another socket's, or none:
 * reads that fail give nothing, and cookies are never used twice.
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

/* The number that the running kernel's type has (BPF_TYPE_ID_TARGET). */
#define TCP_SOCK_TYPE __builtin_btf_type_id(*(struct tcp_sock *)0, 1)

static u64 (*const bpf_get_socket_cookie)(void *ctx) = (void *)46;
static long (*const bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *ops, int flags) = (void *)59;
static long (*const bpf_probe_read_kernel)(void *into, u32 bytes, const void *from) = (void *)113;
static struct tcp_sock *(*const bpf_skc_to_tcp_sock)(void *sk) = (void *)137;

extern unsigned long CONFIG_HZ __kconfig __weak;
extern void *bpf_rdonly_cast(const void *of, u32 type) __ksym __weak; /* Linux 6.2 */

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct settings settings = {};
/* Events that found no room. */
u64 lost_events = 0;
/* The socket that look looks at: too much for the stack, and there is one reader. A run of lines may begin in each. */
static u8 copy[2 * LINES * LINE_BYTES] SEC(".bss.copy");
/* What look copies of a socket. */
struct run runs[RUNS_MOST] SEC(".bss.runs") = {};

struct {
	__uint(type, MAP_HASH);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, F_NO_PREALLOC);
	__type(key, u64);
	__type(value, u32);
} wanted SEC(".maps");

struct {
	__uint(type, MAP_ARRAY);
	__uint(max_entries, SLOTS_MOST);
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

/* Writes the same members each time; the others are 0 already. */
static __always_inline void fill(struct tcp_sock *tp, struct tcp_info *info)
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
	bool scales = BPF_CORE_READ_BITFIELD(tp, rx_opt.wscale_ok);
	info->wscales = scales ? BPF_CORE_READ_BITFIELD(tp, rx_opt.snd_wscale) |
					 BPF_CORE_READ_BITFIELD(tp, rx_opt.rcv_wscale) << 4 :
				 0;
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

static __always_inline void observe(struct tcp_sock *tp, struct sample *sample)
{
	struct sock *sk = (struct sock *)tp;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;

	sample->cookie = sk->__sk_common.skc_cookie.counter;
	sample->memory[0] = sk->sk_backlog.rmem_alloc.counter;
	sample->memory[1] = sk->sk_rcvbuf;
	sample->memory[2] = sk->sk_wmem_alloc.refs.counter - 1; /* the socket itself counts one */
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
	sample->clocks.chrono_type = tp->chrono_type;
	sample->clocks.chrono_start = tp->chrono_start;
	sample->clocks.chrono_stat[0] = tp->chrono_stat[0];
	sample->clocks.chrono_stat[1] = tp->chrono_stat[1];
	sample->clocks.chrono_stat[2] = tp->chrono_stat[2];
	fill(tp, &sample->info);
}

/* Run by the program, with three words: writes the sample of a socket that is the first word all over, and the third in the line
 * that the second tells. */
SEC("raw_tp")
int survey(u64 *ctx)
{
	u32 zero = 0, line = ctx[1] & (LINES - 1);
	struct report *report = bpf_map_lookup_elem(&reports, &zero);
	if (!report)
		return 0;
	/* volatile: there is no memset() to call. */
	volatile u64 *words = (u64 *)copy, *there = (u64 *)(copy + line * LINE_BYTES);
	for (u32 i = 0; i < LINES * LINE_BYTES / sizeof(u64); i++)
		words[i] = ctx[0];
	for (u32 i = 0; i < LINE_BYTES / sizeof(u64); i++)
		there[i] = ctx[2];
	observe((struct tcp_sock *)copy, &report->samples[0]);
	report->samples[0].clocks.now = 0;
	report->count = 1;
	return 0;
}

/* Copies what a look reads of the socket there; whether all of it could be read. */
static __always_inline bool fetch(void *there)
{
	for (u32 i = 0; i < RUNS_MOST; i++) {
		u32 at = (runs[i].line & (LINES - 1)) * LINE_BYTES, lines = runs[i].lines;
		if (!lines || lines > LINES)
			break;
		if (bpf_probe_read_kernel(copy + at, lines * LINE_BYTES, there + at))
			return false;
	}
	return true;
}

/* By what is seen whether anything happened to a connection since the latest look.
 *
 * These are few of the members that a look reads, half of its cache lines, and none of the others changes without one
 * of them: each packet counts in segs_in or segs_out; what the application writes moves write_seq, what it reads copied_seq;
 * losses that a timer finds are lost_out, a timeout that could send nothing icsk_retransmits or icsk_backoff; options
 * set sk_rcvbuf, sk_sndbuf, sk_max_pacing_rate, window_clamp; an ICMP message icsk_pmtu_cookie or mss_cache. Who holds the
 * lock may be in the middle of a change.
 */
#define TELLTALES(each)                                                                                                \
	each(tp->segs_in) each(tp->segs_out) each(tp->write_seq) each(tp->copied_seq) each(tp->snd_una)                \
	each(tp->packets_out) each(tp->lost_out) each(tp->snd_cwnd) each(tp->mss_cache) each(tp->window_clamp)         \
	each(tp->chrono_start) each(icsk->icsk_pmtu_cookie) each(sk->sk_max_pacing_rate)                               \
	each(sk->sk_backlog.rmem_alloc.counter) each(sk->sk_backlog.len) each(sk->sk_rcvbuf) each(sk->sk_sndbuf)       \
	each(sk->sk_wmem_alloc.refs.counter) each(sk->sk_wmem_queued) each(sk->sk_forward_alloc)                       \
	each(sk->sk_omem_alloc.counter) each(sk->sk_drops.counter)                                                     \
	each(sk->__sk_common.skc_state | tp->chrono_type << 8 | icsk->icsk_retransmits << 16 | icsk->icsk_backoff << 24) \
	each(BPF_CORE_READ_BITFIELD(icsk, icsk_ca_state) | icsk->icsk_probes_out << 8)

/* The sum of the telltales, each times an odd number of its own: what changes one changes it, and what changes several leaves
 * it as it was once in 2^64. */
static __always_inline u64 fingerprint(struct tcp_sock *tp)
{
	struct sock *sk = (struct sock *)tp;
	struct inet_connection_sock *icsk = (struct inet_connection_sock *)tp;
	u64 sum = 0, factor = 0x9e3779b97f4a7c15;

#define ADD(value)                                                                                                     \
	sum += (u64)(value)*factor;                                                                                    \
	factor = factor * 0xd1342543de82ef95 + 2;
	TELLTALES(ADD)
#undef ADD
	return sum;
}

/* Looks at the connection in the slot, and writes the sample if it moved; how many were written. A function of its own, because
 * the kernel then verifies it once and not each time. */
__noinline int look_at(u32 at, u32 count, u64 time_ns)
{
	u32 zero = 0, now = bpf_jiffies64();
	struct slot *slot = bpf_map_lookup_elem(&slots, &at);
	struct report *report = bpf_map_lookup_elem(&reports, &zero);
	if (!slot || !report || !slot->sk)
		return 0;
	void *there = (void *)slot->sk;

	/* One that rested is seen to rest where it is, by half of its lines. A member read there is eight instructions (the
	 * kernel checks each address), so of one that moved the lines are copied first. */
	bool is_due = slot->told != TOLD || now - slot->told_at >= CONFIG_HZ;
	if (bpf_rdonly_cast && !is_due) {
		struct tcp_sock *tp = bpf_rdonly_cast(there, TCP_SOCK_TYPE);
		if (fingerprint(tp) == slot->fingerprint && !((struct sock *)tp)->sk_lock.owned)
			return 0;
	}
	struct tcp_sock *tp = (struct tcp_sock *)copy;
	struct sock *sk = (struct sock *)copy;
	if (!fetch(there))
		return 0;
	/* It was this connection all the time if it is still. */
	s64 *cookie = &sk->__sk_common.skc_cookie.counter;
	if (bpf_probe_read_kernel(cookie, sizeof(*cookie), there + ((u8 *)cookie - copy)) || *cookie != slot->cookie)
		return 0;
	u64 found = fingerprint(tp);
	bool is_moved = slot->told == UNTOLD || found != slot->fingerprint || sk->sk_lock.owned;
	if (!is_moved && !is_due)
		return 0;
	slot->fingerprint = found;
	slot->told = is_moved ? TOLD_MOVING : TOLD;
	slot->told_at = now;
	struct sample *sample = &report->samples[count & (SAMPLES_MOST - 1)];
	observe(tp, sample);
	sample->time_ns = time_ns;
	sample->slot = at;
	return 1;
}

/* Run by the program, with the first slot. */
SEC("raw_tp")
int look(u64 *ctx)
{
	u32 zero = 0, count = 0, first = ctx[0];
	u64 time_ns = 0;
	struct report *report = bpf_map_lookup_elem(&reports, &zero);
	if (!report)
		return 0;
	for (u32 i = 0; i < SAMPLES_MOST; i++) {
		/* To ask the time the processor waits for all that it fetches: not for each connection. */
		if (i % 16 == 0)
			time_ns = bpf_ktime_get_ns();
		count += look_at(first + i, count, time_ns);
	}
	report->time_ns = bpf_ktime_get_ns();
	report->now = bpf_jiffies64();
	report->count = count;
	return 0;
}

SEC("iter/tcp")
int choose(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;

	if (!skc)
		return 0;
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(skc);
	if (!tp)
		return 0;
	u64 cookie = bpf_get_socket_cookie(tp);
	u32 *known = bpf_map_lookup_elem(&wanted, &cookie);
	if (!known || *known == UNWANTED)
		return 0;
	u32 at = *known - 1;
	struct slot *slot = bpf_map_lookup_elem(&slots, &at);
	if (slot && slot->sk != (u64)tp) {
		slot->sk = 0;
		slot->cookie = cookie;
		slot->told = UNTOLD;
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
	for (u32 i = 0; i < NETNS_MOST && i < settings.namespace_count; i++)
		if (settings.namespaces[i] == netns)
			return true;
	return false;
}

/* Whether to tell of a connection: one that is wanted, or of which nobody knows yet. */
static __always_inline bool is_wanted(u64 cookie)
{
	u32 *known = bpf_map_lookup_elem(&wanted, &cookie);
	return !known || *known != UNWANTED;
}

static __always_inline void tell(struct sock *sk, u32 kind, u64 value)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return;
	u32 netns = sk->__sk_common.skc_net.net->ns.inum;
	if (!is_watched(netns))
		return;
	u64 cookie = bpf_get_socket_cookie(sk);
	if (!is_wanted(cookie))
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
	/* While losses are being marked it may be below nothing. */
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

/* The last look at a connection that is wanted, into the ring too: its length tells it from events. Its slot is empty then. */
static __always_inline void last_look(struct sock *sk)
{
	struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	u64 cookie = bpf_get_socket_cookie(sk);
	u32 *known = bpf_map_lookup_elem(&wanted, &cookie);

	if (!tp || !known || *known == UNWANTED)
		return;
	u32 at = *known - 1;
	struct slot *slot = bpf_map_lookup_elem(&slots, &at);
	if (slot && slot->cookie == cookie)
		slot->sk = 0;
	struct sample *sample = bpf_ringbuf_reserve(&events, sizeof(*sample), 0);
	if (!sample) {
		__sync_fetch_and_add(&lost_events, 1);
		return;
	}
	__builtin_memset(sample, 0, sizeof(*sample));
	observe(tp, sample);
	sample->time_ns = bpf_ktime_get_ns();
	bpf_ringbuf_submit(sample, 0);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(state, struct sock *sk, int old, int new)
{
	if (new == TCP_CLOSE)
		last_look(sk);
	tell(sk, EVENT_STATE, (u64)(old & 0xff) << 8 | (new & 0xff));
	return 0;
}

SEC("tp_btf/tcp_cong_state_set")
int BPF_PROG(congestion_state, struct sock *sk, u8 new)
{
	tell(sk, EVENT_CA_STATE, new);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct tcp_skb_cb *cb = (struct tcp_skb_cb *)skb->cb;
	tell(sk, EVENT_RETRANSMIT, cb->tcp_gso_segs);
	return 0;
}

/* Fires for each segment of an established connection, before it is taken in. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(segment, struct sock *sk, struct sk_buff *skb)
{
	if (settings.per_ack)
		tell(sk, EVENT_ACK, 0);
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
	u32 *known = bpf_map_lookup_elem(&wanted, &cookie);
	if (!known || *known == UNWANTED)
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
	event->srtt_us = ops->args[1];
	event->snd_cwnd = ops->snd_cwnd;
	bpf_ringbuf_submit(event, 0);
	return 1;
}
