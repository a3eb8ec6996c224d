/* What is read of the system for the status document, from a made-up /proc and /sys. */
#include <errno.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/unix_path.h"
#include "supervisor/status/status_facts.h"
#include "tests/unit/tree.h"

static struct status_facts
read_all(void)
{
	struct status_facts f = {.workers = {41, 42}, .worker_count = 2};

	snprintf(f.state_dir, sizeof(f.state_dir), "%s", tree_root);
	status_facts_read(&f, tree_root);
	return f;
}

TEST(nothing_is_known)
{
	struct status_facts f = {.state_dir = "/nonexistent", .workers = {1}, .worker_count = 1};

	status_facts_read(&f, "/nonexistent");
	CHECK(!f.disks[STATUS_DISK_STATE].known && !f.disks[STATUS_DISK_STORE].known);
	CHECK(!f.self.known && !f.cgroup.known && f.oom_kills == -1 && f.open_files == -1);
	CHECK_STR(f.boot_id, "");
	CHECK(status_facts_worker(&f, 1) == NULL && status_facts_worker(NULL, 1) == NULL);
}

TEST(memory_of_processes)
{
	struct status_facts f;

	tree_write("proc/self/status", "Name:\tstepd\nVmHWM:\t    20 kB\nVmRSS:\t    12 kB\n");
	tree_write(
	    "proc/41/status", "Name:\tstepd-worker\nVmHWM:\t 3000000 kB\nVmRSS:\t 2000000 kB\n");
	tree_write("proc/42/status", "Name:\tstepd-worker\nState:\tZ (zombie)\n");
	f = read_all();
	CHECK(f.self.known && f.self.rss == 12 * 1024 && f.self.peak == 20 * 1024);
	CHECK(status_facts_worker(&f, 41)->rss == UINT64_C(2000000) * 1024);
	CHECK(status_facts_worker(&f, 41)->peak == UINT64_C(3000000) * 1024);
	CHECK(status_facts_worker(&f, 42) == NULL); /* it has ended */
	CHECK(status_facts_worker(&f, 43) == NULL);
}

TEST(version_two_of_cgroups)
{
	struct status_facts f;

	tree_write("proc/self/cgroup", "0::/system.slice/stepd.service\n");
	tree_write("sys/fs/cgroup/system.slice/stepd.service/memory.current", "1000\n");
	tree_write("sys/fs/cgroup/system.slice/stepd.service/memory.max", "max\n");
	tree_write("sys/fs/cgroup/system.slice/stepd.service/memory.events", "oom 1\noom_kill 3\n");
	f = read_all();
	CHECK(f.cgroup.known && f.cgroup.current == 1000 && f.cgroup.limit == 0);
	CHECK(f.oom_kills == 3);
	tree_write("sys/fs/cgroup/system.slice/stepd.service/memory.max", "4096\n");
	f = read_all();
	CHECK(f.cgroup.limit == 4096);
	tree_write("sys/fs/cgroup/system.slice/stepd.service/memory.current", "\n");
	f = read_all();
	CHECK(!f.cgroup.known);
}

TEST(version_one_of_cgroups)
{
	struct status_facts f;

	tree_write("proc/self/cgroup", "9:cpu,memory:/job\n3:cpuset:/\n");
	tree_write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "77\n");
	tree_write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
	f = read_all();
	CHECK(f.cgroup.known && f.cgroup.current == 77 && f.cgroup.limit == 0);
	/* within a container: the group is the root of what is mounted */
	tree_write("proc/self/cgroup", "9:memory:/docker/abc\n");
	tree_write("sys/fs/cgroup/memory/memory.usage_in_bytes", "78\n");
	tree_write("sys/fs/cgroup/memory/memory.limit_in_bytes", "512\n");
	f = read_all();
	CHECK(f.cgroup.known && f.cgroup.current == 78 && f.cgroup.limit == 512);
	tree_write("proc/self/cgroup", "9:memoryx:/job\nnonsense\n::\n");
	f = read_all();
	CHECK(!f.cgroup.known);
}

TEST(disks)
{
	struct status_facts f = read_all();

	for (int i = 0; i < STATUS_DISKS; i++) {
		CHECK(f.disks[i].known && f.disks[i].bytes > 0);
		CHECK(f.disks[i].bytes_free <= f.disks[i].bytes);
		CHECK(f.disks[i].device == f.disks[0].device);
	}
	CHECK_STR(status_disk_name(STATUS_DISK_SPOOL), "spool");
}

TEST(paths_of_sockets)
{
	char name[200], path[300];
	struct unix_path u;

	CHECK(unix_path_init(&u, "/a/b") == 0 && u.folder == -1);
	CHECK_STR(u.address.sun_path, "/a/b");
	unix_path_fini(&u);
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	CHECK(unix_path_init(&u, name) == -ENAMETOOLONG); /* nothing to go through */
	snprintf(path, sizeof(path), "/nonexistent/%s", name);
	CHECK(unix_path_init(&u, path) == -ENOENT);
	snprintf(path, sizeof(path), "%s/%s", tree_root, name);
	CHECK(unix_path_init(&u, path) == -ENAMETOOLONG && u.folder == -1);
	name[90] = '\0';
	snprintf(path, sizeof(path), "%s/proc/41/../42/%s", tree_root, name);
	CHECK(unix_path_init(&u, path) == 0 && u.folder >= 0);
	CHECK(strncmp(u.address.sun_path, "/proc/self/fd/", 14) == 0);
	CHECK(u.len == offsetof(struct sockaddr_un, sun_path) + strlen(u.address.sun_path) + 1);
	unix_path_fini(&u);
	CHECK(u.folder == -1);
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(nothing_is_known),
	    TEST_CASE(memory_of_processes), TEST_CASE(version_two_of_cgroups),
	    TEST_CASE(version_one_of_cgroups), TEST_CASE(disks), TEST_CASE(paths_of_sockets),
	    {NULL, NULL}};

	return tree_test_main(cases, NULL, argc, argv);
}
