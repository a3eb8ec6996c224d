/*
 * stepctl status: what a stepd of this machine is doing, from its status socket.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/json_write.h"
#include "supervisor/ctl/client.h"
#include "supervisor/ctl/options.h"
#include "supervisor/ctl/status_ask.h"
#include "supervisor/ctl/print.h"
#include "supervisor/ctl/verbs.h"

static const struct ctl_option options[] = {
    {"socket", "PATH", NULL, "the status socket (else $STEPD_STATUS_SOCKET, $STEPD_STATE_DIR)"},
    {"json", NULL, NULL, "print the whole document"},
    {NULL, NULL, NULL, NULL},
};

static const char notes[] =
    "A line a slot, a line a session. UNSAVED: steps that no upload holds. REPLAY: steps that\n"
    "a new worker would do again. ENDS: how workers ended that nobody had asked to end.\n"
    "\n"
    "exit codes:\n"
    "  0  nothing to act on\n"
    "  1  there is; each has a line `attention: ...`: a disk, its inodes or the store at 95 %\n"
    "     or more, or not to be read; a store that has stood still for 30 s; a certificate that\n"
    "     ends within 7 days; a GPU that is gone or does not compute; a session that has to be\n"
    "     restored, or that several workers in a row did not bring back; steps that a client\n"
    "     has to send again, or that came out otherwise when they were replayed\n"
    "  3  no stepd answers at the socket: nothing is known\n"
    "  4  it does, but not to this user\n";

static const char *
text_of(struct json object, const char *key)
{
	const char *text = json_string(json_get(object, key), NULL);

	return text != NULL ? text : "-";
}

/* "1.2 GB", or "-" where it is not known. */
static const char *
bytes_of(struct json object, const char *key, char out[32])
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
	unsigned unit = 0;
	double v;

	if (!json_double(json_get(object, key), &v))
		return "-";
	for (; v >= 1000 && unit < 5; unit++)
		v /= 1000;
	snprintf(out, 32, unit == 0 ? "%.0f%s" : "%.1f%s", v, units[unit]);
	return out;
}

static const char *
double_of(struct json object, const char *key, char out[32])
{
	double v;

	if (!json_double(json_get(object, key), &v))
		return "-";
	snprintf(out, 32, "%.5g", v);
	return out;
}

static const char *
duration(long long seconds, char out[48])
{
	if (seconds < 60)
		snprintf(out, 48, "%lld s", seconds);
	else if (seconds < 3600)
		snprintf(out, 48, "%lld min", seconds / 60);
	else if (seconds < 86400)
		snprintf(out, 48, "%lld h %lld min", seconds / 3600, seconds / 60 % 60);
	else
		snprintf(out, 48, "%lld days %lld h", seconds / 86400, seconds / 3600 % 24);
	return out;
}

/* What a service says cannot command the terminal. */
static void
print_line(const char *line)
{
	print_text(stdout, line);
	putchar('\n');
}

static void
print_process(struct json d)
{
	struct json requests = json_get(d, "requests"), connections = json_get(d, "connections");
	struct json certificate = json_get(d, "certificate"), store = json_get(d, "store");
	char line[1024], a[48], b[32], c[32];

	snprintf(line, sizeof(line), "stepd %s: %s, pid %lld, up %s, durability %s, memory %s",
	    text_of(d, "version"), text_of(d, "state"), number_of(d, "pid"),
	    duration(number_of(d, "uptime_seconds"), a), text_of(d, "durability"),
	    bytes_of(json_get(d, "memory"), "rss_bytes", b));
	print_line(line);
	json_foreach (listener, json_get(d, "listeners")) {
		bool tls = json_true(json_get(listener, "tls"));

		snprintf(line, sizeof(line), "%s://%s: %lld of %lld connections%s%s",
		    tls ? "https" : "http", text_of(listener, "address"),
		    number_of(connections, "open"), number_of(connections, "limit"),
		    tls ? ", certificate good for " : "",
		    tls ? duration(number_of(certificate, "seconds_left"), a) : "");
		print_line(line);
	}
	snprintf(line, sizeof(line),
	    "requests: %lld answered, %lld of them 4xx, %lld 5xx; store: %s of %s",
	    number_of(requests, "answered"), number_of(requests, "4xx"), number_of(requests, "5xx"),
	    bytes_of(store, "bytes", b), bytes_of(store, "map_bytes", c));
	print_line(line);
}

static void
print_slots(struct json d)
{
	char line[512];
	int i = 0;

	printf("\n%-5s %-8s %-6s %s\n", "SLOT", "DEVICE", "STATE", "SESSION");
	json_foreach (slot, json_get(d, "slots")) {
		snprintf(line, sizeof(line), "%-5d %-8s %-6s %s", i++, text_of(slot, "device"),
		    text_of(slot, "state"), text_of(slot, "session_id"));
		print_line(line);
	}
}

/* "killed=2,hang=1", or "-". */
static const char *
ends_of(struct json session, char out[256])
{
	size_t len = 0;

	snprintf(out, 256, "-");
	json_foreach (end, json_get(session, "worker_ends")) {
		int64_t count = 0;

		json_int64(end, &count);
		if (len < 255)
			len += (size_t)snprintf(out + len, 256 - len, "%s%s=%lld",
			    len > 0 ? "," : "", json_key(end, NULL), (long long)count);
	}
	return out;
}

