/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The same header without its folder, as some files include it. */
#include "bpf/bpf_tracing.h"
