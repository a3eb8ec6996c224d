/* Codec, channel and blobs: round trips, and what a hostile peer may send. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/channel.h"
#include "tests/unit/test.h"

static struct channel left, right;

static void
connect_pair(void)
{
	int fds[2];

	CHECK(channel_pair(fds) == 0);
	channel_init(&left, fds[0]);
	channel_init(&right, fds[1]);
}

static int
open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

TEST(round_trip)
{
	struct message_train sent = {.learning_rate = 1e-4, .step = 41}, got;
	struct message m;
	struct wire_put w;
	char body[100];
	char text[8] = "";
	int fd;

	connect_pair();
	wire_put_init(&w, body, sizeof(body));
	message_put_train(&w, &sent);
	fd = blob_from("ids", "hello", 5);
	CHECK(fd >= 0 && blob_is_sealed(fd));
	CHECK(write(fd, "x", 1) < 0);
	CHECK(channel_send(&left, MSG_TRAIN, 77, body, (size_t)wire_put_end(&w), fd) == 0);
	close(fd);
	CHECK(channel_recv(&right, &m) == 1);
	CHECK(m.type == MSG_TRAIN && m.request == 77 && m.fd >= 0);
	CHECK(message_get_train(&m.body, &got) == 0);
	CHECK(got.learning_rate == 1e-4 && got.step == 41);
	CHECK(pread(m.fd, text, 5, 0) == 5);
	CHECK_STR(text, "hello");
	close(m.fd);
	channel_fini(&left);
	CHECK(channel_recv(&right, &m) == 0);
	channel_fini(&right);
}

TEST(garbage)
{
	struct message m;
	int before, fds[3];
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof(fds))];
	} control = {0};
	char data[12] = {MSG_CLOSE};
	struct iovec part = {data, sizeof(data)};
	struct msghdr msg = {.msg_iov = &part,
	    .msg_iovlen = 1,
	    .msg_control = control.space,
	    .msg_controllen = sizeof(control.space)};
	struct cmsghdr *cm = CMSG_FIRSTHDR(&msg);

	connect_pair();
	before = open_fds();
	CHECK(write(left.fd, "short", 5) == 5);
	CHECK(channel_recv(&right, &m) == -EBADMSG);
	CHECK(write(left.fd, "\xf0\xff\xff\xff\0\0\0\0\0\0\0\0", 12) == 12);
	CHECK(channel_recv(&right, &m) == -EBADMSG);
	cm->cmsg_level = SOL_SOCKET;
	cm->cmsg_type = SCM_RIGHTS;
	cm->cmsg_len = CMSG_LEN(sizeof(fds));
	fds[0] = fds[1] = fds[2] = left.fd;
	memcpy(CMSG_DATA(cm), fds, sizeof(fds));
	CHECK(sendmsg(left.fd, &msg, 0) == 12);
	CHECK(channel_recv(&right, &m) == -EBADMSG);
	CHECK(m.fd == -1);
	CHECK(open_fds() == before);
	CHECK(channel_send(&left, MSG_TRAIN, 1, data, MESSAGE_MAX, -1) == -EMSGSIZE);
	channel_fini(&left);
	channel_fini(&right);
}

TEST(wire_limits)
{
	struct message_failed got;
	struct wire_put w;
	struct wire_get r;
	char small[6], body[64];

	wire_put_init(&w, small, sizeof(small));
	wire_put_string(&w, "longer");
	CHECK(wire_put_end(&w) == -EMSGSIZE);

	wire_put_init(&w, body, sizeof(body));
	message_put_failed(&w, &(struct message_failed){422, "no"});
	for (size_t cut = 0; cut < w.len; cut++) {
		wire_get_init(&r, body, cut);
		CHECK(message_get_failed(&r, &got) == -EBADMSG);
	}
	wire_get_init(&r, body, w.len + 1); /* something is left over */
	CHECK(message_get_failed(&r, &got) == -EBADMSG);
	wire_get_init(&r, body, w.len);
	CHECK(message_get_failed(&r, &got) == 0);
	CHECK_STR(got.detail, "no");
	body[w.len - 1] = 'x'; /* no NUL at the end */
	wire_get_init(&r, body, w.len);
	CHECK(message_get_failed(&r, &got) == -EBADMSG);
	memset(body + 4, 0xff, 4); /* a length beyond everything */
	wire_get_init(&r, body, w.len);
	CHECK(message_get_failed(&r, &got) == -EBADMSG);
}

TEST(unsealed)
{
	struct blob_view view;
	int fd = blob_new("open");

	CHECK(blob_write(fd, "abc", 3) == 0);
	CHECK(blob_map(&view, fd) == -EPERM);
	CHECK(blob_seal(fd) == 0);
	CHECK(blob_map(&view, fd) == 0);
	CHECK(view.len == 3 && memcmp(view.data, "abc", 3) == 0);
	blob_unmap(&view);
	close(fd);
}

TEST(wire_records)
{
	uint8_t body[64], digest[4];
	struct wire_put w;
	struct wire_get r;
	char text[4];

	wire_put_init(&w, body, sizeof(body));
	wire_put_u8(&w, 2);
	wire_put_u8(&w, 1);
	wire_put_string(&w, "abc");
	wire_put_bytes(&w, "\1\2\3\4", 4);
	wire_get_init(&r, body, w.len);
	CHECK(wire_get_version(&r, 3) == 2 && wire_get_bool(&r));
	wire_get_text(&r, text, sizeof(text));
	wire_get_exactly(&r, digest, sizeof(digest));
	CHECK(wire_get_end(&r) == 0 && memcmp(digest, "\1\2\3\4", 4) == 0);
	CHECK_STR(text, "abc");

	wire_get_init(&r, body, w.len); /* a newer program's */
	CHECK(wire_get_version(&r, 1) == -EPROTO);
	wire_get_init(&r, body, 0);
	CHECK(wire_get_version(&r, 1) == -EBADMSG);
	wire_get_init(&r, "\0", 1);
	CHECK(wire_get_version(&r, 1) == -EBADMSG);
	wire_get_init(&r, body, w.len); /* 2 is no truth */
	wire_get_bool(&r);
	CHECK(r.failed);
	wire_get_init(&r, body + 2, w.len - 2); /* no room for the NUL */
	wire_get_text(&r, text, 3);
	CHECK(r.failed);
	CHECK_STR(text, "");
	wire_get_init(&r, body + 2, w.len - 2); /* "abc" and its NUL are 4 bytes */
	memset(digest, 7, sizeof(digest));
	wire_get_exactly(&r, digest, 3);
	CHECK(r.failed && memcmp(digest, "\0\0\0\7", 4) == 0);
}

TEST_MAIN(TEST_CASE(round_trip), TEST_CASE(garbage), TEST_CASE(wire_limits),
    TEST_CASE(wire_records), TEST_CASE(unsealed))
