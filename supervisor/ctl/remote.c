#include "supervisor/ctl/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_write.h"
#include "supervisor/ctl/verbs.h"

/* A render request is cut at this many bytes of rows or rows, whatever comes first. */
enum { RENDER_BYTES = 8 << 20, RENDER_ROWS = 2000 };

static int
out_of_memory(void)
{
	fputs("stepctl: out of memory\n", stderr);
	return CTL_FAILED;
}

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
		rc = body == NULL ? out_of_memory() : post_open(r, body);
	json_writer_fini(&w);
	if (rc == 0 && o->resume != NULL)
		rc = read_status(r);
	return rc;
}

/* Names the rows that the service's 422 is about: loc is ["body", "examples", index, ...]. */
static void
print_rows(const struct reply *reply, const struct rows *rows, size_t first)
{
	struct json detail = json_get(reply_json(reply), "detail");
	const char *sentence = json_string(detail, NULL);
	const char *at = sentence == NULL ? NULL : strstr(sentence, "row-");

	if (at != NULL) {
		size_t row = strtoul(at + 4, NULL, 10);

		if (row < rows->count)
			fprintf(stderr, "stepctl: row-%zu is %s:%zu\n", row, rows->path,
			    rows->rows[row].line);
	}
	json_foreach (fault, detail) {
		struct json index = json_next(json_next(json_first(json_get(fault, "loc"))));
		int64_t i;

		if (json_int64(index, &i) && i >= 0 && first + (size_t)i < rows->count)
			fprintf(stderr, "stepctl: example %lld is %s:%zu\n", (long long)i,
			    rows->path, rows->rows[first + (size_t)i].line);
	}
}

static int
keep_datum_ids(struct remote *r, const struct reply *reply, size_t first, size_t count)
{
	struct json datums = json_get(reply_json(reply), "datums");
	size_t i = first;

	if (json_count(datums) != count) {
		fputs("stepctl: rendering: the answer has another number of datums\n", stderr);
		return CTL_REFUSED;
	}
	json_foreach (datum, datums) {
		const char *id = json_string(json_get(datum, "datum_id"), NULL);

		if (id == NULL) {
			fputs("stepctl: rendering: a datum without a datum_id\n", stderr);
			return CTL_REFUSED;
		}
		r->datum_ids[i] = strdup(id);
		if (r->datum_ids[i++] == NULL)
			return out_of_memory();
	}
	return 0;
}

/* Renders count rows from first on in one call. */
static int
render_some(struct remote *r, const struct rows *rows, size_t first, size_t count)
{
	struct json_writer w;
	struct reply reply;
	char path[256], name[32];
	const char *body;
	int rc;

	json_writer_init(&w);
	json_write_object(&w);
	json_write_key(&w, "examples");
	json_write_array(&w);
	for (size_t i = first; i < first + count; i++) {
		json_write_object(&w);
		snprintf(name, sizeof(name), "row-%zu", i);
		json_put_string(&w, "example_id", name);
		json_write_key(&w, "messages");
		json_write_raw(&w, rows->rows[i].messages, strlen(rows->rows[i].messages));
		json_write_object_end(&w);
	}
	json_write_array_end(&w);
	json_write_object_end(&w);
	body = json_writer_text(&w, NULL);
	if (body == NULL) {
		json_writer_fini(&w);
		return out_of_memory();
	}
	snprintf(path, sizeof(path), "/v1/sessions/%s/datums:render", r->id);
	rc = client_call(r->client, "POST", path, body, &reply);
	json_writer_fini(&w);
	if (rc != 0)
		return rc;
	if (reply.status == 200) {
		rc = keep_datum_ids(r, &reply, first, count);
	} else {
		reply_print(&reply, "rendering");
		print_rows(&reply, rows, first);
		rc = CTL_REFUSED;
	}
	reply_fini(&reply);
	return rc;
}

int
remote_render(struct remote *r, const struct rows *rows)
{
	r->datum_ids = calloc(rows->count, sizeof(*r->datum_ids));
	if (r->datum_ids == NULL)
		return out_of_memory();
	r->count = rows->count;
	for (size_t first = 0; first < rows->count;) {
		size_t count = 0, bytes = 0;
		int rc;

		while (first + count < rows->count && count < RENDER_ROWS &&
		       (count == 0 ||
			   bytes + strlen(rows->rows[first + count].messages) < RENDER_BYTES))
			bytes += strlen(rows->rows[first + count++].messages);
		rc = render_some(r, rows, first, count);
		if (rc != 0)
			return rc;
		first += count;
	}
	return 0;
}

static bool
read_result(const struct reply *reply, struct remote_result *out)
{
	struct json root = reply_json(reply);
	int64_t input, supervised;

	if (!json_double(json_get(root, "loss"), &out->loss) ||
	    !json_double(json_get(root, "gradient_norm"), &out->gradient_norm) ||
	    !json_int64(json_get(root, "input_token_count"), &input) ||
	    !json_int64(json_get(root, "supervised_token_count"), &supervised))
		return false;
	out->input_tokens = (uint64_t)input;
	out->supervised_tokens = (uint64_t)supervised;
	return true;
}

int
remote_train(struct remote *r, const size_t *rows, size_t count, double learning_rate,
    struct remote_result *out)
{
	struct json_writer w;
	struct reply reply;
	char path[256];
	const char *body;
	int rc;

	json_writer_init(&w);
	json_write_object(&w);
	json_write_key(&w, "datum_ids");
	json_write_array(&w);
	for (size_t i = 0; i < count; i++)
		json_write_string(&w, r->datum_ids[rows[i]]);
	json_write_array_end(&w);
	json_put_double(&w, "learning_rate", learning_rate);
	json_write_object_end(&w);
	body = json_writer_text(&w, NULL);
	snprintf(path, sizeof(path), "/v1/sessions/%s/batches:train", r->id);
	rc = body == NULL ? out_of_memory()
			  : client_expect(r->client, "training", "POST", path, body, &reply);
	json_writer_fini(&w);
	if (rc != 0)
		return rc;
	if (!read_result(&reply, out)) {
		fputs("stepctl: training: the answer lacks loss, norm or counts\n", stderr);
		rc = CTL_REFUSED;
	} else {
		r->step++;
		r->last_loss = out->loss;
	}
	reply_fini(&reply);
	return rc;
}

/* Tells the service to save to the place; the digest it answers. */
static int
post_save(struct remote *r, const char *kind, const struct place *place, char sha256[65])
{
	struct json_writer w;
	struct reply reply;
	char path[256], name[64];
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
	snprintf(path, sizeof(path), "/v1/sessions/%s/artifacts:save", r->id);
	rc = body == NULL ? out_of_memory()
			  : client_expect(r->client, "saving", "POST", path, body, &reply);
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
		client_print_text(stderr, told);
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
