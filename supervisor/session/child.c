#include "supervisor/session/child.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/log.h"
#include "supervisor/session/child_exec.h"

enum { WORDS_MAX = 512, CLASS_MAX = 32, NO_LAST_ANSWERS = 64 };

struct child {
	const struct child_events *events;
	void *ctx;
	pid_t pid;
	int pidfd;
	unsigned end_seconds;
	struct channel channel;
	struct event *readable, *exited, *deadline;
	uint64_t request; /* the number of the last one sent */
	bool busy;	  /* it is not answered */
	bool ready, ending, termed;
	struct child_facts facts;
	struct child_group group;
	char last_class[CLASS_MAX], words[WORDS_MAX];
};

/* 0, or -ENOMEM: there is none. */
static int
set_deadline(struct child *c, unsigned seconds)
{
	struct timeval tv = {(time_t)seconds, 0};

	if (seconds == 0)
		return evtimer_del(c->deadline);
	return evtimer_add(c->deadline, &tv) != 0 ? -ENOMEM : 0;
}

/* The whole process group: what a worker may have started goes with it. */
static void
send_signal(struct child *c, int signal)
{
	if (kill(-c->pid, signal) != 0)
		kill(c->pid, signal);
}

static void
terminate(struct child *c)
{
	if (c->termed)
		return;
	c->ending = c->termed = true;
	send_signal(c, SIGTERM);
	if (set_deadline(c, c->end_seconds) != 0)
		send_signal(c, SIGKILL);
}

/* It is about to exit; if not, the deadline ends it. */
static void
end_by_itself(struct child *c)
{
	c->ending = true;
	if (set_deadline(c, c->end_seconds) != 0)
		terminate(c);
}

static void
on_deadline(evutil_socket_t fd, short what, void *arg)
{
	struct child *c = arg;

	(void)fd;
	(void)what;
	if (c->termed) {
		log_warning("worker %d: still there after TERM, killing it", (int)c->pid);
		send_signal(c, SIGKILL);
		return;
	}
	if (!c->facts.asked_to_end) {
		c->facts.hung = true;
		log_warning("worker %d: no answer within its deadline, ending it", (int)c->pid);
	}
	terminate(c);
}

/* A copy that fits a line of the log, whatever the worker put into it. */
static void
copy_words(char *to, size_t size, const char *from)
{
	size_t i = 0;

	for (; i + 1 < size && from[i] != '\0'; i++)
		to[i] = (unsigned char)from[i] < 0x20 || from[i] == 0x7f ? ' ' : from[i];
	to[i] = '\0';
}

static int
take_ready(struct child *c, struct message *m)
{
	struct message_ready ready;

	if (c->ready || m->request != 0 || message_get_ready(&m->body, &ready) != 0 ||
	    ready.protocol != MESSAGE_PROTOCOL)
		return -EBADMSG;
	c->ready = c->facts.was_ready = true;
	if (c->ending)
		return 0;
	set_deadline(c, 0);
	c->events->ready(c->ctx, &ready);
	return 0;
}

static int
take_last_words(struct child *c, struct message *m)
{
	struct message_last_words words;

	if (m->request != 0 || message_get_last_words(&m->body, &words) != 0)
		return -EBADMSG;
	copy_words(c->last_class, sizeof(c->last_class), words.class);
	copy_words(c->words, sizeof(c->words), words.text);
	return 0;
}

static int
take_answer(struct child *c, struct message *m)
{
	if (!c->busy || m->request != c->request || m->type < MSG_OPENED)
		return -EBADMSG;
	c->busy = false;
	if (c->ending)
		return 0;
	set_deadline(c, 0);
	return c->events->answer(c->ctx, m);
}

/* One message off the channel: 1, 0 at the end of file, or -errno. */
static int
take_message(struct child *c)
{
	struct message m;
	int got = channel_recv(&c->channel, &m), error;

	if (got <= 0)
		return got;
	if (m.type == MSG_READY)
		error = take_ready(c, &m);
	else if (m.type == MSG_LAST_WORDS)
		error = take_last_words(c, &m);
	else
		error = take_answer(c, &m);
	if (m.fd >= 0)
		close(m.fd);
	return error != 0 ? error : 1;
}

/* What stepd lacks says nothing about the worker. */
static bool
is_own_lack(int error)
{
	return error == -ENOMEM || error == -ENOBUFS || error == -EMFILE || error == -ENFILE;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct child *c = arg;
	int got = take_message(c);

	(void)fd;
	(void)what;
	if (got > 0 || got == -EAGAIN)
		return;
	/* The other end is closed or not to be trusted any more: nothing is read from it again. */
	event_del(c->readable);
	/* It ended without having read what it was sent: that says nothing about its messages. */
	if (got == -ECONNRESET)
		got = 0;
	if (is_own_lack(got)) {
		c->facts.asked_to_end = true;
		log_warning("worker %d: its message is not taken (%s), ending it", (int)c->pid,
		    strerror(-got));
		terminate(c);
	} else if (got != 0) {
		c->facts.bad_frame = true;
		log_warning("worker %d: a message that does not decode, ending it", (int)c->pid);
		terminate(c);
	} else if (!c->ending) {
		end_by_itself(c);
	}
}