static const char session_columns[] = "%-32s %-13s %-8s %-6s %7s %7s %9s %9s %8s %8s %6s %-12s %s";

static void
print_session(struct json s)
{
	char line[3072], step[32], unsaved[32], replay[32], pid[32], loss[32], norm[32], memory[32],
	    ends[256];
	struct json worker = json_get(s, "worker");

	snprintf(step, sizeof(step), "%lld", number_of(s, "step"));
	snprintf(unsaved, sizeof(unsaved), "%lld", number_of(s, "unsaved_steps"));
	snprintf(replay, sizeof(replay), "%lld", number_of(s, "replay_steps"));
	snprintf(pid, sizeof(pid), "%lld", number_of(worker, "pid"));
	snprintf(line, sizeof(line), session_columns, text_of(s, "session_id"), text_of(s, "state"),
	    text_of(s, "device"), text_of(s, "compute"), step, unsaved,
	    double_of(s, "last_loss", loss), double_of(s, "last_gradient_norm", norm),
	    json_is(worker, JSON_OBJECT) ? pid : "-", bytes_of(worker, "rss_bytes", memory), replay,
	    ends_of(s, ends), text_of(s, "model"));
	print_line(line);
}

static void
print_sessions(struct json d)
{
	char line[512];

	printf("\n");
	printf(session_columns, "SESSION", "STATE", "DEVICE", "FORMAT", "STEP", "UNSAVED", "LOSS",
	    "NORM", "WORKER", "MEMORY", "REPLAY", "ENDS", "MODEL\n");
	json_foreach (session, json_get(d, "sessions"))
		print_session(session);
	if (json_count(json_get(d, "sessions")) == 0)
		puts("no sessions are open");
	if (number_of(d, "sessions_left_out") > 0)
		printf("and %lld more\n", number_of(d, "sessions_left_out"));
	json_foreach (session, json_get(d, "sessions")) {
		struct json worker = json_get(session, "worker"), limit;
		char bytes[32];

		if (!json_is(worker, JSON_OBJECT))
			continue;
		snprintf(line, sizeof(line), "sandbox of worker %lld: %s", number_of(worker, "pid"),
		    text_of(worker, "sandbox"));
		limit = json_get(worker, "memory_limit");
		if (json_is(json_get(limit, "bytes"), JSON_NUMBER))
			snprintf(line + strlen(line), sizeof(line) - strlen(line),
			    "; memory: %s by %s", bytes_of(limit, "bytes", bytes),
			    text_of(limit, "by"));
		print_line(line);
	}
}

static int
percent(struct json disk, const char *all, const char *rest)
{
	double a = 0, r = 0;

	json_double(json_get(disk, all), &a);
	json_double(json_get(disk, rest), &r);
	return a > 0 ? (int)(100 * (a - r) / a) : 0;
}

static void
print_disks(struct json d)
{
	char free_bytes[32];

	printf("\n%-6s %9s %6s %12s\n", "DISK", "FREE", "USED", "INODES USED");
	json_foreach (disk, json_get(d, "disks")) {
		if (json_is(disk, JSON_OBJECT))
			printf("%-6s %9s %4d %% %10d %%\n", json_key(disk, NULL),
			    bytes_of(disk, "bytes_free", free_bytes),
			    percent(disk, "bytes", "bytes_free"),
			    percent(disk, "inodes", "inodes_free"));
		else
			printf("%-6s %9s\n", json_key(disk, NULL), "not known");
	}
}

static void
print_attention(struct json d)
{
	char line[1024];

	if (json_count(json_get(d, "attention")) > 0)
		putchar('\n');
	json_foreach (sentence, json_get(d, "attention")) {
		const char *text = json_string(sentence, NULL);

		snprintf(line, sizeof(line), "attention: %s", text != NULL ? text : "?");
		print_line(line);
	}
}

static int
status_run(int argc, char **argv)
{
	struct ctl_arguments a;
	struct json_doc *doc;
	struct json d;
	char *path;
	int rc;

	if (ctl_parse(&a, options, argc, argv) != 0)
		return CTL_USAGE;
	if (a.operand_count > 0) {
		fprintf(stderr, "stepctl: status takes no %s\n", a.operands[0]);
		return CTL_USAGE;
	}
	path = status_socket_path(ctl_value(&a, "socket"));
	if (path == NULL)
		return CTL_USAGE;
	rc = status_ask(path, &doc);
	free(path);
	if (rc != 0)
		return rc;
	d = json_root(doc);
	if (ctl_switch(&a, "json")) {
		struct json_writer w;

		json_writer_init(&w);
		json_write_value(&w, d);
		rc = print_json(&w);
	} else {
		print_process(d);
		print_slots(d);
		print_sessions(d);
		print_disks(d);
		print_attention(d);
	}
	if (json_count(json_get(d, "attention")) > 0)
		rc = CTL_FAILED;
	json_free(doc);
	return rc;
}

const struct ctl_verb ctl_status = {
    "status", "[options]", "what a stepd of this machine is doing", options, status_run, notes};
