/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Native versions of the functions of kernel modules that a program can call (kfuncs of tcp_cubic.c, tcp_bbr.c and
 * tcp_dctcp.c): each calls the operation of the built-in algorithm of that name.
 *
 * Differences from the kernel: parameters have their defaults; the private area (inet_csk_ca) of these algorithms has
 * another layout, so a file must not read it; without negotiated ECN, dctcp_init does not switch the socket from dctcp
 * to Reno, but dctcp then behaves as Reno.
 */
#include "native/runtime.h"
#include "bpf/bpf_helpers.h"

/* The program fills this in before the first call. */
struct lf_module longfat_modules[3];

enum { CUBIC, BBR, DCTCP };

/* The operations, called for the same socket at the same time. */
static const struct tcp_congestion_ops *module(int which)
{
	struct lf_module *module = &longfat_modules[which];

	module->runtime->call = longfat_runtime.call;
	return module->operations;
}

__weak void cubictcp_init(struct sock *sk)
{
	module(CUBIC)->init(sk);
}

__weak __u32 cubictcp_recalc_ssthresh(struct sock *sk)
{
	return module(CUBIC)->ssthresh(sk);
}

__weak void cubictcp_cong_avoid(struct sock *sk, __u32 ack, __u32 acked)
{
	module(CUBIC)->cong_avoid(sk, ack, acked);
}

__weak void cubictcp_state(struct sock *sk, __u8 new_state)
{
	module(CUBIC)->set_state(sk, new_state);
}

__weak void cubictcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	module(CUBIC)->cwnd_event(sk, event);
}

__weak void cubictcp_cwnd_event_tx_start(struct sock *sk)
{
	module(CUBIC)->cwnd_event(sk, CA_EVENT_TX_START);
}

__weak void cubictcp_acked(struct sock *sk, const struct ack_sample *sample)
{
	module(CUBIC)->pkts_acked(sk, sample);
}

__weak void bbr_init(struct sock *sk)
{
	module(BBR)->init(sk);
}

__weak void bbr_main(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs)
{
	module(BBR)->cong_control(sk, ack, flag, rs);
}

__weak __u32 bbr_sndbuf_expand(struct sock *sk)
{
	return module(BBR)->sndbuf_expand(sk);
}

__weak __u32 bbr_undo_cwnd(struct sock *sk)
{
	return module(BBR)->undo_cwnd(sk);
}

__weak void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	module(BBR)->cwnd_event(sk, event);
}

__weak void bbr_cwnd_event_tx_start(struct sock *sk)
{
	module(BBR)->cwnd_event(sk, CA_EVENT_TX_START);
}

__weak __u32 bbr_ssthresh(struct sock *sk)
{
	return module(BBR)->ssthresh(sk);
}

__weak __u32 bbr_min_tso_segs(struct sock *sk)
{
	return module(BBR)->min_tso_segs(sk);
}

__weak void bbr_set_state(struct sock *sk, __u8 new_state)
{
	module(BBR)->set_state(sk, new_state);
}

__weak void dctcp_init(struct sock *sk)
{
	module(DCTCP)->init(sk);
}

__weak void dctcp_update_alpha(struct sock *sk, __u32 flags)
{
	module(DCTCP)->in_ack_event(sk, flags);
}

__weak void dctcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	module(DCTCP)->cwnd_event(sk, event);
}

__weak void dctcp_cwnd_event_tx_start(struct sock *sk)
{
	module(DCTCP)->cwnd_event(sk, CA_EVENT_TX_START);
}

__weak __u32 dctcp_ssthresh(struct sock *sk)
{
	return module(DCTCP)->ssthresh(sk);
}

__weak __u32 dctcp_cwnd_undo(struct sock *sk)
{
	return module(DCTCP)->undo_cwnd(sk);
}

__weak void dctcp_state(struct sock *sk, __u8 new_state)
{
	module(DCTCP)->set_state(sk, new_state);
}
