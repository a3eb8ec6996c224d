"""How many operations there are, and for how long: in memory, on the disk, in the line of a session."""
import os
import signal
import time

from daemon import check, finish
from fault_table import NOT_TRIED, fault
from later import ASYNC, Later, examples, key, step
from small_disk import fill, small_disk


@fault("more answers of operations than memory for them", "the oldest go, and say that they have to be sent again")
def bounded_memory():
    """Answers that are in memory only have a bound: the oldest go, and say so."""
    with Later() as t:
        s = t.opened()
        body = examples(*["%0256d" % n for n in range(10000)])
        check(t.result(t.accepted(s, "datums:render", examples("e")))[0] == 200, "a small one")
        before = len(os.listdir("/proc/%d/fd" % t.process.pid))
        for _ in range(50):
            check(t.result(t.accepted(s, "datums:render", examples("e")))[0] == 200, "small ones")
        after = len(os.listdir("/proc/%d/fd" % t.process.pid))
        check(after <= before + 2, "hold no descriptors", before, after)
        places = []
        for n in range(20):
            places.append(t.accepted(s, "datums:render", body, key("k%d" % n)))
            last = t.result(places[-1])
        check(last[0] == 200 and len(last[1]["datums"]) == 10000, "the newest is there", last[0])
        first = t.result(places[0])
        check(first[0] == 503 and "again" in first[1]["detail"], "the oldest has to be sent again", first[0])
        again = t.accepted(s, "datums:render", body, key("k0"))
        check(again != places[0] and t.result(again)[0] == 200, "and can be")
        check(t.accepted(s, "datums:render", body, key("k19")) == places[19], "as the newest need not")


@fault("the disk has no room for an operation", "507, and no operation; the client waits for small ones itself")
def no_space():
    """Where the store cannot hold an operation there is none: the client waits for the answer itself."""
    small = small_disk("size=2m")
    if small is None:
        return NOT_TRIED
    with Later(prefix=small, STEPD_DISK_RESERVE="0") as t:
        s = t.opened()
        done = t.accepted(s, "batches:train", step())
        check(t.result(done)[0] == 200, "with space", t.result(done))
        filler = "/proc/%d/root%s/filler" % (t.process.pid, t.state)
        fill(filler)
        steps, told = 1, set()
        for _ in range(60):
            answer = t.post(s, "batches:train", step(*["datum-e"] * 8000), ASYNC)
            if answer[0] == 202:
                answer = t.result(t.place(answer))
            else:
                check("location" not in answer[2], "there is no operation", answer)
            steps += answer[0] == 200
            told.add(answer[0])
        check(told <= {200, 507} and 507 in told, "without", told)
        check(t.status(s)["step"] == steps, "each once", t.status(s), steps)
        generated = t.post(s, "samples:generate", {"prompt": "p"}, ASYNC)
        if generated[0] == 202:  # what is small finds place for a while
            generated = t.result(t.place(generated))
        check(generated[1] == {"text": "once"}, "what needs no space is answered", generated)
        os.unlink(filler)
        again = t.result(t.accepted(s, "batches:train", step()))
        check(again[0] == 200 and again[2]["stepd-step"] == str(steps + 1), "with space again", again)


@fault("more operations than may wait", "503 at once; all the others are done, in their order")
def many():
    """More than may wait for a session: told at once, and all the others are answered."""
    with Later() as t:
        s = t.opened()
        worker = t.worker_pids()[0]
        os.kill(worker, signal.SIGSTOP)
        answers = [t.post(s, "batches:train", step(), ASYNC) for _ in range(260)]
        full = [a for a in answers if a[0] != 202]
        check(len(full) == 3, "one under way and 256 that wait", len(full))
        check(all(a[0] == 503 and "too many" in a[1]["detail"] for a in full), "the line is full", full)
        os.kill(worker, signal.SIGCONT)
        done = [t.result(a[2]["location"]) for a in answers if a[0] == 202]
        check(all(a[0] == 200 for a in done), "all the others are done")
        check([a[2]["stepd-step"] for a in done] == [str(n + 1) for n in range(257)], "in their order")


def until_they_are_old():
    with Later(STEPD_KEY_LIFETIME="1") as t:
        s = t.opened()
        place = t.accepted(s, "batches:train", step(), key("a"))
        check(t.result(place)[0] == 200, "done")
        time.sleep(2.1)
        check(t.result(place)[0] == 404, "forgotten")
        again = t.accepted(s, "batches:train", step(), key("a"))
        check(again != place and t.result(again)[2]["stepd-step"] == "2", "the key is free again")


bounded_memory()
no_space()
many()
until_they_are_old()
finish()
