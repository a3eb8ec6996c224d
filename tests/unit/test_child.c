/* Worker processes: what they get, and every way in which they end. */
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/wire.h"
#include "kernels/device.h"
#include "supervisor/session/child.h"
#include "tests/unit/tree.h"

static struct event_base *base;
static char program[128];

struct watch {
	struct child *child;
	int ready, answers, died;
	enum message_type type, ask; /* sent when it is ready; 0 = nothing */
	bool end_when_ready;
	struct child_death death;
	char words[600];
};

static void
on_ready(void *ctx, const struct message_ready *ready)
{
	struct watch *w = ctx;

	w->ready++;
	CHECK_STR(ready->device, "cpu");
	if (w->ask != 0)
		CHECK(child_send(w->child, w->ask, NULL, 0, -1, 1) == 0);
	if (w->end_when_ready)
		child_end(w->child);
}

static int
on_answer(void *ctx, struct message *m)
{
	struct watch *w = ctx;

	w->answers++;
	w->type = m->type;
	return 0;
}

static void
on_died(void *ctx, const struct child_death *death)
{
	struct watch *w = ctx;

	w->died++;
	w->death = *death;
	snprintf(w->words, sizeof(w->words), "%s", death->words);
	event_base_loopbreak(base);
}

/* A program that runs `line` of shell, the channel's arguments being "$@". */
static void
write_program(const char *line)
{
	FILE *file = fopen(program, "w");

	fprintf(file, "#!/bin/sh\n%s\n", line);
	fclose(file);
	chmod(program, 0700);
}

static struct watch
run_program(const char *line, enum message_type ask)
{
	static const struct child_events events = {on_ready, on_answer, on_died};
	struct child_options options = {.program = program, .ready_seconds = 2, .end_seconds = 1};
	static struct watch w;

	memset(&w, 0, sizeof(w));
	w.ask = ask;
	w.end_when_ready = ask == 0;
	write_program(line);
	CHECK(child_start(&w.child, base, &options, &events, &w) == 0);
	if (w.child != NULL)
		event_base_dispatch(base);
	CHECK(w.died == 1);
	return w;
}

/* The fault worker with one fault. */
static struct watch
run_fault(const char *fault, enum message_type ask)
{
	char line[512], self[256];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	snprintf(line, sizeof(line), "exec %s/fault-worker %s \"$@\"", self, fault);
	return run_program(line, ask);
}

TEST(it_ends_as_asked)
{
	struct watch w = run_fault("", 0);

	CHECK(w.ready == 1 && w.answers == 0);
	CHECK(w.death.class == CHILD_CLEAN && w.death.exit_status == 0 && w.death.signal == -1);
}

TEST(every_end_has_its_class)
{
	static const struct {
		const char *fault;
		enum child_class class;
		int signal, status;
	} ends[] = {
	    {"GENERATE:1:kill", CHILD_KILLED, SIGKILL, -1},
	    {"GENERATE:1:crash", CHILD_SIGNAL, SIGSEGV, -1},
	    {"GENERATE:1:sandbox", CHILD_SANDBOX, SIGSYS, -1},
	    {"GENERATE:1:exit", CHILD_EXITED, -1, 3},
	    {"GENERATE:1:clean", CHILD_EXITED, -1, 0},
	    {"GENERATE:1:words", CHILD_DEVICE_OOM, -1, 1},
	    {"GENERATE:1:hang", CHILD_HANG, SIGTERM, -1},
	    {"GENERATE:1:stubborn", CHILD_HANG, SIGKILL, -1},
	    {"GENERATE:1:garbage", CHILD_BAD_FRAME, SIGTERM, -1},
	    {"GENERATE:1:number", CHILD_BAD_FRAME, SIGTERM, -1},
	    {"GENERATE:1:twice", CHILD_BAD_FRAME, SIGTERM, -1},
	    {"GENERATE:1:close", CHILD_HANG, SIGTERM, -1},
	    {"READY:1:exit", CHILD_START_FAILED, -1, 3},
	    {"READY:1:hang", CHILD_HANG, SIGTERM, -1},
	    {"READY:1:protocol", CHILD_BAD_FRAME, SIGTERM, -1},
	    {"READY:1:twice", CHILD_BAD_FRAME, SIGTERM, -1},
	};

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		struct watch w = run_fault(ends[i].fault, MSG_GENERATE);

		CHECK_MSG(w.death.class == ends[i].class, "%s: %s", ends[i].fault,
		    child_class_name(w.death.class));
		CHECK_MSG(w.death.signal == ends[i].signal, "%s: signal %d", ends[i].fault,
		    w.death.signal);
		CHECK_MSG(w.death.exit_status == ends[i].status, "%s: status %d", ends[i].fault,
		    w.death.exit_status);
		if (ends[i].class == CHILD_DEVICE_OOM)
			CHECK_STR(w.words, "no memory for 4 GiB of activations");
	}
}

/* The answer is read although the worker is gone by then. */
TEST(a_last_answer_counts)
{
	struct watch w = run_fault("GENERATE:1:last", MSG_GENERATE);

	CHECK(w.answers == 1 && w.type == MSG_GENERATED);
	CHECK(w.death.class == CHILD_EXITED);
}

