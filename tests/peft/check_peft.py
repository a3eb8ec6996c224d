#!/usr/bin/env python3
"""Real PEFT loads a sampling artifact and computes our logits: check_peft.py PEFT_ARCHIVE MODEL...

PEFT_ARCHIVE is the program build/tests/peft_archive, a MODEL a folder of Transformers, a GGUF file, or a
folder with one. Run with a Python that has torch, transformers and peft (and gguf for GGUF files).
"""
import glob
import os
import subprocess
import sys
import tarfile
import tempfile
import warnings

os.environ.setdefault("TQDM_DISABLE", "1")  # before the libraries that read it

import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENS = 48
passed = failed = 0


def check(good, what):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("failed: " + what)


def load_base(model):
    found = [model] if model.endswith(".gguf") else glob.glob(model + "/*.gguf")
    if found and not os.path.exists(model + "/config.json"):
        return AutoModelForCausalLM.from_pretrained(os.path.dirname(found[0]), gguf_file=os.path.basename(found[0]),
                                                    dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)


def check_model(program, model, folder):
    out = os.path.join(folder, "made")
    subprocess.run([program, model, out], check=True)
    with tarfile.open(out + ".tar.gz", "r:gz") as archive:
        archive.extractall(folder, filter="data")
    adapter = os.path.join(folder, "adapter")
    base = load_base(model).eval()
    vocabulary = base.config.vocab_size
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # PEFT warns of keys that are missing or too many
        loaded = PeftModel.from_pretrained(base, adapter).eval()
    state = loaded.state_dict()
    weights = load_file(os.path.join(adapter, "adapter_model.safetensors"))
    names = {k.replace(".weight", ".default.weight") for k in weights}
    check(names == {k for k in state if "lora_" in k}, model + ": PEFT has other LoRA tensors than the archive")
    check(all(torch.equal(state[k.replace(".weight", ".default.weight")], v) for k, v in weights.items()),
          model + ": a tensor changed on the way")
    ids = torch.tensor([[(3 + 7 * i) % vocabulary for i in range(TOKENS)]])
    with torch.no_grad():
        theirs = loaded(ids).logits[0]
        plain = load_base(model).eval()(ids).logits[0]
    ours = torch.frombuffer(bytearray(open(out + ".logits", "rb").read()), dtype=torch.float32)
    distance = ((ours.view(TOKENS, -1) - theirs).norm() / theirs.norm()).item()
    effect = ((plain - theirs).norm() / theirs.norm()).item()
    print("%s: logits %.1e from PEFT's; the adapter moves them by %.1e" % (model, distance, effect))
    check(distance <= 1e-5, model + ": logits differ")
    check(effect > 100 * distance, model + ": the adapter has no effect")
    if os.path.exists(os.path.join(adapter, "tokenizer.json")):
        tokenizer = AutoTokenizer.from_pretrained(adapter)
        check(len(tokenizer("Two and two are four.")["input_ids"]) > 0, model + ": tokenizer")
        if tokenizer.chat_template:
            text = tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False)
            check("Hi" in text, model + ": chat template")


for path in sys.argv[2:]:
    with tempfile.TemporaryDirectory() as scratch:
        check_model(sys.argv[1], path, scratch)
print("%d passed, %d failed" % (passed, failed))
sys.exit(failed != 0)
