/*
 * A worker that trains nothing, for tests of what stepd does when one fails. It answers like the
 * real one, until the n-th message of a type, where it does what its arguments say:
 *
 *	fault-worker TRAIN:2:kill SAVE:1:hang ... --channel 3
 *
 * What ends it or holds it is fault_act.h's; frames-N sends what the seed N makes of an answer
 * (fault_frames.h); the others spoil its answer.
 * A saved state is the text "state <step>" and filler.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ipc/blob.h"
#include "ipc/channel.h"
#include "ipc/json.h"
#include "ipc/json_write.h"
#include "tests/http/fault_act.h"
#include "tests/http/fault_frames.h"

enum { ARTIFACT = 1 << 20 };

static struct channel channel;
static unsigned seen[64]; /* messages of each type */
static uint64_t step;
static int fault_count;
static char **faults;

/* What to do at this message, or "". */
static const char *
fault_now(enum message_type type)
{
	char at[64];
	size_t len;

	len = (size_t)snprintf(at, sizeof(at), "%s:%u:", message_name(type), ++seen[type]);
	for (int i = 0; i < fault_count; i++) {
		if (strncmp(faults[i], at, len) == 0)
			return faults[i] + len;
	}
	return "";
}

/* Sends an answer, spoiled as the fault says. */
static void
answer(enum message_type type, uint64_t request, struct wire_put *w, int fd, const char *fault)
{
	if (strcmp(fault, "number") == 0)
		request += 7;
	if (strcmp(fault, "type") == 0)
		type = type == MSG_SAVED ? MSG_TRAINED : MSG_SAVED;
	if (strcmp(fault, "cut") == 0)
		w->len--;
	if (strcmp(fault, "nofd") == 0)
		fd = -1;
	channel_send(&channel, type, request, w->data, w->len, fd);
	if (strcmp(fault, "twice") == 0)
		channel_send(&channel, type, request, w->data, w->len, fd);
	if (strcmp(fault, "last") == 0)
		_exit(3);
}

static void
refuse(uint64_t request, unsigned status, const char *sentence, int fd)
{
	uint8_t storage[1024];
	struct wire_put w;

	wire_put_init(&w, storage, sizeof(storage));
	message_put_failed(&w, &(struct message_failed){status, sentence});
	channel_send(&channel, MSG_FAILED, request, storage, w.len, fd);
}

static void
load(const struct message *m, struct wire_put *w, const char *fault)
{
	char text[64] = "";
	ssize_t n = pread(m->fd, text, sizeof(text) - 1, 0);
	unsigned long long at;

	if (n <= 0 || sscanf(text, "state %llu", &at) != 1) {
		refuse(m->request, 422, "the trainer state is invalid", -1);
		return;
	}
	if (write(m->fd, "x", 1) == 1)
		_exit(6); /* it was to be read only */
	step = at;
	message_put_loaded(w, &(struct message_loaded){step, 100 * step, "f32", 64});
	answer(MSG_LOADED, m->request, w, -1, fault);
}

