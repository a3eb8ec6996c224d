/*
 * A trainer while its CUDA calls fail one by one: opened, trained, evaluated, asked to generate,
 * saved, loaded. `failing SECONDS SEED` tries some cases for a while, each place in the code once
 * before any twice; SECONDS 0 tries all. Prints `N passed, N failed`.
 *
 * A case is a process: what is done there may say that it failed, but what it calls done is, to the
 * last bit of what an undisturbed one gives and leaves. A failure that leaves the device sound
 * leaves everything as it was, and the same again succeeds; any other is known to the process, by
 * its class, before an answer would go out.
 */
#include "tests/cuda-emu/fail.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "kernels/device.h"
#include "kernels/repeat.h"
#include "tests/unit/trainer_fixture.h"
#include "worker/train/evaluate.h"
#include "worker/train/generate.h"

enum { NEW_TOKENS = 4, ERRORS_MOST = 5, LATE = 1 << 16, BASIS = 0x811c9dc5u };

/* Per class: CUDA's errors (cuBLAS' in the last two), | LATE where it is told later. */
static const int errors_of[EMU_CLASSES][ERRORS_MOST] = {
    [EMU_LAUNCH] = {719 | LATE, 700 | LATE, 214 | LATE, 701, 2},
    [EMU_MALLOC] = {2, 46, 700, 999},
    [EMU_FREE] = {719, 214},
    [EMU_HOST] = {2, 46},
    [EMU_COPY] = {719 | LATE, 214 | LATE, 700, 1},
    [EMU_SET] = {719 | LATE, 700},
    [EMU_STREAM] = {2, 46},
    [EMU_SYNC] = {719, 214, 46, 999},
    [EMU_ERROR] = {700, 214},
    [EMU_CAPTURE] = {900, 2, 801, 719},
    [EMU_GRAPH] = {719 | LATE, 214 | LATE, 700, 900, 2},
    [EMU_DEVICE] = {35, 46, 100, 3, 2},
    [EMU_BLAS] = {1, 3},
    [EMU_GEMM] = {13, 3, 700 | LATE, 14},
};

struct outcome {
	int rc, again;	/* of the operation, and of the same once more where it failed */
	uint64_t given; /* digest of what it gave */
	uint64_t left;	/* and of what the trainer holds then */
	int unreadable; /* it could not be read */
	enum device_fault fault;
	size_t memory; /* of the device, in use afterwards */
	unsigned status;
	char text[1000], failure[256];
};

static struct fixture f;
static float *param, *moments;
static struct emu_fail_page *page;
static struct outcome *shared;
static int passed, failed;

static uint64_t
digest(uint64_t hash, const void *data, size_t bytes)
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
	*given = digest(BASIS, &result, sizeof(result));
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
	*given = digest(digest(BASIS, sums, sizeof(sums)), &e, sizeof(e));
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
	*given = digest(BASIS, out, count * sizeof(*out));
	return 0;
}

static int
do_save(uint64_t *given, struct refusal *r)
{
	const size_t n = trainer_adapter(f.t)->size;
	float *all = malloc(3 * n * sizeof(*all));
	int rc = trainer_get(f.t, all, all + n, all + 2 * n, r);

	*given = digest(BASIS, all, 3 * n * sizeof(*all));
	free(all);
	return rc;
}

static int
do_load(uint64_t *given, struct refusal *r)
{
	(void)given;
	return put(r);
}

static const struct operation {
	const char *name;
	int (*run)(uint64_t *given, struct refusal *r);
} operations[] = {{"open", do_open}, {"step", do_step}, {"repeat", do_repeat},
    {"evaluate", do_evaluate}, {"generate", do_generate}, {"save", do_save}, {"load", do_load}};
enum { OPERATIONS = sizeof(operations) / sizeof(*operations) };

struct run {
	const struct operation *operation;
	uint32_t what, nth, error; /* what: a class; EMU_NOTHING: undisturbed; error | LATE */
};

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
		out->left = digest(out->left, &step, sizeof(step));
		out->memory = memory_in_use() - repeat_counted(f.ops).bytes;
	}
}

static struct outcome
run_process(const struct run *run)
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

/* --- judging -----------------------------------------------------------------------------------
 */

static enum device_fault
fault_of(const struct run *run)
{
	const bool blas = run->what == EMU_BLAS || run->what == EMU_GEMM;

	if (blas && (run->error & LATE) == 0)
		return run->error == 3 ? DEVICE_SOUND : DEVICE_FAULT;
	switch (run->error & ~(uint32_t)LATE) {
	case 2:
		return DEVICE_SOUND;
	case 214:
		return DEVICE_ECC;
	case 3:
	case 35:
	case 46:
	case 100:
	case 999:
		return DEVICE_LOST;
	default:
		return DEVICE_FAULT;
	}
}

