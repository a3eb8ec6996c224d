"""A full disk: saving and downloading are refused with words, training goes on."""
import shutil
import time

from daemon import check, finish
from fault_table import held, not_tried
from faulty_store import open_store
from small_disk import kill_stepd, small_disk
from tiny_model import make_models, real_worker
from trainer import Trainer, background

ROWS = (("the disk has no room for an artifact or a download", "507; training goes on"),
        ("the disk has no room for a step", "507: not begun; a step that was begun is kept"),
        ("stepd is killed while the disk of its state is full", "it is there again, with every step; room can be made"),
        ("the disk has no room for another file", "a start says so, saving is 507; training goes on"))

small = small_disk("size=700k")
if small is None:
    for row in ROWS:
        not_tried(*row)
    finish()
folder = make_models("tiny")
store, reach = open_store(folder)
store.objects["/ok/large"] = b"s" * 3000000
settings = real_worker(folder, **reach)

with Trainer(prefix=small, **settings) as t:
    s = t.opened(base_model="tiny", lora_rank=64)
    ids = t.datums(s)
    first = t.train(s, *ids)
    check(first[0] == 200, "a step", first)
    status, body, headers = t.save(s, store.url("/ok/state"))
    check(status == 507 and "space" in body["detail"], "no space for the state", status, body)
    check(headers["stepd-step"] == "1", "the step is what it was")
    check("/ok/state" not in store.objects, "nothing was uploaded")
    check(t.status(s)["unsaved_steps"] == 1, "nothing counts as saved")
    second = t.train(s, *ids)
    check(second[0] == 200 and second[1]["loss"] < first[1]["loss"], "training goes on", second)
    t.close(s, "?force=true")
    status, body, _ = t.open(base_model="tiny", resume_download_url=store.url("/ok/large"))
    check(status == 507 and "space" in body["detail"], "no space for a download", status, body)
    small = t.opened(base_model="tiny", lora_rank=1)
    check(t.save(small, store.url("/ok/small"))[0] == 200, "what fits is saved")
held(*ROWS[0])

# Smaller than what the store needs for a step: not begun, each is told as it is, and what was begun is
# kept.
refused = 0
for size in range(200, 360, 32):
    with Trainer(prefix=small_disk("size=%dk" % size), STEPD_DISK_RESERVE="0", **settings) as t:
        status, body, _ = t.open(base_model="tiny")
        if status != 200:
            check(status in (503, 507), "no space for a session", size, status, body)
            continue
        s = body["session_id"]
        ids = t.datums(s)
        for step in range(3):
            status, body, headers = t.train(s, *ids)
            if status == 200:
                check(headers["stepd-step"] == str(step + 1), "counted", size, headers)
                continue
            check(status == 507 and "not begun" in body["detail"], "not begun", size, status, body)
            refused += 1
            break
        check(t.status(s)["restarts"] == 0, "the worker lives", size, t.status(s))
check(refused > 0, "a step was refused for want of space")


def fill_by_objects(t):
    """The state folder's file system full to the last pages, by objects of the store: their paths."""
    size, paths = 1 << 19, []
    while size >= 4096:
        put = t.sign()["put_url"].split("://", 1)[1].split("/", 1)[1]
        head = "PUT /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (put, size)
        answers, _ = t.exchange(head.encode() + b"f" * size)
        if answers[0].status not in (200, 201):
            size //= 2
        else:
            paths.append("/" + put.split("?")[0])
    return paths


# The disk fills up after a step was begun: it has its room, and is kept; the next one is not begun.
with Trainer("TRAIN:2:slow", prefix=small_disk("size=4m"), STEPD_DISK_RESERVE="0") as t:
    s = t.opened()
    t.render(s)
    t.train(s)
    step = background(t.train, s)
    until = time.monotonic() + 10
    while t.status(s)["state"] != "training" and time.monotonic() < until:
        pass
    fill_by_objects(t)
    status, body, headers = step()
    check(status == 200 and headers["stepd-step"] == "2", "a step that was begun is kept", status, body)
    answers = [t.train(s, *["datum-e"] * 2000) for _ in range(120)]
    last = [a[0] for a in answers]
    check(set(last) <= {200, 507} and 507 in last, "then they are not begun", set(last))
    check(t.status(s)["step"] == 2 + last.count(200) and t.status(s)["restarts"] == 0, "each once", t.status(s))
held(*ROWS[1])

# stepd is killed while the disk is full: it is there again for those who would make room, with every step.
with Trainer(prefix=small_disk("size=4m", starts=2), STEPD_DISK_RESERVE="0") as t:
    s = t.opened()
    t.render(s)
    t.train(s)
    objects = fill_by_objects(t)
    kill_stepd(t)
    check("does not tell the address: No space left on device" in t.logged(), "the disk is full", t.logged()[-2000:])
    check(t.status(s)["step"] == 1, "every step", t.status(s))
    for path in objects:
        check(t.call("DELETE", path)[0] == 204, "room is made", path)
    check(t.train(s)[0] == 200, "it goes on", t.status(s))
held(*ROWS[2])

# No room for another file, however small: from a start that cannot be to a run in which all fits.
told = served = 0
for inodes in range(3, 21):
    t = Trainer(prefix=small_disk("nr_inodes=%d" % inodes), wait=False, STEPD_DISK_RESERVE="0", STEPD_SNAPSHOT_STEPS="1", **settings)
    try:
        t.ready()
    except SystemExit:
        check(t.process.wait(30) == 1 and "No space left on device" in t.logged(),
              "a start without room for its files says so", inodes, t.logged())
        t.stop()
        shutil.rmtree(t.folder)
        told += 1
        continue
    with t:
        status, body, _ = t.open(base_model="tiny", lora_rank=1)
        check(status == 200 or status in (503, 507) and body["detail"], "opened or told", inodes, status, body)
        if status != 200:
            continue
        s = body["session_id"]
        ids = t.datums(s)
        for step in range(1, 4):  # a snapshot after each, which may not fit
            status, body, headers = t.train(s, *ids)
            check(status == 200 and headers["stepd-step"] == str(step), "a step needs no file", inodes,
                  status, body)
        status, body, _ = t.save(s, store.url("/ok/inodes"))
        check(status in (200, 507), "saved, or no room for it", inodes, status, body)
        check(t.status(s)["unsaved_steps"] == (0 if status == 200 else 3), "and no other claim", inodes)
        served += status == 200
        check(t.close(s, "?force=true")[0] == 200, "closed", inodes)
check(told > 0 and served > 0, "from no room to enough", told, served)
held(*ROWS[3])
shutil.rmtree(folder)
finish()
