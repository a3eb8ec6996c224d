/* The table of a session's life: no hole in it, and the cells that a client depends on. */
#include "supervisor/session/session_action.h"
#include "tests/unit/test.h"

TEST(every_cell_is_filled)
{
	for (int state = 0; state < SESSION_STATES; state++) {
		CHECK(session_state_name((enum session_state)state) != NULL);
		for (int event = 0; event < SESSION_EVENTS; event++) {
			CHECK_MSG(session_table_cell(
				      (enum session_state)state, (enum session_event)event) != NULL,
			    "state %d event %d", state, event);
		}
	}
}

/* A request is never lost: where it cannot be served at once it waits or is answered. */
TEST(requests_wait_or_are_answered)
{
	for (int state = 0; state < SESSION_STATES; state++) {
		session_action *cell = session_table_cell((enum session_state)state, EV_REQUEST);

		CHECK_MSG(cell != any_ignore && cell != any_unexpected, "state %d", state);
	}
	CHECK(session_table_cell(SESSION_TRAINING, EV_REQUEST) == any_wait);
	CHECK(session_table_cell(SESSION_READY, EV_REQUEST) == ready_request);
}

/* A worker may die wherever there is one. */
TEST(death_is_expected_wherever_a_worker_is)
{
	for (int state = 0; state < SESSION_STATES; state++) {
		bool without = state == SESSION_DOWNLOADING || state == SESSION_NEEDS_RESTORE ||
			       state == SESSION_CLOSED || state == SESSION_RESTORING ||
			       state == SESSION_CHECKING || state == SESSION_ENDING ||
			       state == SESSION_RECALLING;

		CHECK_MSG((session_table_cell((enum session_state)state, EV_DIED) ==
			      any_unexpected) == without,
		    "state %d", state);
	}
}

/* A worker that answers what it was not asked is not believed. */
TEST(answers_are_expected_only_when_asked)
{
	static const enum session_state asked[] = {SESSION_OPENING, SESSION_LOADING,
	    SESSION_RENDERING, SESSION_TRAINING, SESSION_GENERATING, SESSION_EVALUATING,
	    SESSION_VERIFYING, SESSION_SAVING, SESSION_CLOSING, SESSION_SNAPSHOTTING,
	    SESSION_REOPENING, SESSION_RELOADING, SESSION_RESENDING, SESSION_REPLAYING};

	for (int state = 0; state < SESSION_STATES; state++) {
		bool expected = false;

		for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
			expected = expected || asked[i] == (enum session_state)state;
		CHECK_MSG((session_table_cell((enum session_state)state, EV_ANSWER) !=
			      any_unexpected) == expected,
		    "state %d", state);
		CHECK_MSG((session_table_cell((enum session_state)state, EV_REFUSED) !=
			      any_unexpected) == expected,
		    "state %d", state);
	}
}

/* Before an upload the newest state is on the disk: a snapshot on its way may be of an older step,
   and another one can follow only when it has arrived. A state that is saved is the snapshot
   itself. */
TEST(an_upload_waits_for_the_snapshot_on_its_way)
{
	struct session s = {.state = SESSION_READY, .spool = -1};
	struct session_request request = {.kind = REQUEST_SAVE, .artifact = ARTIFACT_SAMPLING};

	s.anchor.coming = (struct anchoring *)&s;
	s.current = &request;
	save_begin(&s);
	CHECK(s.state == SESSION_SECURING && s.spool < 0);
}

TEST_MAIN(TEST_CASE(every_cell_is_filled), TEST_CASE(requests_wait_or_are_answered),
    TEST_CASE(death_is_expected_wherever_a_worker_is),
    TEST_CASE(answers_are_expected_only_when_asked),
    TEST_CASE(an_upload_waits_for_the_snapshot_on_its_way))
