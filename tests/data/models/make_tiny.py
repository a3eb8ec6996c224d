#!/usr/bin/env python3
"""Writes a tiny model with everything a service needs, for tests: make_tiny.py FOLDER

A random Llama of 70,000 parameters (2 layers, width 48, bfloat16), a byte-level BPE tokenizer of
512 tokens whose merges are learnt from a few lines below, a ChatML template with tool calls. Always
the same bytes. Standard library only.
"""
import collections
import hashlib
import json
import os
import random
import re
import struct
import sys

VOCABULARY, WIDTH, LAYERS, HEADS, KV_HEADS, HIDDEN = 384, 48, 2, 4, 2, 128
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEXT = """system user assistant tool
Answer the arithmetic question with only the number. What is two plus two? 4
one two three four five six seven eight nine ten eleven twelve
The quick brown fox jumps over the lazy dog. A cat sat on the mat and looked at the moon.
Who wrote this and when was it written? It was written by hand, on paper, in the winter.
{"name": "add", "arguments": {"a": 2, "b": 2}} {"city": "Berlin", "units": "metric"}
Please explain how a small model learns from examples: it predicts the next token again and again.
"""
TEMPLATE = """{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.role == 'tool' and message.tool_call_id -%}
{{- '[' + message.tool_call_id + '] ' -}}
{%- endif -%}
{{- message.content -}}
{%- if message.tool_calls -%}
{%- for call in message.tool_calls -%}
{{- '\\n<tool_call>\\n{"name": "' + call.function.name + '", "arguments": ' -}}
{%- if call.function.arguments is string -%}
{{- call.function.arguments -}}
{%- else -%}
{{- call.function.arguments | tojson -}}
{%- endif -%}
{{- '}\\n</tool_call>' -}}
{%- endfor -%}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
"""


def byte_letters():
    """GPT-2's printable letter of each byte."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = [b for b in range(256) if b not in printable]
    letters = {b: chr(b) for b in printable}
    letters.update({b: chr(256 + i) for i, b in enumerate(others)})
    return [letters[b] for b in range(256)]


def learn_merges(letters, count):
    """The usual BPE training: the most frequent pair, the first in alphabet among equals."""
    words = collections.Counter(re.findall(r" ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+", TEXT))
    pieces = {word: [letters[b] for b in word.encode()] for word in words}
    merges = []
    while len(merges) < count:
        pairs = collections.Counter()
        for word, times in words.items():
            for pair in zip(pieces[word], pieces[word][1:]):
                pairs[pair] += times
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word in words:
            old, new = pieces[word], []
            while old:
                if tuple(old[:2]) == best:
                    new.append(old[0] + old[1])
                    old = old[2:]
                else:
                    new.append(old[0])
                    old = old[1:]
            pieces[word] = new
    return merges


def tokenizer():
    letters = byte_letters()
    merges = learn_merges(letters, VOCABULARY - len(SPECIAL) - 256)
    tokens = SPECIAL + letters + [a + b for a, b in merges]
    assert len(set(tokens)) == VOCABULARY
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True} for i, token in enumerate(SPECIAL)],
        "normalizer": None, "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)}, "merges": [list(pair) for pair in merges]},
    }


def bfloat16(x):
    bits, = struct.unpack("<I", struct.pack("<f", x))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def weights():
    head = WIDTH // HEADS
    shapes = {"model.embed_tokens.weight": (VOCABULARY, WIDTH), "model.norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        layer = "model.layers.%d." % i
        shapes.update({
            layer + "input_layernorm.weight": (WIDTH,),
            layer + "self_attn.q_proj.weight": (HEADS * head, WIDTH),
            layer + "self_attn.k_proj.weight": (KV_HEADS * head, WIDTH),
            layer + "self_attn.v_proj.weight": (KV_HEADS * head, WIDTH),
            layer + "self_attn.o_proj.weight": (WIDTH, HEADS * head),
            layer + "post_attention_layernorm.weight": (WIDTH,),
            layer + "mlp.gate_proj.weight": (HIDDEN, WIDTH),
            layer + "mlp.up_proj.weight": (HIDDEN, WIDTH),
            layer + "mlp.down_proj.weight": (WIDTH, HIDDEN),
        })
    source = random.Random(1)
    header, data = {"__metadata__": {"format": "pt"}}, bytearray()
    for name in sorted(shapes):
        shape, start = shapes[name], len(data)
        for _ in range(shape[0] * (shape[1] if len(shape) > 1 else 1)):
            x = 1.0 if len(shape) == 1 else source.gauss(0, 0.2 if "embed" in name else shape[1] ** -0.5)
            data += bfloat16(x)
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def config():
    return {
        "architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "bos_token_id": 0, "dtype": "bfloat16", "eos_token_id": 2, "head_dim": WIDTH // HEADS,
        "hidden_act": "silu", "hidden_size": WIDTH, "initializer_range": 0.02, "intermediate_size": HIDDEN,
        "max_position_embeddings": 2048, "mlp_bias": False, "model_type": "llama",
        "num_attention_heads": HEADS, "num_hidden_layers": LAYERS, "num_key_value_heads": KV_HEADS,
        "pad_token_id": 0, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}, "tie_word_embeddings": True,
        "use_cache": True, "vocab_size": VOCABULARY}


def write(folder, name, data):
    if not isinstance(data, bytes):
        data = (json.dumps(data, ensure_ascii=False, indent=1) + "\n").encode()
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)
    return hashlib.sha256(data).hexdigest()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    write(folder, "config.json", config())
    write(folder, "model.safetensors", weights())
    write(folder, "tokenizer.json", tokenizer())
    write(folder, "tokenizer_config.json", {
        "bos_token": SPECIAL[0], "eos_token": SPECIAL[2], "pad_token": SPECIAL[0], "model_max_length": 2048,
        "tokenizer_class": "PreTrainedTokenizerFast", "chat_template": TEMPLATE})


if __name__ == "__main__":
    main()
