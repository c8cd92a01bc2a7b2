/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Definitions of include/net/tcp.h that are missing in bpf_tracing_net.h: files for the kernel define these themselves, so
 * they cannot be in that header. Not part of the kernel or of libbpf.
 */
#ifndef __LONGFAT_TCP_H__
#define __LONGFAT_TCP_H__

#include "bpf_tracing_net.h"

static __always_inline __u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

#endif
