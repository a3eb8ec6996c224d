#include "supervisor/status/status_write.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ipc/monotonic.h"
#include "supervisor/http/backoff.h"
#include "supervisor/http/http_server.h"
#include "supervisor/http/tls.h"
#include "supervisor/http/tokens.h"
#include "supervisor/privileges.h"
#include "supervisor/settings/config.h"
#include "supervisor/status/events.h"
#include "supervisor/stepd.h"
#include "supervisor/store/store.h"

static void
put_seconds(struct json_writer *w, const char *key, double seconds)
{
	json_put_uint(w, key, seconds > 0 ? (uint64_t)seconds : 0);
}

static void
put_memory(struct json_writer *w, const struct fact_memory *m)
{
	json_write_key(w, "memory");
	if (m == NULL || !m->known) {
		json_write_null(w);
		return;
	}
	json_write_object(w);
	json_put_uint(w, "rss_bytes", m->rss);
	json_put_uint(w, "peak_bytes", m->peak);
	json_write_object_end(w);
}

/* Two stepds with the same settings have the same digest; secrets are not part of it. */
static void
put_settings(struct json_writer *w, const struct config *c)
{
	uint8_t digest[16];
	char hex[2 * sizeof(digest) + 1], *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (out == NULL) {
		json_put_null(w, "settings_digest");
		return;
	}
	config_print(c, out);
	fclose(out);
	crypto_generichash(digest, sizeof(digest), (const uint8_t *)text, len, NULL, 0);
	free(text);
	json_put_string(
	    w, "settings_digest", sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest)));
}

static void
put_process(
    struct json_writer *w, struct stepd *s, const struct status_facts *facts, double started)
{
	double now = monotonic_seconds();

	json_put_uint(w, "schema", STATUS_SCHEMA);
	json_put_string(w, "version", STEPD_VERSION);
	json_put_uint(w, "pid", (uint64_t)getpid());
	json_put_string(w, "state", s->stopping ? "draining" : "running");
	put_seconds(w, "uptime_seconds", now - started);
	json_write_key(w, "drain_seconds_left");
	if (s->stopping)
		json_write_uint(w, s->stop_deadline > now ? (uint64_t)(s->stop_deadline - now) : 0);
	else
		json_write_null(w);
	json_put_string(
	    w, "boot_id", facts != NULL && facts->boot_id[0] != '\0' ? facts->boot_id : NULL);
	put_memory(w, facts != NULL ? &facts->self : NULL);
	if (facts != NULL && facts->open_files >= 0)
		json_put_int(w, "open_files", facts->open_files);
	else
		json_put_null(w, "open_files");
	json_put_string(w, "durability", s->config->durability);
	json_put_string(w, "privileges", privileges_text());
	put_settings(w, s->config);
}

static void
put_listeners(struct json_writer *w, struct stepd *s)
{
	const char *address;

	json_write_key(w, "listeners");
	json_write_array(w);
	for (size_t i = 0; s->http != NULL && (address = http_server_address(s->http, i)) != NULL;
	     i++) {
		json_write_object(w);
		json_put_string(w, "address", address);
		json_put_bool(w, "tls", s->tls != NULL);
		json_write_object_end(w);
	}
	json_write_array_end(w);
	json_write_key(w, "certificate");
	if (s->tls == NULL) {
		json_write_null(w);
	} else {
		int64_t end = tls_not_after(s->tls);

		json_write_object(w);
		json_put_int(w, "not_after", end);
		json_put_int(w, "seconds_left", end - (int64_t)time(NULL));
		json_write_object_end(w);
	}
}

static void
put_http(struct json_writer *w, struct stepd *s)
{
	struct http_counts c = {0};
	uint64_t all = 0;

	if (s->http != NULL)
		http_server_counts(s->http, &c);
	json_write_key(w, "connections");
	json_write_object(w);
	json_put_uint(w, "open", c.open);
	json_put_uint(w, "limit", c.limit);
	json_put_uint(w, "turned_away", c.turned_away);
	json_put_uint(w, "event_listeners", events_listeners(s));
	json_write_object_end(w);
	json_write_key(w, "tokens");
	json_write_object(w);
	json_put_uint(w, "known", s->tokens != NULL ? tokens_count(s->tokens) : 0);
	json_put_uint(w, "wrong", s->backoff != NULL ? backoff_count(s->backoff) : 0);
	json_write_object_end(w);
	json_write_key(w, "requests");
	json_write_object(w);
	for (unsigned i = 1; i < 6; i++) {
		char key[] = "0xx";

		key[0] = (char)('0' + i);
		json_put_uint(w, key, c.answered[i]);
		all += c.answered[i];
	}
	json_put_uint(w, "answered", all);
	json_write_object_end(w);
}

static void
put_disks(struct json_writer *w, const struct status_facts *facts)
{
	json_write_key(w, "disks");
	json_write_object(w);
	for (int i = 0; i < STATUS_DISKS; i++) {
		const struct fact_disk *d = facts != NULL ? &facts->disks[i] : NULL;

		json_write_key(w, status_disk_name(i));
		if (d == NULL || !d->known) {
			json_write_null(w);
			continue;
		}
		json_write_object(w);
		json_put_uint(w, "bytes", d->bytes);
		json_put_uint(w, "bytes_free", d->bytes_free);
		json_put_uint(w, "inodes", d->inodes);
		json_put_uint(w, "inodes_free", d->inodes_free);
		json_write_object_end(w);
	}
	json_write_object_end(w);
}

static void
put_store(struct json_writer *w, struct stepd *s)
{
	struct store_facts f;

	json_write_key(w, "store");
	if (store_facts(s->store, &f) != 0) {
		json_write_null(w);
		return;
	}
	json_write_object(w);
	json_put_uint(w, "bytes", f.used_bytes);
	json_put_uint(w, "map_bytes", f.map_bytes);
	json_put_uint(w, "readers", f.readers);
	json_put_uint(w, "readers_limit", f.readers_max);
	json_put_uint(w, "changes_waiting", f.changes);
	put_seconds(w, "oldest_change_seconds", f.oldest_seconds);
	json_write_object_end(w);
}

static void
put_cgroup(struct json_writer *w, const struct status_facts *facts)
{
	json_write_key(w, "cgroup");
	if (facts == NULL || !facts->cgroup.known) {
		json_write_null(w);
	} else {
		json_write_object(w);
		json_put_uint(w, "memory_bytes", facts->cgroup.current);
		json_write_key(w, "memory_limit_bytes");
		if (facts->cgroup.limit > 0)
			json_write_uint(w, facts->cgroup.limit);
		else
			json_write_null(w);
		json_write_object_end(w);
	}
	if (facts != NULL && facts->oom_kills >= 0)
		json_put_int(w, "oom_kills", facts->oom_kills);
	else
		json_put_null(w, "oom_kills");
}

void
status_write(
    struct stepd *s, const struct status_facts *facts, double started, struct json_writer *w)
{
	json_write_object(w);
	put_process(w, s, facts, started);
	put_listeners(w, s);
	put_http(w, s);
	put_disks(w, facts);
	put_store(w, s);
	put_cgroup(w, facts);
	status_write_sessions(s, facts, w);
	status_write_attention(s, facts, w);
	json_write_object_end(w);
}
