#include "worker/text/rendered.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/wire.h"
#include "worker/text/render.h"

void
rendered_init(struct rendered *r)
{
	memset(r, 0, sizeof(*r));
	json_writer_init(&r->json);
	json_write_object(&r->json);
	json_write_key(&r->json, "datums");
	json_write_array(&r->json);
}

void
rendered_fini(struct rendered *r)
{
	json_writer_fini(&r->json);
	bytes_fini(&r->datums);
	memset(r, 0, sizeof(*r));
}

void
rendered_add(struct rendered *r, const char *example_id, const struct datum *d)
{
	size_t ids = (size_t)d->length * sizeof(*d->ids);
	size_t record = 4 + strlen(d->id) + 1 + 4 + 4 + ids + 4 + d->length;
	struct wire_put put;

	json_write_object(&r->json);
	json_put_string(&r->json, "datum_id", d->id);
	json_put_string(&r->json, "example_id", example_id);
	json_put_uint(&r->json, "supervised_token_count", d->supervised_count);
	json_write_object_end(&r->json);
	if (!bytes_reserve(&r->datums, record))
		return;
	wire_put_init(&put, r->datums.data + r->datums.len, record);
	wire_put_string(&put, d->id);
	wire_put_u32(&put, d->length);
	/* int32 in the order of this machine, which is the wire's: both processes run on it */
	wire_put_bytes(&put, d->ids, ids);
	wire_put_bytes(&put, d->supervised, d->length);
	r->datums.len += record;
	r->count++;
}

int
rendered_blob(struct rendered *r, const char *name)
{
	uint8_t head[8], count[4];
	struct wire_put put;
	const char *json;
	size_t len;
	int fd, rc;

	json_write_array_end(&r->json);
	json_write_object_end(&r->json);
	json = json_writer_text(&r->json, &len);
	if (json == NULL || r->datums.failed)
		return -ENOMEM;
	fd = blob_new(name);
	if (fd < 0)
		return fd;
	wire_put_init(&put, head, sizeof(head));
	wire_put_u64(&put, len);
	wire_put_init(&put, count, sizeof(count));
	wire_put_u32(&put, (uint32_t)r->count);
	rc = blob_write(fd, head, sizeof(head));
	if (rc == 0)
		rc = blob_write(fd, json, len);
	if (rc == 0)
		rc = blob_write(fd, count, sizeof(count));
	if (rc == 0)
		rc = blob_write(fd, r->datums.data, r->datums.len);
	if (rc == 0)
		rc = blob_seal(fd);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

static bool
is_hex(const char *id)
{
	return strlen(id) == 64 && strspn(id, "0123456789abcdef") == 64;
}

/* One record. false: it is none. */
static bool
read_record(struct wire_get *get, size_t vocabulary, struct datum *d, struct refusal *refusal)
{
	const char *id = wire_get_string(get);
	uint32_t length = wire_get_u32(get);
	size_t ids_len, labels_len;
	const void *ids = wire_get_bytes(get, &ids_len);
	const uint8_t *labels = wire_get_bytes(get, &labels_len);

	memset(d, 0, sizeof(*d));
	if (get->failed || !is_hex(id) || length == 0 || labels_len != length ||
	    ids_len != (size_t)length * sizeof(*d->ids)) {
		refuse(refusal, 422, "the kept datums are damaged");
		return false;
	}
	d->ids = malloc(ids_len + length);
	if (d->ids == NULL) {
		refuse_memory(refusal);
		return false;
	}
	d->supervised = (uint8_t *)(d->ids + length);
	d->length = length;
	memcpy(d->id, id, 65);
	memcpy(d->ids, ids, ids_len);
	memcpy(d->supervised, labels, length);
	for (uint32_t i = 0; i < length; i++) {
		if (labels[i] > 1 || d->ids[i] < 0 || (size_t)d->ids[i] >= vocabulary) {
			datum_fini(d);
			refuse(refusal, 422, "the kept datums are damaged");
			return false;
		}
		d->supervised_count += labels[i];
	}
	return true;
}

int
rendered_read(const void *data, size_t len, size_t vocabulary, struct datum_store *store,
    struct refusal *refusal)
{
	struct wire_get get;
	struct datum d;
	uint64_t json;
	uint32_t count;

	wire_get_init(&get, data, len);
	json = wire_get_u64(&get);
	if (get.failed || json > len - get.at)
		return refuse(refusal, 422, "the kept datums are damaged");
	wire_get_init(&get, (const char *)data + 8 + json, len - 8 - (size_t)json);
	count = wire_get_u32(&get);
	for (uint32_t i = 0; i < count && !get.failed; i++) {
		if (!read_record(&get, vocabulary, &d, refusal))
			return -1;
		if (datum_store_add(store, &d) != 0)
			return refuse_memory(refusal);
	}
	if (wire_get_end(&get) != 0)
		return refuse(refusal, 422, "the kept datums are damaged");
	return 0;
}
