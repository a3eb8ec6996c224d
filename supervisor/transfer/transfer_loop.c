#include "supervisor/transfer/transfer_loop.h"

#include <errno.h>
#include <event2/event.h>

static void
end(struct transfer_loop *t, CURL *easy, CURLcode code)
{
	void *priv = NULL;

	curl_easy_getinfo(easy, CURLINFO_PRIVATE, &priv);
	transfer_loop_remove(t, easy);
	t->done(priv, code);
}

static void
collect(struct transfer_loop *t)
{
	CURLMsg *msg;
	int left;

	while (t->lost_count > 0)
		end(t, t->lost[t->lost_count - 1], CURLE_OUT_OF_MEMORY);
	while ((msg = curl_multi_info_read(t->multi, &left)) != NULL) {
		if (msg->msg == CURLMSG_DONE)
			end(t, msg->easy_handle, msg->data.result);
	}
}

static void
on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct transfer_loop *t = arg;
	int running;
	int action =
	    (what & EV_READ ? CURL_CSELECT_IN : 0) | (what & EV_WRITE ? CURL_CSELECT_OUT : 0);

	curl_multi_socket_action(t->multi, fd, action, &running);
	collect(t);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct transfer_loop *t = arg;
	int running;

	(void)fd;
	(void)what;
	curl_multi_socket_action(t->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(t);
}

/* Its transfer cannot go on. libcurl must not be told: it would give up all of them, for good. */
static void
lose(struct transfer_loop *t, CURL *easy)
{
	for (size_t i = 0; i < t->lost_count; i++) {
		if (t->lost[i] == easy)
			return;
	}
	if (t->lost_count < TRANSFERS_LOST)
		t->lost[t->lost_count++] = easy;
}

/* libcurl says which events of a socket it waits for. */
static int
watch_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct transfer_loop *t = arg;
	struct event *event = socket_arg;
	short events = (short)(EV_PERSIST | (what & CURL_POLL_IN ? EV_READ : 0) |
			       (what & CURL_POLL_OUT ? EV_WRITE : 0));

	if (event != NULL)
		event_free(event);
	curl_multi_assign(t->multi, fd, NULL);
	if (what == CURL_POLL_REMOVE)
		return 0;
	event = event_new(t->base, fd, events, on_socket, t);
	if (event == NULL || event_add(event, NULL) != 0 ||
	    curl_multi_assign(t->multi, fd, event) != CURLM_OK) {
		if (event != NULL)
			event_free(event);
		lose(t, easy);
	}
	return 0;
}

static int
set_timer(CURLM *multi, long timeout_ms, void *arg)
{
	struct transfer_loop *t = arg;
	struct timeval tv = {timeout_ms / 1000, (timeout_ms % 1000) * 1000};

	(void)multi;
	if (timeout_ms < 0)
		evtimer_del(t->timer);
	else
		evtimer_add(t->timer, &tv);
	return 0;
}

int
transfer_loop_init(
    struct transfer_loop *t, struct event_base *base, void (*done)(void *priv, CURLcode code))
{
	*t = (struct transfer_loop){.base = base, .done = done};
	t->timer = evtimer_new(base, on_timer, t);
	t->tick = event_new(base, -1, EV_PERSIST, on_timer, t);
	t->multi = curl_multi_init();
	if (t->timer == NULL || t->tick == NULL || t->multi == NULL)
		return -ENOMEM;
	curl_multi_setopt(t->multi, CURLMOPT_SOCKETFUNCTION, watch_socket);
	curl_multi_setopt(t->multi, CURLMOPT_SOCKETDATA, t);
	curl_multi_setopt(t->multi, CURLMOPT_TIMERFUNCTION, set_timer);
	curl_multi_setopt(t->multi, CURLMOPT_TIMERDATA, t);
	return 0;
}

void
transfer_loop_fini(struct transfer_loop *t)
{
	if (t->multi != NULL)
		curl_multi_cleanup(t->multi);
	if (t->timer != NULL)
		event_free(t->timer);
	if (t->tick != NULL)
		event_free(t->tick);
	t->multi = NULL;
	t->timer = t->tick = NULL;
}

int
transfer_loop_add(struct transfer_loop *t, CURL *easy)
{
	static const struct timeval second = {1, 0};

	if (t->running == 0 && event_add(t->tick, &second) != 0)
		return -ENOMEM;
	if (curl_multi_add_handle(t->multi, easy) != CURLM_OK) {
		if (t->running == 0)
			event_del(t->tick);
		return -EIO;
	}
	t->running++;
	return 0;
}

void
transfer_loop_remove(struct transfer_loop *t, CURL *easy)
{
	curl_multi_remove_handle(t->multi, easy);
	for (size_t i = 0; i < t->lost_count; i++) {
		if (t->lost[i] == easy)
			t->lost[i] = t->lost[--t->lost_count];
	}
	if (--t->running == 0)
		event_del(t->tick);
}
