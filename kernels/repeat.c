#include "kernels/repeat.h"

enum op_status
repeat_run(struct op_context *ctx, const uint64_t *key, size_t count,
    const struct op_packing *packing, repeat_work *work, const void *argument)
{
	(void)ctx;
	(void)key;
	(void)count;
	(void)packing;
	return work(argument);
}

void
repeat_allow(struct op_context *ctx, size_t bytes)
{
	(void)ctx;
	(void)bytes;
}

struct repeat_counts
repeat_counted(const struct op_context *ctx)
{
	(void)ctx;
	return (struct repeat_counts){0};
}

const char *
repeat_trouble(const struct op_context *ctx)
{
	(void)ctx;
	return "";
}
