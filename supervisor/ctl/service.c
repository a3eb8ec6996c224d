#include "supervisor/ctl/service.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "supervisor/ctl/verbs.h"

enum { START_SECONDS = 20, STOP_SECONDS = 45 };

/* For service_kill(): the stepd that runs, 0 = none, and whether there is something to clean up. */
static volatile pid_t running;
static volatile bool present;

/* name in the folder of stepctl itself. */
static int
beside(char *out, size_t size, const char *name)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return -1;
	self[n] = '\0';
	return snprintf(out, size, "%s/%s", dirname(self), name) < (int)size ? 0 : -1;
}

static int
write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = write(fd, text, strlen(text));
	close(fd);
	return n == (ssize_t)strlen(text) ? 0 : -1;
}

/* Whether it can only be a path: names of the Hugging Face cache are `name` or `org/name`, those
   below STEPD_MODEL_DIR can be anything relative. */
static bool
is_path(const char *model)
{
	const char *slash = strchr(model, '/');
	size_t len = strlen(model);

	if (*model == '/' || *model == '.' || *model == '~')
		return true;
	return getenv("STEPD_MODEL_DIR") == NULL &&
	       ((slash != NULL && strchr(slash + 1, '/') != NULL) ||
		   (len > 5 && strcmp(model + len - 5, ".gguf") == 0));
}

/* The folder that a path's model is looked up in, and its name there; a name that is no path stays
   one. 0, or -1 with errno if there is nothing at the path. */
static int
place_model(struct service *s, const char *model, char *folder)
{
	char path[PATH_MAX];

	*folder = '\0';
	if (access(model, F_OK) != 0 && is_path(model))
		return -1;
	if (access(model, F_OK) != 0)
		return snprintf(s->model, sizeof(s->model), "%s", model) < (int)sizeof(s->model)
			   ? 0
			   : -1;
	if (realpath(model, path) == NULL || strcmp(path, "/") == 0)
		return -1;
	strcpy(folder, path);
	*strrchr(folder, '/') = '\0';
	if (*folder == '\0')
		strcpy(folder, "/");
	return snprintf(s->model, sizeof(s->model), "%s", strrchr(path, '/') + 1) <
		       (int)sizeof(s->model)
		   ? 0
		   : -1;
}

/* In the child: becomes stepd. */
static void
become(const char *program, const struct service *s, const char *model_dir, const char *token_file,
    int log)
{
	if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0 || getppid() == 1)
		_exit(127);
	setpgid(0, 0); /* Ctrl-C is for stepctl, which saves first */
	dup2(log, STDERR_FILENO);
	dup2(log, STDOUT_FILENO);
	setenv("STEPD_LISTEN", "127.0.0.1:0", 1);
	setenv("STEPD_TLS_CERT", "auto", 1);
	setenv("STEPD_STATE_DIR", s->state, 1);
	setenv("TRAINER_TOKEN_FILE", token_file, 1);
	unsetenv("TRAINER_TOKEN");
	unsetenv("STEPD_TOKENS_FILE");
	unsetenv("CREDENTIALS_DIRECTORY");
	unsetenv("PORT");
	unsetenv("STEPD_TLS_KEY");
	unsetenv("STEPD_PUBLIC_URL");
	unsetenv("STEPD_URL");
	if (*model_dir != '\0')
		setenv("STEPD_MODEL_DIR", model_dir, 1);
	execl(program, "stepd", (char *)NULL);
	fprintf(stderr, "stepctl: %s: %s\n", program, strerror(errno));
	_exit(127);
}

/* Waits until it says where it listens. */
static int
wait_for_address(struct service *s, char *url, size_t size)
{
	struct timespec tick = {.tv_nsec = 5000000};
	char path[PATH_MAX + 32];

	snprintf(path, sizeof(path), "%s/address", s->state);
	for (int i = 0; i < START_SECONDS * 200; i++) {
		FILE *f = fopen(path, "re");

		if (f != NULL) {
			char *got = fgets(url, (int)size, f);

			fclose(f);
			if (got != NULL && strchr(url, '\n') != NULL) {
				url[strcspn(url, "\n")] = '\0';
				return 0;
			}
		}
		if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
			running = s->pid = 0;
			return -1;
		}
		nanosleep(&tick, NULL);
	}
	return -1;
}

