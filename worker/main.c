/*
 * stepd-worker: one session on one device. Started by stepd with its end of the channel; by hand it
 * only tells its version and its devices.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "ipc/log.h"
#include "worker/loop.h"
#include "worker/probe.h"
#include "worker/sandbox.h"

static int
usage(int code)
{
	fputs("usage: stepd-worker --channel FD | --probe | --version\n"
	      "stepd starts its workers itself; there is nothing to do by hand.\n",
	    code == 0 ? stdout : stderr);
	return code;
}

/* The number of an open SEQPACKET socket, or -1. */
static int
channel_descriptor(const char *text)
{
	int type;
	socklen_t size = sizeof(type);
	char *end;
	long fd = strtol(text, &end, 10);

	if (*text == '\0' || *end != '\0' || fd < 0 || fd > 1023)
		return -1;
	if (getsockopt((int)fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET)
		return -1;
	return (int)fd;
}

int
main(int argc, char **argv)
{
	int fd, rc;

	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("stepd-worker " STEPD_VERSION);
		return 0;
	}
	if (argc == 2 && strcmp(argv[1], "--probe") == 0) {
		log_open("stepd-worker", LOG_INFO_LEVEL);
		return probe_print();
	}
	if (argc == 2 && strcmp(argv[1], "--help") == 0)
		return usage(0);
	if (argc != 3 || strcmp(argv[1], "--channel") != 0)
		return usage(2);
	fd = channel_descriptor(argv[2]);
	if (fd < 0) {
		fputs("stepd-worker: --channel is no SEQPACKET socket\n", stderr);
		return 2;
	}
	log_open("stepd-worker", LOG_INFO_LEVEL);
	signal(SIGPIPE, SIG_IGN);
	probe_choose_gpu();
	if (sandbox_enter(fd, getenv("STEPD_SANDBOX"), getenv("STEPD_WORKER_USER")) != 0)
		return 1;
	rc = loop_run(fd);
	if (rc < 0)
		log_error("the channel failed: %s", strerror(-rc));
	return rc < 0;
}
