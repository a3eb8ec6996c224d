/* POST /v1/objects:sign. With an Idempotency-Key the same request gets the very same pair of URLs:
   they are secrets and not kept, but everything that they are made of is: the time of the first
   request, and the key, from which the object's name follows. */
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ipc/json_write.h"
#include "supervisor/api/api_body.h"
#include "supervisor/api/api_key.h"
#include "supervisor/api/request_sign.h"
#include "supervisor/api/routes.h"
#include "supervisor/session/kept_clock.h"
#include "supervisor/session/kept_find.h"
#include "supervisor/settings/config.h"
#include "supervisor/store/object_store.h"
#include "supervisor/store/store.h"

/* Beside the numbers of enum request_kind. */
enum { KIND_SIGN = 255 };

/* What is signed; with a key, while the store is asked to hold it. */
struct signing {
	struct signing *next;
	struct stepd *s;
	struct http_request *http;
	struct object_ref ref;
	int64_t at, expires;
	char key[API_OWN_KEY_SIZE];
	uint8_t digest[KEPT_DIGEST];
};

static struct signing *under_way;

/* {"object", "put_url", "get_url", "expires_at"} */
static void
reply_signed(struct stepd *s, struct http_request *r, struct object_ref *ref, int64_t expires)
{
	char put_url[OBJECT_URL_MAX], get_url[OBJECT_URL_MAX];
	struct json_writer w;
	const char *text;
	size_t len;

	ref->verb = OBJECT_PUT;
	object_url_sign(put_url, s->objects->key, objects_base(s), ref, expires);
	ref->verb = OBJECT_GET;
	object_url_sign(get_url, s->objects->key, objects_base(s), ref, expires);
	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "object", ref->id);
	json_put_string(&w, "put_url", put_url);
	json_put_string(&w, "get_url", get_url);
	json_put_int(&w, "expires_at", expires);
	json_write_object_end(&w);
	text = json_writer_text(&w, &len);
	if (text != NULL)
		http_reply_json(r, 200, text, len);
	else
		http_reply_detail(r, 503, api_no_memory);
	json_writer_fini(&w);
	sodium_memzero(put_url, sizeof(put_url));
	sodium_memzero(get_url, sizeof(get_url));
}

/* The name of a new object: that of the key at that time, or of nothing but chance. */
static void
name_object(struct object_ref *ref, const struct signing *g)
{
	uint8_t name[16];
	crypto_generichash_state state;

	if (g == NULL) {
		randombytes_buf(name, sizeof(name));
	} else {
		crypto_generichash_init(&state, g->s->objects->key, OBJECT_KEY_BYTES, sizeof(name));
		crypto_generichash_update(&state, (const uint8_t *)"name", 4);
		crypto_generichash_update(&state, (const uint8_t *)&g->at, sizeof(g->at));
		crypto_generichash_update(&state, (const uint8_t *)g->key, strlen(g->key));
		crypto_generichash_final(&state, name, sizeof(name));
	}
	sodium_bin2hex(ref->id, sizeof(ref->id), name, sizeof(name));
}

static void
signing_free(struct signing *g)
{
	struct signing **at = &under_way;

	while (*at != NULL && *at != g)
		at = &(*at)->next;
	if (*at == g)
		*at = g->next;
	sodium_memzero(g, sizeof(*g));
	free(g);
}

static void
on_kept(void *ctx, int error)
{
	struct signing *g = ctx;

	if (error != 0)
		http_reply_detail(g->http, 507, "the trainer has no disk space to keep the key");
	else
		reply_signed(g->s, g->http, &g->ref, g->expires);
	signing_free(g);
}

