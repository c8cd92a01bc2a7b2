/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* For eBPF only: the functions of string.h that clang expands in place (the size must be a constant). */
#ifndef __LONGFAT_STRING_H__
#define __LONGFAT_STRING_H__

#define memcpy(to, from, size) __builtin_memcpy(to, from, size)
#define memmove(to, from, size) __builtin_memmove(to, from, size)
#define memset(to, byte, size) __builtin_memset(to, byte, size)
#define memcmp(one, other, size) __builtin_memcmp(one, other, size)

#endif
