#include "supervisor/transfer/file_digest.h"

#include <errno.h>
#include <event2/event.h>
#include <sodium.h>
#include <stdlib.h>
#include <unistd.h>

enum { SLICE = 1 << 20 }; /* about 3 ms of hashing */

struct file_digest {
	struct event *turn;
	int fd;
	uint64_t at;
	crypto_hash_sha256_state hash;
	void (*done)(void *ctx, int error, uint64_t size, const char *hex);
	void *ctx;
	uint8_t slice[SLICE];
};

static void
finish(struct file_digest *d, int error)
{
	void (*done)(void *, int, uint64_t, const char *) = d->done;
	void *ctx = d->ctx;
	uint64_t size = d->at;
	uint8_t digest[crypto_hash_sha256_BYTES];
	char hex[2 * crypto_hash_sha256_BYTES + 1];

	crypto_hash_sha256_final(&d->hash, digest);
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	file_digest_cancel(d);
	done(ctx, error, size, hex);
}

static void
on_turn(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval now = {0, 0};
	struct file_digest *d = arg;
	ssize_t n = pread(d->fd, d->slice, SLICE, (off_t)d->at);

	(void)fd;
	(void)what;
	if (n <= 0) {
		finish(d, n < 0 ? -errno : 0);
		return;
	}
	crypto_hash_sha256_update(&d->hash, d->slice, (size_t)n);
	d->at += (uint64_t)n;
	if (evtimer_add(d->turn, &now) != 0)
		finish(d, -ENOMEM);
}

struct file_digest *
file_digest_begin(struct event_base *base, int fd,
    void (*done)(void *ctx, int error, uint64_t size, const char *hex), void *ctx)
{
	static const struct timeval now = {0, 0};
	struct file_digest *d = malloc(sizeof(*d));

	if (d == NULL)
		return NULL;
	d->turn = evtimer_new(base, on_turn, d);
	d->fd = fd;
	d->at = 0;
	d->done = done;
	d->ctx = ctx;
	crypto_hash_sha256_init(&d->hash);
	if (d->turn == NULL || evtimer_add(d->turn, &now) != 0) {
		file_digest_cancel(d);
		return NULL;
	}
	return d;
}

void
file_digest_cancel(struct file_digest *d)
{
	if (d == NULL)
		return;
	if (d->turn != NULL)
		event_free(d->turn);
	free(d);
}
