"""A session of a GPU, whose worker computes with the emulated CUDA kernels: how it chooses, and that
what it chose at its opening holds for all of its workers."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "http"))
from daemon import check, finish
from gpu import Gpu

# bfloat16 by rule; float32 where it is asked for, also where a CPU is told otherwise.
for settings, compute in ({}, "bf16"), ({"STEPD_GPU_COMPUTE": "f32", "STEPD_CPU_COMPUTE": "bf16"}, "f32"):
    with Gpu(**settings) as t:
        s = t.opened(base_model="tiny")
        status = t.status(s)
        check(status["compute"] == compute and status["device"] == "emulated device", "auto", settings, status)
        t.close(s, "?force=true")


def run(t, s, ids, steps):
    """Losses and norms, as the journal has them to the bit."""
    answers = [t.ask("POST", "/v1/sessions/%s/batches:train" % s, {"datum_ids": ids, "learning_rate": 1e-2})
               for _ in range(steps)]
    return [(status, body.get("loss"), body.get("gradient_norm")) for status, body, _ in answers]


def prepared(t):
    s = t.opened(base_model="tiny", lora_rank=4, maximum_datum_tokens=64)
    examples = [{"example_id": str(i), "messages": [{"role": "user", "content": "q" * (1 + i % 7)},
                                                    {"role": "assistant", "content": "a%d" % i * (1 + i % 5)}]}
                for i in range(40)]
    datums = t.ask("POST", "/v1/sessions/%s/datums:render" % s, {"examples": examples})[1]["datums"]
    return s, [d["datum_id"] for d in datums]


def split(t):
    return int(t.logged().rsplit("requests are split by ", 1)[1].split()[0])


def graph_steps(*fault, **settings):
    """Four steps of one shape, how many graphs were launched, and how often it was told that there are none."""
    with Gpu(**settings) as t:
        s, ids = prepared(t)
        if fault:
            t.page.arm(*fault)
        t.page.note()
        steps, launched = run(t, s, ids[:8], 4), t.page.noted()["graph"]
        check(t.status(s)["restarts"] == 0 and bool(t.page.fired) == bool(fault), "one worker", fault, t.logged())
        t.close(s, "?force=true")
        return steps, launched, t.logged().count("steps go on without CUDA graphs: cudaStream")


# What comes again is a CUDA graph, unless it is not to be, or cannot be, which is told; the steps are the same.
with_them, launched, told = graph_steps()
check(launched == 3 and told == 0 and all(step[0] == 200 for step in with_them), "graphs", with_them, launched, told)
for want, got in ((0, 0), graph_steps(STEPD_CUDA_GRAPHS="off")), ((0, 1), graph_steps("capture", 1, 900)):
    check(got == (with_them, *want), "no graphs", want, got)

# The split follows what the device has free when a session opens, and holds for each of its workers,
# whatever is free then: the steps that a new one replays have the very bits.
LITTLE, LESS, MUCH = ({"EMU_MEMORY": n << 20} for n in (8, 58, 64))
want = {}
for device in LITTLE, MUCH:
    with Gpu() as t:
        t.set_device(**device)
        s, ids = prepared(t)
        want[device["EMU_MEMORY"]] = split(t), run(t, s, ids, 2)
        t.close(s, "?force=true")
(few, little), (many, much) = want.values()
check(few < 700 < 1000 < many and little != much and all(step[0] == 200 for step in little + much),
      "the split is in the bits", want)

# Somewhat less is free than when the session opened: it goes on. Far less: it waits.
for before, after, steps in (LITTLE, MUCH, little), (MUCH, LESS, much), (MUCH, LITTLE, None):
    with Gpu() as t:
        t.set_device(**before)
        s, ids = prepared(t)
        run(t, s, ids, 1)
        t.set_device(**after)
        t.kill_workers()
        got, status = run(t, s, ids, 1), t.status(s)
        if steps:
            check(got == steps[1:] and status["replay_differences"] == 0 and status["restarts"] == 1, "replayed", got,
                  steps, status, t.logged())
        else:
            check(got[0][0] == 503 and "the session began with micro-batches of that size" in t.logged(), "waits", got)
        t.close(s, "?force=true")

finish()
