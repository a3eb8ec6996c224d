#include "supervisor/store/store_guard.h"

#include <setjmp.h>
#include <stddef.h>

static _Thread_local jmp_buf *innermost;

/* Without a guard, LMDB ends the process after this. */
static void
on_assert(MDB_env *env, const char *text)
{
	(void)env;
	(void)text;
	if (innermost != NULL)
		longjmp(*innermost, 1);
}

void
store_guard_env(MDB_env *env)
{
	mdb_env_set_assert(env, on_assert);
}

int
store_guard(int (*work)(void *arg), void *arg)
{
	jmp_buf *const outer = innermost;
	jmp_buf here;
	int rc;

	if (setjmp(here) != 0) {
		innermost = outer;
		return MDB_CORRUPTED;
	}
	innermost = &here;
	rc = work(arg);
	innermost = outer;
	return rc;
}
