#include "supervisor/session/anchor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/log.h"
#include "ipc/wire.h"
#include "supervisor/offload.h"
#include "supervisor/session/journal.h"
#include "supervisor/session/sessions.h"
#include "supervisor/settings/config.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

enum { READ_SIZE = 64 * 1024, NAME_SIZE = 80 };

/* A file on its way to become an anchor; the session may end meanwhile. */
struct anchoring {
	struct stepd *stepd;
	char id[SESSION_ID_SIZE];
	struct anchor anchor;
	char folder[PATH_MAX], name[NAME_SIZE];
};

void
anchor_init(struct anchor *a)
{
	*a = (struct anchor){.fd = -1};
}

void
anchor_fini(struct anchor *a)
{
	if (a->fd >= 0)
		close(a->fd);
	anchor_init(a);
}

long
anchor_put(const struct anchor *a, void *storage)
{
	struct wire_put w;

	wire_put_init(&w, storage, ANCHOR_RECORD_MAX);
	wire_put_u8(&w, ANCHOR_VERSION);
	wire_put_u64(&w, a->step);
	wire_put_u8(&w, a->kind);
	wire_put_string(&w, a->sha256);
	return wire_put_end(&w);
}

int
anchor_get(struct anchor *a, const void *data, size_t len)
{
	struct wire_get r;
	const char *sha256;
	uint8_t version;

	anchor_init(a);
	wire_get_init(&r, data, len);
	version = wire_get_u8(&r);
	if (version != ANCHOR_VERSION)
		return version > ANCHOR_VERSION ? -EPROTO : -EBADMSG;
	a->step = wire_get_u64(&r);
	a->kind = wire_get_u8(&r);
	sha256 = wire_get_string(&r);
	if (r.failed || strlen(sha256) != sizeof(a->sha256) - 1)
		return -EBADMSG;
	memcpy(a->sha256, sha256, sizeof(a->sha256));
	return wire_get_end(&r);
}

static void
write_name(char name[NAME_SIZE], const char *id, const struct anchor *a)
{
	snprintf(name, NAME_SIZE, "%.32s.%llu.%u", id, (unsigned long long)a->step, a->kind);
}

static void
remove_name(struct stepd *stepd, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", stepd->sessions->spool, name);

	if (n > 0 && n < (int)sizeof(path) && unlink(path) != 0 && errno != ENOENT)
		log_warning("the spool file %s stays: %s", name, strerror(errno));
}

/* On the disk, and what the digest says? 0, -EBADMSG, or -errno. */
static int
check_file(const struct anchor *a)
{
	uint8_t bytes[READ_SIZE], digest[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(digest) + 1];
	crypto_hash_sha256_state state;
	off_t at = 0;
	ssize_t n;

	if (fsync(a->fd) != 0)
		return -errno;
	/* From the disk, as far as the kernel lets go of what it holds. */
	posix_fadvise(a->fd, 0, 0, POSIX_FADV_DONTNEED);
	crypto_hash_sha256_init(&state);
	while ((n = pread(a->fd, bytes, sizeof(bytes), at)) > 0) {
		crypto_hash_sha256_update(&state, bytes, (unsigned long long)n);
		at += n;
	}
	if (n < 0)
		return -errno;
	crypto_hash_sha256_final(&state, digest);
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	return strcmp(hex, a->sha256) == 0 ? 0 : -EBADMSG;
}

