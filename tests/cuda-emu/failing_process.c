#include "tests/cuda-emu/failing_process.h"

#include <sys/mman.h>
#include <sys/wait.h>

#include "kernels/repeat.h"
#include "tests/unit/trainer_fixture.h"
#include "worker/train/evaluate.h"
#include "worker/train/generate.h"

enum { NEW_TOKENS = 4 };

static struct fixture f;
static float *param, *moments;
static struct emu_fail_page *page;
static struct outcome *shared;

uint64_t
process_digest(uint64_t hash, const void *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
	return hash;
}

/* --- what is done: 0 with *given, or -1 with *r --------------------------------------------------
 */

static int
put(struct refusal *r)
{
	return trainer_set(f.t, param, moments, moments, r);
}

static int
do_open(uint64_t *given, struct refusal *r)
{
	const struct op_options options = {.compute = op_compute(f.ops), .threads = 1};
	struct trainer_options o = f.t->options;
	enum op_status status;
	struct op_context *ops;
	struct trainer *t;

	(void)given;
	o.target_modules = NULL;
	status = op_open(&ops, &options);
	if (status != OP_OK)
		return model_refuse_op(r, NULL, status);
	if (trainer_open(&t, ops, f.files, &o, r) != 0) {
		op_close(ops);
		return -1;
	}
	f.t = t; /* the one before it is left to the end of the process */
	f.ops = ops;
	return 0;
}

static int
do_step(uint64_t *given, struct refusal *r)
{
	struct trainer_result result = {0};

	if (trainer_step(f.t, f.list, DATUMS, 1e-3, &result, r) != 0)
		return -1;
	*given = process_digest(DIGEST_BASIS, &result, sizeof(result));
	return 0;
}

/* Without dropout, so that it is a graph: its shape was seen when the session was opened. */
static int
do_repeat(uint64_t *given, struct refusal *r)
{
	const double dropout = f.t->options.dropout;
	int rc;

	f.t->options.dropout = 0;
	rc = do_step(given, r);
	f.t->options.dropout = dropout;
	return rc;
}

static int
do_evaluate(uint64_t *given, struct refusal *r)
{
	struct trainer_evaluation e = {0};
	double sums[DATUMS];

	if (trainer_evaluate(f.t, f.list, DATUMS, true, sums, NULL, &e, r) != 0)
		return -1;
	*given = process_digest(process_digest(DIGEST_BASIS, sums, sizeof(sums)), &e, sizeof(e));
	return 0;
}

static int
do_generate(uint64_t *given, struct refusal *r)
{
	const struct generate_options o = {.maximum = NEW_TOKENS, .adapter = true};
	int32_t out[NEW_TOKENS];
	size_t count;

	if (trainer_generate(f.t, f.ids[0], 7, &o, out, &count, r) != 0)
		return -1;
	*given = process_digest(DIGEST_BASIS, out, count * sizeof(*out));
	return 0;
}

static int
do_save(uint64_t *given, struct refusal *r)
{
	const size_t n = trainer_adapter(f.t)->size;
	float *all = malloc(3 * n * sizeof(*all));
	int rc = trainer_get(f.t, all, all + n, all + 2 * n, r);

	*given = process_digest(DIGEST_BASIS, all, 3 * n * sizeof(*all));
	free(all);
	return rc;
}

static int
do_load(uint64_t *given, struct refusal *r)
{
	(void)given;
	return put(r);
}

const struct operation process_operations[OPERATIONS] = {{"open", do_open}, {"step", do_step},
    {"repeat", do_repeat}, {"evaluate", do_evaluate}, {"generate", do_generate}, {"save", do_save},
    {"load", do_load}};

/* --- one process -------------------------------------------------------------------------------
 */

static size_t
memory_in_use(void)
{
	struct device_info info;

	return device_describe(&info, 0) == OP_OK ? info.memory - info.memory_free : 0;
}

static void
in_process(const struct run *run, struct outcome *out)
{
	struct refusal r = {0}, none = {0};
	const char *text;

	page->calls = page->fired = 0;
	page->nth = run->nth;
	page->error = (int32_t)(run->error & ~(uint32_t)LATE);
	page->late = (run->error & LATE) != 0;
	page->what = run->what;
	out->rc = run->operation->run(&out->given, &r);
	page->what = EMU_NOTHING;
	page->note = 0;
	out->fault = device_failed(&text);
	snprintf(out->text, sizeof(out->text), "%s", r.text);
	snprintf(out->failure, sizeof(out->failure), "%s", text);
	out->status = r.status;
	if (out->rc != 0 && out->fault == DEVICE_SOUND)
		out->again = run->operation->run(&out->given, &none);
	if (out->fault == DEVICE_SOUND) {
		const uint64_t step = trainer_step_count(f.t);

		out->unreadable = do_save(&out->left, &none);
		out->left = process_digest(out->left, &step, sizeof(step));
		out->memory = memory_in_use() - repeat_counted(f.ops).bytes;
	}
}

struct outcome
process_run(const struct run *run)
{
	pid_t pid;
	int status;

	fflush(stdout);
	memset(shared, 0, sizeof(*shared));
	pid = fork();
	if (pid == 0) {
		alarm(60);
		in_process(run, shared);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
		page->what = EMU_NOTHING;
		shared->rc = 0;
		shared->unreadable = 1;
		snprintf(shared->text, sizeof(shared->text), "the process ended by %d", status);
	}
	return *shared;
}

struct outcome
process_note(const struct operation *operation)
{
	const struct run run = {.operation = operation};

	page->noted = 0;
	page->note = 1;
	return process_run(&run);
}

const struct emu_fail_page *
process_page(void)
{
	return page;
}

/* --- what they have in common ------------------------------------------------------------------
 */

void
process_trainer_open(enum op_dtype compute)
{
	const struct op_options options = {.compute = compute, .threads = 1};
	struct trainer_options o = plain;
	struct refusal r = {0};
	uint64_t random = 7;
	size_t n;

	o.dropout = 0.1;
	o.graphs = true;
	memset(&f, 0, sizeof(f));
	f.tiny = tiny_default;
	tiny_model_write(&f.tiny, 3);
	if (op_open(&f.ops, &options) != OP_OK || model_files_open(&f.files, f.tiny.path, &r) != 0)
		abort();
	open_trainer(&f, &o);
	make_datums(&f);
	param = random_adapter(&f);
	n = trainer_adapter(f.t)->size;
	moments = malloc(n * sizeof(*moments));
	for (size_t i = 0; i < n; i++)
		moments[i] = (float)(1e-3 * (tiny_uniform(&random) + 1));
	if (do_repeat(&random, &r) != 0 || put(&r) != 0)
		abort();
	trainer_set_step_count(f.t, 0);
}

void
process_trainer_close(void)
{
	free(param);
	free(moments);
	teardown(&f);
}

bool
process_init(void)
{
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || shared == MAP_FAILED)
		return false;
	emu_fail_use(page);
	return true;
}