/* The JSON answer to a render call: a datum for each example, with one token. */
static void
write_datums(struct json_writer *w, struct json examples)
{
	json_write_object(w);
	json_write_key(w, "datums");
	json_write_array(w);
	json_foreach (example, examples) {
		const char *id = json_string(json_get(example, "example_id"), NULL);
		char datum[80];

		snprintf(datum, sizeof(datum), "datum-%.60s", id);
		json_write_object(w);
		json_put_string(w, "datum_id", datum);
		json_put_string(w, "example_id", id);
		json_put_uint(w, "supervised_token_count", 1);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	json_write_object_end(w);
}

static void
render(const struct message *m, struct wire_put *w, const char *fault)
{
	struct blob_view body;
	struct json_doc *doc = NULL;
	struct json_writer json;
	uint64_t len;
	int fd;

	if (blob_map(&body, m->fd) != 0)
		_exit(5);
	if (json_parse(&doc, body.data, body.len, NULL) != 0) {
		static const char detail[] =
		    "[{\"type\":\"json_invalid\",\"loc\":[\"body\",0],\"msg\":\"broken\"}]";

		fd = blob_from("detail", detail, sizeof(detail) - 1);
		refuse(m->request, 422, "", fd);
		close(fd);
		return;
	}
	json_writer_init(&json);
	write_datums(&json, json_get(json_root(doc), "examples"));
	len = strcmp(fault, "lie") == 0 ? 1ull << 40 : json.len;
	fd = blob_new("rendered");
	blob_write(fd, &len, sizeof(len));
	blob_write(fd, json.text, json.len);
	blob_write(fd, "datums", 6);
	if (strcmp(fault, "unsealed") != 0)
		blob_seal(fd);
	answer(MSG_RENDERED, m->request, w, fd, fault);
	close(fd);
	json_writer_fini(&json);
	json_free(doc);
	blob_unmap(&body);
}

/* Datums that an earlier worker rendered: they have to be the very bytes. */
static void
keep(const struct message *m, struct wire_put *w, const char *fault)
{
	struct blob_view datums;

	if (blob_map(&datums, m->fd) != 0 || datums.len < 8 + 6 ||
	    memcmp((const char *)datums.data + datums.len - 6, "datums", 6) != 0)
		_exit(10);
	blob_unmap(&datums);
	answer(MSG_DATUMS_KEPT, m->request, w, -1, fault);
}

static bool
ids_are_known(int fd, uint32_t *count)
{
	struct blob_view ids;
	struct wire_get r;
	bool known = true;

	if (blob_map(&ids, fd) != 0)
		_exit(5);
	wire_get_init(&r, ids.data, ids.len);
	*count = wire_get_u32(&r);
	for (uint32_t i = 0; i < *count; i++)
		known = strncmp(wire_get_string(&r), "datum-", 6) == 0 && known;
	if (wire_get_end(&r) != 0)
		_exit(5);
	blob_unmap(&ids);
	return known;
}

static void
train(struct message *m, struct wire_put *w, const char *fault)
{
	struct message_train settings;
	struct message_trained trained = {.gradient_norm = 0.5};
	uint32_t count;

	if (message_get_train(&m->body, &settings) != 0 || settings.step != step)
		_exit(9);
	if (!ids_are_known(m->fd, &count) || strcmp(fault, "unknown") == 0) {
		refuse(m->request, 422, "the batch names an unknown rendered datum", -1);
		return;
	}
	trained.step = ++step;
	trained.loss = 1.0 / (double)step;
	trained.input_tokens = 10 * (uint64_t)count;
	trained.supervised_tokens = count;
	if (strcmp(fault, "skip") == 0)
		trained.step++;
	if (strcmp(fault, "wrong") == 0)
		trained.loss += 2.3e-16; /* a bit of 0.5 */
	if (strcmp(fault, "nan") == 0)
		trained.loss = 0.0 / 0.0;
	message_put_trained(w, &trained);
	answer(MSG_TRAINED, m->request, w, -1, fault);
}

static void
save(const struct message *m, struct wire_put *w, const char *fault)
{
	static char text[ARTIFACT];
	uint8_t digest[crypto_hash_sha256_BYTES];
	char hex[2 * sizeof(digest) + 1];
	uint64_t size = sizeof(text);

	memset(text, '.', sizeof(text));
	snprintf(text, sizeof(text), "state %llu", (unsigned long long)step);
	if (strcmp(fault, "full") == 0 ||
	    write(m->fd, text, sizeof(text)) != (ssize_t)sizeof(text)) {
		refuse(m->request, 507, "no space is left for the artifact", -1);
		return;
	}
	crypto_hash_sha256(digest, (const unsigned char *)text, sizeof(text));
	sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
	if (strcmp(fault, "size") == 0)
		size++;
	if (strcmp(fault, "digest") == 0)
		hex[0] = hex[0] == '0' ? '1' : '0';
	message_put_saved(w, &(struct message_saved){size, step, hex});
	answer(MSG_SAVED, m->request, w, -1, fault);
}

static void
generate(const struct message *m, struct wire_put *w, const char *fault)
{
	int fd = blob_from("generated", "{\"text\":\"once\"}", 15);

	answer(MSG_GENERATED, m->request, w, fd, fault);
	close(fd);
}

static void
evaluate(const struct message *m, struct wire_put *w, const char *fault)
{
	static const char text[] = "{\"loss\":1.5}";
	uint32_t count;
	int fd;

	if (!ids_are_known(m->fd, &count)) {
		refuse(m->request, 422, "the batch names an unknown rendered datum", -1);
		return;
	}
	fd = blob_from("evaluated", text, sizeof(text) - 1);
	answer(MSG_EVALUATED, m->request, w, fd, fault);
	close(fd);
}

/* "state N" at its start is all that a state is here. */
static void
verify(const struct message *m, struct wire_put *w, const char *fault)
{
	char text[64] = "";
	unsigned long long at;

	if (pread(m->fd, text, sizeof(text) - 1, 0) <= 0 || sscanf(text, "state %llu", &at) != 1) {
		refuse(m->request, 422, "the state cannot be read", -1);
		return;
	}
	if (write(m->fd, "x", 1) == 1)
		_exit(6); /* it was to be read only */
	message_put_verified(w, &(struct message_verified){at, 6, 60});
	answer(MSG_VERIFIED, m->request, w, -1, fault);
}

static void
serve(struct message *m)
{
	const char *fault = fault_now(m->type);
	uint8_t storage[1024];
	struct wire_put w;

	wire_put_init(&w, storage, sizeof(storage));
	fault_act(&channel, fault);
	if (strncmp(fault, "frames-", 7) == 0 &&
	    !fault_frames(channel.fd, m, strtoull(fault + 7, NULL, 10)))
		return;
	if (strcmp(fault, "eat") == 0) {
		fault_eat();
		refuse(m->request, 507, "no memory for so much", -1);
	} else if (strcmp(fault, "refuse") == 0) {
		refuse(m->request, 422, "refused by the fault", -1);
	} else if (strcmp(fault, "device") == 0) {
		refuse(m->request, 503, "accelerator unavailable: by the fault", -1);
	} else if (strcmp(fault, "status") == 0) {
		refuse(m->request, 200, "no failure at all", -1);
	} else if (m->type == MSG_OPEN) {
		message_put_opened(
		    &w, &(struct message_opened){"f32", "cpu", 10, 100, 2, "off", 64});
		answer(MSG_OPENED, m->request, &w, -1, fault);
	} else if (m->type == MSG_LOAD) {
		load(m, &w, fault);
	} else if (m->type == MSG_DATUMS) {
		keep(m, &w, fault);
	} else if (m->type == MSG_RENDER) {
		render(m, &w, fault);
	} else if (m->type == MSG_TRAIN) {
		train(m, &w, fault);
	} else if (m->type == MSG_SAVE) {
		save(m, &w, fault);
	} else if (m->type == MSG_GENERATE) {
		generate(m, &w, fault);
	} else if (m->type == MSG_VERIFY) {
		verify(m, &w, fault);
	} else if (m->type == MSG_EVALUATE) {
		evaluate(m, &w, fault);
	} else {
		_exit(m->type == MSG_CLOSE ? 0 : 7);
	}
}

int
main(int argc, char **argv)
{
	struct message_ready ready = {MESSAGE_PROTOCOL, "fault", "cpu"};
	const char *fault;
	uint8_t storage[256];
	struct wire_put w;
	struct message m;

	if (argc < 3 || strcmp(argv[argc - 2], "--channel") != 0 || sodium_init() < 0)
		return 2;
	faults = argv + 1;
	fault_count = argc - 3;
	channel_init(&channel, atoi(argv[argc - 1]));
	fault = fault_now(MSG_READY);
	fault_act(&channel, fault);
	if (strncmp(fault, "frames-", 7) == 0)
		fault_frames(channel.fd, NULL, strtoull(fault + 7, NULL, 10));
	if (strcmp(fault, "protocol") == 0)
		ready.protocol++;
	wire_put_init(&w, storage, sizeof(storage));
	message_put_ready(&w, &ready);
	answer(MSG_READY, 0, &w, -1, fault);
	while (channel_recv(&channel, &m) > 0) {
		serve(&m);
		if (m.fd >= 0)
			close(m.fd);
	}
	return 0;
}
