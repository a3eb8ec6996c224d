/* The control group of this process, from a made-up /proc and /sys: version 1 and 2, containers. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "supervisor/cgroup.h"
#include "tests/unit/test.h"

static char root[] = "/tmp/stepd-test-XXXXXX";

/* Makes the folders on the way. */
static void
write_file(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
		*p = '\0';
		mkdir(full, 0700);
	}
	file = fopen(full, "w");
	if (file == NULL || fputs(text, file) < 0)
		exit(1);
	fclose(file);
}

/* The folder that was found, without the root; "" = none. */
static const char *
found(const char *controller)
{
	static struct cgroup g;

	if (cgroup_find(&g, root, controller) != 0)
		return "";
	return g.folder + strlen(root);
}

TEST(mounts_say_where_it_is)
{
	write_file("proc/self/cgroup", "0::/system.slice/stepd.service\n");
	write_file("proc/self/mountinfo",
	    "22 1 0:20 / /sys rw - sysfs sysfs rw\n"
	    "29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 master:1 - cgroup2 cgroup2 rw\n");
	CHECK_STR(found("memory"), "/sys/fs/cgroup/system.slice/stepd.service");
	/* a container without a namespace: its group is what is mounted */
	write_file("proc/self/cgroup", "0::/docker/abc/job\n");
	write_file("proc/self/mountinfo",
	    "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
	CHECK_STR(found("memory"), "/sys/fs/cgroup/job");
	write_file("proc/self/cgroup", "0::/docker/abc\n");
	CHECK_STR(found("memory"), "/sys/fs/cgroup");
	/* with one, it is the root of all that it sees; other mounts of it are not to be used */
	write_file("proc/self/cgroup", "0::/\n");
	write_file("proc/self/mountinfo",
	    "30 22 0:26 /../.. /host/cgroup ro - cgroup2 cgroup rw\n"
	    "31 22 0:26 / /a\\040place/cgroup rw - cgroup2 cgroup rw\n");
	CHECK_STR(found("memory"), "/a place/cgroup");
	/* a name that only begins like what is mounted is not below it */
	write_file("proc/self/cgroup", "0::/docker/abcdef\n");
	write_file("proc/self/mountinfo",
	    "30 22 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
	CHECK_STR(found("memory"), "");
}

TEST(version_one_has_a_hierarchy_each)
{
	struct cgroup g;

	write_file("proc/self/cgroup", "0::/all\n4:memory:/m\n2:cpu,cpuacct:/c\n");
	write_file("proc/self/mountinfo",
	    "32 31 0:30 / /cg/unified rw - cgroup2 cgroup2 rw\n"
	    "33 31 0:31 / /cg/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	    "34 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n");
	CHECK_STR(found("memory"), "/cg/memory/m");
	CHECK_STR(found("cpu"), "/cg/cpu,cpuacct/c");
	CHECK_STR(found("pids"), "/cg/unified/all");
	CHECK(cgroup_find(&g, root, "memory") == 0 && g.version == 1);
	CHECK(cgroup_find(&g, root, "pids") == 0 && g.version == 2);
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

	write_file("proc/self/cgroup", "0::/a/b\n");
	write_file("proc/self/mountinfo", "29 22 0:26 / /v2 rw - cgroup2 cgroup2 rw\n");
	CHECK(cgroup_processors(root) == 0);
	for (size_t i = 0; i < sizeof(quotas) / sizeof(*quotas); i++) {
		write_file("v2/a/b/cpu.max", quotas[i].text);
		CHECK_MSG(cgroup_processors(root) == quotas[i].processors, "%s: %u", quotas[i].text,
		    cgroup_processors(root));
	}
	/* the least of all groups on the way up counts */
	write_file("v2/a/b/cpu.max", "800000 100000\n");
	write_file("v2/a/cpu.max", "300000 100000\n");
	CHECK(cgroup_processors(root) == 3);
	write_file("v2/cpu.max", "100000 100000\n"); /* what a container sees as its own root */
	CHECK(cgroup_processors(root) == 1);
	write_file("cpu.max", "1 100000\n");
	CHECK(cgroup_processors(root) == 1); /* not above the mount */
	write_file("proc/self/cgroup", "3:cpu,cpuacct:/job\n");
	write_file("proc/self/mountinfo", "29 22 0:26 / /v1 rw - cgroup cgroup rw,cpu,cpuacct\n");
	write_file("v1/job/cpu.cfs_period_us", "100000\n");
	write_file("v1/job/cpu.cfs_quota_us", "-1\n");
	CHECK(cgroup_processors(root) == 0);
	write_file("v1/job/cpu.cfs_quota_us", "400000\n");
	CHECK(cgroup_processors(root) == 4);
	CHECK(cgroup_processors("/nonexistent") == 0);
}

TEST(files_of_a_group)
{
	char folder[64], path[96];
	uint64_t n = 7;

	snprintf(folder, sizeof(folder), "%s/g", root);
	snprintf(path, sizeof(path), "%s/memory.events", folder);
	write_file("g/memory.max", "max\n");
	CHECK(cgroup_number(folder, "memory.max", &n) && n == UINT64_MAX);
	write_file("g/memory.max", "4096\n");
	CHECK(cgroup_number(folder, "memory.max", &n) && n == 4096);
	write_file("g/memory.max", "\n");
	CHECK(!cgroup_number(folder, "memory.max", &n));
	CHECK(!cgroup_number(folder, "memory.peak", &n));
	write_file("g/memory.events", "oom 3\noom_kill 2\noom_group_kill 1\n");
	CHECK(cgroup_counter(path, "oom_kill") == 2 && cgroup_counter(path, "oom_") == -ENOENT);
	write_file("g/cgroup.controllers", "cpu memory pids\n");
	CHECK(cgroup_names(folder, "cgroup.controllers", "pids"));
	CHECK(!cgroup_names(folder, "cgroup.controllers", "mem"));
	CHECK(cgroup_write(folder, "cgroup.procs", "0") == -ENOENT);
}

int
main(int argc, char **argv)
{
	static const struct test_case cases[] = {TEST_CASE(mounts_say_where_it_is),
	    TEST_CASE(version_one_has_a_hierarchy_each), TEST_CASE(quotas_are_processors),
	    TEST_CASE(files_of_a_group), {0}};
	char command[64];
	int rc;

	if (mkdtemp(root) == NULL)
		return 1;
	rc = test_main(cases, argc, argv);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command) != 0 ? 1 : rc;
}
