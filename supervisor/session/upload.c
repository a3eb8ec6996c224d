#include "supervisor/session/upload.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/log.h"
#include "ipc/wire.h"
#include "supervisor/session/sessions.h"
#include "supervisor/stepd.h"
#include "supervisor/store/seal.h"
#include "supervisor/store/store.h"

enum { ABOUT_SIZE = 64 };

void
upload_fini(struct upload *u)
{
	free(u->url);
	*u = (struct upload){0};
}

long
upload_put(const struct upload *u, void *storage)
{
	struct wire_put w;

	wire_put_init(&w, storage, UPLOAD_MAX);
	wire_put_u8(&w, UPLOAD_VERSION);
	wire_put_u64(&w, u->step);
	wire_put_string(&w, u->sha256);
	wire_put_u64(&w, u->url_step);
	wire_put_string(&w, u->url_sha256);
	wire_put_bytes(&w, u->url == NULL ? "" : (const char *)u->url, u->url_len);
	return wire_put_end(&w);
}

/* 64 hex digits, or nothing. */
static void
get_digest(struct wire_get *r, char out[65])
{
	size_t len;

	wire_get_text(r, out, 65);
	len = strlen(out);
	if (len != 0 && len != 64)
		r->failed = true;
}

int
upload_get(struct upload *u, const void *data, size_t len)
{
	struct wire_get r;
	const void *url;
	int version;

	*u = (struct upload){0};
	wire_get_init(&r, data, len);
	version = wire_get_version(&r, UPLOAD_VERSION);
	if (version < 0)
		return version;
	u->step = wire_get_u64(&r);
	get_digest(&r, u->sha256);
	u->url_step = wire_get_u64(&r);
	get_digest(&r, u->url_sha256);
	url = wire_get_bytes(&r, &u->url_len);
	if (wire_get_end(&r) != 0 || u->url_len > UPLOAD_URL_MAX) {
		*u = (struct upload){0};
		return -EBADMSG;
	}
	if (u->url_len == 0)
		return 0;
	u->url = malloc(u->url_len);
	if (u->url == NULL) {
		*u = (struct upload){0};
		return -ENOMEM;
	}
	memcpy(u->url, url, u->url_len);
	return 0;
}

int
upload_copy(struct upload *to, const struct upload *from)
{
	*to = *from;
	if (from->url == NULL)
		return 0;
	to->url = malloc(from->url_len);
	if (to->url == NULL) {
		*to = (struct upload){0};
		return -ENOMEM;
	}
	memcpy(to->url, from->url, from->url_len);
	return 0;
}

static void
write_about(char about[ABOUT_SIZE], const char *id)
{
	snprintf(about, ABOUT_SIZE, "restore-url %s", id);
}

int
upload_note(struct upload *u, const struct seal_key *key, const char *id, uint64_t step,
    const char sha256[65], const char *url)
{
	size_t len = url == NULL ? 0 : strlen(url);
	char about[ABOUT_SIZE];
	uint8_t *sealed = NULL;

	if (len + SEAL_OVERHEAD > UPLOAD_URL_MAX)
		return -EMSGSIZE;
	if (url != NULL) {
		sealed = malloc(len + SEAL_OVERHEAD);
		if (sealed == NULL)
			return -ENOMEM;
		write_about(about, id);
		seal_bytes(key, about, url, len, sealed);
		free(u->url);
		u->url = sealed;
		u->url_len = len + SEAL_OVERHEAD;
		u->url_step = step;
		memcpy(u->url_sha256, sha256, sizeof(u->url_sha256));
	}
	u->step = step;
	memcpy(u->sha256, sha256, sizeof(u->sha256));
	return 0;
}

char *
upload_url(const struct upload *u, const struct seal_key *key, const char *id)
{
	char about[ABOUT_SIZE], *url;
	int error;

	if (u->url == NULL || u->url_len < SEAL_OVERHEAD)
		return NULL;
	url = calloc(1, u->url_len - SEAL_OVERHEAD + 1);
	write_about(about, id);
	error = url == NULL ? -ENOMEM : seal_bytes_open(key, about, u->url, u->url_len, url);
	if (error == 0)
		return url;
	log_error("session %s: its restore_url: %s", id, seal_reason(error));
	free(url);
	return NULL;
}

static int
take_record(void *ctx, const void *key, size_t key_len, const void *data, size_t len)
{
	struct store_write gone = {STORE_UPLOADS, key, key_len, NULL, 0};
	char id[SESSION_ID_SIZE] = "";
	struct stepd *stepd = ctx;
	struct session *s;
	int error;

	if (key_len != sizeof(id) - 1)
		return 0;
	memcpy(id, key, key_len);
	s = sessions_find(stepd, id);
	if (s == NULL)
		return sessions_is_unknown(stepd, id)
			   ? store_commit(stepd->store, &gone, 1, NULL, NULL)
			   : 0;
	error = upload_get(&s->upload, data, len);
	if (error != 0)
		log_error("session %s: what it uploaded cannot be read (%s); it is left", id,
		    strerror(-error));
	return 0;
}

void
upload_find_all(struct stepd *stepd)
{
	int error = store_each(stepd->store, STORE_UPLOADS, take_record, stepd);

	if (error != 0)
		log_error("what sessions uploaded cannot be read: %s", strerror(-error));
}
