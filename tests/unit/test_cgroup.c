/* The control group of this process, from a made-up /proc and /sys: version 1 and 2, containers. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/cgroup.h"
#include "tests/unit/tree.h"

/* The folder that was found, below the root; "" = none. */
static const char *
found(const char *controller)
{
	static struct cgroup g;

	if (cgroup_find(&g, tree_root, controller) != 0)
		return "";
	return g.folder + strlen(tree_root);
}

TEST(mounts_say_where_it_is)
{
	tree_write("proc/self/cgroup", "0::/system.slice/stepd.service\n");
	tree_write("proc/self/mountinfo",
	    "22 1 0:20 / /sys rw - sysfs sysfs rw\n"
	    "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw\n");
	CHECK_STR(found("memory"), "/sys/fs/cgroup/system.slice/stepd.service");
	/* a container without a namespace: its group is what is mounted */
	tree_write("proc/self/cgroup", "0::/docker/abc/job\n");
	tree_write("proc/self/mountinfo",
	    "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
	CHECK_STR(found("memory"), "/sys/fs/cgroup/job");
	tree_write("proc/self/cgroup", "0::/docker/abc\n");
	CHECK_STR(found("memory"), "/sys/fs/cgroup");
	/* with one, it is the root of all that it sees; other mounts of it are not to be used */
	tree_write("proc/self/cgroup", "0::/\n");
	tree_write("proc/self/mountinfo",
	    "30 22 0:26 /../.. /host/cgroup ro - cgroup2 cgroup rw\n"
	    "31 22 0:26 / /a\\040place/cgroup rw - cgroup2 cgroup rw\n");
	CHECK_STR(found("memory"), "/a place/cgroup");
	/* a name that only begins like what is mounted is not below it */
	tree_write("proc/self/cgroup", "0::/docker/abcdef\n");
	tree_write("proc/self/mountinfo",
	    "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
	CHECK_STR(found("memory"), "");
}

TEST(version_one_has_a_hierarchy_each)
{
	struct cgroup g;

	tree_write("proc/self/cgroup", "0::/all\n4:memory:/m\n2:cpu,cpuacct:/c\n");
	tree_write("proc/self/mountinfo",
	    "32 31 0:30 / /cg/unified rw - cgroup2 cgroup2 rw\n"
	    "33 31 0:31 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	    "34 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n");
	CHECK_STR(found("memory"), "/cg/memory/m");
	CHECK_STR(found("cpu"), "/cg/cpu,cpuacct/c");
	CHECK_STR(found("pids"), "/cg/unified/all");
	CHECK(cgroup_find(&g, tree_root, "memory") == 0 && g.version == 1);
	CHECK(cgroup_find(&g, tree_root, "pids") == 0 && g.version == 2);
}

TEST(quotas_are_processors)
{
	static const struct {
		const char *text;
		unsigned processors;
	} quotas[] = {
	    {"200000 100000\n", 2},
	    {"max 100000\n", 0},
	    {"150000 100000\n", 2},
	    {"5000 100000\n", 1},
	    {"1600000 100000", 16},
	    {"nonsense\n", 0},
	    {"200000 0\n", 0},
	    {"200000\n", 0},
	    {"", 0},
	};

	tree_write("proc/self/cgroup", "0::/a/b\n");
	tree_write("proc/self/mountinfo", "29 22 0:26 / /v2 rw - cgroup2 cgroup2 rw\n");
	CHECK(cgroup_processors(tree_root) == 0);
	for (size_t i = 0; i < sizeof(quotas) / sizeof(*quotas); i++) {
		tree_write("v2/a/b/cpu.max", quotas[i].text);
		CHECK_MSG(cgroup_processors(tree_root) == quotas[i].processors, "%s: %u",
		    quotas[i].text, cgroup_processors(tree_root));
	}
	/* the least of all groups on the way up counts */
	tree_write("v2/a/b/cpu.max", "800000 100000\n");
	tree_write("v2/a/cpu.max", "300000 100000\n");
	CHECK(cgroup_processors(tree_root) == 3);
	tree_write("v2/cpu.max", "100000 100000\n"); /* what a container sees as its own root */
	CHECK(cgroup_processors(tree_root) == 1);
	tree_write("cpu.max", "1 100000\n");
	CHECK(cgroup_processors(tree_root) == 1); /* not above the mount */
	tree_write("proc/self/cgroup", "3:cpu,cpuacct:/job\n");
	tree_write("proc/self/mountinfo", "29 22 0:26 / /v1 rw - cgroup cgroup rw,cpu,cpuacct\n");
	tree_write("v1/job/cpu.cfs_period_us", "100000\n");
	tree_write("v1/job/cpu.cfs_quota_us", "-1\n");
	CHECK(cgroup_processors(tree_root) == 0);
	tree_write("v1/job/cpu.cfs_quota_us", "400000\n");
	CHECK(cgroup_processors(tree_root) == 4);
	CHECK(cgroup_processors("/nonexistent") == 0);
}

TEST(files_of_a_group)
{
	char folder[64], path[96];
	uint64_t n = 7;

	snprintf(folder, sizeof(folder), "%s/g", tree_root);
	snprintf(path, sizeof(path), "%s/memory.events", folder);
	tree_write("g/memory.max", "max\n");
	CHECK(cgroup_number(folder, "memory.max", &n) && n == UINT64_MAX);
	tree_write("g/memory.max", "4096\n");
	CHECK(cgroup_number(folder, "memory.max", &n) && n == 4096);
	tree_write("g/memory.max", "\n");
	CHECK(!cgroup_number(folder, "memory.max", &n));
	CHECK(!cgroup_number(folder, "memory.peak", &n));
	tree_write("g/memory.events", "oom 3\noom_kill 2\noom_group_kill 1\n");
	CHECK(cgroup_counter(path, "oom_kill") == 2 && cgroup_counter(path, "oom_") == -ENOENT);
	tree_write("g/cgroup.controllers", "cpu memory pids\n");
	CHECK(cgroup_names(folder, "cgroup.controllers", "pids"));
	CHECK(!cgroup_names(folder, "cgroup.controllers", "mem"));
	CHECK(cgroup_write(folder, "cgroup.procs", "0") == -ENOENT);
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(mounts_say_where_it_is),
	    TEST_CASE(version_one_has_a_hierarchy_each), TEST_CASE(quotas_are_processors),
	    TEST_CASE(files_of_a_group), {NULL, NULL}};

	return tree_test_main(cases, NULL, argc, argv);
}
