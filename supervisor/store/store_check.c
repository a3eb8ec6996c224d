#include "supervisor/store/store_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/file.h"

/* Of the format: a page is its number (u64), padding (u16), flags (u16), the bounds of its free
   space (two u16; of large data, its pages as one u32), offsets of nodes (u16), space, nodes. A
   node is two u16 for the size of its data or half of a page number, flags or its rest (u16), the
   size of its key (u16), key, data. */
enum {
	PAGE_HEADER = 16,
	NODE_HEADER = 8,
	META_MAGIC_AT = PAGE_HEADER,
	META_VERSION_AT = PAGE_HEADER + 4,
	META_FREE_AT = PAGE_HEADER + 24, /* after an address and a size: two trees */
	META_MAIN_AT = META_FREE_AT + 48,
	META_LAST_AT = META_MAIN_AT + 48,
	META_CHANGE_AT = META_LAST_AT + 8,
	META_SIZE = META_CHANGE_AT + 8,
	TREE_SIZE = 48, /* u32, flags u16, depth u16, four u64, root u64 */
	KEY_MAX = 511,
	DEPTH_MAX = 32,
	TABLES_MAX = 32,
	PAGE_MIN = 512,
	PAGE_MAX = 32768,
};
enum { IS_BRANCH = 1, IS_LEAF = 2, IS_LARGE = 4, IS_META = 8 }; /* pages */
enum { DATA_ELSEWHERE = 1, DATA_IS_TREE = 2 };			/* nodes of leaves */
enum { KEYS_ARE_NUMBERS = 8, TREE_KINDS = 0x7e };		/* trees */

static const uint32_t magic = 0xbeefc0de, version = 1;
static const uint64_t no_page = UINT64_MAX, file_max = (uint64_t)1 << 40;

struct tree {
	uint64_t root;
	unsigned flags, depth;
};

struct check {
	int fd;
	char *reason;
	size_t page_size;
	uint64_t last, in_file; /* the last page; pages that the file has */
	uint8_t *seen;		/* a bit for each page up to the last */
	uint8_t *levels;	/* a page for each level of the tree that is walked */
	enum { FREE, MAIN, TABLE } kind;
	struct tree tables[TABLES_MAX];
	size_t table_count;
	uint8_t bound[KEY_MAX]; /* the next key is behind it, or this one itself */
	size_t bound_len;
	bool bounded, inclusive;
};

