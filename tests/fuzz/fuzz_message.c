/*
 * Any bytes as a datagram of a worker, with as many descriptors as the first byte says: refused
 * with none of them left open, or taken. Then as the body of every message: refused, or coded again
 * into the very same bytes.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FDS_MAX = 11 }; /* more than the receiver has room for */

static void
same_bytes(const struct wire_put *w, const uint8_t *data, size_t size)
{
	if (wire_put_end(w) != (long)size || memcmp(w->data, data, size) != 0)
		abort();
}

#define CHECK_BODY(name)                                                                           \
	static void check_##name(const uint8_t *data, size_t size)                                 \
	{                                                                                          \
		static uint8_t storage[MESSAGE_MAX];                                               \
		struct message_##name m;                                                           \
		struct wire_get r;                                                                 \
		struct wire_put w;                                                                 \
                                                                                                   \
		wire_get_init(&r, data, size);                                                     \
		if (message_get_##name(&r, &m) != 0)                                               \
			return;                                                                    \
		wire_put_init(&w, storage, sizeof(storage));                                       \
		message_put_##name(&w, &m);                                                        \
		same_bytes(&w, data, size);                                                        \
	}
MESSAGE_BODY_LIST(CHECK_BODY)

/* The lowest free number: it rises where a descriptor was left open. */
static int
lowest_free(void)
{
	int fd = dup(0);

	if (fd < 0)
		abort();
	close(fd);
	return fd;
}

static void
send_raw(int to, const uint8_t *data, size_t size, size_t fd_count)
{
	char space[CMSG_SPACE(FDS_MAX * sizeof(int))] = {0};
	struct iovec part = {(void *)(uintptr_t)data, size};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
	int fds[FDS_MAX] = {0};

	if (fd_count > 0) {
		struct cmsghdr *cm;

		msg.msg_control = space;
		msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, fd_count * sizeof(int));
	}
	if (sendmsg(to, &msg, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)size)
		abort();
}

static void
check_datagram(const uint8_t *data, size_t size, size_t fd_count)
{
	static struct channel channel = {.fd = -1};
	static int sender = -1;
	struct message m;
	int before, got;

	if (channel.fd < 0) {
		int fds[2];

		if (channel_pair(fds) != 0)
			abort();
		channel_init(&channel, fds[0]);
		sender = fds[1];
	}
	before = lowest_free();
	send_raw(sender, data, size, fd_count);
	got = channel_recv(&channel, &m);
	if (got == 1) {
		if (size < 12 || size > MESSAGE_MAX || message_name(m.type) == NULL ||
		    m.body.size != size - 12 || (m.fd >= 0) != (fd_count == 1))
			abort();
		if (m.fd >= 0)
			close(m.fd);
	} else if (m.fd != -1 || (got == 0 ? size + fd_count != 0 : got != -EBADMSG)) {
		abort();
	}
	if (lowest_free() != before)
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0 || size > MESSAGE_MAX + 16)
		return 0;
	check_datagram(data + 1, size - 1, data[0] % (FDS_MAX + 1));
	if (size < 13)
		return 0;
#define RUN_BODY(name) check_##name(data + 13, size - 13);
	MESSAGE_BODY_LIST(RUN_BODY)
	return 0;
}