/* Not every file can be named: then the anchor lives as long as stepd. */
static bool
name_file(const struct anchoring *a)
{
	char from[64];
	int folder = open(a->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool named = false;

	if (folder < 0)
		return false;
	snprintf(from, sizeof(from), "/proc/self/fd/%d", a->anchor.fd);
	unlinkat(folder, a->name, 0);
	named =
	    linkat(AT_FDCWD, from, folder, a->name, AT_SYMLINK_FOLLOW) == 0 && fsync(folder) == 0;
	close(folder);
	return named;
}

static int
work(void *arg)
{
	struct anchoring *a = arg;
	int error = check_file(&a->anchor);

	if (error == 0)
		a->anchor.named = name_file(a);
	return error;
}

/* The store chooses it, and forgets the journal up to it. */
static int
choose(struct session *s, const struct anchor *new, uint64_t old_step)
{
	size_t steps = new->step > old_step ? new->step - old_step : 0;
	struct store_write *writes = calloc(steps + 1, sizeof(*writes));
	uint8_t(*keys)[JOURNAL_KEY_SIZE] = calloc(steps + 1, sizeof(*keys));
	uint8_t packed[ANCHOR_RECORD_MAX];
	long len = anchor_put(new, packed);
	int error = -ENOMEM;

	if (writes != NULL && keys != NULL && len > 0) {
		writes[0] = (struct store_write){
		    STORE_ANCHORS, s->record.id, strlen(s->record.id), packed, (size_t)len};
		for (size_t i = 1; i <= steps; i++) {
			journal_key(keys[i], s->record.id, old_step + i);
			writes[i] =
			    (struct store_write){STORE_JOURNAL, keys[i], sizeof(keys[i]), NULL, 0};
		}
		error = store_commit(s->stepd->store, writes, steps + 1, NULL, NULL);
	}
	free(writes);
	free(keys);
	return error;
}

static void
done(void *arg, int error)
{
	struct anchoring *a = arg;
	struct session *s = sessions_find(a->stepd, a->id);
	struct anchor old;
	char name[NAME_SIZE];

	if (error != 0)
		log_error("session %s: a recovery snapshot is not what was written (%s)", a->id,
		    strerror(-error));
	if (s != NULL) {
		s->anchor.busy = false;
		if (error != 0)
			s->anchor.next_step = s->record.step + a->stepd->config->snapshot_steps;
	}
	if (error != 0 || s == NULL || s->state == SESSION_CLOSED) {
		if (a->anchor.named)
			remove_name(a->stepd, a->name);
		anchor_fini(&a->anchor);
		free(a);
		return;
	}
	old = s->anchor;
	s->anchor = a->anchor;
	if (!a->anchor.named)
		log_warning("session %s: the snapshot has no name, and ends with stepd", a->id);
	else if (choose(s, &a->anchor, old.step) != 0)
		log_error("session %s: the snapshot is not in the store", a->id);
	write_name(name, a->id, &old);
	if (old.named && strcmp(name, a->name) != 0)
		remove_name(a->stepd, name);
	anchor_fini(&old);
	free(a);
}

void
anchor_begin(struct session *s, int fd, uint64_t step, uint8_t kind, const char sha256[65])
{
	struct anchoring *a = s->anchor.busy ? NULL : calloc(1, sizeof(*a));

	if (a == NULL) {
		close(fd);
		return;
	}
	a->stepd = s->stepd;
	a->anchor = (struct anchor){.fd = fd, .step = step, .kind = kind};
	memcpy(a->anchor.sha256, sha256, sizeof(a->anchor.sha256));
	memcpy(a->id, s->record.id, sizeof(a->id));
	snprintf(a->folder, sizeof(a->folder), "%s", s->stepd->sessions->spool);
	write_name(a->name, a->id, &a->anchor);
	s->anchor.busy = true;
	offload_start(s->stepd->base, work, done, a);
}

void
anchor_drop(struct session *s)
{
	struct store_write gone = {STORE_ANCHORS, s->record.id, strlen(s->record.id), NULL, 0};
	bool busy = s->anchor.busy;
	char name[NAME_SIZE];

	write_name(name, s->record.id, &s->anchor);
	if (s->anchor.named) {
		remove_name(s->stepd, name);
		store_commit(s->stepd->store, &gone, 1, NULL, NULL);
	}
	anchor_fini(&s->anchor);
	s->anchor.busy = busy;
}

static int
take_record(void *ctx, const void *key, size_t key_len, const void *data, size_t len)
{
	char id[SESSION_ID_SIZE] = "";
	struct anchor anchor;
	struct session *s;

	if (key_len != sizeof(id) - 1)
		return 0;
	memcpy(id, key, key_len);
	s = sessions_find(ctx, id);
	if (s == NULL || anchor_get(&anchor, data, len) != 0)
		return 0;
	anchor.named = true;
	s->anchor = anchor;
	if (s->state == SESSION_CLOSED)
		anchor_drop(s);
	return 0;
}

void
anchor_clean(struct stepd *stepd)
{
	char id[SESSION_ID_SIZE], name[NAME_SIZE];
	struct dirent *entry;
	DIR *folder;

	if (store_each(stepd->store, STORE_ANCHORS, take_record, stepd) != 0)
		return;
	folder = opendir(stepd->sessions->spool);
	while (folder != NULL && (entry = readdir(folder)) != NULL) {
		const struct session *s;

		if (strlen(entry->d_name) < sizeof(id) || entry->d_name[sizeof(id) - 1] != '.')
			continue;
		snprintf(id, sizeof(id), "%.32s", entry->d_name);
		s = sessions_find(stepd, id);
		if (s == NULL)
			continue;
		write_name(name, id, &s->anchor);
		if (!s->anchor.named || strcmp(name, entry->d_name) != 0)
			remove_name(stepd, entry->d_name);
	}
	if (folder != NULL)
		closedir(folder);
}
