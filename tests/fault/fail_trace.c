/*
 * Where a call came from. Offsets in modules, so that the same call has the same trace in every
 * process that runs the same files. Code without unwind tables ends a chain.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <unwind.h>

#include "tests/fault/fail_wrap.h"

enum { FRAMES = 256 };

struct walk {
	struct fail_trace *from;
	const void *here; /* this library, whose frames are no part of a chain */
	unsigned frames;
};

/* Another word in a hash. */
static uint64_t
mix(uint64_t hash, uint64_t word)
{
	hash ^= word;
	hash *= 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 32;
}

static uint64_t
hash_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	uint64_t hash = 0;

	for (path = slash == NULL ? path : slash + 1; *path != '\0'; path++)
		hash = hash * 31 + (unsigned char)*path;
	return hash;
}

static _Unwind_Reason_Code
step(struct _Unwind_Context *context, void *data)
{
	uintptr_t at = _Unwind_GetIP(context);
	struct walk *walk = data;
	struct dl_find_object found;
	uint64_t offset, name;

	if (at == 0 || walk->frames++ == FRAMES)
		return _URC_END_OF_STACK;
	if (_dl_find_object((void *)at, &found) != 0 || found.dlfo_map_start == walk->here)
		return _URC_NO_REASON;
	offset = at - (uintptr_t)found.dlfo_map_start;
	name = hash_name(found.dlfo_link_map->l_name); /* of the program: "" */
	walk->from->chain = mix(mix(walk->from->chain, name), offset);
	if (name == 0 && walk->from->site == 0)
		walk->from->site = offset;
	return _URC_NO_REASON;
}

void
fail_where(struct fail_trace *from)
{
	struct walk walk = {.from = from};
	struct dl_find_object found;

	*from = (struct fail_trace){0};
	fail_inside++; /* what unwinding calls is not the program's */
	if (_dl_find_object((void *)fail_where, &found) == 0)
		walk.here = found.dlfo_map_start;
	_Unwind_Backtrace(step, &walk);
	fail_inside--;
}
