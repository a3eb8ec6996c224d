"""A run whose steps are sent ahead as operations, while stepd and its worker are killed: every step is
taken once and in its order, and the losses and the last state have the very bytes of a quiet run."""
import os
import random
import shutil
import signal

from daemon import check, finish
from fault_table import held
from tiny_model import make_models, real_worker
from trainer import Trainer

STEPS, KILLS = 40, 6
folder = make_models("tiny")
settings = real_worker(folder, STEPD_PERSIST_DATA="true", STEPD_LOG_LEVEL="info")


class Run:
    def __init__(self, name, moments):
        self.name, self.moments, self.kills = name, moments, 0
        self.t = Trainer(folder=os.path.join(folder, name), **settings)
        self.s = self.t.opened(base_model="tiny", lora_dropout=0.1)
        names = ["e%d" % i for i in range(5)]
        self.ids = self.t.datums(self.s, *names)

    def disturb(self, when):
        """At its moments: stepd is killed and started again, every other time its worker alone."""
        if when not in self.moments:
            return
        self.kills += 1
        if self.kills % 2:
            self.t.end(signal.SIGKILL)
            self.t = Trainer(folder=os.path.join(folder, self.name), **settings)
            return
        self.t.kill_workers()

    def post(self, n, *headers):
        body = {"datum_ids": [self.ids[n % 5], self.ids[(n * 7 + 1) % 5]], "learning_rate": 1e-3}
        return self.t.ask("POST", "/v1/sessions/%s/batches:train" % self.s, body,
                          ["Idempotency-Key: step-%d" % n, *headers])

    def send(self, n):
        """Where the step is; None if it is answered at once, for it was before."""
        status, answer, headers = self.post(n, "Prefer: respond-async")
        check(status in (200, 202), "accepted", self.name, n, status, answer)
        return headers.get("location")

    def result(self, n, place):
        for _ in range(10):
            answer = self.t.ask("GET", place + "?wait=60") if place else self.post(n)
            if answer[0] == 200:
                check(answer[2]["stepd-step"] == str(n + 1), "in its order", self.name, n, answer)
                return answer[1]
            if answer[0] == 503:
                place = self.send(n)
        check(False, "no answer", self.name, n, answer)

    def whole(self):
        places = []
        for n in range(STEPS):
            places.append(self.send(n))
            self.disturb(("sent", n))
        answers = []
        for n in range(STEPS):
            answers.append(self.result(n, places[n]))
            self.disturb(("read", n))
        st = self.t.status(self.s)
        check(st["step"] == STEPS and st["replay_differences"] == 0, "each once", self.name, st)
        place = self.t.sign()
        saved = self.t.save(self.s, place["put_url"])
        check(saved[0] == 200, "saved", self.name, saved)
        with self.t as t:
            t.close(self.s)
        return answers, saved[1]


chosen = random.Random(4)
moments = [("sent", n) for n in chosen.sample(range(STEPS), KILLS // 2)]
moments += [("read", n) for n in chosen.sample(range(STEPS // 2), KILLS // 2)]
quiet = Run("quiet", []).whole()
run = Run("disturbed", moments)
disturbed = run.whole()
check(run.kills == KILLS, "kills", run.kills)
check(disturbed[0] == quiet[0], "the same losses and norms")
check(disturbed[1] == quiet[1], "the same bytes", disturbed[1], quiet[1])
held("stepd and its worker are killed with forty steps sent ahead as operations",
     "each is taken once and in its order; the losses and the state of a quiet run")
shutil.rmtree(folder)
finish()
