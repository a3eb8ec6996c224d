/*
 * Starting a program with nothing: one socket, no other descriptor, no secret in its environment,
 * its own process group, and death with its parent.
 */
#ifndef SUPERVISOR_SESSION_CHILD_EXEC_H
#define SUPERVISOR_SESSION_CHILD_EXEC_H

#include <stdbool.h>
#include <sys/types.h>

enum { CHILD_CHANNEL_FD = 3 }; /* where the program finds its socket, told by --channel 3 */

struct child_group;

struct child_program {
	const char *path;
	const char *gpu;     /* the UUID of the one that it sees; NULL: those that stepd sees */
	const char *gpu_bus; /* its place on the PCI bus, or NULL: not known */
	const char
	    *gpus_held;	 /* UUIDs that a probe does not compute on, comma separated, or NULL */
	bool no_sandbox; /* whatever STEPD_SANDBOX says: a probe that compares */
	uid_t uid;	 /* whom it becomes where it starts as the superuser; 0: nobody else */
	gid_t gid;
	bool probe; /* --probe, with the descriptor as its standard output alone */
};

/* Whether this kernel has what child_exec needs and older ones lack: 0 or -errno. */
int child_exec_check(void);
/* fork and exec of program with `socket` as CHILD_CHANNEL_FD, standard input from /dev/null,
   standard output and error where stepd's errors go, held to its group's bounds from its first
   instruction on. socket stays the caller's. 0 with *pid and *pidfd, or -errno, also when exec
   fails. */
int child_exec(const struct child_program *program, int socket, const struct child_group *group,
    pid_t *pid, int *pidfd);

#endif
