/* Which nodes are a GPU's, what a worker on it may open, and that Landlock sees it the same way. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"
#include "worker/driver_rules.h"
#include "worker/sandbox_calls.h"

static const char first[] = "GPU-aaaaaaaa-0000-0000-0000-000000000000",
		  second[] = "GPU-bbbbbbbb-0000-0000-0000-000000000000",
		  part[] = "MIG-00000000-1111-2222-3333-444444444444";
static char root[64];

/* A file and the folders that it is in. */
static void
put(const char *path, const char *text)
{
	char full[PATH_MAX];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
		*at = '\0';
		mkdir(full, 0755);
		*at = '/';
	}
	file = fopen(full, "w");
	CHECK_MSG(file != NULL && fputs(text, file) >= 0, "%s", full);
	if (file != NULL)
		fclose(file);
}

static void
put_gpu(const char *bus, const char *uuid, int minor)
{
	char path[128], text[256];

	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", bus);
	snprintf(text, sizeof(text),
	    "Model: \t\t NVIDIA A100\nIRQ:   \t\t 95\nGPU UUID: \t %s\nBus Type: \t PCIe\n"
	    "Device Minor: \t %d\nGPU Excluded:\t No\n",
	    uuid, minor);
	put(path, text);
	snprintf(path, sizeof(path), "/dev/nvidia%d", minor);
	put(path, "");
}

/* Two GPUs, whose numbers are not in the order of their places, one of them with a part. */
static void
set_up(void)
{
	strcpy(root, "/tmp/driver-XXXXXX");
	CHECK(mkdtemp(root) != NULL);
	put_gpu("0000:3b:00.0", first, 1);
	put_gpu("0000:86:00.0", second, 3);
	put("/proc/driver/nvidia/capabilities/gpu3/mig/gi2/access",
	    "DeviceFileMinor: 30\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
	put("/proc/driver/nvidia/capabilities/gpu3/mig/gi2/ci0/access",
	    "DeviceFileMinor: 31\nDeviceFileMode: 292\nDeviceFileModify: 1\n");
	put("/dev/nvidia-caps/nvidia-cap30", "");
	put("/dev/nvidia-caps/nvidia-cap31", "");
	put("/dev/nvidia-caps/nvidia-cap40", "");
	put("/dev/nvidiactl", "");
	put("/dev/nvidia-uvm", "");
}

static void
tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK(system(command) == 0);
}

static bool
is_listed(const struct driver_rules *rules, const char *path)
{
	for (size_t i = 0; i < rules->count; i++) {
		if (strcmp(rules->rules[i].path + strlen(root), path) == 0)
			return true;
	}
	return false;
}

static struct driver_nodes nodes;
static struct driver_rules rules;
static struct refusal r;

static int
choose(const char *uuid, const char *bus)
{
	int rc = driver_nodes_find(&nodes, root, &(struct driver_choice){uuid, bus}, &r);

	if (rc == 0)
		driver_rules_list(&rules, root, &nodes, "/usr/lib/nvidia/libcuda.so.1");
	return rc;
}

TEST(a_gpu_has_its_own_node_and_no_other)
{
	set_up();
	CHECK(choose(second, NULL) == 0 && nodes.count == 1 && nodes.cap_count == 0);
	CHECK(nodes.gpus[0].minor == 3);
	CHECK(is_listed(&rules, "/dev/nvidia3") && !is_listed(&rules, "/dev/nvidia1"));
	CHECK(is_listed(&rules, "/sys/bus/pci/devices/0000:86:00.0"));
	CHECK(!is_listed(&rules, "/sys/bus/pci/devices/0000:3b:00.0"));
	CHECK(is_listed(&rules, "/dev/nvidiactl") && is_listed(&rules, "/dev/nvidia-uvm") &&
	      is_listed(&rules, "/usr/lib/nvidia"));
	for (size_t i = 0; i < rules.count; i++)
		CHECK_MSG(
		    strstr(rules.rules[i].path, "nvidia-cap") == NULL, "%s", rules.rules[i].path);
	/* As CUDA tells it, in capitals too. */
	CHECK(choose("GPU-AAAAAAAA-0000-0000-0000-000000000000", NULL) == 0);
	CHECK(nodes.count == 1 && nodes.gpus[0].minor == 1);
	tear_down();
}

