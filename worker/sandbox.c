#include "worker/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(_OPENMP) && defined(__clang__)
#include <omp.h>
#include <sys/mman.h>
#endif

#include "ipc/channel.h"
#include "ipc/list_text.h"
#include "ipc/log.h"
#include "worker/last_words.h"
#include "worker/sandbox_calls.h"
#include "worker/sandbox_gpu.h"
#include "worker/sandbox_landlock.h"
#include "worker/sandbox_user.h"

/* Files are mapped, then closed; of a GPU, each piece of mapped memory is a descriptor. */
enum { TEXT_MAX = 200, DESCRIPTORS = 256, GPU_DESCRIPTORS = 1024 };

static bool off, confined;	       /* off: by the setting; confined: sandbox_files was here */
static bool for_gpu, starting, closed; /* starting: its driver, by rules of its own */
static bool files_hold, broken;
static int channel_fd = -1;
static struct driver_choice device;
static char holds[TEXT_MAX], lacks[TEXT_MAX], text[2 * TEXT_MAX + 16];

/* A part that came into force or did not. Returns whether it did. */
static bool
told(const char *part, int error)
{
	if (error == 0) {
		list_text_add(holds, TEXT_MAX, "%s", part);
	} else {
		list_text_add(lacks, TEXT_MAX, "%s (%s)", part, strerror(-error));
		log_warning("the sandbox does without %s: %s", part, strerror(-error));
	}
	return error == 0;
}

static void
set_limits(void)
{
	const struct {
		int what;
		rlim_t most;
	} limits[] = {
	    {RLIMIT_CORE, 0}, /* training text is in its memory */
	    {RLIMIT_NOFILE, for_gpu ? GPU_DESCRIPTORS : DESCRIPTORS}, {RLIMIT_MSGQUEUE, 0},
	    /* Not RLIMIT_NPROC: it counts the threads of every process of the user, so that other
	       work would stop OpenMP's. Processes are what the system calls forbid. */
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
		struct rlimit r;

		if (getrlimit(limits[i].what, &r) != 0 || r.rlim_max < limits[i].most)
			continue;
		r = (struct rlimit){limits[i].most, limits[i].most};
		setrlimit(limits[i].what, &r);
	}
}

/* Nobody else of the same user reads its memory; the leak check has to. Nor who looks at a driver
   that starts (tests/check_gpu.sh): no text of anybody's is there yet. */
static void
close_memory(void)
{
	prctl(PR_SET_DUMPABLE, SANDBOX_SANITIZED || starting ? 1 : 0, 0, 0, 0);
}

/* A network without interfaces. The superuser takes it by right and keeps reading all models, as a
   user of its own then; others by a user namespace, where they are nobody. */
static int
leave_network(void)
{
	int worlds = CLONE_NEWNET | CLONE_NEWIPC;

	if (geteuid() != 0)
		worlds |= CLONE_NEWUSER;
	return unshare(worlds) == 0 ? 0 : -errno;
}

/* Permissions kept: the one to read models that belong to others, where stepd has it. */
static int
drop_capabilities(void)
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[2] = {{0}};

	if (syscall(SYS_capget, &header, sets) != 0)
		return -errno;
	sets[0].permitted &= 1u << CAP_DAC_READ_SEARCH;
	sets[0].effective = sets[0].permitted;
	sets[0].inheritable = 0;
	memset(&sets[1], 0, sizeof(sets[1]));
	return syscall(SYS_capset, &header, sets) == 0 ? 0 : -errno;
}

/* It works that should not: stepd is told, and the log. */
static void
tell_stepd(const char *worked)
{
	struct channel channel;
	char words[128];

	snprintf(words, sizeof(words), "the sandbox does not hold: %s was not stopped", worked);
	log_error("%s", words);
	if (channel_fd < 0)
		return;
	channel_init(&channel, channel_fd);
	last_words_say(&channel, "sandbox", words);
}

