/* The answer of a probe. A driver that is broken may make it say anything: nothing is believed by
   halves. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "ipc/json.h"
#include "ipc/utf8.h"
#include "supervisor/session/probe.h"

/* A copy that fits a line of the log, cut where it is too long, without control characters (those
   of two bytes are U+0080 to U+009F). false: it is no string. */
static bool
get_words(struct json v, char *out, size_t size)
{
	const char *text = json_string(v, NULL);
	size_t i = 0;

	for (; text != NULL && text[i] != '\0' && i + 1 < size; i++) {
		unsigned char c = (unsigned char)text[i], next = (unsigned char)text[i + 1];

		out[i] = c < 0x20 || c == 0x7f ? ' ' : text[i];
		if (c == 0xc2 && next < 0xa0 && i + 2 < size) {
			out[i++] = ' ';
			out[i] = ' ';
		}
	}
	out[utf8_valid_prefix(out, i)] = '\0';
	return text != NULL;
}

/* It becomes a value of the environment. */
static bool
get_uuid(struct json v, char *out, size_t size)
{
	size_t len;
	const char *text = json_string(v, &len);

	if (text == NULL || len >= size ||
	    (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0))
		return false;
	for (size_t i = 0; i < len; i++) {
		if (!isalnum((unsigned char)text[i]) && text[i] != '-')
			return false;
	}
	memcpy(out, text, len + 1);
	return true;
}

/* Where a GPU is on the PCI bus becomes one too; of another form it is not known. */
static void
get_bus(struct json v, char *out, size_t size)
{
	size_t len;
	const char *text = json_string(v, &len);

	*out = '\0';
	if (text != NULL && len < size && strspn(text, "0123456789abcdefABCDEF:.") == len)
		memcpy(out, text, len + 1);
}

static bool
get_device(struct json v, size_t index, struct device *d)
{
	struct json verified = json_get(v, "verified"), error = json_get(v, "error");
	int64_t number, memory = 0;

	if (!json_is(v, JSON_OBJECT) || !json_int64(json_get(v, "index"), &number) ||
	    number != (int64_t)index || !json_is(verified, JSON_BOOL) || !json_exists(error))
		return false;
	d->verified = json_true(verified);
	d->held = json_true(json_get(v, "held"));
	get_bus(json_get(v, "pci_bus_id"), d->bus, sizeof(d->bus));
	/* One that is not verified says why, and may not be known by more than its index. */
	if (d->verified && d->held)
		return false;
	if (d->verified ? !json_is(error, JSON_NULL)
			: !get_words(error, d->error, sizeof(d->error)) || d->error[0] == '\0')
		return false;
	if (!d->verified && !json_exists(json_get(v, "uuid")))
		return true;
	if (!get_words(json_get(v, "name"), d->name, sizeof(d->name)) ||
	    !get_words(json_get(v, "compute_capability"), d->capability, sizeof(d->capability)) ||
	    !json_int64(json_get(v, "memory_bytes"), &memory) || memory <= 0)
		return false;
	d->memory = (uint64_t)memory;
	return get_uuid(json_get(v, "uuid"), d->uuid, sizeof(d->uuid));
}

struct device *
devices_by_uuid(const struct devices *all, const char *uuid)
{
	for (size_t i = 0; uuid[0] != '\0' && i < all->count; i++) {
		if (strcmp(all->at[i].uuid, uuid) == 0)
			return (struct device *)&all->at[i];
	}
	return NULL;
}

static bool
get_all(struct json root, struct devices *out)
{
	struct json list = json_get(root, "devices");
	/* The CPU's worker has no devices to tell of. */
	bool cuda = json_string_is(json_get(root, "backend"), "cuda");

	get_words(json_get(root, "error"), out->error, sizeof(out->error));
	out->driver = json_true(json_get(root, "driver_loaded"));
	if (!json_is(list, JSON_ARRAY) || json_count(list) > (cuda ? DEVICES_MAX : 0))
		return false;
	json_foreach (v, list) {
		struct device *d = &out->at[out->count];

		if (!get_device(v, out->count, d) || devices_by_uuid(out, d->uuid) != NULL)
			return false;
		out->count++;
	}
	return true;
}

int
probe_parse(const char *text, size_t len, struct devices *out)
{
	struct json_doc *doc;
	bool right;

	memset(out, 0, sizeof(*out));
	if (json_parse(&doc, text, len, NULL) != 0)
		return -EBADMSG;
	right = (json_doc_flags(doc) & (JSON_HAS_NUL | JSON_HAS_SURROGATE)) == 0 &&
		get_all(json_root(doc), out);
	json_free(doc);
	if (!right)
		memset(out, 0, sizeof(*out));
	return right ? 0 : -EBADMSG;
}