TEST(a_gpu_that_is_asleep_is_found_by_its_place)
{
	set_up();
	put_gpu("0000:3b:00.0", "GPU-????????", 1);
	CHECK(choose(first, NULL) == -1 && r.status == 503 && strstr(r.text, first) != NULL);
	CHECK(choose(first, "0000:3b:00.0") == 0 && nodes.count == 1 && nodes.gpus[0].minor == 1);
	CHECK(choose(first, "0000:3c:00.0") == -1);
	tear_down();
}

/* The libraries that libcuda opens later lie where it lies, or where it is a link to. */
TEST(links_to_a_drivers_libraries_are_followed)
{
	char link[PATH_MAX];

	set_up();
	CHECK(choose(first, NULL) == 0 && is_listed(&rules, "/usr/lib/nvidia") &&
	      !is_listed(&rules, "/usr/local/nvidia/lib64"));
	put("/usr/local/nvidia/lib64/libcuda.so.580.1", "");
	put("/usr/lib/nvidia/other", "");
	snprintf(link, sizeof(link), "%s/usr/lib/nvidia/libcuda.so.1", root);
	CHECK(symlink("../../local/nvidia/lib64/libcuda.so.580.1", link) == 0);
	CHECK(choose(first, NULL) == 0 && is_listed(&rules, "/usr/lib/nvidia") &&
	      is_listed(&rules, "/usr/local/nvidia/lib64"));
	tear_down();
}

TEST(an_unknown_gpu_is_refused)
{
	set_up();
	CHECK(choose("GPU-cccccccc-0000-0000-0000-000000000000", NULL) == -1);
	CHECK(r.status == 503);
	/* A number that is none. */
	put("/proc/driver/nvidia/gpus/0000:86:00.0/information",
	    "GPU UUID: \t GPU-bbbbbbbb-0000-0000-0000-000000000000\nDevice Minor: \t -1\n");
	CHECK(choose(second, NULL) == -1);
	tear_down();
}

TEST(a_probe_sees_all)
{
	set_up();
	CHECK(choose(NULL, NULL) == 0 && nodes.count == 2 && nodes.cap_count == 3);
	CHECK(is_listed(&rules, "/dev/nvidia1") && is_listed(&rules, "/dev/nvidia3") &&
	      is_listed(&rules, "/dev/nvidia-caps/nvidia-cap40"));
	tear_down();
}

/* A container that hides the driver's files. */
TEST(without_the_drivers_files)
{
	strcpy(root, "/tmp/driver-XXXXXX");
	CHECK(mkdtemp(root) != NULL);
	CHECK(choose(first, NULL) == 0 && nodes.count == 0);
	put("/dev/nvidiactl", "");
	put("/dev/nvidia-uvm", "");
	CHECK(choose(first, NULL) == 0 && nodes.count == 0);
	put("/dev/nvidia5", "");
	CHECK(choose(first, NULL) == 0 && nodes.count == 1 && nodes.gpus[0].minor == 5);
	put("/dev/nvidia6", "");
	CHECK(choose(first, NULL) == -1 && r.status == 503);
	tear_down();
}

TEST(a_part_of_a_gpu_has_its_nodes)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 32);

	set_up();
	CHECK(choose(part, NULL) == -1 && r.status == 503 && strstr(r.text, part) != NULL);
	CHECK(n > 0);
	path[n] = '\0';
	strcpy(strrchr(path, '/'), "/libfake-nvml.so");
	CHECK_MSG(dlopen(path, RTLD_NOW) != NULL, "%s", dlerror());
	CHECK_MSG(choose(part, NULL) == 0, "%s", r.text);
	CHECK(nodes.count == 1 && nodes.gpus[0].minor == 3 && nodes.cap_count == 2);
	CHECK(is_listed(&rules, "/dev/nvidia3") && !is_listed(&rules, "/dev/nvidia1"));
	CHECK(is_listed(&rules, "/dev/nvidia-caps/nvidia-cap30") &&
	      is_listed(&rules, "/dev/nvidia-caps/nvidia-cap31") &&
	      !is_listed(&rules, "/dev/nvidia-caps/nvidia-cap40"));
	CHECK(choose("MIG-00000000-1111-2222-3333-555555555555", NULL) == -1);
	put("/proc/driver/nvidia/capabilities/gpu3/mig/gi2/ci0/access", "DeviceFileMode: 292\n");
	CHECK(choose(part, NULL) == -1 && r.status == 503);
	tear_down();
}

