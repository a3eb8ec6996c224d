/*
 * stepctl train: rows in, an adapter out, through the HTTP contract like any client.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ipc/json_write.h"
#include "supervisor/ctl/options.h"
#include "supervisor/ctl/plan.h"
#include "supervisor/ctl/print.h"
#include "supervisor/ctl/progress.h"
#include "supervisor/ctl/remote.h"
#include "supervisor/ctl/service.h"
#include "supervisor/ctl/unpack.h"
#include "supervisor/ctl/verbs.h"

static const struct ctl_option options[] = {
    {"data", "FILE", NULL, "rows: JSON lines of messages, or of prompt and completion"},
    {"out", "FOLDER", NULL, "where adapter/ and state.safetensors go"},
    {"model", "NAME|PATH", NULL,
	"base model (else $MODEL_ID); a folder or GGUF file where stepctl starts stepd"},
    {"rank", "N", "8", "rank of the adapter"},
    {"lr", "X", "1e-4", "learning rate"},
    {"epochs", "N", "1", "times that every row is used"},
    {"batch-size", "N", "8", "rows a step"},
    {"batch-tokens", "N", NULL, "tokens a step, about, instead of --batch-size"},
    {"max-tokens", "N", NULL, "longest row in tokens; context beyond it is cut at the front"},
    {"max-steps", "N", NULL, "stop after so many steps"},
    {"seed", "N", "0", "of the adapter's start and of the rows' order"},
    {"in-order", NULL, NULL, "take the rows in the file's order, not shuffled"},
    {"resume", "FILE", NULL, "go on from a state file: its step is where the rows go on"},
    CTL_SERVICE_OPTIONS,
    {"retry", "SECONDS", "600",
	"how long to go on trying where that service is away or busy; 0: not at all"},
    {"json", NULL, NULL, "print the outcome as JSON"},
    {NULL, NULL, NULL, NULL},
};

struct run {
	struct ctl_arguments arguments;
	struct remote_options open;
	struct plan_options how;
	double learning_rate;
	unsigned retry_seconds;
	uint64_t max_steps; /* 0 = no limit */
	const char *out;
	struct rows rows;
	struct plan plan;
	struct service service;
	struct remote remote;
	struct progress progress;
	double first_loss;
	double tokens_per_second;
	bool interrupted;
};

static volatile sig_atomic_t stop_asked;

