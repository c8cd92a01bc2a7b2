/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * Maps of the native build: arrays, hash tables and socket storage, separate for each copy of the object.
 *
 * A map's definition is a variable of pointers that are never used; its first word points to a struct lf_map here.
 * Differences from the kernel: a per-CPU map is a single map; a full LRU table drops the entry with the oldest
 * write; only the same map reuses the memory of a deleted entry, so a pointer to it remains readable.
 */
#include "native/runtime.h"
#include "bpf_tracing_net.h"

#include <stdlib.h>
#include <string.h>

#define ENOENT 2
#define E2BIG 7
#define ENOMEM 12
#define EEXIST 17
#define EINVAL 22

struct lf_entry {
	struct lf_entry *next;
	__u64 written;
	__u8 bytes[]; /* key, padded to 8 bytes, then value */
};

struct lf_map {
	__u32 type;
	__u32 key_size;
	__u32 value_size;
	__u32 max_entries;
	__u32 count;
	__u32 buckets_mask;
	__u64 writes;
	__u8 *values;		   /* arrays */
	struct lf_entry **buckets; /* hash tables */
	struct lf_entry *unused;
};

/* A socket's value in an SK_STORAGE map. */
struct lf_stored {
	struct lf_stored *next;
	struct lf_map *map;
	__u64 value[];
};

static struct lf_map *map_of(void *definition)
{
	return *(struct lf_map **)definition;
}

static __u64 padded(__u32 size)
{
	return ((__u64)size + 7) / 8 * 8;
}

static bool is_array(const struct lf_map *map)
{
	return map->type == BPF_MAP_TYPE_ARRAY || map->type == BPF_MAP_TYPE_PERCPU_ARRAY;
}

static bool is_lru(const struct lf_map *map)
{
	return map->type == BPF_MAP_TYPE_LRU_HASH || map->type == BPF_MAP_TYPE_LRU_PERCPU_HASH;
}

int longfat_map_create(void *definition, __u32 type, __u32 key_size, __u32 value_size, __u32 max_entries)
{
	struct lf_map *map = calloc(1, sizeof(*map));

	if (!map)
		return -1;
	map->type = type;
	map->key_size = key_size;
	map->value_size = value_size;
	map->max_entries = max_entries;
	if (is_array(map)) {
		map->values = calloc(max(max_entries, 1U), padded(value_size));
	} else if (type != BPF_MAP_TYPE_SK_STORAGE) {
		__u32 buckets = 16;

		while (buckets < max_entries && buckets < 1 << 16)
			buckets *= 2;
		map->buckets_mask = buckets - 1;
		map->buckets = calloc(buckets, sizeof(*map->buckets));
	}
	if (!map->values && !map->buckets && type != BPF_MAP_TYPE_SK_STORAGE) {
		free(map);
		return -1;
	}
	*(struct lf_map **)definition = map;
	return 0;
}

static void free_entries(struct lf_entry *entry)
{
	while (entry) {
		struct lf_entry *next = entry->next;

		free(entry);
		entry = next;
	}
}

void longfat_map_free(void *definition)
{
	struct lf_map *map = map_of(definition);
	__u32 i;

	for (i = 0; map->buckets && i <= map->buckets_mask; i++)
		free_entries(map->buckets[i]);
	free_entries(map->unused);
	free(map->buckets);
	free(map->values);
	free(map);
}

/* FNV-1a, 64 bits, folded. */
static struct lf_entry **bucket(struct lf_map *map, const __u8 *key)
{
	__u64 hash = 0xcbf29ce484222325ULL;
	__u32 i;

	for (i = 0; i < map->key_size; i++)
		hash = (hash ^ key[i]) * 0x100000001b3ULL;
	return &map->buckets[(hash ^ hash >> 32) & map->buckets_mask];
}

/* The pointer to the key's entry, or at the end of its list. */
static struct lf_entry **find(struct lf_map *map, const void *key)
{
	struct lf_entry **at = bucket(map, key);

	while (*at && memcmp((*at)->bytes, key, map->key_size) != 0)
		at = &(*at)->next;
	return at;
}

static void unlink_entry(struct lf_map *map, struct lf_entry **at)
{
	struct lf_entry *entry = *at;

	*at = entry->next;
	entry->next = map->unused;
	map->unused = entry;
	map->count--;
}

