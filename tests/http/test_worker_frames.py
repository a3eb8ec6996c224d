"""Workers that send what no worker sends, some hundred frames of every kind from a seed: the worker
ends, its session is brought back or tells why not, and stepd is as it was, to the last descriptor."""
import os
import sys
import time

from daemon import ASAN, check, finish
from fault_table import held
from trainer import Trainer

SEEDS = range(*map(int, sys.argv[1:3])) if len(sys.argv) > 2 else range(40 if ASAN else 240)
MESSAGES = ("READY", "OPEN", "RENDER", "TRAIN", "SAVE", "GENERATE")
SHORT = {"STEPD_%s_TIMEOUT" % name: "1"
         for name in ("READY", "LOAD", "RENDER", "TRAIN", "SAVE", "GENERATE")}


def descriptors(t):
    return len(os.listdir("/proc/%d/fd" % t.process.pid))


def one(t, seed):
    """The status of the call that met the frame."""
    message = MESSAGES[seed % len(MESSAGES)]
    # Some of them for one worker only: then the session is brought back, and the call is done.
    t.set_faults("%s:1:frames-%d" % (message, seed), once=seed % 4 == 3)
    status, body, _ = t.open()
    if status != 200:
        check(status in range(400, 600) and body["detail"], "not opened", seed, message, status, body)
        check(not t.active(), "the slot is free", seed, message)
        return status
    s = body["session_id"]
    if message in ("READY", "OPEN"):
        message = "TRAIN"
    status, body, headers = t.do(message, s)
    st = t.status(s)
    check(st["state"] in ("ready", "restoring", "needs_restore"), "a state", seed, message, st)
    check(st["step"] == (message == "TRAIN" and status == 200), "steps that were acknowledged", seed, message, status, st)
    if message == "TRAIN":
        check(status == 200 or status in range(400, 600), "answered", seed, status, body)
        check(status != 200 or isinstance(body["loss"], float), "a loss", seed, body)
    check(t.close(s, "?force=true")[0] == 200 and not t.active(), "closed", seed, message)
    return status


with Trainer(**SHORT) as t:
    t.close(t.opened())
    before, memory = descriptors(t), t.memory()
    statuses = [one(t, seed) for seed in SEEDS]
    t.set_faults()
    s = t.opened()
    check(t.train(s)[0] == 200 and t.save(s, t.sign()["put_url"])[0] == 200, "the next one works")
    t.close(s)
    until = time.monotonic() + 5  # connections of the last calls may still be closing
    while descriptors(t) > before and time.monotonic() < until:
        time.sleep(0.02)
    check(descriptors(t) <= before, "no descriptor is left", before, descriptors(t))
    check(ASAN or t.memory() - memory < 16 * 1024, "no memory is left", memory, t.memory())
    check(os.listdir(os.path.join(t.state, "spool")) == [], "no spool file is left")
    held("a worker sends frames and descriptors of any kind",
         "that worker ends, its request is answered, stepd is as it was")
    counts = {status: statuses.count(status) for status in sorted(set(statuses))}
    print("%d frames; answered with %s" % (len(SEEDS), counts))
held("a worker sends frames that no worker sends", "that worker ends, nothing else")
finish()
