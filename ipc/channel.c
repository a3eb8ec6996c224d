#include "ipc/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { HEADER = 12 }; /* u32 type, u64 request */

int
channel_pair(int fds[2])
{
	int room = 4 * MESSAGE_MAX;

	fds[0] = fds[1] = -1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return -errno;
	for (int i = 0; i < 2; i++)
		setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	return 0;
}

void
channel_init(struct channel *c, int fd)
{
	c->fd = fd;
}

void
channel_fini(struct channel *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

int
channel_send(struct channel *c, enum message_type type, uint64_t request, const void *body,
    size_t len, int fd)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	uint8_t header[HEADER];
	struct iovec parts[2] = {{header, HEADER}, {(void *)(uintptr_t)body, len}};
	struct msghdr msg = {.msg_iov = parts, .msg_iovlen = len > 0 ? 2 : 1};
	struct wire_put w;
	ssize_t n;

	if (len > MESSAGE_MAX - HEADER)
		return -EMSGSIZE;
	wire_put_init(&w, header, sizeof(header));
	wire_put_u32(&w, type);
	wire_put_u64(&w, request);
	if (fd >= 0) {
		struct cmsghdr *cm;

		msg.msg_control = control.space;
		msg.msg_controllen = sizeof(control.space);
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(cm), &fd, sizeof(int));
	}
	do
		n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

/* Takes the descriptors out of a received message: the first to *fd, further ones closed. How many
   there were. */
static size_t
take_fds(struct msghdr *msg, int *fd)
{
	size_t seen = 0;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(msg); cm != NULL; cm = CMSG_NXTHDR(msg, cm)) {
		size_t count;

		if (cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
			continue;
		count = (cm->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int got;

			memcpy(&got, CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
			if (seen++ == 0)
				*fd = got;
			else
				close(got);
		}
	}
	return seen;
}

int
channel_recv(struct channel *c, struct message *m)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(8 * sizeof(int))];
	} control;
	struct iovec part = {c->buffer, sizeof(c->buffer)};
	struct msghdr msg = {.msg_iov = &part,
	    .msg_iovlen = 1,
	    .msg_control = control.space,
	    .msg_controllen = sizeof(control.space)};
	struct wire_get header;
	uint32_t type;
	size_t fds;
	ssize_t n;

	m->fd = -1;
	do
		n = recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	fds = take_fds(&msg, &m->fd);
	if (n == 0 && fds == 0)
		return 0;
	/* The kernel had to drop a descriptor, for which there was room in the message. */
	if (fds == 0 && (msg.msg_flags & MSG_CTRUNC) != 0)
		return -EMFILE;
	wire_get_init(&header, c->buffer, (size_t)n);
	type = wire_get_u32(&header);
	m->request = wire_get_u64(&header);
	if (header.failed || fds > 1 || message_name(type) == NULL ||
	    (msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
		if (m->fd >= 0)
			close(m->fd);
		m->fd = -1;
		return -EBADMSG;
	}
	m->type = (enum message_type)type;
	wire_get_init(&m->body, c->buffer + HEADER, (size_t)n - HEADER);
	return 1;
}
