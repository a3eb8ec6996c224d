#include "supervisor/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/activation.h"
#include "supervisor/credentials.h"
#include "supervisor/http/address.h"
#include "supervisor/settings/config.h"
#include "supervisor/http/http_server.h"
#include "supervisor/api/routes.h"
#include "supervisor/state.h"
#include "supervisor/stepd.h"

enum { OTHER_DESCRIPTORS = 192 }; /* store, workers, transfers, bodies, answers of operations */

/* May plain HTTP be spoken there? */
static bool
is_safe(const struct config *c, const struct sockaddr *address)
{
	return c->tls_cert != NULL || c->insecure_listen || address_is_loopback(address);
}

static int
check_listen(const struct config *c, char reason[512])
{
	struct sockaddr_storage address;
	socklen_t len;
	int rc = address_resolve(c->listen, (uint16_t)c->port, &address, &len);

	if (rc != 0) {
		snprintf(reason, 512, "STEPD_LISTEN is \"%s\": %s", c->listen,
		    rc == -EINVAL ? "not an address and port" : "the address is not known");
		return -EINVAL;
	}
	if (is_safe(c, (struct sockaddr *)&address))
		return 0;
	snprintf(reason, 512,
	    "STEPD_LISTEN is \"%s\": without TLS only loopback is listened on; set "
	    "STEPD_TLS_CERT, or STEPD_INSECURE_LISTEN=true",
	    c->listen);
	return -EINVAL;
}

int
serve_check(const struct config *c, char reason[512])
{
	struct stat st;

	if (check_listen(c, reason) != 0 || credentials_check(c, reason) != 0)
		return -EINVAL;
	if (c->model_dir != NULL && (stat(c->model_dir, &st) != 0 || !S_ISDIR(st.st_mode))) {
		snprintf(reason, 512, "STEPD_MODEL_DIR is not a folder: %.400s", c->model_dir);
		return -EINVAL;
	}
	if (access(c->worker, X_OK) != 0 || stat(c->worker, &st) != 0 || !S_ISREG(st.st_mode)) {
		snprintf(reason, 512, "STEPD_WORKER is no program: %.400s", c->worker);
		return -EINVAL;
	}
	return 0;
}

/* Connections that the limit on descriptors leaves room for. */
static unsigned
allowed_connections(const struct config *c)
{
	uint64_t wanted = c->connections, most;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return (unsigned)wanted;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	/* a connection, and the body or the file it is at */
	most =
	    limit.rlim_max > OTHER_DESCRIPTORS + 2 ? (limit.rlim_max - OTHER_DESCRIPTORS) / 2 : 1;
	if (most >= wanted)
		return (unsigned)wanted;
	log_warning("STEPD_CONNECTIONS is %llu, but the limit on open files allows only %llu",
	    (unsigned long long)wanted, (unsigned long long)most);
	return (unsigned)most;
}

/* The sockets that were handed over, judged as STEPD_LISTEN would be. */
static int
take_sockets(struct stepd *s)
{
	char reason[256], text[64];
	int count = activation_take(s->listen_fds, STEPD_LISTEN_FDS, reason);

	if (count < 0) {
		log_error("%s", reason);
		return count;
	}
	for (int i = 0; i < count; i++) {
		struct sockaddr_storage address = {0};
		socklen_t len = sizeof(address);

		getsockname(s->listen_fds[i], (struct sockaddr *)&address, &len);
		address_text((struct sockaddr *)&address, text, sizeof(text));
		if (!is_safe(s->config, (struct sockaddr *)&address)) {
			log_error("LISTEN_FDS: descriptor %d listens on %s: without TLS only "
				  "loopback is; set STEPD_TLS_CERT, or STEPD_INSECURE_LISTEN=true",
			    s->listen_fds[i], text);
			return -EINVAL;
		}
	}
	s->listen_count = (size_t)count;
	s->handed_over = count > 0;
	if (count > 0)
		log_info("listening sockets were handed over: STEPD_LISTEN does not count");
	return 0;
}

int
serve_listen(struct stepd *s)
{
	const struct config *c = s->config;
	int rc = take_sockets(s);

	if (rc != 0 || s->listen_count > 0)
		return rc;
	rc = address_listen(c->listen, (uint16_t)c->port);
	if (rc < 0) {
		log_error("listening on %s: %s", c->listen, strerror(-rc));
		return rc;
	}
	s->listen_fds[s->listen_count++] = rc;
	return 0;
}

/* For people and scripts. A full disk must not keep away those who would make room on it. */
static void
write_address(const struct stepd *s, const char *url)
{
	int error = state_file_write(s->state_fd, "address", url, strlen(url));

	if (error == 0)
		return;
	log_warning("the state folder does not tell the address: %s", strerror(-error));
	unlinkat(s->state_fd, "address", 0); /* that of an earlier stepd */
}

/* The server is told its sockets, and people where they are. */
static int
open_door(struct stepd *s)
{
	const char *scheme = s->tls != NULL ? "https" : "http", *address;
	char url[128];
	int rc = 0;

	while (rc == 0 && s->listen_count > 0) {
		/* from the first on: the address file has that one */
		rc = http_server_listen(s->http, s->listen_fds[0]);
		s->listen_count--;
		memmove(s->listen_fds, s->listen_fds + 1, s->listen_count * sizeof(int));
	}
	for (size_t i = 0; rc == 0 && (address = http_server_address(s->http, i)) != NULL; i++) {
		snprintf(url, sizeof(url), "%s://%s\n", scheme, address);
		if (i == 0)
			write_address(s, url);
		if (printf("listening on %s", url) < 0 || fflush(stdout) != 0)
			log_warning("standard output is closed");
	}
	return rc;
}

int
serve_start(struct stepd *s)
{
	const struct config *c = s->config;
	struct http_options options = {
	    .judge = routes_judge,
	    .handle = routes_handle,
	    .arg = s,
	    .header_seconds = (unsigned)c->header_timeout,
	    .body_seconds = (unsigned)c->body_timeout,
	    .idle_seconds = (unsigned)c->idle_timeout,
	    .body_memory = c->body_memory,
	    /* sockets that are not ours keep who comes in line for the next stepd */
	    .listens_on = !s->handed_over,
	};
	int rc = credentials_open(s);

	if (rc != 0)
		return rc;
	options.tls = s->tls;
	options.connections = allowed_connections(c);
	rc = http_server_open(&s->http, s->base, &options);
	return rc == 0 ? open_door(s) : rc;
}

bool
serve_stop(struct stepd *s)
{
	if (s->http == NULL)
		return true;
	http_server_stop(s->http);
	return http_server_busy(s->http) == 0;
}

void
serve_hurry(struct stepd *s)
{
	if (s->http != NULL)
		http_server_answer_all(s->http, 503,
		    "the trainer stopped before this was done: send it again; the session tells "
		    "its step");
}

void
serve_free(struct stepd *s)
{
	if (s->http != NULL)
		unlinkat(s->state_fd, "address", 0);
	http_server_free(s->http);
	s->http = NULL;
	credentials_close(s);
}
