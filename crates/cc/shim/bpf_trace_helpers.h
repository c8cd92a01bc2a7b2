/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The older name of bpf/bpf_tracing.h. */
#include "bpf/bpf_tracing.h"