TEST(nothing_leaks_into_it)
{
	char line[1024];
	struct watch w;

	setenv("TRAINER_TOKEN", "a-secret-of-the-supervisor", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "another", 1);
	setenv("OMP_NUM_THREADS", "3", 1);
	/* The shell tells by its exit status what it sees. 10 or 255 is where it reads its script,
	   and the folder it lists is closed again by the time it looks. */
	snprintf(line, sizeof(line),
	    "env | grep -q -e secret -e SECRET -e '^HOME=' && exit 11\n"
	    "[ \"$OMP_NUM_THREADS\" = 3 ] || exit 12\n"
	    "[ \"$*\" = '--channel 3' ] || exit 13\n"
	    "[ \"$(readlink /proc/$$/fd/0)\" = /dev/null ] || exit 14\n"
	    "case $(readlink /proc/$$/fd/3) in socket:*) ;; *) exit 15 ;; esac\n"
	    "for fd in /proc/$$/fd/*; do [ -L $fd ] || continue; case ${fd##*/} in 0|1|2|3|10|255) "
	    ";; *) exit 16 ;; esac; "
	    "done\n"
	    "grep -q 'NoNewPrivs:.1' /proc/$$/status || exit 17\n"
	    "[ \"$(ps -o pgid= -p $$ | tr -d ' ')\" = $$ ] || exit 18\n"
	    "exit 42");
	w = run_program(line, MSG_GENERATE);
	CHECK_MSG(w.death.exit_status == 42, "%d", w.death.exit_status);
	CHECK(w.death.class == CHILD_START_FAILED);
}

TEST(what_does_not_start_is_an_error)
{
	static const struct child_events events = {on_ready, on_answer, on_died};
	struct child_options options = {
	    .program = "/nonexistent/worker", .ready_seconds = 2, .end_seconds = 1};
	struct child *c;

	CHECK(child_start(&c, base, &options, &events, NULL) == -ENOENT);
	CHECK(c == NULL);
	options.program = "/etc/passwd";
	CHECK(child_start(&c, base, &options, &events, NULL) == -EACCES);
}

TEST(its_children_go_with_it)
{
	struct watch w = run_program("sleep 1000 & echo $! > $0.pid; exit 5", MSG_GENERATE);
	char path[160];
	int pid = 0;
	FILE *file;

	CHECK(w.death.exit_status == 5);
	snprintf(path, sizeof(path), "%s.pid", program);
	file = fopen(path, "r");
	CHECK(file != NULL && fscanf(file, "%d", &pid) == 1);
	fclose(file);
	for (int i = 0; i < 100 && kill(pid, 0) == 0; i++) {
		snprintf(path, sizeof(path), "/proc/%d/stat", pid);
		file = fopen(path, "r");
		/* Gone, or a zombie that nobody has reaped. */
		if (file == NULL || fscanf(file, "%*d %*s %*[Z]") == EOF)
			break;
		fclose(file);
		usleep(10000);
	}
	unlink(path);
}

TEST(out_of_memory_kills_are_counted)
{
	tree_write("proc/vmstat", "nr_free_pages 5\noom_kill 4\n");
	CHECK(child_oom_kills(tree_root) == 4);
	tree_write("proc/self/cgroup", "7:memory:/job\n3:cpu,cpuacct:/job\n");
	tree_write("sys/fs/cgroup/memory/job/memory.oom_control",
	    "oom_kill_disable 0\nunder_oom 0\noom_kill 6\n");
	CHECK(child_oom_kills(tree_root) == 6);
	tree_write("proc/self/cgroup", "0::/stepd.service\n");
	tree_write("sys/fs/cgroup/stepd.service/memory.events", "low 0\noom 9\noom_kill 8\n");
	CHECK(child_oom_kills(tree_root) == 8);
	CHECK(child_oom_kills("/nonexistent") == -ENOENT);
}

TEST(memory_kills_are_told_from_others)
{
	struct child_facts f = {
	    .code = CLD_KILLED, .status = SIGKILL, .was_ready = true, .last_class = ""};

	CHECK(child_classify(&f) == CHILD_KILLED);
	f.oom_killed = true;
	CHECK(child_classify(&f) == CHILD_HOST_OOM);
	f.asked_to_end = true;
	CHECK(child_classify(&f) == CHILD_HOST_OOM);
	f.oom_killed = false;
	CHECK(child_classify(&f) == CHILD_CLEAN);
	f.status = SIGSEGV;
	CHECK(child_classify(&f) == CHILD_SIGNAL);
	f.last_class = "device_lost";
	CHECK(child_classify(&f) == CHILD_DEVICE_LOST);
	f.last_class = "clean"; /* nothing that a worker may say of itself */
	CHECK(child_classify(&f) == CHILD_SIGNAL);
}

/* What the worker says of its device is what stepd knows it by. */
TEST(device_faults_are_classes)
{
#define NAME(name, class) class,
	static const char *const said[] = {DEVICE_FAULT_LIST(NAME)};
#undef NAME
	struct child_facts f = {.code = CLD_EXITED, .status = 1, .was_ready = true};

	for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
		f.last_class = said[i];
		CHECK_STR(child_class_name(child_classify(&f)), said[i]);
	}
	CHECK(child_class_remedy(CHILD_DEVICE_FAULT) == REMEDY_BLAME);
	CHECK(child_class_remedy(CHILD_DEVICE_LOST) == REMEDY_PROBE);
	CHECK(child_class_remedy(CHILD_DEVICE_ECC) == REMEDY_PROBE);
	CHECK(child_class_remedy(CHILD_KILLED) == REMEDY_RETRY);
}

static void
set_up(void)
{
	snprintf(program, sizeof(program), "%s/worker", tree_root);
	base = event_base_new();
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(it_ends_as_asked),
	    TEST_CASE(every_end_has_its_class), TEST_CASE(a_last_answer_counts),
	    TEST_CASE(nothing_leaks_into_it), TEST_CASE(what_does_not_start_is_an_error),
	    TEST_CASE(its_children_go_with_it), TEST_CASE(out_of_memory_kills_are_counted),
	    TEST_CASE(memory_kills_are_told_from_others), TEST_CASE(device_faults_are_classes),
	    {NULL, NULL}};
	int rc = tree_test_main(cases, set_up, argc, argv);

	event_base_free(base);
	return rc;
}
