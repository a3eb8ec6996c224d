"""A real worker killed at random moments of a run: no step is lost, none is done twice, and the state
at the end has the very bytes of a run that nobody disturbed."""
import os
import random
import shutil
import threading
import time

from daemon import check, finish
from fault_table import held
from faulty_store import open_store
from tiny_model import make_models, real_worker
from trainer import Trainer

STEPS = 50
folder = make_models("tiny")
store, reach = open_store(folder)
settings = real_worker(folder, STEPD_SNAPSHOT_STEPS="8", STEPD_LOG_LEVEL="info", **reach)


class Killer:
    """Kills the workers of a stepd, now and then, until it is told to stop. After three kills in a row
    it waits for a step: on a busy machine no worker would live long enough otherwise."""

    def __init__(self, t, seed):
        self.t, self.random, self.kills, self.over = t, random.Random(seed), 0, threading.Event()
        self.since_step = 0
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.wait(self.random.uniform(0.0, 0.8)):
            for child in self.t.worker_pids() if self.since_step < 3 else []:
                try:
                    os.kill(child, 9)
                except ProcessLookupError:
                    continue  # it has ended meanwhile
                self.kills += 1
                self.since_step += 1

    def stop(self):
        self.over.set()
        self.thread.join()


def train(t, session, ids, number):
    """A step with a key, sent again until it is answered."""
    body = {"datum_ids": [ids[number % len(ids)], ids[(number * 7 + 1) % len(ids)]],
            "learning_rate": 1e-3}
    for _ in range(20):
        answer = t.ask("POST", "/v1/sessions/%s/batches:train" % session, body,
                       ["Idempotency-Key: step-%d" % number])
        if answer[0] != 503:
            break
        time.sleep(0.2)
    return answer


def whole_run(name, disturb, **resumed):
    """The answers of the run, and its last state."""
    with Trainer(**settings) as t:
        s = t.opened(base_model="tiny", lora_dropout=0.1, **resumed)
        at = t.status(s)["step"]
        names = ["e%d" % i for i in range(5)]
        ids = t.datums(s, *names)
        killer = Killer(t, len(name)) if disturb else None
        answers = []
        for i in range(STEPS):
            answers.append(train(t, s, ids, i))
            if killer:
                killer.since_step = 0
                time.sleep(0.05)
        if killer:
            killer.stop()
        st = t.status(s)
        check(st["step"] == at + STEPS, "every step, once", name, st)
        check(st["replay_differences"] == 0, "replayed to the bit", name, st)
        check([a[2].get("stepd-step") for a in answers] == [str(at + i + 1) for i in range(STEPS)],
              "steps in order", name, answers)
        for i in (0, STEPS // 2, STEPS - 1):
            check(train(t, s, ids, i)[:2] == answers[i][:2], "a lost answer, again", name, i)
        saved = t.save(s, store.url("/ok/" + name))
        check(saved[0] == 200, "saved", name, saved)
        if killer:
            check(killer.kills >= 2, "workers were killed", killer.kills)
            print("%s: %d kills, %d restarts" % (name, killer.kills, st["restarts"]))
        return [a[1] for a in answers], store.objects["/ok/" + name]


quiet = whole_run("quiet", False)
disturbed = whole_run("disturbed", True)
check(disturbed[0] == quiet[0], "the same losses and norms")
check(disturbed[1] == quiet[1], "the same bytes")
url = store.url("/ok/quiet")
on_quiet = whole_run("on-quiet", False, resume_download_url=url)
on_disturbed = whole_run("on-disturbed", True, resume_download_url=url)
check(on_disturbed == on_quiet, "also where it goes on from a state")
held("the worker is killed at random moments of a run", "the losses and the bytes of a run in peace")
shutil.rmtree(folder)
finish()
