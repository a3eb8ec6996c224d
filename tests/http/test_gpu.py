"""A session on an emulated GPU: its worker and its stepd are killed, its CUDA calls fail. Steps are the ones of a
run that nobody disturbed, to the last byte of the state; a device that is lost is left alone until a probe finds
it sound. Arguments: seconds of faults at random, seed."""
import os
import random
import signal
import subprocess
import sys
import time

from daemon import BUILD, check, finish
from fault_table import NOT_TRIED
from fault_table import fault as fault_of
from gpu import WORKER, Gpu, Run

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 15
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
ERRORS = {"launch": ((719, 1), (700, 1), (214, 1), (701, 0), (2, 0)), "malloc": ((2, 0), (46, 0)), "free": ((719, 0),),
          "copy": ((719, 1), (700, 0), (214, 1)), "set": ((719, 1), (700, 0)), "stream": ((2, 0), (46, 0)),
          "sync": ((719, 0), (214, 0), (999, 0)), "error": ((700, 0),), "device": ((35, 0), (46, 0), (100, 0)),
          "capture": ((900, 0), (2, 0), (719, 0)), "graph": ((719, 1), (700, 0), (2, 0)), "blas": ((1, 0), (3, 0)),
          "gemm": ((13, 0), (3, 0), (700, 1))}
HERE = os.path.exists(WORKER)
if not HERE:
    print("skipped: no emulated worker in this build")


def fault(what, promise):
    return lambda function: fault_of(what, promise)(function if HERE else lambda: NOT_TRIED)


