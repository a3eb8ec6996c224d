#include "supervisor/privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ipc/list_text.h"
#include "ipc/log.h"
#include "supervisor/privileges_files.h"
#include "supervisor/settings/config.h"

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1 /* its leak check traces and reads as nothing else may */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#define COUNT(a) (sizeof(a) / sizeof(*(a)))

enum { TEXT_MAX = 256 };

/* Permissions kept, and why. As a user of its own stepd has none of them to begin with. */
static const struct {
	unsigned capability;
	const char *name;
	enum {
		ANYBODY,
		SUPERUSER,
		WORKERS, /* of the superuser: not in effect here */
	} whose;
} kept[] = {
    /* Models that belong to others: found here, read by the worker. */
    {CAP_DAC_READ_SEARCH, "dac_read_search", ANYBODY},
    /* To end workers, which are not the superuser for long (STEPD_WORKER_USER). */
    {CAP_KILL, "kill", SUPERUSER},
    /* By these two they become that user, */
    {CAP_SETUID, "setuid (for workers)", WORKERS},
    {CAP_SETGID, "setgid (for workers)", WORKERS},
    /* and by this they leave the network. Others make a user namespace for that, in which the
       superuser would lose the first right. */
    {CAP_SYS_ADMIN, "sys_admin (for workers)", WORKERS},
};

/* What neither stepd nor a worker does, nor a library of theirs: taking other processes over,
   changing the machine, and the kernel's wide doors. Every other call is kept: a worker, which
   reads what others wrote, has a list of what it may (worker/sandbox_calls.c). Of unshare,
   setgroups, setresgid and setresuid, which could stand here, its sandbox is made. */
static const char *const forbidden[] = {
    /* other processes; the leak check of AddressSanitizer is let */
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp",
    /* other users and other worlds */
    "setuid", "setgid", "setreuid", "setregid", "setfsuid", "setfsgid", "setns", "chroot",
    "pivot_root", "mount", "umount2", "mount_setattr", "open_tree", "move_mount", "fsopen",
    "fspick", "fsconfig", "fsmount", "open_by_handle_at", "mknod", "mknodat",
    /* the machine */
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
    "swapon", "swapoff", "sethostname", "setdomainname", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "acct", "quotactl", "quotactl_fd", "syslog", "iopl", "ioperm",
    "modify_ldt", "vhangup",
    /* wide doors */
    "bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter",
    "io_uring_register", "keyctl", "add_key", "request_key", "fanotify_init", "lookup_dcookie"};

/* Names of the environment that libraries obey and stepd's settings do not know: whoever is let to
   set one for another reason shall not move the trust in certificates by it, nor have the keys of
   uploads and downloads written to a file. */
static const char *const unheard[] = {
    "SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE", "OPENSSL_ENGINES", "OPENSSL_MODULES"};

static char holds[TEXT_MAX], lacks[TEXT_MAX], text[3 * TEXT_MAX + 32] = "off";

static void
told(const char *part, int error)
{
	if (error == 0)
		list_text_add(holds, TEXT_MAX, "%s", part);
	else
		list_text_add(lacks, TEXT_MAX, "%s (%s)", part, strerror(-error));
}

/* The capabilities of both halves of the sets, of those kept. */
static void
keep(uint32_t halves[2], bool in_effect)
{
	uint32_t masks[2] = {0};

	for (size_t i = 0; i < COUNT(kept); i++)
		if (kept[i].whose == ANYBODY ||
		    (geteuid() == 0 && !(in_effect && kept[i].whose == WORKERS)))
			masks[kept[i].capability / 32] |= 1u << kept[i].capability % 32;
	halves[0] &= masks[0];
	halves[1] &= masks[1];
}

/* What no program started from here can have, whatever its file says. Needs a right itself; who
   lacks it is stopped by no_new_privs alone. */
static void
bound_capabilities(void)
{
	for (unsigned i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
		uint32_t bit[2] = {i < 32 ? 1u << i : 0, i < 32 ? 0 : 1u << (i - 32)};

		keep(bit, false);
		if (bit[0] == 0 && bit[1] == 0)
			prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
	}
}