TEST(whose_a_uuid_is)
{
	set_up();
	CHECK(!driver_nodes_is_part(root, first, "0000:3b:00.0"));
	CHECK(driver_nodes_is_part(root, second, "0000:3b:00.0"));
	CHECK(!driver_nodes_is_part(root, second, "0000:99:00.0"));
	put_gpu("0000:3b:00.0", "GPU-????????", 1);
	CHECK(!driver_nodes_is_part(root, second, "0000:3b:00.0"));
	tear_down();
}

static void *
wait_forever(void *tid)
{
	*(volatile pid_t *)tid = (pid_t)syscall(SYS_gettid);
	for (;;)
		pause();
	return NULL;
}

static bool
writes(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	bool right = fd >= 0 && write(fd, "name", 4) == 4;

	if (fd >= 0)
		close(fd);
	return right;
}

/* Devices of this machine for those of a driver. The number of what did not behave, or 0. */
static int
look(void)
{
	static const struct landlock_rule list[] = {{"/dev/null", LANDLOCK_DEVICE},
	    {"/dev/zero", LANDLOCK_SOURCE}, {"/proc/self/task", LANDLOCK_WRITE}};
	static volatile pid_t tid;
	pthread_t thread;
	char path[64], data[4];
	int version = sandbox_landlock(NULL, list, 3), fd;

	if (version < 0)
		return 100;
	fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0 || write(fd, "x", 1) != 1)
		return 1;
	/* It comes to the device, which knows no such command. */
	if (ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, 'F', 0x2a, 32), data) != -1 || errno != ENOTTY)
		return 2;
	/* Another one, and one that is only to be read. */
	if (open("/dev/full", O_RDONLY) >= 0 || errno != EACCES)
		return 3;
	if (open("/dev/zero", O_RDWR) >= 0 || errno != EACCES)
		return 4;
	fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, data, 4) != 4)
		return 5;
	if (version >= 5 &&
	    (ioctl(fd, _IOC(_IOC_READ, 'F', 0x2a, 32), data) != -1 || errno != EACCES))
		return 6;
	if (pthread_create(&thread, NULL, wait_forever, (void *)&tid) != 0)
		return 7;
	while (tid == 0)
		sched_yield();
	snprintf(path, sizeof(path), "/proc/self/task/%d/comm", (int)tid);
	if (!writes(path))
		return 8;
	if (open("/proc/self/oom_score_adj", O_RDWR) >= 0 || errno != EACCES)
		return 9;
	if (open("/proc/self/maps", O_RDONLY) >= 0 || errno != EACCES)
		return 10;
	return 0;
}

TEST(landlock_admits_a_device_and_its_commands)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(SANDBOX_SANITIZED ? 100 : look());
	waitpid(pid, &status, 0);
	/* 100: a kernel without Landlock */
	CHECK_MSG(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 100),
	    "status %#x", status);
}

/* A kernel that does not know SECCOMP_GET_ACTION_AVAIL, and so no SECCOMP_RET_KILL_PROCESS. Not by
   libseccomp, which asks the kernel once what it can. */
static int
be_older(void)
{
	enum { GET_ACTION_AVAIL = 2 };
	struct sock_filter filter[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 3),
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, GET_ACTION_AVAIL, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

TEST(an_older_kernel_filters_calls_too)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || be_older() != 0))
		_exit(100);
	if (pid == 0 && sandbox_calls_filter(-1, CALLS_CPU) != 0)
		_exit(1);
	if (pid == 0)
		_exit(sandbox_calls_probe() == NULL ? 0 : 2);
	waitpid(pid, &status, 0);
	CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

TEST_MAIN(TEST_CASE(an_older_kernel_filters_calls_too),
    TEST_CASE(links_to_a_drivers_libraries_are_followed),
    TEST_CASE(a_gpu_has_its_own_node_and_no_other),
    TEST_CASE(a_gpu_that_is_asleep_is_found_by_its_place), TEST_CASE(an_unknown_gpu_is_refused),
    TEST_CASE(a_probe_sees_all), TEST_CASE(without_the_drivers_files),
    TEST_CASE(a_part_of_a_gpu_has_its_nodes), TEST_CASE(whose_a_uuid_is),
    TEST_CASE(landlock_admits_a_device_and_its_commands))
