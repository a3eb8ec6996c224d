#!/usr/bin/env python3
"""The same LoRA step in PyTorch + Transformers + PEFT: on the CPU for `make bench PEER=python`, on a GPU for
tests/check_gpu.sh.

peer_step.py FOLDER [--dtype f32|bf16]: FOLDER is a Hugging Face folder or one with a GGUF file. Prints lines of
name, value, unit, note like bench.py: the best step, the first step from a cold start, and the peak memory.
peer_step.py --cuda TOKENS FOLDER...: each with a config.json, whose weights are random, in bfloat16 with the fastest
attention that PyTorch has. Prints, for one and for four sequences of TOKENS, row, model, tokens, sequences, ms.
"""
import argparse
import glob
import os
import resource
import sys
import time

begin = time.monotonic()
import peft
import torch
import transformers

SEQUENCES, LENGTH, RANK, STEPS = 8, 128, 8, 6
GPU_SEQUENCES, GPU_STEPS = (1, 4), 4


def adapt(model):
    """LoRA on every linear layer; the parameters that learn."""
    config = peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.data = p.data.float()
    return model, trained


def load(folder, dtype):
    found = glob.glob(os.path.join(folder, "*.gguf"))
    more = {"gguf_file": os.path.basename(found[0])} if found else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **more)
    if found:  # dequantized when it was read
        model.hf_quantizer, model.is_quantized = None, False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
    return adapt(model)


def step_on_gpu(model, optimizer, ids, at_once):
    """Seconds of one step over the rows of ids, so many of them in one pass."""
    torch.cuda.synchronize()
    start = time.monotonic()
    for rows in ids.split(at_once):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=rows, labels=rows, use_cache=False).loss * (len(rows) / len(ids))
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    torch.cuda.synchronize()
    return time.monotonic() - start


def best_on_gpu(model, optimizer, ids):
    """The best of some steps; where the memory does not hold all sequences at once, one after the other."""
    for at_once in (len(ids), 1):
        try:
            return min(step_on_gpu(model, optimizer, ids, at_once) for _ in range(GPU_STEPS)), at_once
        except torch.cuda.OutOfMemoryError:
            if at_once == 1:
                raise
        optimizer.zero_grad()
        torch.cuda.empty_cache()


def on_gpu(folder, tokens):
    config = transformers.AutoConfig.from_pretrained(folder)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
        model, trained = adapt(model)
    model.train()
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)
    for sequences in GPU_SEQUENCES:
        ids = torch.randint(5, config.vocab_size, (sequences, tokens), device="cuda")
        seconds, at_once = best_on_gpu(model, optimizer, ids)
        name = os.path.basename(folder.rstrip("/"))
        print("%s: %d x %d tokens, %d at once: %.1f ms, %.0f tokens/s, %.1f GB" %
              (name, sequences, tokens, at_once, seconds * 1e3, sequences * tokens / seconds,
               torch.cuda.max_memory_allocated() / 1e9), flush=True)
        print("row", name, tokens, sequences, "%.2f" % (seconds * 1e3), sep="\t", flush=True)


def main_gpu(tokens, folders):
    print("torch %s, transformers %s, peft %s on %s" % (torch.__version__, transformers.__version__, peft.__version__,
                                                        torch.cuda.get_device_name()), flush=True)
    failed = 0
    for folder in folders:
        try:
            on_gpu(folder, tokens)
        except torch.cuda.OutOfMemoryError as e:
            failed += 1
            print("%s: %s" % (folder, str(e).splitlines()[0]))
        torch.cuda.empty_cache()
    print("%d passed, %d failed" % (len(folders) - failed, failed))
    sys.exit(failed != 0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--cuda", type=int, metavar="TOKENS")
    args = parser.parse_args()
    if args.cuda:
        return main_gpu(args.cuda, args.folder)
    args.folder, = args.folder
    half = args.dtype == "bf16"
    torch.manual_seed(0)
    model, trained = load(args.folder, torch.bfloat16 if half else torch.float32)
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    ids = torch.randint(5, 49000, (SEQUENCES, LENGTH))
    labels = ids.clone()
    labels[:, : LENGTH - LENGTH // 4] = -100
    times = []
    for _ in range(STEPS):
        start = time.monotonic()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.monotonic() - start)
        if len(times) == 1:
            cold = time.monotonic() - begin
    note = "torch %s, transformers %s, peft %s, %d threads" % (torch.__version__, transformers.__version__, peft.__version__, torch.get_num_threads())
    print("peer_step_%s\t%.4g\ts\t%s" % (args.dtype, min(times[STEPS // 2:]), note))
    print("peer_first_step_%s\t%.4g\ts\timport, load and the first step" % (args.dtype, cold))
    print("peer_rss_%s\t%.4g\tGB\tpeak" % (args.dtype, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6))


if __name__ == "__main__":
    main()