static void drop_oldest(struct lf_map *map)
{
	struct lf_entry **oldest = NULL, **at;
	__u32 i;

	for (i = 0; i <= map->buckets_mask; i++)
		for (at = &map->buckets[i]; *at; at = &(*at)->next)
			if (!oldest || (*at)->written < (*oldest)->written)
				oldest = at;
	if (oldest)
		unlink_entry(map, oldest);
}

void *bpf_map_lookup_elem(void *definition, const void *key)
{
	struct lf_map *map = map_of(definition);
	struct lf_entry *entry;

	if (is_array(map)) {
		__u32 index = *(const __u32 *)key;

		return index < map->max_entries ? map->values + index * padded(map->value_size) : NULL;
	}
	if (!map->buckets)
		return NULL;
	entry = *find(map, key);
	return entry ? entry->bytes + padded(map->key_size) : NULL;
}

long bpf_map_update_elem(void *definition, const void *key, const void *value, __u64 flags)
{
	struct lf_map *map = map_of(definition);
	struct lf_entry *entry, **at;

	if (flags > BPF_EXIST)
		return -EINVAL;
	if (is_array(map)) {
		void *slot = bpf_map_lookup_elem(definition, key);

		if (!slot)
			return -E2BIG;
		if (flags == BPF_NOEXIST)
			return -EEXIST;
		memcpy(slot, value, map->value_size);
		return 0;
	}
	if (!map->buckets)
		return -EINVAL;
	entry = *find(map, key);
	if (entry && flags == BPF_NOEXIST)
		return -EEXIST;
	if (!entry && flags == BPF_EXIST)
		return -ENOENT;
	if (!entry) {
		if (map->count >= map->max_entries) {
			if (!is_lru(map))
				return -E2BIG;
			drop_oldest(map);
		}
		entry = map->unused;
		if (entry)
			map->unused = entry->next;
		else
			entry = malloc(sizeof(*entry) + padded(map->key_size) + map->value_size);
		if (!entry)
			return -ENOMEM;
		memcpy(entry->bytes, key, map->key_size);
		at = bucket(map, key);
		entry->next = *at;
		*at = entry;
		map->count++;
	}
	entry->written = ++map->writes;
	memcpy(entry->bytes + padded(map->key_size), value, map->value_size);
	return 0;
}

long bpf_map_delete_elem(void *definition, const void *key)
{
	struct lf_map *map = map_of(definition);
	struct lf_entry **at;

	if (is_array(map) || !map->buckets)
		return -EINVAL;
	at = find(map, key);
	if (!*at)
		return -ENOENT;
	unlink_entry(map, at);
	return 0;
}

/* A congestion control can only access its own socket, so the socket is that of the call. */
void *bpf_sk_storage_get(void *definition, void *sk, void *value, __u64 flags)
{
	struct lf_map *map = map_of(definition);
	struct lf_call *call = longfat_runtime.call;
	struct lf_stored *stored;

	if (!sk || map->type != BPF_MAP_TYPE_SK_STORAGE)
		return NULL;
	for (stored = call->storage; stored; stored = stored->next)
		if (stored->map == map)
			return stored->value;
	if (!(flags & BPF_SK_STORAGE_GET_F_CREATE))
		return NULL;
	stored = calloc(1, sizeof(*stored) + padded(map->value_size));
	if (!stored)
		return NULL;
	if (value)
		memcpy(stored->value, value, map->value_size);
	stored->map = map;
	stored->next = call->storage;
	call->storage = stored;
	return stored->value;
}

long bpf_sk_storage_delete(void *definition, void *sk)
{
	struct lf_map *map = map_of(definition);
	struct lf_stored **at;

	for (at = &longfat_runtime.call->storage; *at; at = &(*at)->next) {
		struct lf_stored *stored = *at;

		if (stored->map == map) {
			*at = stored->next;
			free(stored);
			return 0;
		}
	}
	return -ENOENT;
}

void longfat_storage_free(struct lf_call *call)
{
	while (call->storage) {
		struct lf_stored *stored = call->storage;

		call->storage = stored->next;
		free(stored);
	}
}
