#include "supervisor/ctl/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_write.h"
#include "supervisor/ctl/print.h"
#include "supervisor/ctl/verbs.h"

/* A pair of signed URLs of the service's object store. */
struct place {
	char put[2084], get[2084];
};

static int
sign(struct remote *r, struct place *place)
{
	struct reply reply;
	const char *put, *get;
	int rc = client_expect(r->client, "asking for a place in the object store", "POST",
	    "/v1/objects:sign", "{}", &reply);

	if (rc != 0)
		return rc;
	put = json_string(json_get(reply_json(&reply), "put_url"), NULL);
	get = json_string(json_get(reply_json(&reply), "get_url"), NULL);
	if (put == NULL || get == NULL || strlen(put) >= sizeof(place->put) ||
	    strlen(get) >= sizeof(place->get)) {
		fputs("stepctl: the service's object store gave no URLs\n", stderr);
		reply_fini(&reply);
		return CTL_REFUSED;
	}
	strcpy(place->put, put);
	strcpy(place->get, get);
	reply_fini(&reply);
	return 0;
}

/* Sends a local artifact to the object store: its URL for reading under `field`. */
static int
lend_file(struct remote *r, struct json_writer *w, const char *field, const char *path)
{
	struct place place;
	int rc = sign(r, &place);

	if (rc == 0)
		rc = client_put_file(r->client, place.put, path);
	if (rc == 0)
		json_put_string(w, field, place.get);
	return rc;
}

static int
post_open(struct remote *r, const char *body)
{
	struct reply reply;
	const char *id;
	int rc =
	    client_expect(r->client, "opening the session", "POST", "/v1/sessions", body, &reply);

	if (rc != 0)
		return rc;
	id = json_string(json_get(reply_json(&reply), "session_id"), NULL);
	if (id == NULL || strlen(id) >= sizeof(r->id)) {
		fputs("stepctl: opening the session: the answer has no session_id\n", stderr);
		rc = CTL_REFUSED;
	} else {
		strcpy(r->id, id);
	}
	reply_fini(&reply);
	return rc;
}

/* Learns the step that a session is at. */
static int
read_status(struct remote *r)
{
	struct reply reply;
	char path[256];
	int64_t step = 0;
	int rc;

	snprintf(path, sizeof(path), "/v1/sessions/%s", r->id);
	rc = client_expect(r->client, "reading the session's state", "GET", path, NULL, &reply);
	if (rc != 0)
		return rc;
	json_int64(json_get(reply_json(&reply), "step"), &step);
	r->step = (uint64_t)step;
	reply_fini(&reply);
	return 0;
}

int
remote_open(struct remote *r, const struct remote_options *o)
{
	struct json_writer w;
	const char *body;
	int rc = 0;

	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "base_model", o->model);
	json_put_uint(&w, "lora_rank", o->rank);
	json_put_uint(&w, "seed", o->seed);
	if (o->max_tokens > 0)
		json_put_uint(&w, "maximum_datum_tokens", o->max_tokens);
	if (o->resume != NULL)
		rc = lend_file(r, &w, "resume_download_url", o->resume);
	else if (o->adapter != NULL)
		rc = lend_file(r, &w, "sampling_download_url", o->adapter);
	json_write_object_end(&w);
	body = json_writer_text(&w, NULL);
	if (rc == 0)
		rc = body == NULL ? ctl_out_of_memory() : post_open(r, body);
	json_writer_fini(&w);
	if (rc == 0 && o->resume != NULL)
		rc = read_status(r);
	return rc;
}

/* Tells the service to save to the place; the digest it answers. */
static int
post_save(struct remote *r, const char *kind, const struct place *place, char sha256[65])
{
	struct json_writer w;
	struct reply reply;
	char name[64];
	const char *body, *digest;
	int rc;

	snprintf(name, sizeof(name), "step-%llu", (unsigned long long)r->step);
	json_writer_init(&w);
	json_write_object(&w);
	json_put_string(&w, "kind", kind);
	json_put_string(&w, "name", name);
	json_put_string(&w, "upload_url", place->put);
	json_write_object_end(&w);
	body = json_writer_text(&w, NULL);
	rc = body == NULL ? ctl_out_of_memory()
			  : remote_post(r, "saving", "artifacts:save", body, &reply);
	json_writer_fini(&w);
	if (rc != 0)
		return rc;
	digest = json_string(json_get(reply_json(&reply), "sha256"), NULL);
	snprintf(sha256, 65, "%s", digest == NULL ? "" : digest);
	reply_fini(&reply);
	return 0;
}

int
remote_save(struct remote *r, const char *kind, const char *path)
{
	struct place place;
	char told[65], got[65];
	int rc = sign(r, &place);

	if (rc == 0)
		rc = post_save(r, kind, &place, told);
	if (rc == 0)
		rc = client_get_file(r->client, place.get, path, got);
	if (rc == 0 && strcmp(told, got) != 0) {
		fprintf(stderr, "stepctl: %s is not what the service saved: sha256 %s, told ", path,
		    got);
		print_text(stderr, told);
		putc('\n', stderr);
		rc = CTL_FAILED;
	}
	return rc;
}

int
remote_close(struct remote *r, bool force)
{
	struct reply reply;
	char path[256];
	int rc;

	if (r->id[0] == '\0')
		return 0;
	snprintf(path, sizeof(path), "/v1/sessions/%s%s", r->id, force ? "?force=true" : "");
	rc = client_expect(r->client, "closing the session", "DELETE", path, NULL, &reply);
	if (rc != 0)
		return rc;
	reply_fini(&reply);
	r->id[0] = '\0';
	return 0;
}

void
remote_fini(struct remote *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->datum_ids[i]);
	free(r->datum_ids);
	r->datum_ids = NULL;
	r->count = 0;
}