static void
on_stop(int number)
{
	static const char text[] =
	    "\nstepctl: stopping after this step, and saving (once more drops what is not saved)\n";

	int error = errno;

	(void)number;
	if (stop_asked++ > 0 && !service_kill())
		_exit(CTL_INTERRUPTED);
	if (stop_asked == 1 && write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		stop_asked = 1; /* nobody reads it: saves all the same */
	errno = error;
}

static int
read_numbers(struct run *run)
{
	const struct ctl_arguments *a = &run->arguments;
	uint64_t epochs, batch = 0, tokens = 0, retry;

	if (ctl_uint(a, "rank", 1, 4096, &run->open.rank) != 0 ||
	    ctl_positive(a, "lr", &run->learning_rate) != 0 ||
	    ctl_uint(a, "epochs", 1, 100000, &epochs) != 0 ||
	    ctl_uint(a, "batch-size", 1, 1000000, &batch) != 0 ||
	    ctl_uint(a, "seed", 0, UINT32_MAX, &run->open.seed) != 0 ||
	    ctl_uint(a, "retry", 0, 1000000, &retry) != 0)
		return -1;
	run->retry_seconds = (unsigned)retry;
	if (ctl_switch(a, "batch-tokens")) {
		if (ctl_uint(a, "batch-tokens", 1, 1u << 30, &tokens) != 0)
			return -1;
		batch = 0;
	}
	if (ctl_switch(a, "max-tokens") &&
	    ctl_uint(a, "max-tokens", 2, 1u << 30, &run->open.max_tokens) != 0)
		return -1;
	if (ctl_switch(a, "max-steps") &&
	    ctl_uint(a, "max-steps", 1, 1u << 30, &run->max_steps) != 0)
		return -1;
	run->how = (struct plan_options){.epochs = epochs,
	    .batch_size = batch,
	    .batch_tokens = tokens,
	    .shuffle = !ctl_switch(a, "in-order"),
	    .seed = run->open.seed};
	return 0;
}

static int
read_arguments(struct run *run, int argc, char **argv)
{
	const struct ctl_arguments *a = &run->arguments;
	static const char *const required[] = {"data", "out"};

	if (ctl_parse(&run->arguments, options, argc, argv) != 0)
		return -1;
	if (a->operand_count > 0) {
		fprintf(stderr, "stepctl: train takes options only, not %s\n", a->operands[0]);
		return -1;
	}
	for (size_t i = 0; i < sizeof(required) / sizeof(*required); i++) {
		if (ctl_value(a, required[i]) == NULL) {
			fprintf(stderr, "stepctl: train needs --%s\n", required[i]);
			return -1;
		}
	}
	run->out = ctl_value(a, "out");
	run->open.model =
	    ctl_value(a, "model") != NULL ? ctl_value(a, "model") : getenv("MODEL_ID");
	if (run->open.model == NULL) {
		fputs("stepctl: train needs --model, or MODEL_ID in the environment\n", stderr);
		return -1;
	}
	run->open.resume = ctl_value(a, "resume");
	if (run->open.resume != NULL && access(run->open.resume, R_OK) != 0) {
		fprintf(stderr, "stepctl: %s: %s\n", run->open.resume, strerror(errno));
		return -1;
	}
	return read_numbers(run);
}

/* The service: the one given, or a private one. */
static int
connect_service(struct run *run)
{
	const struct ctl_arguments *a = &run->arguments;
	char log[PATH_MAX];

	if (ctl_value(a, "url") != NULL || getenv("STEPD_URL") != NULL) {
		run->remote.client = client_from_options(a);
		if (run->remote.client == NULL)
			return CTL_USAGE;
		client_patience(run->remote.client, run->retry_seconds, &stop_asked);
		return 0;
	}
	if (snprintf(log, sizeof(log), "%s/stepd.log", run->out) >= (int)sizeof(log))
		return CTL_USAGE;
	run->remote.client = service_start(&run->service, run->open.model, run->out, log);
	if (run->remote.client == NULL)
		return run->service.failure;
	run->open.model = run->service.model;
	return 0;
}

/* Steps that are left of the plan, from the session's step on. */
static int
steps_left(const struct run *run, size_t *first, size_t *end)
{
	*first = run->open.resume != NULL ? run->remote.step : 0;
	*end = run->plan.steps;
	if (run->max_steps > 0 && *end - (*first < *end ? *first : *end) > run->max_steps)
		*end = *first + run->max_steps;
	if (*first < *end)
		return 0;
	fprintf(stderr,
	    "stepctl: %s is at step %zu and the rows make %zu: nothing is left; more --epochs?\n",
	    run->open.resume, *first, run->plan.steps);
	return CTL_USAGE;
}

static int
train(struct run *run)
{
	struct remote_result result;
	size_t first, end;
	int rc = steps_left(run, &first, &end);

	if (rc != 0)
		return rc;
	progress_start(&run->progress, end - first);
	for (size_t s = first; rc == 0 && s < end && !stop_asked; s++) {
		size_t from = run->plan.start[s];

		rc = remote_train(&run->remote, run->plan.order + from,
		    run->plan.start[s + 1] - from, run->learning_rate, &result);
		if (rc != 0)
			break;
		if (s == first)
			run->first_loss = result.loss;
		progress_step(&run->progress, run->remote.step, result.loss, result.input_tokens);
	}
	run->tokens_per_second = progress_tokens_per_second(&run->progress);
	progress_end(&run->progress);
	return rc;
}

/* Both artifacts, the adapter unpacked. */
static int
save(struct run *run)
{
	char path[PATH_MAX];
	int rc;

	if (snprintf(path, sizeof(path), "%s/state.safetensors", run->out) >= (int)sizeof(path))
		return CTL_USAGE;
	fputs("saving\n", stderr);
	rc = remote_save(&run->remote, "state", path);
	if (rc != 0)
		return rc;
	snprintf(path, sizeof(path), "%s/adapter.tar.gz", run->out);
	rc = remote_save(&run->remote, "sampling", path);
	if (rc != 0)
		return rc;
	return unpack_adapter(path, run->out) == 0 ? 0 : CTL_FAILED;
}

static int
print_outcome(const struct run *run)
{
	struct json_writer w;

	if (!ctl_switch(&run->arguments, "json")) {
		printf("adapter      %s/adapter\n"
		       "state        %s/state.safetensors\n"
		       "steps        %llu\n"
		       "first loss   %.4f\n"
		       "last loss    %.4f\n"
		       "tokens/s     %.0f\n",
		    run->out, run->out, (unsigned long long)run->remote.step, run->first_loss,
		    run->remote.last_loss, run->tokens_per_second);
		return 0;
	}
	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "out", run->out);
	json_put_uint(&w, "step", run->remote.step);
	json_put_double(&w, "first_loss", run->first_loss);
	json_put_double(&w, "last_loss", run->remote.last_loss);
	json_put_double(&w, "tokens_per_second", run->tokens_per_second);
	json_put_bool(&w, "interrupted", run->interrupted);
	json_write_object_end(&w);
	return print_json(&w);
}

