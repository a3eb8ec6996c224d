/*
 * The system calls of a worker: those it needs, those that only a taken-over worker makes, and the
 * rest, which the kernel seems not to have (ENOSYS: libraries then do without, as on older
 * kernels).
 */
#ifndef WORKER_SANDBOX_CALLS_H
#define WORKER_SANDBOX_CALLS_H

#include <stdbool.h>

/* Built with AddressSanitizer: its leak check clones, traces and reads as no worker else may. */
#if defined(__SANITIZE_ADDRESS__)
#define SANDBOX_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANDBOX_SANITIZED 1
#endif
#endif
#ifndef SANDBOX_SANITIZED
#define SANDBOX_SANITIZED 0
#endif

enum sandbox_calls {
	CALLS_CPU,
	CALLS_STARTING, /* while NVIDIA's driver starts; what is forbidden fails (EPERM), no more */
	CALLS_GPU,	/* when it has started: driver_rules.h */
};

/* Puts the filter on this thread and all that come; CALLS_GPU, on all threads of the process. A
   forbidden call afterwards sends LAST_WORDS on `channel` (-1: a line to standard error) and ends
   the process by SIGSYS. 0 or -errno, where nothing has changed. */
int sandbox_calls_filter(int channel, enum sandbox_calls which);

/* Tries to make a socket, a process, run a program, trace, and open a file for writing, under the
   filter. NULL if each was stopped, else the name of what was not. */
const char *sandbox_calls_probe(void);

#endif