static int
drop_capabilities(char left[TEXT_MAX])
{
	struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct sets[2];
	uint32_t permitted[2], effective[2], inheritable[2];

	bound_capabilities();
	if (syscall(SYS_capget, &header, sets) != 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		permitted[i] = effective[i] = sets[i].permitted;
		inheritable[i] = sets[i].inheritable & sets[i].permitted;
	}
	keep(permitted, false);
	keep(effective, true);
	keep(inheritable, false);
	for (int i = 0; i < 2; i++)
		sets[i] =
		    (struct __user_cap_data_struct){effective[i], permitted[i], inheritable[i]};
	if (syscall(SYS_capset, &header, sets) != 0)
		return -errno;
	for (size_t i = 0; i < COUNT(kept); i++)
		if ((permitted[kept[i].capability / 32] & 1u << kept[i].capability % 32) != 0)
			list_text_add(left, TEXT_MAX, "%s", kept[i].name);
	return 0;
}

static int
forbid(scmp_filter_ctx filter, const char *name, uint16_t error, unsigned count,
    const struct scmp_arg_cmp *args)
{
	int number = seccomp_syscall_resolve_name(name), rc;

	/* a name that this libseccomp or processor lacks is no call */
	if (number == __NR_SCMP_ERROR ||
	    (SANITIZED && (strcmp(name, "ptrace") == 0 || strcmp(name, "process_vm_readv") == 0)))
		return 0;
	rc = seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(error), number, count, args);
	return rc == -EDOM ? 0 : rc;
}

/* Sockets of other families than these: clients and stores by TCP, names by UDP, systemd, status
   and name services by Unix sockets; glibc asks the kernel for its addresses by netlink. */
static int
forbid_families(scmp_filter_ctx filter)
{
	const struct scmp_arg_cmp other_netlink[] = {
	    {0, SCMP_CMP_EQ, AF_NETLINK, 0}, {2, SCMP_CMP_NE, 0, 0}};
	const struct scmp_arg_cmp above = {0, SCMP_CMP_GT, AF_NETLINK, 0};
	int rc = forbid(filter, "socket", EAFNOSUPPORT, 2, other_netlink);

	if (rc == 0)
		rc = forbid(filter, "socket", EAFNOSUPPORT, 1, &above);
	for (unsigned family = 0; rc == 0 && family < AF_NETLINK; family++) {
		const struct scmp_arg_cmp is = {0, SCMP_CMP_EQ, family, 0};

		if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
			rc = forbid(filter, "socket", EAFNOSUPPORT, 1, &is);
	}
	return rc;
}

static int
filter_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	int rc;

	if (filter == NULL)
		return -ENOSYS;
	/* The calls of another architecture (32 bits) are no way round. Kernels before 4.14, and
	   gVisor, end the thread that makes them. */
	rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (rc != 0)
		rc = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_THREAD);
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	/* Kernels before 5.16 would slow the loads and stores of workers down. */
	seccomp_attr_set(filter, SCMP_FLTATR_CTL_SSB, 1);
	for (size_t i = 0; rc == 0 && i < COUNT(forbidden); i++)
		rc = forbid(filter, forbidden[i], EPERM, 0, NULL);
	if (rc == 0)
		rc = forbid_families(filter);
	if (rc == 0)
		rc = seccomp_load(filter);
	seccomp_release(filter);
	return rc;
}

/* Tokens, keys and training text are in memory: they go to no core file, and no process of the
   same user looks into it. */
static int
close_memory(void)
{
	struct rlimit none = {0, 0};

	if (setrlimit(RLIMIT_CORE, &none) != 0)
		return -errno;
	if (!SANITIZED && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return -errno;
	return 0;
}

void
privileges_drop(const struct config *c)
{
	char left[TEXT_MAX] = "";

	for (size_t i = 0; i < COUNT(unheard); i++)
		unsetenv(unheard[i]);
	if (geteuid() == 0)
		log_warning("running as the superuser: stepd needs no more than a user of its own "
			    "(systemd/stepd.sysusers)");
	if (strcmp(c->sandbox, "off") == 0) {
		log_warning("privileges are kept: STEPD_SANDBOX is off");
		return;
	}
	told("closed memory", close_memory());
	told("no new privileges", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : -errno);
	told("capabilities", drop_capabilities(left));
	/* By name or by right, files are written below the state folder only. */
	told("files", privileges_files(c));
	told("system calls", filter_calls());
	snprintf(text, sizeof(text), "%s%s%s%s%s", holds, *lacks != '\0' ? "; without " : "", lacks,
	    *left != '\0' ? "; kept: " : "", left);
	log_info("privileges given up: %s", text);
}

const char *
privileges_text(void)
{
	return text;
}
