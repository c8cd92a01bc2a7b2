/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Included by congestion controls as <bpf/bpf_core_read.h>: reads members at the kernel's offsets.
 *
 * A bitfield must be read by these macros: libbpf does not relocate a plain read, which then reads another bit.
 */
#ifndef __LONGFAT_BPF_CORE_READ_H__
#define __LONGFAT_BPF_CORE_READ_H__

#ifndef __LONGFAT_VMLINUX_H__
#include "vmlinux.h"
#endif

#ifdef __bpf__

/* Second argument of clang's __builtin_preserve_field_info (enum bpf_field_info_kind). */
#define __LF_FIELD_BYTE_OFFSET 0
#define __LF_FIELD_BYTE_SIZE 1
#define __LF_FIELD_EXISTS 2
#define __LF_FIELD_SIGNED 3
#define __LF_FIELD_LSHIFT_U64 4
#define __LF_FIELD_RSHIFT_U64 5
#define __lf_field_info(field, kind) __builtin_preserve_field_info(field, kind)

/* Loads the bytes that hold the field, then shifts its bits to the top and down again. */
#define BPF_CORE_READ_BITFIELD(s, field)                                                                               \
	({                                                                                                             \
		const void *___at = (const void *)(s) + __lf_field_info((s)->field, __LF_FIELD_BYTE_OFFSET);           \
		unsigned long long ___bits;                                                                            \
		__asm__ volatile("" : "+r"(___at));                                                                    \
		switch (__lf_field_info((s)->field, __LF_FIELD_BYTE_SIZE)) {                                           \
		case 1:                                                                                                \
			___bits = *(const unsigned char *)___at;                                                       \
			break;                                                                                         \
		case 2:                                                                                                \
			___bits = *(const unsigned short *)___at;                                                      \
			break;                                                                                         \
		case 4:                                                                                                \
			___bits = *(const unsigned int *)___at;                                                        \
			break;                                                                                         \
		case 8:                                                                                                \
			___bits = *(const unsigned long long *)___at;                                                  \
			break;                                                                                         \
		default:                                                                                               \
			___bits = 0;                                                                                   \
			break;                                                                                         \
		}                                                                                                      \
		___bits <<= __lf_field_info((s)->field, __LF_FIELD_LSHIFT_U64);                                        \
		if (__lf_field_info((s)->field, __LF_FIELD_SIGNED))                                                    \
			___bits = (unsigned long long)((long long)___bits >>                                           \
						       __lf_field_info((s)->field, __LF_FIELD_RSHIFT_U64));            \
		else                                                                                                   \
			___bits >>= __lf_field_info((s)->field, __LF_FIELD_RSHIFT_U64);                                \
		___bits;                                                                                               \
	})
#define bpf_core_field_exists(field...) __lf_core_exists(field)
#define __lf_core_exists(field) __builtin_preserve_field_info(field, __LF_FIELD_EXISTS)
#define bpf_core_field_size(field) __builtin_preserve_field_info(field, __LF_FIELD_BYTE_SIZE)
/* Types in the running kernel (enum bpf_type_id_kind, enum bpf_type_info_kind). */
#define bpf_core_type_id_kernel(type) __builtin_btf_type_id(*(__typeof__(type) *)0, 1)
#define bpf_core_type_exists(type) __builtin_preserve_type_info(*(__typeof__(type) *)0, 0)

#else

#define BPF_CORE_READ_BITFIELD(s, field) ((unsigned long long)(s)->field)
#define bpf_core_field_exists(field...) 1
#define bpf_core_field_size(field) sizeof(field)
#define bpf_core_type_id_kernel(type) 0
#define bpf_core_type_exists(type) 1

#endif

#define BPF_CORE_READ_BITFIELD_PROBED(s, field) BPF_CORE_READ_BITFIELD(s, field)

/* A congestion control may follow pointers directly, so a chain of reads is a chain of arrows. */
#define __lf_arrows_1(s, a) ((s)->a)
#define __lf_arrows_2(s, a, b) ((s)->a->b)
#define __lf_arrows_3(s, a, b, c) ((s)->a->b->c)
#define __lf_arrows_4(s, a, b, c, d) ((s)->a->b->c->d)
#define __lf_pick(_1, _2, _3, _4, name, ...) name
#define BPF_CORE_READ(s, ...)                                                                                          \
	__lf_pick(__VA_ARGS__, __lf_arrows_4, __lf_arrows_3, __lf_arrows_2, __lf_arrows_1)(s, __VA_ARGS__)

#endif