static int
do_run(struct run *run)
{
	int rc = connect_service(run);

	if (rc == 0) {
		fputs("loading the model\n", stderr);
		rc = remote_open(&run->remote, &run->open);
	}
	if (rc == 0 && !stop_asked) {
		fprintf(stderr, "rendering %zu rows\n", run->rows.count);
		rc = remote_render(&run->remote, &run->rows);
	}
	if (rc == 0 && !stop_asked)
		rc = train(run);
	if (run->progress.done > 0 && (rc == 0 || rc == CTL_REFUSED)) {
		int saved = save(run);

		rc = rc != 0 ? rc : saved;
	}
	/* A private service goes away with its session: nobody could come back to it. On another,
	   steps that could not be saved stay where they are. */
	if (run->remote.client != NULL && rc != CTL_UNREACHABLE)
		remote_close(&run->remote, run->service.pid > 0 || run->progress.done == 0);
	run->interrupted = stop_asked != 0;
	if (rc == 0 && run->progress.done > 0)
		rc = print_outcome(run);
	else if (run->interrupted)
		fprintf(stderr, "stepctl: stopped%s\n",
		    run->progress.done == 0 ? " before the first step"
					    : "; what was not saved is dropped");
	return run->interrupted && (rc == 0 || stop_asked > 1) ? CTL_INTERRUPTED : rc;
}

static int
train_run(int argc, char **argv)
{
	static struct run run;
	int rc;

	if (read_arguments(&run, argc, argv) != 0)
		return CTL_USAGE;
	if (rows_read(&run.rows, ctl_value(&run.arguments, "data")) != 0)
		return CTL_USAGE;
	if (plan_make(&run.plan, &run.rows, &run.how) != 0)
		return ctl_out_of_memory();
	if (mkdir(run.out, 0777) != 0 && errno != EEXIST) {
		fprintf(stderr, "stepctl: %s: %s\n", run.out, strerror(errno));
		return CTL_USAGE;
	}
	service_signals(on_stop);
	rc = do_run(&run);
	client_free(run.remote.client);
	service_stop(&run.service);
	remote_fini(&run.remote);
	plan_fini(&run.plan);
	rows_fini(&run.rows);
	return rc;
}

const struct ctl_verb ctl_train = {"train", "--data FILE --model NAME|PATH --out FOLDER [options]",
    "trains an adapter on rows, one optimizer step per request", options, train_run, NULL};
