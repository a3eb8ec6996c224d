#!/usr/bin/env python3
"""The same LoRA step in PyTorch + Transformers + PEFT on the CPU, for `make bench PEER=python`.

peer_step.py FOLDER [--dtype f32|bf16]: FOLDER is a Hugging Face folder or one with a GGUF file. Prints lines of
name, value, unit, note like bench.py: the best step, the first step from a cold start, and the peak memory.
"""
import argparse
import glob
import os
import resource
import time

begin = time.monotonic()
import peft
import torch
import transformers

SEQUENCES, LENGTH, RANK, STEPS = 8, 128, 8, 6


def load(folder, dtype):
    found = glob.glob(os.path.join(folder, "*.gguf"))
    more = {"gguf_file": os.path.basename(found[0])} if found else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **more)
    if found:  # dequantized when it was read
        model.hf_quantizer, model.is_quantized = None, False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
    config = peft.LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, config)
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.data = p.data.float()
    return model, trained


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    args = parser.parse_args()
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
