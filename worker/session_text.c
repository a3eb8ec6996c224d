/*
 * A session's texts: examples rendered to datums, datums kept again, a text continued.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/request_body.h"
#include "ipc/request_render.h"
#include "worker/session_state.h"
#include "worker/text/rendered.h"
#include "worker/train/generate.h"

static int
out_of_memory(struct refusal *r)
{
	return refuse(r, 507, "out of memory while rendering");
}

static int
unreadable(struct refusal *r)
{
	return refuse(r, 500, "the worker could not read a request of its supervisor");
}

/* Hands the faults over as the JSON of the answer's detail. Returns -1. */
static int
refuse_faults(const struct faults *f, int *answer, struct refusal *r)
{
	size_t len;
	char *detail = faults_detail(f, &len);

	r->status = faults_status(f);
	r->text[0] = '\0';
	*answer = detail == NULL ? -1 : blob_from("detail", detail, len);
	free(detail);
	return *answer < 0 ? out_of_memory(r) : -1;
}

static struct renderer
renderer_of(const struct session *s)
{
	return (struct renderer){.tokenizer = s->tokenizer,
	    .template = s->template,
	    .variables = model_files_special_tokens(s->files),
	    .session_id = s->id,
	    .maximum_datum_tokens = s->maximum_datum_tokens};
}

/* Renders all examples, or none: several at a time, and the refusal is that of the first example
   that has one. datums: (count), zeroed. */
static int
render_all(const struct renderer *renderer, const struct json *examples, size_t count,
    struct datum *datums, struct refusal *r)
{
	size_t first = count; /* index of the first example that was refused */

#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < count; i++) {
		struct refusal refusal = {.status = 422};
		const char *id = json_string(json_get(examples[i], "example_id"), NULL);
		size_t seen;

#pragma omp atomic read
		seen = first;
		if (i > seen || datum_render(&datums[i], renderer, id,
				    json_get(examples[i], "messages"), &refusal) == 0)
			continue;
#pragma omp critical
		if (i < first) {
			*r = refusal;
#pragma omp atomic write
			first = i;
		}
	}
	return first == count ? 0 : -1;
}

/* Moves the datums into the store, and into the blob of the answer. */
static int
keep_all(struct session *s, const struct json *examples, size_t count, struct datum *datums,
    int *answer, struct refusal *r)
{
	struct rendered rendered;

	rendered_init(&rendered);
	for (size_t i = 0; i < count; i++)
		rendered_add(
		    &rendered, json_string(json_get(examples[i], "example_id"), NULL), &datums[i]);
	*answer = rendered_blob(&rendered, "rendered");
	rendered_fini(&rendered);
	if (*answer < 0)
		return out_of_memory(r);
	for (size_t i = 0; i < count; i++) {
		struct datum d = datums[i];

		datums[i] = (struct datum){0};
		if (datum_store_add(s->datums, &d) != 0) {
			close(*answer);
			*answer = -1;
			return out_of_memory(r);
		}
	}
	return 0;
}

static int
render_request(
    struct session *s, const struct request_render *request, int *answer, struct refusal *r)
{
	struct renderer renderer = renderer_of(s);
	struct datum *datums = calloc(request->count, sizeof(*datums));
	struct json *examples = calloc(request->count, sizeof(*examples));
	size_t count = 0;
	int rc;

	if (datums == NULL || examples == NULL) {
		rc = out_of_memory(r);
	} else {
		json_foreach (example, request->examples)
			examples[count++] = example;
		rc = render_all(&renderer, examples, count, datums, r);
	}
	if (rc == 0)
		rc = keep_all(s, examples, count, datums, answer, r);
	for (size_t i = 0; datums != NULL && i < count; i++)
		datum_fini(&datums[i]);
	free(datums);
	free(examples);
	return rc;
}

/* What a body asks for, done: 0, or -1 with *r, or with faults for the answer. */
typedef int serve_fn(
    struct session *s, struct json_doc *doc, struct faults *faults, int *answer, struct refusal *r);

/* Reads a request's body and has it served. */
static int
serve_body(struct session *s, int body, int *answer, struct refusal *r, serve_fn *serve)
{
	struct json_doc *doc = NULL;
	struct blob_view view;
	struct faults faults;
	int rc;

	*answer = -1;
	if (blob_map(&view, body) != 0)
		return unreadable(r);
	faults_init(&faults);
	rc = request_body_parse(&doc, true, view.data, view.len, &faults);
	if (rc == 0)
		rc = serve(s, doc, &faults, answer, r);
	if (faults_any(&faults))
		rc = refuse_faults(&faults, answer, r);
	json_free(doc);
	faults_fini(&faults);
	blob_unmap(&view);
	return rc == 0 ? 0 : -1;
}