static const char *
what_is_wrong(const struct run *run, const struct outcome *o, const struct outcome *quiet)
{
	const bool same = o->given == quiet->given && o->left == quiet->left;

	if (o->fault != DEVICE_SOUND)
		return o->fault != fault_of(run) ? "another class"
		       : o->failure[0] == '\0'	 ? "no words"
						 : NULL;
	if (o->unreadable != 0)
		return o->rc == 0 ? "a false success" : "unusable afterwards";
	if (o->rc == 0)
		return !same ? "another result" : NULL;
	if (o->text[0] == '\0' || o->status != 507)
		return "not refused for memory";
	if (o->again != 0)
		return "refused again";
	/* A workspace that was grown stays. */
	return !same ? "something changed" : o->memory > quiet->memory ? "a leak" : NULL;
}

static void
judge(const struct run *run, const struct outcome *quiet)
{
	const struct outcome o = run_process(run);
	const char *wrong = what_is_wrong(run, &o, quiet);

	if (wrong == NULL && page->fired != 1)
		wrong = "not met";
	if (wrong == NULL) {
		passed++;
		return;
	}
	failed++;
	printf("%s, class %u, call %u (%s), error %u%s: %s: %u \"%s\", \"%s\"\n",
	    run->operation->name, run->what, run->nth, page->name, run->error & ~(uint32_t)LATE,
	    run->error & LATE ? " late" : "", wrong, o.status, o.text, o.failure);
}

/* --- which cases --------------------------------------------------------------------------------
 */

struct plan {
	struct run *cases;
	uint64_t *place; /* of each: where in the code, and whether it is told there */
	size_t count, room;
	uint64_t random;
};

static void
plan_add(struct plan *p, const struct run *run, uint32_t site)
{
	const uint32_t late = run->error & LATE;

	if (p->count == p->room) {
		p->room = p->room == 0 ? 1024 : 2 * p->room;
		p->cases = realloc(p->cases, p->room * sizeof(*p->cases));
		p->place = realloc(p->place, p->room * sizeof(*p->place));
	}
	p->place[p->count] =
	    digest(digest(site, &run->what, sizeof(run->what)), &late, sizeof(late));
	p->cases[p->count++] = *run;
}

static void
plan_operation(struct plan *p, const struct operation *operation)
{
	struct run run = {.operation = operation};
	uint32_t calls[EMU_CLASSES] = {0};

	page->noted = 0;
	page->note = 1;
	run_process(&run);
	for (uint32_t i = 0; i < page->noted; i++) {
		run.what = page->call[i].what;
		run.nth = ++calls[run.what];
		for (int e = 0; e < ERRORS_MOST && errors_of[run.what][e] != 0; e++) {
			run.error = (uint32_t)errors_of[run.what][e];
			plan_add(p, &run, page->call[i].site);
		}
	}
}

static size_t
draw(struct plan *p, size_t n)
{
	p->random = p->random * 6364136223846793005u + 1442695040888963407u;
	return (size_t)((p->random >> 33) % n);
}

static void
swap(struct plan *p, size_t a, size_t b)
{
	const struct run run = p->cases[a];
	const uint64_t place = p->place[a];

	p->cases[a] = p->cases[b];
	p->place[a] = p->place[b];
	p->cases[b] = run;
	p->place[b] = place;
}

/* In the seed's order, and the first of each place before all others. How many places there are. */
static size_t
plan_order(struct plan *p)
{
	size_t firsts = 0;

	for (size_t i = p->count; i > 1; i--)
		swap(p, i - 1, draw(p, i));
	for (size_t i = 0; i < p->count; i++) {
		bool seen = false;

		for (size_t k = 0; k < firsts && !seen; k++)
			seen = p->place[k] == p->place[i];
		if (!seen)
			swap(p, firsts++, i);
	}
	return firsts;
}

static void
start(enum op_dtype compute)
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

/* Of processors, so that a busy machine tries as much as an idle one. */
static double
seconds(void)
{
	const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
	double sum = 0;

	for (int i = 0; i < 2; i++) {
		struct rusage u;

		getrusage(whose[i], &u);
		sum += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
		       1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
	}
	return sum;
}

static void
try_all(enum op_dtype compute, double most, uint64_t seed)
{
	struct outcome quiet[OPERATIONS];
	struct plan p = {.random = seed};
	size_t places, done = 0;
	double end;

	start(compute);
	for (size_t i = 0; i < OPERATIONS; i++) {
		quiet[i] = run_process(&(struct run){.operation = &operations[i]});
		if (quiet[i].rc != 0 || quiet[i].unreadable != 0)
			failed++;
		plan_operation(&p, &operations[i]);
	}
	places = plan_order(&p);
	end = seconds() + most;
	for (; done < p.count && (most <= 0 || seconds() < end); done++)
		judge(&p.cases[done], &quiet[p.cases[done].operation - operations]);
	printf("%s: %zu cases of %zu, %zu places of %zu\n", compute == OP_F32 ? "f32" : "bf16",
	    done, p.count, done < places ? done : places, places);
	free(p.cases);
	free(p.place);
	free(param);
	free(moments);
	teardown(&f);
}

int
main(int argc, char **argv)
{
	const double most = argc > 1 ? atof(argv[1]) : 20;
	const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	setenv("EMU_GUARD", "0", 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared =
	    mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || shared == MAP_FAILED)
		return 2;
	emu_fail_use(page);
	try_all(OP_F32, most / 2, seed);
	try_all(OP_BF16, most / 2, seed);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
