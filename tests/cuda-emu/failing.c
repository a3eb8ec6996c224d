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
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/cuda-emu/failing_plan.h"
#include "tests/cuda-emu/failing_process.h"

static int passed, failed;

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
	const struct outcome o = process_run(run);
	const struct emu_fail_page *page = process_page();
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

	process_trainer_open(compute);
	for (size_t i = 0; i < OPERATIONS; i++) {
		quiet[i] = process_run(&(struct run){.operation = &process_operations[i]});
		if (quiet[i].rc != 0 || quiet[i].unreadable != 0)
			failed++;
		plan_operation(&p, &process_operations[i]);
	}
	places = plan_order(&p);
	end = seconds() + most;
	for (; done < p.count && (most <= 0 || seconds() < end); done++)
		judge(&p.cases[done], &quiet[p.cases[done].operation - process_operations]);
	printf("%s: %zu cases of %zu, %zu places of %zu\n", compute == OP_F32 ? "f32" : "bf16",
	    done, p.count, done < places ? done : places, places);
	plan_fini(&p);
	process_trainer_close();
}

int
main(int argc, char **argv)
{
	const double most = argc > 1 ? atof(argv[1]) : 20;
	const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	setenv("EMU_GUARD", "0", 1);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!process_init())
		return 2;
	try_all(OP_F32, most / 2, seed);
	try_all(OP_BF16, most / 2, seed);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
