"""The operations of test_fail_nth.py that are answered later, or have keys without a session."""
from daemon import check
from fail_nth import until_done

ASYNC = "Prefer: respond-async"


class Later:
    """What a Run has beside its own; each begins undisturbed, acts disturbed, and is judged undisturbed."""

    def later(self, call, body, *headers):
        """The answer that the operation of a call comes to; status 0: it is not known where it is."""
        answer = self.t.try_ask("POST", self.path(call), body, [ASYNC, *headers])
        self.operations += answer[0] in (0, 202)
        if answer[0] != 202:
            return answer
        if "location" not in answer[2]:
            return 0, None, {}
        answer = self.t.try_ask("GET", answer[2]["location"] + "?wait=5")
        # Not done, or forgotten with an answer that met no memory: asked for again.
        return answer if answer[0] not in (202, 404) else (503, answer[1], answer[2])

    def begin_later(self):
        self.ensure()
        self.key = "key-%d" % self.next()

    def act_later(self):
        return self.later("/batches:train", {"datum_ids": ["datum-e"], "learning_rate": 1e-4},
                          "Idempotency-Key: " + self.key)

    def judge_later(self, name, answer):
        again = until_done(self.act_later)
        self.step += 1
        check(again[0] == 200 and again[1]["loss"] == 1.0 / self.step, "the step, again", name, answer, again)
        check(answer[0] != 200 or answer[1] == again[1], "the same answer", name, answer, again)
        self.check_step(name)

    def begin_later_render(self):
        self.begin_render()

    def act_later_render(self):
        return self.later("/datums:render", {"examples": [
            {"example_id": "e%d" % self.number, "messages": [
                {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}]})

    def judge_later_render(self, name, answer):
        self.judge_render(name, answer)

    def begin_key_open(self):
        self.begin_open()
        self.key = "open-%d" % self.next()

    def act_key_open(self):
        return self.t.try_ask("POST", "/v1/sessions", {"base_model": "org/model", "lora_rank": 8, "seed": 7},
                              ["Idempotency-Key: " + self.key])

    def judge_key_open(self, name, answer):
        again = until_done(self.act_key_open)
        check(again[0] == 200, "opened again", name, answer, again)
        check(answer[0] != 200 or answer[1] == again[1], "the same session", name, answer, again)
        live = [st["session_id"] for st in self.t.ask("GET", "/v1/sessions")[1]["sessions"]
                if st["state"] != "closed"]
        check(live == [again[1]["session_id"]], "and no other", name, live, again)
        self.session, self.step = again[1]["session_id"], 0
        self.begin_later()
        self.judge_later(name, (0,))

    def begin_key_sign(self):
        self.key = "sign-%d" % self.next()

    def act_key_sign(self):
        return self.t.try_ask("POST", "/v1/objects:sign", {}, ["Idempotency-Key: " + self.key])

    def judge_key_sign(self, name, answer):
        again = until_done(self.act_key_sign)
        check(again[0] == 200, "signed again", name, answer, again)
        check(answer[0] != 200 or answer[1] == again[1], "the same pair", name, answer, again)
