#include "tests/http/fault_frames.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/blob.h"

enum { FDS_MAX = 20, RAW_MAX = MESSAGE_MAX + 4096 };

static uint64_t state;

/* splitmix64, https://prng.di.unimi.it/splitmix64.c */
static uint64_t
next(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static size_t
below(size_t n)
{
	return (size_t)(next() % n);
}

/* A number at an end of its range, or any. */
static uint64_t
hostile(void)
{
	static const uint64_t ends[] = {0, 1, 2, 255, UINT32_MAX, 1ull << 53, INT64_MAX, 1ull << 63,
	    UINT64_MAX - 1, UINT64_MAX};
	size_t i = below(sizeof(ends) / sizeof(*ends) + 1);

	return i < sizeof(ends) / sizeof(*ends) ? ends[i] : next();
}

static double
hostile_double(void)
{
	static const double ends[] = {0.0, -0.0, -1.0, 5e-324, 1.7e308, -1e300};
	uint64_t bits = next();
	double any;

	memcpy(&any, &bits, sizeof(any));
	switch (below(4)) {
	case 0:
		return __builtin_nan("");
	case 1:
		return below(2) ? __builtin_inf() : -__builtin_inf();
	case 2:
		return ends[below(sizeof(ends) / sizeof(*ends))];
	default:
		return any;
	}
}

static const char *
hostile_text(void)
{
	static char text[4096];
	size_t len = below(8) == 0 ? sizeof(text) - 1 : below(80);

	for (size_t i = 0; i < len; i++)
		text[i] = (char)(1 + below(255));
	text[len] = '\0';
	return text;
}

static void
send_raw(int socket, const void *data, size_t len, const int *fds, size_t count)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec part = {(void *)(uintptr_t)data, len};
	struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};

	if (count > 0) {
		struct cmsghdr *cm;

		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(count * sizeof(int));
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(cm), fds, count * sizeof(int));
	}
	sendmsg(socket, &msg, MSG_NOSIGNAL);
}

/* Anything but a small sealed blob. */
static int
hostile_fd(void)
{
	int fds[2], fd;

	switch (below(11)) {
	case 0: /* not sealed */
		fd = blob_new("open");
		blob_write(fd, "{\"text\":\"once\"}", 15);
		return fd;
	case 1: /* sealed, but not against shrinking */
		fd = blob_new("shrinks");
		blob_write(fd, "{\"text\":\"once\"}", 15);
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW);
		return fd;
	case 2:
		return pipe2(fds, O_CLOEXEC) == 0 ? fds[0] : -1;
	case 3:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 4:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 5:
		return socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0 ? fds[0] : -1;
	case 6:
		return eventfd(0, EFD_CLOEXEC);
	case 7:
		return epoll_create1(EPOLL_CLOEXEC);
	case 8:
		return open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	case 9: /* sealed, and larger than any memory, though nothing is in it */
		fd = blob_new("huge");
		if (ftruncate(fd, (off_t)1 << 42) == 0 && pwrite(fd, "\x0f", 1, 0) == 1)
			blob_seal(fd);
		return fd;
	default: /* sealed, nothing in it */
		return blob_from("empty", "", 0);
	}
}

/* The answer's own type, or another. */
static enum message_type
answer_type(const struct message *asked, bool right)
{
	static const enum message_type all[] = {
#define TYPE(name, number, fd) MSG_##name,
	    MESSAGE_LIST(TYPE)
#undef TYPE
	};

	if (!right || asked == NULL)
		return all[below(sizeof(all) / sizeof(*all))];
	/* MSG_OPENED stands to MSG_OPEN as all answers do to what they answer. */
	return (enum message_type)(asked->type + MSG_OPENED - MSG_OPEN);
}

/* A body of the right form, its numbers and texts hostile. */
static void
put_body(struct wire_put *w, enum message_type type, bool believable)
{
	switch (type) {
	case MSG_READY:
		message_put_ready(
		    w, &(struct message_ready){(uint32_t)hostile(), hostile_text(), "cpu"});
		break;
	case MSG_OPENED:
		message_put_opened(w, &(struct message_opened){hostile_text(), "cpu", hostile(),
					  hostile(), (uint32_t)hostile(), "", hostile()});
		break;
	case MSG_LOADED:
		message_put_loaded(
		    w, &(struct message_loaded){hostile(), hostile(), hostile_text(), hostile()});
		break;
	case MSG_TRAINED:
		message_put_trained(
		    w, &(struct message_trained){believable ? 0.5 : hostile_double(),
			   hostile_double(), hostile(), hostile(), hostile()});
		break;
	case MSG_SAVED:
		message_put_saved(w, &(struct message_saved){hostile(), hostile(), hostile_text()});
		break;
	case MSG_FAILED:
		message_put_failed(
		    w, &(struct message_failed){(uint32_t)hostile(), hostile_text()});
		break;
	case MSG_LAST_WORDS:
		message_put_last_words(
		    w, &(struct message_last_words){hostile_text(), hostile_text()});
		break;
	default:
		break;
	}
}

/* Random bytes in the place of all, changed ones, fewer, or more. The length. */
static size_t
spoil(uint8_t raw[RAW_MAX], size_t len)
{
	switch (below(3)) {
	case 0:
		len = below(below(2) ? RAW_MAX : 64);
		for (size_t i = 0; i < len; i++)
			raw[i] = (uint8_t)next();
		return len;
	case 1:
		for (size_t i = 1 + below(4); i > 0; i--)
			raw[below(len)] = (uint8_t)next();
		return len;
	default:
		return below(2) ? below(len + 1) : len + 1 + below(RAW_MAX - len - 1);
	}
}

/* With descriptors, if count says so; those that are open to it shrink at once. */
static void
send_with_fds(int socket, const void *data, size_t len, size_t count)
{
	int fds[FDS_MAX];

	for (size_t i = 0; i < count; i++)
		fds[i] = count == 1 ? hostile_fd() : eventfd(0, EFD_CLOEXEC);
	send_raw(socket, data, len, fds, count);
	for (size_t i = 0; i < count; i++) {
		if (ftruncate(fds[i], 0) != 0) {
			/* It is no file, or sealed. */
		}
		close(fds[i]);
	}
}

bool
fault_frames(int socket, const struct message *asked, uint64_t seed)
{
	static uint8_t raw[RAW_MAX];
	uint64_t request = asked == NULL ? 0 : asked->request;
	enum message_type type;
	struct wire_put w;
	size_t len, count = 0;

	state = seed;
	wire_put_init(&w, raw, MESSAGE_MAX);
	type = answer_type(asked, below(3) != 0);
	if (below(8) == 0)
		request += hostile();
	if (below(8) == 0)
		request = 0;
	wire_put_u32(&w, type);
	wire_put_u64(&w, request);
	put_body(&w, type, below(2) == 0);
	len = w.len;
	if (below(3) == 0)
		len = spoil(raw, len);
	else if (below(2) == 0)
		count = below(2) ? 1 : 2 + below(FDS_MAX - 2);
	send_with_fds(socket, raw, len, count);
	return asked != NULL && type == MSG_LAST_WORDS;
}
