"""stepctl train while its own calls fail one by one: it ends well with the very files of a run that
nobody disturbed, or says why not, and no file of its folder is half of one.

For a while, in an order from a seed. Arguments: seconds (0 = all cases), seed, part of the case's name."""
import os
import shutil
import subprocess
import sys

from daemon import ASAN, BUILD, TOKEN, check, finish
from fail_nth import CLASSES, ERRORS, LIBRARY, Page, in_order
from fault_table import held
from tiny_model import make_models, real_worker
from trainer import Trainer

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 12
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
ONLY = sys.argv[3] if len(sys.argv) > 3 else ""
STEPCTL = os.path.join(BUILD, "stepctl")
if ASAN:
    print("the library that fails and AddressSanitizer both replace malloc")
    finish()
folder = make_models("tiny")
rows, out = (os.path.join(folder, name) for name in ("rows.jsonl", "out"))
with open(rows, "w") as f:
    f.write('{"prompt": "q", "completion": "a"}\n{"prompt": "one", "completion": "two"}\n')
page = Page(os.path.join(folder, "page"))


def files():
    """What is in the folder, by name."""
    found = {}
    for at, _, names in os.walk(out):
        for name in names:
            with open(os.path.join(at, name), "rb") as f:
                found[os.path.relpath(os.path.join(at, name), out)] = f.read()
    return found


def run(t, kind, nth, error):
    shutil.rmtree(out, ignore_errors=True)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("STEPD_", "TRAINER_"))}
    env.update(STEPD_URL=t.url, TRAINER_TOKEN=TOKEN, LD_PRELOAD=LIBRARY, FAIL_NTH=page.path)
    page.arm(kind, nth, error)
    done = subprocess.run([STEPCTL, "train", "--data", rows, "--model", "tiny", "--out", out, "--batch-size",
                           "1", "--rank", "2"], env=env, capture_output=True, text=True, timeout=120)
    page.disarm()
    return done


def close_all(t):
    for st in t.ask("GET", "/v1/sessions")[1]["sessions"]:
        if st["state"] != "closed":
            t.close(st["session_id"], "?force=true")


def one(t, kind, nth, error):
    done = run(t, kind, nth, error)
    name = "%s/%d/%d/%s" % (kind, nth, error, page.name)
    now = files()
    if done.returncode == 0:
        check(now == good, "a run that ends well has its files", name, sorted(now), done.stderr[-300:])
    else:
        check(done.returncode > 0 and "stepctl: " in done.stderr, "a run that does not says why", name,
              done.returncode, done.stderr[-300:])
        wrong = [n for n in now if now[n] != good.get(n)]
        check(wrong == [], "no file is half of one", name, wrong)
    close_all(t)
    return page.fired > 0


with Trainer(**real_worker(folder, STEPD_LOG_LEVEL="info")) as t:
    check(run(t, "SEND", 1 << 31, 0).returncode == 0, "undisturbed")
    good = files()
    check(len(good) > 3, "its files", sorted(good))
    cases, done, fired = [], 0, 0
    for kind in CLASSES:
        run(t, kind, 1 << 31, 0)
        check(files() == good, "each run is the same", kind)
        cases += [(kind, nth, error) for nth in range(1, page.calls + 1) for error in ERRORS[kind]
                  if ONLY in "%s/%d/%d" % (kind, nth, error)]
    for case in in_order(cases, SEED, SECONDS, kind_of=lambda c: c[0]):
        done += 1
        fired += one(t, *case)
    print("%d cases of %d, %d of them met their fault" % (done, len(cases), fired))
held("the n-th call of any kind fails in stepctl train", "its files are whole, or it says why not")
shutil.rmtree(folder, ignore_errors=True)
finish()