static void
keep(struct signing *g)
{
	/* Its age goes by the clock of what is kept, the URLs by the wall clock. */
	struct kept_answer answer = {
	    .kind = KIND_SIGN, .step = (uint64_t)g->at, .at = kept_clock_seconds(), .json = ""};
	uint8_t key[KEPT_KEY_MAX], packed[KEPT_ANSWER_MAX];
	size_t key_len = kept_answer_key(key, KEPT_SIGNING, g->key);
	struct store_write write = {STORE_ANSWERS, key, key_len, packed, 0};
	long len;

	memcpy(answer.digest, g->digest, sizeof(answer.digest));
	len = kept_answer_put(&answer, packed);
	write.len = len < 0 ? 0 : (size_t)len;
	if (len < 0 || store_commit(g->s->store, &write, 1, on_kept, g) != 0)
		on_kept(g, -ENOMEM);
}

/* When the key was used first, by the wall clock: by a request under way, or by one that is kept.
   Now, if never. 0; -EEXIST: by another request; or -errno. */
static int
find_first(struct signing *g, uint32_t expires_in, int64_t *at)
{
	struct kept_answer answer = {0};
	int64_t signed_at;
	void *data = NULL;
	int error;

	for (const struct signing *other = under_way; other != NULL; other = other->next) {
		if (strcmp(other->key, g->key) == 0) {
			*at = other->at;
			return memcmp(other->digest, g->digest, KEPT_DIGEST) == 0 ? 0 : -EEXIST;
		}
	}
	error = kept_find(g->s, KEPT_SIGNING, g->key, &answer, &data);
	free(data);
	*at = (int64_t)time(NULL);
	/* In the answers of an older stepd both clocks were one. */
	signed_at = answer.step != 0 ? (int64_t)answer.step : answer.at;
	/* A pair that is good for nothing any more is made anew. */
	if (error == 0 && signed_at + expires_in > *at)
		*at = signed_at;
	if (error == 0 && memcmp(answer.digest, g->digest, KEPT_DIGEST) != 0)
		return -EEXIST;
	return error == -ENOENT ? 0 : error;
}

static void
sign_once(struct stepd *s, struct http_request *r, const struct request_sign *sign, const char *key,
    const struct object_ref *ref)
{
	struct signing *g = calloc(1, sizeof(*g));
	int error;

	if (g == NULL || api_digest(r, g->digest) != 0) {
		free(g);
		http_reply_detail(r, 503, api_no_memory);
		return;
	}
	g->s = s;
	g->http = r;
	g->ref = *ref;
	memcpy(g->key, key, strlen(key) + 1);
	error = find_first(g, sign->expires_in, &g->at);
	if (error != 0) {
		signing_free(g);
		if (error == -EEXIST)
			http_reply_detail(r, 422, api_key_taken);
		else
			http_reply_detail(
			    r, 503, "the trainer cannot read what it answered to this key");
		return;
	}
	g->expires = g->at + sign->expires_in;
	if (g->ref.id[0] == '\0')
		name_object(&g->ref, g);
	g->next = under_way;
	under_way = g;
	keep(g);
}

static void
sign_object(struct stepd *s, struct http_request *r, const struct request_sign *sign)
{
	struct object_ref ref = {.limit = sign->max_bytes};
	char key[API_OWN_KEY_SIZE];

	if (*sign->object != '\0' && !objects_have(s->objects, sign->object)) {
		http_reply_detail(r, 404, "object not found");
		return;
	}
	if (api_own_key(s, r, key) != 0)
		return;
	if (ref.limit > s->config->object_limit)
		ref.limit = s->config->object_limit;
	if (*sign->object != '\0')
		memcpy(ref.id, sign->object, sizeof(ref.id));
	if (key[0] != '\0') {
		sign_once(s, r, sign, key, &ref);
		return;
	}
	if (ref.id[0] == '\0')
		name_object(&ref, NULL);
	reply_signed(s, r, &ref, time(NULL) + sign->expires_in);
}

static void
parse(struct stepd *s, struct json_doc *doc, void *fields, struct faults *f)
{
	(void)s;
	request_sign_parse(doc, fields, f);
}

void
api_objects_sign(struct stepd *s, struct http_request *r)
{
	struct api_body body;

	if (api_body_read(&body, s, r, sizeof(struct request_sign), parse))
		sign_object(s, r, body.fields);
	api_body_fini(&body);
}
