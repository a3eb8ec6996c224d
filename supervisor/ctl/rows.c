#include "supervisor/ctl/rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json.h"
#include "ipc/json_write.h"

enum { ROW_MAX = 256 << 20 }; /* bytes of a line, more than a service takes */

/* What is wrong with a row, as a constant or in storage. */
struct complaint {
	char text[200];
};

static int
complain(struct complaint *c, const char *what, const char *about)
{
	snprintf(c->text, sizeof(c->text), what, about);
	return -1;
}

static bool
is_role(const char *role)
{
	return strcmp(role, "system") == 0 || strcmp(role, "user") == 0 ||
	       strcmp(role, "assistant") == 0 || strcmp(role, "tool") == 0;
}

/* The service judges messages whole; here is what the most common mistakes are. */
static int
judge_messages(struct json messages, size_t *bytes, struct complaint *c)
{
	const char *role = "";
	size_t len;

	if (!json_is(messages, JSON_ARRAY) || json_count(messages) < 2)
		return complain(c, "%s is no list of two messages or more", "messages");
	json_foreach (message, messages) {
		role = json_string(json_get(message, "role"), NULL);
		if (role == NULL || !is_role(role))
			return complain(
			    c, "a message has no %s of system, user, assistant or tool", "role");
		if (json_string(json_get(message, "content"), &len) == NULL)
			return complain(c, "a message of role %s has no content", role);
		*bytes += len;
	}
	if (strcmp(role, "assistant") != 0)
		return complain(c, "the last message is of role %s, not assistant", role);
	return 0;
}

static void
write_message(struct json_writer *w, const char *role, struct json content)
{
	json_write_object(w);
	json_put_string(w, "role", role);
	json_write_key(w, "content");
	json_write_value(w, content);
	json_write_object_end(w);
}

/* One parsed line to a row. */
static int
read_row(struct row *row, struct json root, struct complaint *c)
{
	struct json messages = json_get(root, "messages"), prompt = json_get(root, "prompt"),
		    completion = json_get(root, "completion");
	struct json_writer w;
	size_t length;

	json_writer_init(&w);
	if (json_exists(messages)) {
		if (judge_messages(messages, &row->bytes, c) != 0)
			return -1;
		json_write_value(&w, messages);
	} else if (json_is(prompt, JSON_STRING) && json_is(completion, JSON_STRING)) {
		json_string(prompt, &length);
		row->bytes = length;
		json_string(completion, &length);
		row->bytes += length;
		json_write_array(&w);
		write_message(&w, "user", prompt);
		write_message(&w, "assistant", completion);
		json_write_array_end(&w);
	} else {
		return complain(c, "a row is %s",
		    "{\"messages\": [...]} or {\"prompt\": \"...\", "
		    "\"completion\": \"...\"}");
	}
	row->messages = json_writer_take(&w, NULL);
	return row->messages == NULL ? complain(c, "%s", "out of memory") : 0;
}

static int
read_line(struct row *row, const char *line, size_t len, struct complaint *c)
{
	struct json_doc *doc;
	struct json_error err;
	int rc;

	if (json_parse(&doc, line, len, &err) != 0) {
		snprintf(c->text, sizeof(c->text), "no JSON: %s at character %zu", err.what,
		    err.offset + 1);
		return -1;
	}
	if ((json_doc_flags(doc) & (JSON_HAS_NUL | JSON_HAS_SURROGATE)) != 0)
		rc = complain(c, "a string holds %s", "U+0000 or half a surrogate pair");
	else
		rc = read_row(row, json_root(doc), c);
	json_free(doc);
	return rc;
}

/* White space only. A NUL is none: a file that a crash left full of them has no blank lines. */
static bool
is_blank(const char *line, size_t len)
{
	return strspn(line, " \t\r\n") == len;
}

/* A line with its end, like getline, but none without bounds: its length, 0 at the end, or -1 if it
   is too long or there is no memory for it. */
static ssize_t
get_row(char **line, size_t *size, FILE *f)
{
	size_t len = 0;
	int c = 0;

	while (c != '\n' && (c = getc_unlocked(f)) != EOF) {
		if (len + 1 >= *size) {
			size_t wanted = *size == 0 ? 4096 : *size * 2;
			char *grown = wanted > ROW_MAX ? NULL : realloc(*line, wanted);

			if (grown == NULL)
				return -1;
			*line = grown;
			*size = wanted;
		}
		(*line)[len++] = (char)c;
	}
	if (len > 0)
		(*line)[len] = '\0';
	return (ssize_t)len;
}

/* Room for one row more, zeroed. */
static struct row *
add_row(struct rows *r, size_t *room)
{
	if (r->count == *room) {
		size_t wanted = *room == 0 ? 256 : *room * 2;
		struct row *grown = realloc(r->rows, wanted * sizeof(*grown));

		if (grown == NULL)
			return NULL;
		r->rows = grown;
		*room = wanted;
	}
	r->rows[r->count] = (struct row){0};
	return &r->rows[r->count];
}

static int
read_all(struct rows *r, FILE *f)
{
	struct complaint c = {"out of memory"};
	size_t size = 0, room = 0, number = 0;
	char *line = NULL;
	ssize_t len;

	while ((len = get_row(&line, &size, f)) > 0) {
		struct row *row;

		number++;
		if (is_blank(line, (size_t)len))
			continue;
		row = add_row(r, &room);
		if (row == NULL || read_line(row, line, (size_t)len, &c) != 0) {
			fprintf(stderr, "stepctl: %s:%zu: %s\n", r->path, number, c.text);
			free(line);
			return -1;
		}
		row->line = number;
		r->count++;
	}
	free(line);
	if (len < 0) {
		fprintf(stderr, "stepctl: %s:%zu: the line is too long\n", r->path, number + 1);
		return -1;
	}
	if (ferror(f)) {
		fprintf(stderr, "stepctl: %s: %s\n", r->path, strerror(errno));
		return -1;
	}
	return 0;
}

int
rows_read(struct rows *r, const char *path)
{
	FILE *f = fopen(path, "re");
	int rc;

	*r = (struct rows){.path = path};
	if (f == NULL) {
		fprintf(stderr, "stepctl: %s: %s\n", path, strerror(errno));
		return -1;
	}
	rc = read_all(r, f);
	fclose(f);
	if (rc == 0 && r->count == 0) {
		fprintf(stderr, "stepctl: %s: no rows in it\n", path);
		rc = -1;
	}
	if (rc != 0)
		rows_fini(r);
	return rc;
}

void
rows_fini(struct rows *r)
{
	for (size_t i = 0; i < r->count; i++)
		free(r->rows[i].messages);
	free(r->rows);
	r->rows = NULL;
	r->count = 0;
}
