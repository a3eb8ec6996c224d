"""stepctl train while its own calls fail one by one: it ends well with the very files of a run that
nobody disturbed, or says why not, and no file of its folder is half of one.

For a while; which cases there are, and what they do not show: fail_cases.py. Arguments: seconds (0 = all),
seed, part of the case's name."""
import contextlib
import os
import shutil
import subprocess

import daemon
from daemon import ASAN, BUILD, TOKEN, check, finish
from fail_cases import Cases, folder_in_memory, line_of, seconds
from fail_nth import LIBRARY, Page
from fault_table import held
from tiny_model import make_models, real_worker
from trainer import Trainer

STEPCTL = os.path.join(BUILD, "stepctl")
if ASAN:
    print("the library that fails and AddressSanitizer both replace malloc")
    finish()
folder = make_models("tiny")
rows = os.path.join(folder, "rows.jsonl")
with open(rows, "w") as f:
    f.write('{"prompt": "q", "completion": "a"}\n{"prompt": "one", "completion": "two"}\n')


class Run:
    """A stepd that nobody disturbs, and runs of stepctl that are."""

    def __init__(self, t, own):
        self.t, self.out, self.page = t, os.path.join(own, "out"), Page(os.path.join(own, "page"))

    def files(self):
        """What is in the folder, by name."""
        found = {}
        for at, _, names in os.walk(self.out):
            for name in names:
                with open(os.path.join(at, name), "rb") as f:
                    found[os.path.relpath(os.path.join(at, name), self.out)] = f.read()
        return found

    def train(self):
        shutil.rmtree(self.out, ignore_errors=True)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("STEPD_", "TRAINER_"))}
        env.update(STEPD_URL=self.t.url, TRAINER_TOKEN=TOKEN, LD_PRELOAD=LIBRARY, FAIL_NTH=self.page.path)
        done = subprocess.run([STEPCTL, "train", "--data", rows, "--model", "tiny", "--out", self.out,
                               "--batch-size", "1", "--rank", "2"], env=env, capture_output=True, text=True,
                              timeout=120)
        self.page.disarm()
        return done

    def leave(self):
        for st in self.t.ask("GET", "/v1/sessions")[1]["sessions"]:
            if st["state"] != "closed":
                self.t.close(st["session_id"], "?force=true")

    def trace(self, _):
        self.page.trace()
        check(self.train().returncode == 0 and self.files() == self.good, "each run is the same")
        return self.page.traced()

    def one(self, _, kind, nth, error, chain=0):
        """One case. Whether the fault was met, and where."""
        failed, page = daemon.failed, self.page
        page.arm(kind, nth, error, chain)
        done = self.train()
        name = "train/%s/%d/%d/%s" % (kind, nth, error, page.name)
        now = self.files()
        if done.returncode == 0:
            check(now == self.good, "a run that ends well has its files", name,
                  [n for n in now.keys() | self.good.keys() if now.get(n) != self.good.get(n)], done.stderr[-300:])
        else:
            check(done.returncode > 0 and "stepctl: " in done.stderr, "a run that does not says why", name,
                  done.returncode, done.stderr[-300:])
            wrong = [n for n in now if now[n] != self.good.get(n)]
            check(wrong == [], "no file is half of one", name, wrong)
        self.leave()
        if daemon.failed > failed:
            print("  in %s at %s" % (name, line_of("stepctl", page.met[1])), flush=True)
        return page.fired > 0, page.met


@contextlib.contextmanager
def begun():
    own = folder_in_memory()
    with Trainer(folder=own, **real_worker(folder, STEPD_LOG_LEVEL="info")) as t:
        run = Run(t, own)
        check(run.train().returncode == 0, "undisturbed")
        run.good = run.files()
        check(len(run.good) > 3, "its files", sorted(run.good))
        yield run


Cases("stepctl", ["train"], begun, counted=True).try_all(seconds(15))
held("the n-th call of any kind fails in stepctl train", "its files are whole, or it says why not")
shutil.rmtree(folder, ignore_errors=True)
finish()
