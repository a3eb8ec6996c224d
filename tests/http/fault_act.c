#include "tests/http/fault_act.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker/sandbox_calls.h"

static void
hang(void)
{
	for (;;)
		pause();
}

static void
say_last_words(struct channel *channel, const char *class, const char *text)
{
	uint8_t storage[1024];
	struct wire_put w;

	wire_put_init(&w, storage, sizeof(storage));
	message_put_last_words(&w, &(struct message_last_words){class, text});
	channel_send(channel, MSG_LAST_WORDS, 0, storage, w.len, -1);
}

void
fault_act(struct channel *channel, const char *fault)
{
	if (strcmp(fault, "kill") == 0)
		raise(SIGKILL);
	if (strcmp(fault, "crash") == 0) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	}
	if (strcmp(fault, "sandbox") == 0)
		raise(SIGSYS);
	if (strcmp(fault, "violate") == 0 && sandbox_calls_filter(channel->fd, CALLS_CPU) == 0)
		socket(AF_INET, SOCK_STREAM, 0);
	if (strcmp(fault, "exit") == 0)
		_exit(3);
	if (strcmp(fault, "clean") == 0)
		_exit(0);
	if (strcmp(fault, "words") == 0) {
		say_last_words(channel, "device_oom", "no memory for\n4 GiB of activations");
		_exit(1);
	}
	if (strcmp(fault, "hang") == 0)
		hang();
	if (strcmp(fault, "stubborn") == 0) {
		signal(SIGTERM, SIG_IGN);
		hang();
	}
	if (strcmp(fault, "garbage") == 0) {
		send(channel->fd, "\xff\xff\xff\xff garbage", 12, MSG_NOSIGNAL);
		hang();
	}
	if (strcmp(fault, "close") == 0) {
		close(channel->fd);
		hang();
	}
	if (strcmp(fault, "slow") == 0)
		sleep(2);
}

void
fault_eat(void)
{
	enum { BITE = 4 << 20, BITES = 256 }; /* 1 GiB is more than any limit of a test */
	void *bites[BITES];
	size_t count = 0;

	while (count < BITES) {
		bites[count] =
		    mmap(NULL, BITE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (bites[count] == MAP_FAILED)
			break;
		memset(bites[count++], 1, BITE);
	}
	if (count == BITES)
		_exit(11);
	while (count > 0)
		munmap(bites[--count], BITE);
}
