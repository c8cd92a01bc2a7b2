/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* For files that include the machine's headers instead of vmlinux.h. */
#include "vmlinux.h"
