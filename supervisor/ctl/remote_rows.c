/* The rows of a run: rendered, and trained on step by step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_write.h"
#include "ipc/refusal.h"
#include "supervisor/ctl/remote.h"
#include "supervisor/ctl/verbs.h"

/* A render request is cut at this many bytes of rows or rows, whatever comes first. */
enum { RENDER_BYTES = 8 << 20, RENDER_ROWS = 2000 };

/* Times that all rows are rendered again for one call: a service that is started again meanwhile
   lacks them once more. */
enum { RENDERS_MAX = 10 };

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
		free(r->datum_ids[i]);
		r->datum_ids[i] = strdup(id);
		if (r->datum_ids[i++] == NULL)
			return ctl_out_of_memory();
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
		return ctl_out_of_memory();
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

/* Renders every row, in calls of a size that the service takes. */
static int
render_all(struct remote *r)
{
	const struct rows *rows = r->rows;

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

int
remote_render(struct remote *r, const struct rows *rows)
{
	r->datum_ids = calloc(rows->count, sizeof(*r->datum_ids));
	if (r->datum_ids == NULL)
		return ctl_out_of_memory();
	r->count = rows->count;
	r->rows = rows;
	return render_all(r);
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

/* Whether the service was started again without the datums, which were in its memory: a session
   that has steps to replay says how far it is back, any other knows no datum. */
static bool
lacks_datums(struct remote *r, const struct reply *reply)
{
	const char *detail = json_string(json_get(reply_json(reply), "detail"), NULL);
	struct reply status;
	char path[256];
	bool behind;

	if (reply->status == 422)
		return detail != NULL && strcmp(detail, REFUSAL_UNKNOWN_DATUM) == 0;
	if (reply->status != 503)
		return false;
	snprintf(path, sizeof(path), "/v1/sessions/%s", r->id);
	if (client_call(r->client, "GET", path, NULL, &status) != 0)
		return false;
	behind = json_exists(json_get(reply_json(&status), "restored_step"));
	reply_fini(&status);
	return behind;
}

int
remote_post(
    struct remote *r, const char *doing, const char *call, const char *body, struct reply *reply)
{
	char path[256], key[CLIENT_KEY_MAX];
	unsigned renders = 0;
	int rc;

	snprintf(path, sizeof(path), "/v1/sessions/%s/%s", r->id, call);
	client_key(r->client, key);
	rc = client_call_again(r->client, key, "POST", path, body, reply);
	while (
	    rc == 0 && reply->status != 200 && renders++ < RENDERS_MAX && lacks_datums(r, reply)) {
		fprintf(stderr,
		    "stepctl: the service was started again; rendering %zu rows again\n", r->count);
		reply_fini(reply);
		rc = render_all(r);
		if (rc == 0)
			rc = client_call_again(r->client, key, "POST", path, body, reply);
	}
	if (rc == 0 && reply->status != 200) {
		reply_print(reply, doing);
		reply_fini(reply);
		rc = CTL_REFUSED;
	}
	return rc;
}

int
remote_train(struct remote *r, const size_t *rows, size_t count, double learning_rate,
    struct remote_result *out)
{
	struct json_writer w;
	struct reply reply;
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
	rc = body == NULL ? ctl_out_of_memory()
			  : remote_post(r, "training", "batches:train", body, &reply);
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
