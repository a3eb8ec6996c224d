/*
 * The channel: one end of a SEQPACKET socketpair. Messages go whole or not at all, with at most one
 * file descriptor each. Blocking or not is the descriptor's own setting.
 */
#ifndef IPC_CHANNEL_H
#define IPC_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "ipc/message.h"

struct channel {
	int fd; /* -1 = closed */
	uint8_t buffer[MESSAGE_MAX];
};

struct message {
	enum message_type type;
	uint64_t request;
	struct wire_get body; /* a view into the channel's buffer, valid until the next recv */
	int fd;		      /* -1 = none; owned by the receiver of the message */
};

/* Makes a connected pair, close-on-exec, with room for a few full datagrams. 0 or -errno. */
int channel_pair(int fds[2]);
void channel_init(struct channel *c, int fd);
/* Closes the descriptor; may be called again. */
void channel_fini(struct channel *c);
/* Sends one message; body may be NULL with len 0; does not consume fd (-1 = none). 0 or -errno
   (-EAGAIN on a full non-blocking channel, -EPIPE when the other end is gone). */
int channel_send(struct channel *c, enum message_type type, uint64_t request, const void *body,
    size_t len, int fd);
/* Receives one message. 1, 0 at end of file, -EAGAIN, -EBADMSG (unknown type, truncated, more than
   one fd: nothing is leaked), or -errno. */
int channel_recv(struct channel *c, struct message *m);

#endif