/* Shows the log's end: what stepd itself said about why it did not start. */
static void
print_log(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[1024];

	if (f == NULL)
		return;
	if (fseek(f, -2000, SEEK_END) == 0 && fgets(line, sizeof(line), f) == NULL)
		clearerr(f);
	while (fgets(line, sizeof(line), f) != NULL)
		fprintf(stderr, "  %s", line);
	fclose(f);
}

static struct client *
start(struct service *s, const char *model, const char *folder, const char *log)
{
	char program[PATH_MAX], model_dir[PATH_MAX], token_file[PATH_MAX + 16], own[PATH_MAX + 16];
	char url[256], ca[PATH_MAX + 16], token[65];
	unsigned char secret[32];
	int fd;

	if (beside(program, sizeof(program), "stepd") != 0 || access(program, X_OK) != 0) {
		fputs("stepctl: no stepd beside stepctl; give --url\n", stderr);
		return NULL;
	}
	if (place_model(s, model, model_dir) != 0) {
		fprintf(stderr, "stepctl: model %s: %s\n", model, strerror(errno));
		s->failure = CTL_USAGE;
		return NULL;
	}
	snprintf(s->state, sizeof(s->state), "%s/.stepd-XXXXXX", folder);
	if (mkdtemp(s->state) == NULL) {
		fprintf(stderr, "stepctl: %s: %s\n", folder, strerror(errno));
		s->state[0] = '\0';
		return NULL;
	}
	present = true;
	randombytes_buf(secret, sizeof(secret));
	sodium_bin2hex(token, sizeof(token), secret, sizeof(secret));
	snprintf(token_file, sizeof(token_file), "%s/token", s->state);
	snprintf(own, sizeof(own), "%s/stepd.log", s->state);
	if (log == NULL)
		log = own;
	fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || write_file(token_file, token) != 0) {
		fprintf(stderr, "stepctl: %s: %s\n", fd < 0 ? log : token_file, strerror(errno));
		if (fd >= 0)
			close(fd);
		return NULL;
	}
	running = s->pid = fork();
	if (s->pid == 0)
		become(program, s, model_dir, token_file, fd);
	close(fd);
	if (s->pid < 0 || wait_for_address(s, url, sizeof(url)) != 0) {
		fprintf(stderr, "stepctl: stepd did not start; the end of its log%s%s:\n",
		    log == own ? "" : ", ", log == own ? "" : log);
		print_log(log);
		return NULL;
	}
	snprintf(ca, sizeof(ca), "%s/tls-cert.pem", s->state);
	return client_new(url, token, ca);
}

struct client *
service_start(struct service *s, const char *model, const char *folder, const char *log)
{
	struct client *c;

	*s = (struct service){.failure = CTL_FAILED};
	c = start(s, model, folder, log);
	if (c == NULL)
		service_stop(s);
	return c;
}

static int
remove_entry(const char *path, const struct stat *st, int type, struct FTW *place)
{
	(void)st;
	(void)type;
	(void)place;
	return remove(path);
}

void
service_signals(void (*handler)(int number))
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN) /* not under nohup */
		sigaction(SIGHUP, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

bool
service_kill(void)
{
	pid_t pid = running;

	if (pid > 0)
		kill(pid, SIGKILL);
	return present;
}

void
service_stop(struct service *s)
{
	struct timespec tick = {.tv_nsec = 10000000};

	if (s->pid > 0) {
		kill(s->pid, SIGTERM);
		for (int i = 0; s->pid > 0 && i < STOP_SECONDS * 100; i++) {
			if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
				running = s->pid = 0;
			else
				nanosleep(&tick, NULL);
		}
		if (s->pid > 0) {
			kill(s->pid, SIGKILL);
			waitpid(s->pid, NULL, 0);
			running = s->pid = 0;
		}
	}
	if (s->state[0] != '\0')
		nftw(s->state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	s->state[0] = '\0';
	present = false;
}