/* clang's OpenMP writes a file of shared memory at its start, so that two copies of it in one
   process find each other, and removes it at the end. Here there is one: its start is now, its end
   too. */
static void
start_openmp(void)
{
#if defined(_OPENMP) && defined(__clang__)
	char name[64];

	(void)omp_get_max_threads();
	snprintf(name, sizeof(name), "/__KMP_REGISTERED_LIB_%d_%d", (int)getpid(), (int)getuid());
	shm_unlink(name);
#endif
}

void
sandbox_for_gpu(const struct driver_choice *choice)
{
	for_gpu = true;
	device = *choice;
}

/* The filter, tried from inside: NULL, or what worked nevertheless. */
static const char *
filter_calls(enum sandbox_calls which)
{
	if (!told("system calls", sandbox_calls_filter(channel_fd, which)))
		return NULL;
	return sandbox_calls_probe();
}

int
sandbox_enter(int channel, const char *setting, const char *user)
{
	const char *worked = NULL;

	off = setting != NULL && strcmp(setting, "off") == 0;
	if (off)
		return 0;
	channel_fd = channel;
	starting = for_gpu;
	start_openmp();
	if (for_gpu)
		sandbox_gpu_environment();
	set_limits();
	told("network", leave_network());
	if (geteuid() == 0 && user != NULL)
		told("user", sandbox_user(user));
	close_memory();
	told("capabilities", drop_capabilities());
	/* For the case that there is no stepd to have done it. */
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	/* Where this fails, the filter of sandbox_close does too, and is told of. */
	if (for_gpu)
		sandbox_calls_filter(channel, CALLS_STARTING);
	else
		worked = filter_calls(CALLS_CPU);
	if (worked == NULL)
		return 0;
	tell_stepd(worked);
	return -1;
}

static int
refuse_broken(const char *worked, struct refusal *r)
{
	broken = true;
	log_error("the sandbox does not hold: %s was not stopped", worked);
	return refuse(r, 503, "the worker's sandbox does not hold");
}

/* One that opens by these flags was not stopped. */
static bool
opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Landlock holds the thread that asks for it, and those that it starts from then on. */
static bool
is_one_thread(void)
{
	DIR *d = opendir("/proc/self/task");
	int threads = -2; /* . and .. */

	while (d != NULL && readdir(d) != NULL)
		threads++;
	if (d != NULL)
		closedir(d);
	return threads <= 1;
}

int
sandbox_files(const char *model_path, struct refusal *r)
{
	static struct driver_rules rules;
	int version;

	if (broken)
		return refuse(r, 503, "the worker's sandbox does not hold");
	if (off || confined)
		return 0;
	/* Templates tell local time; libc keeps the zone once it has read it. */
	tzset();
	if (for_gpu && sandbox_gpu_rules(&rules, &device, r) != 0)
		return -1;
	/* A library of the driver's that starts them as it is loaded. */
	if (for_gpu && !is_one_thread())
		return refuse_broken("a thread that was there before", r);
	confined = true;
	version = sandbox_landlock(model_path, rules.rules, rules.count);
	files_hold = told("files", version < 0 ? version : 0) && !SANDBOX_SANITIZED;
	if (files_hold && opens("/", O_RDONLY | O_DIRECTORY))
		return refuse_broken("reading outside of the model", r);
	return 0;
}

int
sandbox_close(struct refusal *r)
{
	const char *worked;

	if (off || !starting || closed)
		return 0;
	closed = true;
	starting = false;
	close_memory();
	worked = filter_calls(CALLS_GPU);
	if (worked == NULL && files_hold && opens("/dev/null", O_RDWR))
		worked = "opening another device";
	return worked == NULL ? 0 : refuse_broken(worked, r);
}

const char *
sandbox_text(void)
{
	if (off)
		return "off";
	snprintf(text, sizeof(text), "%s%s%s", holds[0] != '\0' ? holds : "nothing",
	    lacks[0] != '\0' ? "; without " : "", lacks);
	return text;
}
