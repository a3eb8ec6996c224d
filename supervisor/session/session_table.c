#include <errno.h>

#include "ipc/log.h"
#include "supervisor/session/session_action.h"
#include "supervisor/status/events.h"

#define ROW(state, ...) [SESSION_##state] = {__VA_ARGS__}

/* clang-format off */
static session_action *const table[SESSION_STATES][SESSION_EVENTS] = {
/*                  REQUEST                STARTED             ANSWER               REFUSED               MOVED              NOT_MOVED              DIED               STOP              KEPT            NOT_KEPT            ANCHORED            TIMER */
ROW(DOWNLOADING,    any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       downloading_moved, downloading_not_moved, any_unexpected,    downloading_stop, any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(STARTING,       any_wait,              starting_started,   any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        loading_died,      loading_stop,     any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(OPENING,        any_wait,              any_unexpected,     opening_answer,      loading_refused,      any_unexpected,    any_unexpected,        loading_died,      loading_stop,     any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(LOADING,        any_wait,              any_unexpected,     loading_answer,      loading_refused,      any_unexpected,    any_unexpected,        loading_died,      loading_stop,     any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(ANCHORING,      any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        loading_died,      loading_stop,     any_unexpected, any_unexpected,     anchoring_anchored, any_unexpected),
ROW(READY,          ready_request,         any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        ready_died,        ready_stop,       any_unexpected, any_unexpected,     ready_anchored,     any_unexpected),
ROW(RENDERING,      any_wait,              any_unexpected,     rendering_answer,    busy_refused,         any_unexpected,    any_unexpected,        busy_died,         busy_stop,        any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(SEALING,        any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        keeping_died,      busy_stop,        sealing_kept,   sealing_not_kept,   any_ignore,         any_unexpected),
ROW(INTENDING,      any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        keeping_died,      busy_stop,        intending_kept, intending_not_kept, any_ignore,         any_unexpected),
ROW(TRAINING,       any_wait,              any_unexpected,     training_answer,     busy_refused,         any_unexpected,    any_unexpected,        busy_died,         busy_stop,        any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(GENERATING,     any_wait,              any_unexpected,     generating_answer,   busy_refused,         any_unexpected,    any_unexpected,        busy_died,         busy_stop,        any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(EVALUATING,     any_wait,              any_unexpected,     evaluating_answer,   busy_refused,         any_unexpected,    any_unexpected,        busy_died,         busy_stop,        any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(FETCHING,       any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       fetching_moved,    fetching_not_moved,    fetching_died,     fetching_stop,    any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(VERIFYING,      any_wait,              any_unexpected,     verifying_answer,    busy_refused,         any_unexpected,    any_unexpected,        busy_died,         busy_stop,        any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(SAVING,         any_wait,              any_unexpected,     saving_answer,       saving_refused,       any_unexpected,    any_unexpected,        saving_died,       busy_stop,        any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(SECURING,       any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        uploading_died,    busy_stop,        any_unexpected, any_unexpected,     securing_anchored,  any_unexpected),
ROW(UPLOADING,      any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       uploading_moved,   uploading_not_moved,   uploading_died,    busy_stop,        any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(KEEPING,        any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        keeping_died,      busy_stop,        keeping_kept,   keeping_not_kept,   any_ignore,         any_unexpected),
ROW(SNAPSHOTTING,   any_wait,              any_unexpected,     snapshotting_answer, snapshotting_refused, any_unexpected,    any_unexpected,        snapshotting_died, busy_stop,        any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(RECALLING,      any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       recalling_moved,   recalling_not_moved,   any_unexpected,    recalling_stop,   any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(CHECKING,       any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        any_unexpected,    busy_stop,        checking_kept,  checking_not_kept,  any_ignore,         any_unexpected),
ROW(RESTORING,      any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        any_unexpected,    restoring_stop,   any_unexpected, any_unexpected,     restoring_anchored, restoring_timer),
ROW(RESTARTING,     any_wait,              restarting_started, any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        restoring_died,    restoring_stop,   any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(REOPENING,      any_wait,              any_unexpected,     reopening_answer,    restoring_refused,    any_unexpected,    any_unexpected,        restoring_died,    restoring_stop,   any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(RELOADING,      any_wait,              any_unexpected,     reloading_answer,    restoring_refused,    any_unexpected,    any_unexpected,        restoring_died,    restoring_stop,   any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(RESENDING,      any_wait,              any_unexpected,     resending_answer,    restoring_refused,    any_unexpected,    any_unexpected,        restoring_died,    restoring_stop,   any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(REPLAYING,      any_wait,              any_unexpected,     replaying_answer,    restoring_refused,    any_unexpected,    any_unexpected,        restoring_died,    restoring_stop,   any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(AWAITING,       awaiting_request,      any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        restoring_died,    ready_stop,       any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(NEEDS_RESTORE,  needs_restore_request, any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        any_unexpected,    any_ignore,       any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(DRAINING,       any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        any_ignore,        any_ignore,       any_unexpected, any_unexpected,     draining_anchored,  any_unexpected),
ROW(CLOSING,        closing_request,       any_ignore,         any_ignore,          any_ignore,           any_unexpected,    any_unexpected,        closing_died,      any_ignore,       any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
ROW(ENDING,         any_wait,              any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        any_unexpected,    busy_stop,        ending_kept,    ending_not_kept,    any_ignore,         any_unexpected),
ROW(CLOSED,         closed_request,        any_unexpected,     any_unexpected,      any_unexpected,       any_unexpected,    any_unexpected,        any_unexpected,    any_ignore,       any_unexpected, any_unexpected,     any_ignore,         any_unexpected),
};
/* clang-format on */

#define EVENT_NAME(name, ...) #name,
static const char *const event_names[] = {SESSION_EVENT_LIST(EVENT_NAME)};
#define STATE_NAME(name, ...) #name,
static const char *const state_names[] = {SESSION_STATE_LIST(STATE_NAME)};

/* For any_unexpected, which is told no event. */
static enum session_event last_event;

session_action *
session_table_cell(enum session_state state, enum session_event event)
{
	return table[state][event];
}

void
session_event(struct session *s, enum session_event event, struct session_input *input)
{
	log_debug("session %s: %s in %s", s->record.id, event_names[event], state_names[s->state]);
	last_event = event;
	events_look(s->stepd); /* later: s may be gone after this */
	table[s->state][event](s, input);
}

void
any_ignore(struct session *s, struct session_input *in)
{
	(void)s;
	(void)in;
}

/* What cannot be: an answer is not believed, the rest is only told. */
void
any_unexpected(struct session *s, struct session_input *in)
{
	log_error("session %s: %s in %s is not expected", s->record.id, event_names[last_event],
	    state_names[s->state]);
	in->error = -EBADMSG;
}

/* It is in line; its turn comes. */
void
any_wait(struct session *s, struct session_input *in)
{
	(void)s;
	(void)in;
}