static uint16_t
get16(const uint8_t *p)
{
	uint16_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static uint32_t
get32(const uint8_t *p)
{
	uint32_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static uint64_t
get64(const uint8_t *p)
{
	uint64_t value;

	memcpy(&value, p, sizeof(value));
	return value;
}

static int
damaged(struct check *c, uint64_t page, const char *what)
{
	snprintf(c->reason, STORE_CHECK_REASON, "page %llu of data.mdb %s",
	    (unsigned long long)page, what);
	return -EBADMSG;
}

/* Is it one of the file's, that nothing else has? */
static int
take_page(struct check *c, uint64_t page)
{
	uint8_t bit = (uint8_t)(1u << page % 8);

	if (page < 2 || page > c->last)
		return damaged(c, page, "is named, but is none");
	if ((c->seen[page / 8] & bit) != 0)
		return damaged(c, page, "is used twice");
	c->seen[page / 8] |= bit;
	return 0;
}

/* The beginning of a page of this kind. */
static int
read_page(struct check *c, uint64_t page, unsigned flags, uint8_t *out, size_t len)
{
	int error;

	if (page >= c->in_file)
		return damaged(c, page, "is not there: the file was cut");
	error = file_read_at(c->fd, out, len, page * c->page_size);
	if (error != 0)
		return error;
	if (get64(out) != page || get16(out + 10) != flags)
		return damaged(c, page, "is not what was written");
	return 0;
}

static int
compare(const struct check *c, const uint8_t *a, size_t a_len)
{
	size_t least = a_len < c->bound_len ? a_len : c->bound_len;
	int order;

	if (c->kind == FREE)
		return (get64(a) > get64(c->bound)) - (get64(a) < get64(c->bound));
	order = memcmp(a, c->bound, least);
	return order != 0 ? order : (a_len > c->bound_len) - (a_len < c->bound_len);
}

/* Keys come in their order; a branch names a key that what is below does not come before. */
static int
take_key(struct check *c, uint64_t page, const uint8_t *key, size_t len, bool inclusive)
{
	int order;

	if (len == 0 || len > KEY_MAX || (c->kind == FREE && len != sizeof(uint64_t)))
		return damaged(c, page, "has a key of another size");
	order = c->bounded ? compare(c, key, len) : 1;
	if (order < 0 || (order == 0 && !c->inclusive))
		return damaged(c, page, "has keys out of order");
	memcpy(c->bound, key, len);
	c->bound_len = len;
	c->bounded = true;
	c->inclusive = inclusive;
	return 0;
}

/* The pages behind a node that holds no data itself. */
static int
take_large(struct check *c, uint64_t page, size_t len)
{
	uint64_t wanted = (PAGE_HEADER - 1 + len) / c->page_size + 1, count;
	uint8_t header[PAGE_HEADER];
	int error = take_page(c, page);

	if (error == 0)
		error = read_page(c, page, IS_LARGE, header, sizeof(header));
	if (error != 0)
		return error;
	count = get32(header + 12);
	if (count < wanted || count > c->last - page + 1 || page + wanted > c->in_file)
		return damaged(c, page, "has another size than what it holds");
	for (uint64_t i = 1; error == 0 && i < count; i++)
		error = take_page(c, page + i);
	return error;
}

/* A record of free pages: how many, and their numbers. */
static int
take_free(struct check *c, uint64_t page, const uint8_t *data, size_t len)
{
	uint64_t count = len >= 8 && len % 8 == 0 ? get64(data) : UINT64_MAX;
	int error = 0;

	if (count > len / 8 - 1)
		return damaged(c, page, "has a list of free pages that does not fit it");
	for (uint64_t i = 1; error == 0 && i <= count; i++)
		error = take_page(c, get64(data + 8 * i));
	return error;
}

/* The same, read from its own pages. */
static int
take_large_free(struct check *c, uint64_t page, size_t len)
{
	uint8_t *data = malloc(len + 1);
	int error = data == NULL
			? -ENOMEM
			: file_read_at(c->fd, data, len, page * c->page_size + PAGE_HEADER);

	if (error == 0)
		error = take_free(c, page, data, len);
	free(data);
	return error;
}

static struct tree
get_tree(const uint8_t *p)
{
	return (struct tree){.flags = get16(p + 4), .depth = get16(p + 6), .root = get64(p + 40)};
}

/* Of a leaf; `room` bytes from the node to the end of its page. Its size, or -errno. */
static long
take_record(struct check *c, uint64_t page, const uint8_t *node, size_t room)
{
	size_t key = get16(node + 6), len = get16(node) | (size_t)get16(node + 2) << 16;
	unsigned flags = get16(node + 4);
	size_t kept = flags == DATA_ELSEWHERE ? sizeof(uint64_t) : len;
	const uint8_t *data = node + NODE_HEADER + key;
	int error;

	if ((flags & ~(unsigned)(DATA_ELSEWHERE | DATA_IS_TREE)) != 0 ||
	    (c->kind == MAIN) != (flags == DATA_IS_TREE) || key > room - NODE_HEADER ||
	    kept > room - NODE_HEADER - key || (flags == DATA_IS_TREE && len != TREE_SIZE))
		return damaged(c, page, "has a record that does not fit it");
	error = take_key(c, page, node + NODE_HEADER, key, false);
	if (error == 0 && flags == DATA_ELSEWHERE) {
		error = take_large(c, get64(data), len);
		if (error == 0 && c->kind == FREE)
			error = take_large_free(c, get64(data), len);
	} else if (error == 0 && c->kind == FREE) {
		error = take_free(c, page, data, len);
	} else if (error == 0 && c->kind == MAIN && c->table_count < TABLES_MAX) {
		c->tables[c->table_count++] = get_tree(data);
	}
	return error != 0 ? error : (long)(NODE_HEADER + key + kept);
}

static int walk(struct check *c, uint64_t page, unsigned level, unsigned depth);

/* Of a branch: a page below it, whose first key may be left out. */
static long
take_child(struct check *c, uint64_t page, const uint8_t *node, size_t room, unsigned level,
    unsigned depth, bool first)
{
	uint64_t child =
	    get16(node) | (uint64_t)get16(node + 2) << 16 | (uint64_t)get16(node + 4) << 32;
	size_t key = get16(node + 6);
	int error = 0;

	if (key > room - NODE_HEADER)
		return damaged(c, page, "has a key that does not fit it");
	if (!first)
		error = take_key(c, page, node + NODE_HEADER, key, true);
	if (error == 0)
		error = walk(c, child, level + 1, depth);
	return error != 0 ? error : (long)(NODE_HEADER + key);
}

/* A page of a tree and all below it. */
static int
walk(struct check *c, uint64_t page, unsigned level, unsigned depth)
{
	uint8_t *p = c->levels + level * c->page_size;
	bool leaf = level + 1 == depth;
	size_t lower, upper, sizes = 0;
	int error = take_page(c, page);

	if (error == 0)
		error = read_page(c, page, leaf ? IS_LEAF : IS_BRANCH, p, c->page_size);
	if (error != 0)
		return error;
	lower = get16(p + 12);
	upper = get16(p + 14);
	if (lower <= PAGE_HEADER || lower % 2 != 0 || lower > upper || upper > c->page_size)
		return damaged(c, page, "has no sound header");
	for (size_t i = 0; i < (lower - PAGE_HEADER) / 2; i++) {
		size_t at = get16(p + PAGE_HEADER + 2 * i), room = c->page_size - at;
		long size;

		if (at < upper || at % 2 != 0 || at + NODE_HEADER > c->page_size)
			return damaged(c, page, "has a node outside of it");
		size = leaf ? take_record(c, page, p + at, room)
			    : take_child(c, page, p + at, room, level, depth, i == 0);
		if (size < 0)
			return (int)size;
		sizes += ((size_t)size + 1) & ~(size_t)1;
	}
	return sizes == c->page_size - upper ? 0 : damaged(c, page, "has nodes that overlap");
}

static int
walk_tree(struct check *c, int kind, const struct tree *t)
{
	unsigned flags = kind == FREE ? KEYS_ARE_NUMBERS : 0;

	c->kind = kind;
	c->bounded = false;
	if ((t->flags & TREE_KINDS) != flags || (t->root == no_page) != (t->depth == 0) ||
	    t->depth > DEPTH_MAX)
		return damaged(c, t->root == no_page ? 0 : t->root, "is no root as it is named");
	return t->root == no_page ? 0 : walk(c, t->root, 0, t->depth);
}

static int
walk_all(struct check *c, const uint8_t *meta)
{
	struct tree unused = get_tree(meta + META_FREE_AT), tables = get_tree(meta + META_MAIN_AT);
	int error = walk_tree(c, FREE, &unused);

	if (error == 0)
		error = walk_tree(c, MAIN, &tables);
	for (size_t i = 0; error == 0 && i < c->table_count; i++)
		error = walk_tree(c, TABLE, &c->tables[i]);
	return error;
}

/* The page that says where the newest change begins. 0 with false: LMDB does not take it either. */
static int
read_meta(struct check *c, uint64_t size, uint8_t newest[META_SIZE], bool *known)
{
	uint8_t meta[2][META_SIZE];
	int error = file_read_at(c->fd, meta[0], META_SIZE, 0);

	*known = false;
	if (error != 0)
		return error == -ENODATA ? 0 : error;
	if (get32(meta[0] + META_MAGIC_AT) != magic || get32(meta[0] + META_VERSION_AT) != version)
		return 0;
	*known = true;
	c->page_size = get32(meta[0] + META_FREE_AT);
	if (c->page_size < PAGE_MIN || c->page_size > PAGE_MAX ||
	    (c->page_size & (c->page_size - 1)) != 0)
		return damaged(c, 0, "has no size of pages");
	c->in_file = size / c->page_size;
	error = file_read_at(c->fd, meta[1], META_SIZE, c->page_size);
	if (error == -ENODATA)
		return damaged(c, 1, "is not there: the file was cut");
	for (int i = 0; error == 0 && i < 2; i++) {
		/* changes take turns; before the first there is none */
		uint64_t change = get64(meta[i] + META_CHANGE_AT);

		if (get16(meta[i] + 10) != IS_META || get32(meta[i] + META_MAGIC_AT) != magic ||
		    get32(meta[i] + META_VERSION_AT) != version ||
		    get32(meta[i] + META_FREE_AT) != c->page_size ||
		    (change != 0 && change % 2 != (unsigned)i))
			return damaged(c, (uint64_t)i, "is not what was written");
	}
	memcpy(newest, meta[get64(meta[0] + META_CHANGE_AT) < get64(meta[1] + META_CHANGE_AT)],
	    META_SIZE);
	c->last = get64(newest + META_LAST_AT);
	if (error == 0 && (c->last < 1 || c->last >= file_max / c->page_size))
		error = damaged(c, c->last, "is no last page");
	return error;
}

int
store_check(int fd, char reason[STORE_CHECK_REASON])
{
	struct check c = {.fd = fd, .reason = reason};
	uint8_t meta[META_SIZE];
	struct stat st;
	bool known;
	int error;

	if (fstat(fd, &st) != 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	error = read_meta(&c, (uint64_t)st.st_size, meta, &known);
	if (error != 0 || !known)
		return error;
	c.seen = calloc(c.last / 8 + 1, 1);
	c.levels = malloc(DEPTH_MAX * c.page_size);
	error = c.seen == NULL || c.levels == NULL ? -ENOMEM : walk_all(&c, meta);
	free(c.seen);
	free(c.levels);
	return error;
}
