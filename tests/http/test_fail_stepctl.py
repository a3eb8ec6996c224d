"""stepctl train while its own calls fail one by one: it ends well with the very files of a run that
nobody disturbed, or says why not, and no file of its folder is half of one.

For a while, in an order from a seed. Arguments: seconds (0 = all cases), seed, part of the case's name."""
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

from daemon import ASAN, BUILD, TOKEN, check, finish
from fail_nth import CLASSES, ERRORS, LIBRARY, Page
from fault_table import held
from trainer import Trainer

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 12
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
ONLY = sys.argv[3] if len(sys.argv) > 3 else ""
STEPCTL = os.path.join(BUILD, "stepctl")
MAKE_TINY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "models", "make_tiny.py")
if ASAN:
    print("the library that fails and AddressSanitizer both replace malloc")
    finish()
folder = tempfile.mkdtemp(prefix="stepd-test-")
models, rows, out = (os.path.join(folder, name) for name in ("models", "rows.jsonl", "out"))
subprocess.run([sys.executable, MAKE_TINY, os.path.join(models, "tiny")], check=True)
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


with Trainer(STEPD_MODEL_DIR=models, STEPD_WORKER=os.path.abspath(os.path.join(BUILD, "stepd-worker")),
             STEPD_THREADS="1", STEPD_LOG_LEVEL="info") as t:
    check(run(t, "SEND", 1 << 31, 0).returncode == 0, "undisturbed")
    good = files()
    check(len(good) > 3, "its files", sorted(good))
    cases = []
    for kind in CLASSES:
        run(t, kind, 1 << 31, 0)
        check(files() == good, "each run is the same", kind)
        cases += [(kind, nth, error) for nth in range(1, page.calls + 1) for error in ERRORS[kind]
                  if ONLY in "%s/%d/%d" % (kind, nth, error)]
    random.Random(SEED).shuffle(cases)
    seen = set()
    cases.sort(key=lambda c: c[0] in seen or seen.add(c[0]) is not None)
    end = time.monotonic() + (SECONDS or 1e9)
    done = fired = 0
    for case in cases:
        if time.monotonic() > end:
            break
        done += 1
        fired += one(t, *case)
    print("%d cases of %d, %d of them met their fault" % (done, len(cases), fired))
held("the n-th call of any kind fails in stepctl train", "its files are whole, or it says why not")
shutil.rmtree(folder, ignore_errors=True)
finish()