static int
serve_render(
    struct session *s, struct json_doc *doc, struct faults *faults, int *answer, struct refusal *r)
{
	struct request_render request;

	if (request_render_parse(doc, &request, faults) != 0)
		return -1;
	return render_request(s, &request, answer, r);
}

int
session_render(struct session *s, int body, int *answer, struct refusal *r)
{
	return serve_body(s, body, answer, r, serve_render);
}

int
session_keep(struct session *s, int blob, struct refusal *r)
{
	struct blob_view view;
	int rc;

	if (blob_map(&view, blob) != 0)
		return unreadable(r);
	rc = rendered_read(
	    view.data, view.len, model_files_config(s->files)->vocabulary, s->datums, r);
	blob_unmap(&view);
	return rc;
}

/* The text to be continued, as ids; the caller frees *ids. */
static int
read_prompt(const struct session *s, const struct request_generate *request, int32_t **ids,
    size_t *count, struct refusal *r)
{
	char *rendered = NULL;
	const char *text = request->prompt;
	size_t len = text == NULL ? 0 : strlen(text);
	struct token *tokens;
	int rc;

	if (text == NULL) {
		if (chat_template_render(s->template, request->messages,
			json_count(request->messages), true, model_files_special_tokens(s->files),
			&rendered, &len, r) != 0)
			return -1;
		text = rendered;
	}
	rc = tokenizer_encode(s->tokenizer, text, len, &tokens, count, r);
	free(rendered);
	if (rc != 0)
		return -1;
	*ids = calloc(*count + 1, sizeof(**ids));
	for (size_t i = 0; *ids != NULL && i < *count; i++)
		(*ids)[i] = tokens[i].id;
	free(tokens);
	if (*ids == NULL)
		return out_of_memory(r);
	if (*count > 0)
		return 0;
	free(*ids);
	return refuse(r, 422, "the prompt has no token");
}

static bool
is_end(const int32_t *eos, size_t eos_count, int32_t id)
{
	for (size_t i = 0; i < eos_count; i++)
		if (eos[i] == id)
			return true;
	return false;
}

/* {"text", "token_count", "finish_reason"} */
static int
answer_text(
    const struct session *s, const int32_t *ids, size_t count, int *answer, struct refusal *r)
{
	size_t eos_count, len;
	const int32_t *eos = model_files_eos(s->files, &eos_count);
	bool ended = count > 0 && is_end(eos, eos_count, ids[count - 1]);
	struct json_writer w;
	const char *json;
	char *text;

	if (tokenizer_decode(s->tokenizer, ids, count, true, &text, &len) != 0)
		return out_of_memory(r);
	json_writer_init(&w);
	json_write_object(&w);
	json_write_key(&w, "text");
	json_write_string_n(&w, text, len);
	json_put_uint(&w, "token_count", count);
	json_put_string(&w, "finish_reason", ended ? "stop" : "length");
	json_write_object_end(&w);
	json = json_writer_text(&w, &len);
	*answer = json == NULL ? -1 : blob_from("generated", json, len);
	json_writer_fini(&w);
	free(text);
	return *answer < 0 ? out_of_memory(r) : 0;
}

static int
generate(struct session *s, const struct request_generate *request, int *answer, struct refusal *r)
{
	struct generate_options options = {
	    .maximum = request->max_new_tokens, .adapter = request->adapter};
	size_t positions = model_files_config(s->files)->positions, count, made;
	int32_t *ids, *out;
	int rc;

	if (read_prompt(s, request, &ids, &count, r) != 0)
		return -1;
	options.stop = model_files_eos(s->files, &options.stop_count);
	out = calloc(options.maximum, sizeof(*out));
	if (out == NULL)
		rc = out_of_memory(r);
	else if (positions > 0 && count + options.maximum > positions)
		rc = refuse(r, 422,
		    "the prompt has %zu tokens; with max_new_tokens %zu it goes beyond the model's "
		    "%zu positions",
		    count, options.maximum, positions);
	else
		rc = trainer_generate(s->trainer, ids, count, &options, out, &made, r);
	if (rc == 0)
		rc = answer_text(s, out, made, answer, r);
	free(out);
	free(ids);
	return rc;
}

static int
serve_generate(
    struct session *s, struct json_doc *doc, struct faults *faults, int *answer, struct refusal *r)
{
	struct request_generate request;

	if (request_generate_parse(doc, &request, faults) != 0)
		return -1;
	return generate(s, &request, answer, r);
}

int
session_generate(struct session *s, int body, int *answer, struct refusal *r)
{
	return serve_body(s, body, answer, r, serve_generate);
}