def until(what, condition):
    end = time.monotonic() + 120
    while not (got := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    check(got, what)


def quiet(steps):
    """The losses and the bytes of a run in peace, and its state after three steps."""
    with Gpu() as t:
        run, middle = Run(t), None
        for i in range(steps):
            run.step()
            if i == 2:
                middle = run.state()
        state = run.state()
        t.close(run.session)
    return run.losses, state, middle


PEACE, STATE, MIDDLE = quiet(6) if HERE else (None,) * 3


@fault("a worker on a GPU is killed, then its stepd", "the losses and the bytes of a run in peace")
def killed():
    t = Gpu()
    run = Run(t)
    for i in range(6):
        if i == 2:
            t.kill_workers()
        if i == 4:
            t.end(signal.SIGKILL)
            t = run.t = Gpu(t.folder)
            check(t.status(run.session)["device"] == "emulated device", "on its GPU")
        run.step()
    check(run.losses == PEACE and run.state() == STATE, "the same bits", run.losses, PEACE)
    t.close(run.session)
    t.__exit__(None)


def resumed():
    """3 + 3 = 6."""
    with Gpu() as t:
        run = Run(t)
        for _ in range(3):
            run.step()
        check(run.state() == MIDDLE, "the state after three steps")
        first, url = run.losses, run.urls["get_url"]
        check(t.close(run.session)[0] == 200, "closed")
        run = Run(t, resume_download_url=url)
        run.losses = first
        for _ in range(3):
            run.step()
        check(run.losses == PEACE and run.state() == STATE, "3 + 3 = 6", run.losses, PEACE)
        t.close(run.session)


@fault("a kernel on a GPU meets an illegal address, later than its launch",
       "the worker says so and ends (device_fault); the next one answers, with the same bits")
def illegal_address():
    with Gpu() as t:
        run = Run(t)
        run.step()
        for nth in (1, 20):
            t.page.arm("launch", nth, 700, late=True)
            run.step()
            t.page.disarm()
            check(t.page.fired == 1, "met", nth)
        check(t.ends(run.session) == {"device_fault": 2} and t.slot() == "taken", "its class", t.ends(run.session))
        check("device_fault (exit status 1): " in t.logged() and "an illegal memory access" in t.logged(), "its words",
              t.logged()[-3000:])
        check(run.losses == PEACE[:3] and t.status(run.session)["restarts"] == 2, "steps", run.losses)
        # the last kernel of a step: nothing else would wait for it
        t.page.arm("launch", 1, 719, late=True, only="adamw_kernel")
        run.step()
        check(t.page.fired == 1 and run.losses == PEACE[:4], "the update", run.losses)
        t.close(run.session, "?force=true")


@fault("a request on a GPU meets a fault in every worker", "422 after the second; others are served")
def blamed():
    with Gpu() as t:
        run = Run(t)
        t.page.arm("launch", 1, 700, late=True, only="adamw_kernel", every=True)
        run.number += 1
        status, body, headers = run.train()
        check(status == 422 and "twice" in body["detail"] and headers["stepd-step"] == "0", "refused", status, body)
        check(t.ends(run.session) == {"device_fault": 2}, "twice", t.ends(run.session))
        t.page.disarm()
        run.ids = run.ids[:1]
        run.step()
        t.close(run.session, "?force=true")


@fault("a GPU has no memory for a step, or a session", "507 with words; the same worker goes on, with the same bits")
def out_of_memory():
    with Gpu() as t:
        run = Run(t)
        run.step()
        for kind, error in ("launch", 2), ("gemm", 3):
            t.page.arm(kind, 10, error)
            run.number += 1
            status, body, headers = run.train()
            t.page.disarm()
            check(status == 507 and "memory" in body["detail"] and headers["stepd-step"] == str(len(run.losses)), "507",
                  kind, status, body)
            run.step((status, body, headers))
        check(run.losses == PEACE[:3] and t.status(run.session)["restarts"] == 0, "goes on", run.losses)
        t.close(run.session, "?force=true")
        # Others have all of it.
        t.set_device(EMU_MEMORY=4096)
        status, body, _ = t.open(base_model="tiny", maximum_datum_tokens=64)
        check(status == 507 and "4096 of the device's 4096 are free" in body["detail"] and t.slot() == "free", "not opened",
              status, body, t.slot())
        t.set_device()
        t.close(t.opened(base_model="tiny", maximum_datum_tokens=64))


@fault("the driver of a GPU makes no CUDA graph", "the work is done as it comes, the same; the log says why, once")
def no_graphs():
    with Gpu() as t:
        run = Run(t)
        want = run.evaluate()[:2]
        t.page.arm("capture", 1, 900, every=True)
        for _ in range(3):
            run.number += 1
            got = run.evaluate()[:2]
            check(got == want and got[0] == 200 and t.page.fired > 0, "the same", want, got, t.page.fired)
        t.page.disarm()
        told = t.logged().count("steps go on without CUDA graphs: cudaStreamBeginCapture: operation not permitted")
        check(told == 1 and t.status(run.session)["restarts"] == 0, "told", told, t.logged())
        t.close(run.session, "?force=true")


@fault("a worker on a GPU is killed among steps that are CUDA graphs, then its stepd",
       "its steps, done again as they come, recorded and launched, have the bits of those without graphs")
def graphs():
    # without dropout, with which each pass has masks of its own and is no graph
    shapes = [2, 2, 2, 1, 2, 1, 1, 2, 2, 2]

    def steps(setting, kills, stop):
        t = Gpu(STEPD_CUDA_GRAPHS=setting)
        run, launched = Run(t, lora_dropout=0), 0
        ids = run.ids
        for i, count in enumerate(shapes):
            if i in kills:
                t.kill_workers()
            if i == stop:
                t.end(signal.SIGKILL)
                t = run.t = Gpu(t.folder, STEPD_CUDA_GRAPHS=setting)
            run.ids = ids[:count]
            t.page.note()
            run.step()
            launched += t.page.noted()["graph"]
            if i % 3 == 2:
                check(run.evaluate()[0] == 200, "evaluated")
        got = run.losses, run.state()
        t.close(run.session)
        t.__exit__(None)
        return got, launched

    (want, none), (got, some) = steps("off", (), None), steps("auto", (3, 7), 8)
    check(got == want, "the same bits", got[0], want[0])
    check(none == 0 and some > 0, "really graphs", none, some)


@fault("a GPU's memory loses bits (ECC)",
       "503; device_ecc; no worker there until a probe computes, then the session is back by itself")
def memory_error():
    with Gpu() as t:
        run = Run(t)
        run.step()
        t.page.arm("sync", 2, 214)
        run.number += 1
        status, body, headers = run.train()
        check(status == 503 and "memory error of its device" in body["detail"] and headers["retry-after"] == "30", "503",
              status, body, headers)
        t.page.disarm()
        run.step((status, body, headers))
        check(t.ends(run.session) == {"device_ecc": 1} and "a product is right" in t.logged(), "its class", t.ends(run.session))
        check(run.losses == PEACE[:2], "steps", run.losses)
        t.close(run.session, "?force=true")


@fault("a GPU is lost under a step, and comes back later",
       "503; device_lost; the slot is closed and nobody gets it; back by itself when a probe computes")
def lost():
    with Gpu() as t:
        run = Run(t)
        run.step()
        t.page.lose(True)
        t.page.arm("launch", 5, 46)
        run.number += 1
        status, body, headers = run.train()
        t.page.disarm()
        check(status == 503 and "lost its device" in body["detail"] and "computes again" in body["detail"], "503", body)
        st = t.status(run.session)
        check(st["state"] == "needs_restore" and st["step"] == 1, "waits", st)
        check(t.slot() == "closed" and t.ends(run.session) == {"device_lost": 1}, "closed", t.document()["slots"])
        health = t.ask("GET", "/healthz")[1]
        check(not health["active_session"], "health", health)
        until("not a GPU that computes", lambda: not t.ask("GET", "/healthz")[1]["cuda_verified"])
        check(t.open(base_model="tiny")[:2] == (503, {"detail": "accelerator unavailable"}), "nobody gets it")
        shown = subprocess.run([os.path.join(BUILD, "stepctl"), "status", "--socket", os.path.join(t.state, "status.sock")],
                               stdout=subprocess.PIPE, text=True)
        check(shown.returncode == 1 and "device_lost=1" in shown.stdout and "closed" in shown.stdout and
              "waits for its device" in shown.stdout and "is gone" in shown.stdout, "stepctl", shown)
        until("it was looked for again", lambda: t.logged().count("there is no GPU") > 1)
        check(t.slot() == "closed", "still closed")
        t.page.lose(False)
        until("open again", lambda: t.slot() == "taken")
        run.step((status, body, headers))
        check(run.losses == PEACE[:2] and t.ask("GET", "/healthz")[1]["cuda_verified"], "goes on", run.losses)
        t.close(run.session, "?force=true")
        check(t.slot() == "free", "given back")


@fault("a GPU is not there when stepd starts, and comes later",
       "its sessions wait, over more than one start, and are back by themselves when a probe computes")
def late():
    t = Gpu()
    run = Run(t)
    run.step()
    t.page.lose(True)
    for signalled in signal.SIGKILL, signal.SIGTERM:
        t.end(signalled)
        t = run.t = Gpu(t.folder)
        status, body, headers = run.train()
        st = t.status(run.session)
        check((st["state"], st["step"]) == ("needs_restore", 1), "waits", st)
        check(status == 200 and body["loss"] == run.losses[0] and "stepd-step" in headers, "kept", status, body)
        run.number += 1
        status, body, headers = run.train()
        run.number -= 1
        check(status == 503 and "computes again" in body["detail"] and headers["retry-after"] == "30", "503", body)
        check(any("waits for its device" in a for a in t.document()["attention"]), "attention", t.document())
    t.page.lose(False)
    until("back by itself", lambda: t.status(run.session)["state"] == "ready")
    run.step()
    check(run.losses == PEACE[:2], "goes on", run.losses)
    t.close(run.session, "?force=true")
    check(t.slot() == "free", "given back")
    t.__exit__(None)


@fault("a GPU fails while a session opens", "503, the session is not there; the slot is free when a probe computes")
def lost_while_opening():
    with Gpu() as t:
        for kind, error in ("device", 35), ("stream", 46), ("set", 700):
            t.page.arm(kind, 1, error)
            status, body, _ = t.open(base_model="tiny", maximum_datum_tokens=64)
            t.page.disarm()
            check(status == 503 and "device" in body["detail"] and t.page.fired == 1, "refused", kind, status, body)
            check(t.ask("GET", "/v1/sessions")[1] == {"sessions": []}, "none is remembered")
            until("free again", lambda: t.slot() == "free")
        # Without what is free there is no plan: not one without a limit.
        t.page.arm("device", 1, 2, only="cudaMemGetInfo", every=True)  # also asked for before it
        status, body, _ = t.open(base_model="tiny", maximum_datum_tokens=64)
        t.page.disarm()
        check(status == 507 and "cudaMemGetInfo" in body["detail"] and t.page.fired > 0, "no plan", status, body)
        until("free again", lambda: t.slot() == "free")
        run = Run(t)
        run.step()
        check(run.losses == PEACE[:1], "the next one works")
        t.close(run.session, "?force=true")


def one(run, operation, kind, nth, error, late):
    page, name = run.t.page, "%s/%s/%d/%d/%d" % (operation, kind, nth, error, late)
    run.number += 1
    page.arm(kind, nth, error, late)
    answer = getattr(run, operation)()
    page.disarm()
    met = page.fired > 0
    check(answer[0] == 200 or answer[0] in (503, 507) and answer[1]["detail"], "answered", name, answer)
    if operation in ("train", "recover"):
        run.step(answer)
    else:
        run.number += operation == "save"  # to another URL
        again = run.until_done(getattr(run, operation))
        check(again[0] == 200 and (answer[0] != 200 or operation == "save" or answer[1] == again[1]), "the same", name, answer,
              again)
    return met


@fault("the n-th CUDA call of any class fails on a GPU, at once or later",
       "it may be refused or end the worker; every step is there, once, to the bit")
def at_random():
    rng, met, done = random.Random(SEED), 0, 0
    with Gpu() as t:
        run = Run(t)
        run.hurries = True
        calls = {}
        for operation in ("train", "evaluate", "evaluate", "generate", "save", "recover"):  # the second of graphs
            t.page.note()
            one(run, operation, "host", 1, 2, False)
            calls.update(((operation, kind), n) for kind, n in t.page.noted().items() if kind in ERRORS)
        kinds = [(o, k, e, late) for o, k in sorted(calls) for e, late in ERRORS[k]]
        rng.shuffle(kinds)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            operation, kind, error, late = kinds[done % len(kinds)]
            met += one(run, operation, kind, rng.randint(1, calls[operation, kind]), error, late)
            done += 1
        state, losses = run.state(), run.losses
        t.close(run.session, "?force=true")
    print("%d faults in %d tries of %d kinds, %d steps" % (met, done, len(kinds), len(losses)))
    check(met > 0, "some were met")
    peace, want, _ = quiet(len(losses))
    check(losses == peace and state == want, "the losses and the bytes of a run in peace")


killed()
if HERE:
    resumed()
illegal_address()
blamed()
out_of_memory()
no_graphs()
graphs()
memory_error()
lost()
late()
lost_while_opening()
at_random()
finish()
