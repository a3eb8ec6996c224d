/* JSON calls, and what they answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_write.h"
#include "supervisor/ctl/client_part.h"
#include "supervisor/ctl/print.h"
#include "supervisor/ctl/verbs.h"

struct call {
	const char *method, *path;
	const char *body; /* JSON text, or NULL */
	const char *key;
};

struct text {
	char *data;
	size_t len;
};

static size_t
take_text(char *data, size_t size, size_t count, void *arg)
{
	struct text *t = arg;
	char *grown = realloc(t->data, t->len + size * count + 1);

	if (grown == NULL)
		return 0;
	memcpy(grown + t->len, data, size * count);
	t->data = grown;
	t->len += size * count;
	t->data[t->len] = '\0';
	return size * count;
}

static struct curl_slist *
headers_of(const struct client *c, const struct call *call)
{
	struct curl_slist *list = curl_slist_append(NULL, c->token), *longer = list;
	char line[128];

	if (longer != NULL)
		longer = curl_slist_append(list, "Content-Type: application/json");
	snprintf(line, sizeof(line), "Idempotency-Key: %s", call->key);
	if (longer != NULL)
		longer = curl_slist_append(list, line);
	if (longer == NULL)
		curl_slist_free_all(list);
	return longer;
}

/* One request, and the answer to it if there is one. */
static CURLcode
attempt(struct client *c, const struct call *call, struct reply *r)
{
	struct curl_slist *headers = headers_of(c, call);
	struct text answer = {0};
	curl_off_t wait = 0;
	char url[2048];
	CURLcode code;

	*r = (struct reply){0};
	if (headers == NULL)
		return CURLE_OUT_OF_MEMORY;
	snprintf(url, sizeof(url), "%s%s", c->url, call->path);
	client_prepare(c, url);
	SET(c, CURLOPT_HTTPHEADER, headers);
	SET(c, CURLOPT_CUSTOMREQUEST, call->method);
	if (call->body != NULL) {
		SET(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(call->body));
		SET(c, CURLOPT_POSTFIELDS, call->body);
	}
	SET(c, CURLOPT_WRITEFUNCTION, take_text);
	SET(c, CURLOPT_WRITEDATA, &answer);
	code = client_perform(c);
	curl_slist_free_all(headers);
	if (code == CURLE_OK) {
		curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &r->status);
		curl_easy_getinfo(c->curl, CURLINFO_RETRY_AFTER, &wait);
		r->retry_after = wait > 3600 ? 3600 : (unsigned)wait;
		if (answer.data != NULL)
			json_parse(&r->doc, answer.data, answer.len, NULL);
	}
	free(answer.data);
	return code;
}

/* Whether the same request may be answered otherwise soon: the service says so, or a proxy answers
   in its place. What a session waits for that needs somebody is no such thing. */
static bool
may_change(const struct reply *r)
{
	bool words = json_string(json_get(reply_json(r), "detail"), NULL) != NULL;

	return r->retry_after > 0 || (!words && r->status >= 502 && r->status <= 504);
}

void
client_key(struct client *c, char key[CLIENT_KEY_MAX])
{
	snprintf(key, CLIENT_KEY_MAX, "stepctl-%s-%u", c->run, ++c->keys);
}

int
client_call_again(struct client *c, const char *key, const char *method, const char *path,
    const char *body, struct reply *r)
{
	const struct call call = {method, path, body, key};
	char why[512];

	for (;;) {
		CURLcode code = attempt(c, &call, r);

		if (code == CURLE_OK) {
			c->answered = true;
			if (!may_change(r)) {
				patience_over(&c->patience);
				return 0;
			}
			snprintf(why, sizeof(why), "%s: HTTP %ld", c->url, r->status);
		} else {
			snprintf(why, sizeof(why), "%s: no answer: %s", c->url,
			    curl_easy_strerror(code));
		}
		if (!c->answered || (code != CURLE_OK && !client_may_pass(code)) ||
		    !patience_wait(&c->patience, why, r->retry_after))
			return code == CURLE_OK ? 0 : client_unreachable(c->url, code);
		reply_fini(r);
	}
}

int
client_call(
    struct client *c, const char *method, const char *path, const char *body, struct reply *r)
{
	char key[CLIENT_KEY_MAX];

	client_key(c, key);
	return client_call_again(c, key, method, path, body, r);
}

void
reply_fini(struct reply *r)
{
	json_free(r->doc);
	*r = (struct reply){0};
}

struct json
reply_json(const struct reply *r)
{
	return r->doc == NULL ? (struct json){NULL, 0} : json_root(r->doc);
}

void
reply_print(const struct reply *r, const char *doing)
{
	struct json detail = json_get(reply_json(r), "detail");
	const char *sentence = json_string(detail, NULL);

	if (sentence != NULL) {
		fprintf(stderr, "stepctl: %s: ", doing);
		print_text(stderr, sentence);
		fprintf(stderr, " (HTTP %ld)\n", r->status);
		return;
	}
	fprintf(stderr, "stepctl: %s: HTTP %ld\n", doing, r->status);
	json_foreach (fault, detail) {
		const char *msg = json_string(json_get(fault, "msg"), NULL), *place;
		struct json_writer where;

		json_writer_init(&where);
		json_write_value(&where, json_get(fault, "loc"));
		place = json_writer_text(&where, NULL);
		fputs("  ", stderr);
		print_text(stderr, place != NULL ? place : "?");
		fputs(": ", stderr);
		print_text(stderr, msg != NULL ? msg : "?");
		putc('\n', stderr);
		json_writer_fini(&where);
	}
}

int
client_expect(struct client *c, const char *doing, const char *method, const char *path,
    const char *body, struct reply *r)
{
	int code = client_call(c, method, path, body, r);

	if (code != 0)
		return code;
	if (r->status >= 200 && r->status < 300)
		return 0;
	reply_print(r, doing);
	reply_fini(r);
	return CTL_REFUSED;
}
