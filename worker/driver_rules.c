#include "worker/driver_rules.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* Permissions kept, and why. All are at fixed places; those of the GPU itself are added below. */
static const struct landlock_rule fixed[] = {
    /* the driver's control node, and that of its memory: every CUDA program opens them */
    {"/dev/nvidiactl", LANDLOCK_DEVICE},
    {"/dev/nvidia-uvm", LANDLOCK_DEVICE},
    /* opened too when memory is set up (driver 570 on); refused, cuInit fails */
    {"/dev/nvidia-uvm-tools", LANDLOCK_DEVICE},
    /* cuInit names its threads by task/N/comm; refused, it fails */
    {"/proc/self/task", LANDLOCK_WRITE},
    /* itself: maps, status, its name spaces */
    {"/proc/self", LANDLOCK_READ},
    /* what the driver was loaded with, its GPUs, their NUMA nodes, their parts */
    {"/proc/driver/nvidia", LANDLOCK_READ},
    {"/proc/driver/nvidia-uvm", LANDLOCK_READ},
    /* which number the kernel gave to nvidia-uvm, whether it is loaded */
    {"/proc/devices", LANDLOCK_READ},
    {"/proc/modules", LANDLOCK_READ},
    {"/sys/module/nvidia", LANDLOCK_READ},
    {"/sys/module/nvidia_uvm", LANDLOCK_READ},
    /* how much memory there is, in which blocks and nodes, from which address on */
    {"/proc/meminfo", LANDLOCK_READ},
    {"/proc/cpuinfo", LANDLOCK_READ},
    {"/proc/sys/vm/mmap_min_addr", LANDLOCK_READ},
    {"/sys/devices/system/memory", LANDLOCK_READ},
    {"/sys/devices/system/node", LANDLOCK_READ},
    /* chance, where a library does not ask the kernel */
    {"/dev/urandom", LANDLOCK_SOURCE},
    /* where the compiler for PTX is found, which is loaded when a GPU is newer than its code */
    {"/etc/ld.so.cache", LANDLOCK_READ},
};

/* Not /dev/nvidia-modeset (displays), /dev/nvidia-nvswitch* (several GPUs at once), /dev/dri,
   /dev/shm (CUDA's memory shared with other processes), /tmp/nvidia-mps, ~/.nv
   (CUDA_CACHE_DISABLE). */

const char *const driver_calls[] = {
    /* its threads wake each other, and wait for what wakes them */
    "eventfd2", "pipe", "pipe2", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
    /* memory: which pages there are and on which node */
    "mincore", "msync", "mlock2", "mbind", "get_mempolicy", "set_mempolicy",
    /* how its threads are scheduled */
    "sched_get_priority_max", "sched_get_priority_min", "sched_getscheduler", "sched_setscheduler",
    "sched_getparam", "sched_setparam", NULL};

const char *const driver_starting[] = {
    /* a listener by which other processes could ask for its memory (@cuda-uvmfd-...); without it
       cuInit fails. Nobody can connect: it has no network, and accept is forbidden */
    "bind", "listen", "setsockopt", "getsockname",
    /* what follows then takes more away */
    "seccomp", NULL};

/* The driver's own commands: its control and device nodes take those of type 'F', nvidia-uvm takes
   bare numbers, and two to begin and to end. */
enum { TYPE = 0xff00, TYPE_F = 'F' << 8, NUMBER = 0xff, UVM = 0x30000001, UVM_END };

const struct driver_call driver_arguments[] = {{"ioctl", {{1, TYPE, TYPE_F}}, false},
    {"ioctl", {{1, UINT32_MAX & ~(uint64_t)NUMBER, 0}}, false},
    {"ioctl", {{1, UINT32_MAX, UVM}}, false}, {"ioctl", {{1, UINT32_MAX, UVM_END}}, false},
    /* its nodes are opened to read and write, each time that memory is mapped; Landlock says which
       others are not. Nothing is made or cut off */
    {"openat", {{2, O_ACCMODE | O_CREAT | O_TRUNC, O_RDWR}}, false},
    {"open", {{1, O_ACCMODE | O_CREAT | O_TRUNC, O_RDWR}}, false},
    /* the listener above */
    {"socket", {{0, UINT32_MAX, AF_UNIX}, {1, 0xf, SOCK_SEQPACKET}}, true},
    /* names of threads are files of a process that may be read; then it is closed */
    {"prctl", {{0, UINT32_MAX, PR_SET_DUMPABLE}}, true},
    {"prctl", {{0, UINT32_MAX, PR_SET_NO_NEW_PRIVS}}, true}, {NULL, {{0}}, false}};

static void add(struct driver_rules *out, enum landlock_right right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void
add(struct driver_rules *out, enum landlock_right right, const char *format, ...)
{
	char *path = out->paths[out->count];
	va_list args;
	int len;

	if (out->count == DRIVER_RULES_MAX)
		return;
	va_start(args, format);
	len = vsnprintf(path, DRIVER_PATH_MAX, format, args);
	va_end(args);
	if (len < 0 || len >= DRIVER_PATH_MAX)
		return;
	out->rules[out->count++] = (struct landlock_rule){path, right};
}

/* The folder that a library was found in, and where the links there lead: a folder of links into
   another one is how a driver comes into a container. */
static void
add_libraries(struct driver_rules *out, const char *root, const char *library)
{
	char found[PATH_MAX], real[PATH_MAX];
	const char *end = strrchr(library, '/');

	if (end == NULL || end == library)
		return;
	add(out, LANDLOCK_READ, "%s%.*s", root, (int)(end - library), library);
	snprintf(found, sizeof(found), "%s%s", root, library);
	if (realpath(found, real) == NULL || strncmp(real, root, strlen(root)) != 0)
		return;
	end = strrchr(real, '/');
	if (end > real)
		add(out, LANDLOCK_READ, "%.*s", (int)(end - real), real);
}

void
driver_rules_list(struct driver_rules *out, const char *root, const struct driver_nodes *nodes,
    const char *library)
{
	out->count = 0;
	for (size_t i = 0; i < sizeof(fixed) / sizeof(*fixed); i++)
		add(out, fixed[i].right, "%s%s", root, fixed[i].path);
	for (size_t i = 0; i < nodes->count; i++) {
		/* The GPU itself, and no other one. */
		add(out, LANDLOCK_DEVICE, "%s/dev/nvidia%d", root, nodes->gpus[i].minor);
		/* Where it is plugged in, and what it can do there. */
		add(out, LANDLOCK_READ, "%s/sys/bus/pci/devices/%s", root, nodes->gpus[i].bus);
	}
	/* A part of a GPU: who opens these may use it. */
	for (size_t i = 0; i < nodes->cap_count; i++)
		add(out, LANDLOCK_DEVICE, "%s/dev/nvidia-caps/nvidia-cap%d", root, nodes->caps[i]);
	if (library != NULL)
		add_libraries(out, root, library);
}
