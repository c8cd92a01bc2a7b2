/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The part of the C library that native/runtime.c needs, for WebAssembly, which has none. */
#ifndef __LONGFAT_WASM_STRING_H__
#define __LONGFAT_WASM_STRING_H__

/* With -mbulk-memory each of these two becomes one instruction. */
#define memcpy __builtin_memcpy
#define memset __builtin_memset

static inline int memcmp(const void *a, const void *b, __SIZE_TYPE__ size)
{
	const unsigned char *x = a, *y = b;

	for (; size; size--, x++, y++)
		if (*x != *y)
			return *x - *y;
	return 0;
}

static inline __SIZE_TYPE__ strlen(const char *text)
{
	__SIZE_TYPE__ length = 0;

	while (text[length])
		length++;
	return length;
}

#endif