static void
release(struct child *c)
{
	if (c->readable != NULL)
		event_free(c->readable);
	if (c->exited != NULL)
		event_free(c->exited);
	if (c->deadline != NULL)
		event_free(c->deadline);
	channel_fini(&c->channel);
	if (c->pidfd >= 0)
		close(c->pidfd);
	child_group_free(&c->group);
	free(c);
}

static void
reap(struct child *c, siginfo_t *info)
{
	/* What it started dies with it; before it is reaped, for then its number may be another's.
	 */
	kill(-c->pid, SIGKILL);
	memset(info, 0, sizeof(*info));
	while (waitid(P_PID, (id_t)c->pid, info, WEXITED) != 0 && errno == EINTR)
		continue;
	c->facts.code = info->si_code;
	c->facts.status = info->si_status;
	c->facts.oom_killed = child_group_oom_killed(&c->group);
	c->facts.last_class = c->last_class;
}

static void
on_exited(evutil_socket_t fd, short what, void *arg)
{
	struct child *c = arg;
	struct child_death death;
	siginfo_t info;
	bool exited;

	(void)fd;
	(void)what;
	/* What it still said counts: an answer may be the last thing it did. */
	if (!c->facts.bad_frame) {
		for (int i = 0; i < NO_LAST_ANSWERS; i++) {
			int got = take_message(c);

			if (got <= 0) {
				c->facts.bad_frame = got == -EBADMSG;
				break;
			}
		}
	}
	reap(c, &info);
	exited = info.si_code == CLD_EXITED;
	death = (struct child_death){.class = child_classify(&c->facts),
	    .signal = exited ? -1 : info.si_status,
	    .exit_status = exited ? info.si_status : -1,
	    .words = c->words};
	event_del(c->exited);
	if (death.class == CHILD_CLEAN)
		log_info("worker %d: ended", (int)c->pid);
	else
		log_warning("worker %d: %s (%s %d)%s%s", (int)c->pid, child_class_name(death.class),
		    exited ? "exit status" : "signal", info.si_status,
		    c->words[0] != '\0' ? ": " : "", c->words);
	c->events->died(c->ctx, &death);
	release(c);
}

int
child_start(struct child **out, struct event_base *base, const struct child_options *options,
    const struct child_events *events, void *ctx)
{
	struct child_program program = {.path = options->program,
	    .gpu = options->gpu,
	    .gpu_bus = options->gpu_bus,
	    .uid = options->uid,
	    .gid = options->gid};
	struct child *c = calloc(1, sizeof(*c));
	int fds[2] = {-1, -1}, error;

	*out = NULL;
	if (c == NULL)
		return -ENOMEM;
	*c = (struct child){
	    .events = events, .ctx = ctx, .pid = -1, .pidfd = -1, .group = {.entry = -1}};
	channel_init(&c->channel, -1);
	c->end_seconds = options->end_seconds;
	error = channel_pair(fds);
	if (error != 0)
		goto fail;
	channel_init(&c->channel, fds[0]);
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	child_group_new(&c->group, options->memory);
	error = child_exec(&program, fds[1], &c->group, &c->pid, &c->pidfd);
	close(fds[1]);
	child_group_entered(&c->group);
	if (error != 0)
		goto fail;
	c->readable = event_new(base, fds[0], EV_READ | EV_PERSIST, on_readable, c);
	c->exited = event_new(base, c->pidfd, EV_READ | EV_PERSIST, on_exited, c);
	c->deadline = evtimer_new(base, on_deadline, c);
	if (c->readable == NULL || c->exited == NULL || c->deadline == NULL ||
	    event_add(c->readable, NULL) != 0 || event_add(c->exited, NULL) != 0) {
		error = -ENOMEM;
		goto fail;
	}
	error = set_deadline(c, options->ready_seconds);
	if (error != 0)
		goto fail;
	*out = c;
	return 0;
fail:
	child_free(c);
	return error;
}

pid_t
child_pid(const struct child *c)
{
	return c->pid;
}

struct child_memory
child_memory(const struct child *c)
{
	return child_group_memory(&c->group);
}

int
child_send(
    struct child *c, enum message_type type, const void *body, size_t len, int fd, unsigned seconds)
{
	int error;

	if (c->ending || !c->ready)
		return -EPIPE;
	if (c->busy)
		return -EBUSY;
	error = channel_send(&c->channel, type, c->request + 1, body, len, fd);
	if (error == -EPIPE)
		end_by_itself(c);
	if (error != 0)
		return error;
	c->request++;
	c->busy = true;
	return set_deadline(c, seconds);
}

void
child_end(struct child *c)
{
	if (c->ending)
		return;
	c->facts.asked_to_end = true;
	if (c->busy || !c->ready ||
	    channel_send(&c->channel, MSG_CLOSE, c->request + 1, NULL, 0, -1) != 0) {
		terminate(c);
		return;
	}
	end_by_itself(c);
}

void
child_free(struct child *c)
{
	if (c == NULL)
		return;
	if (c->pid > 0) {
		send_signal(c, SIGKILL);
		waitpid(c->pid, NULL, 0);
	}
	release(c);
}
