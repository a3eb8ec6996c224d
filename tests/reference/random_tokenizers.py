#!/usr/bin/env python3
"""Random texts through HF `tokenizers` and through ours, compared by golden_tokenizers.

    python random_tokenizers.py GOLDEN_PROGRAM FOLDER [--texts 500] [--seed 1] [--variants 0]

FOLDER has <set>/tokenizer.json, as tests/data/golden/tokenizers. For each one random texts (Unicode 12
and before, whitespace and marks over-represented, added tokens strewn in) and random ids are recorded in
the form of the golden sets, and the program is run over them. --variants N does the same for N copies
with other normalizers, pre-tokenizers, post-processors, decoders and flags of added tokens.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer

POOLS = [
    list("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"), list("0123456789"),
    list(" \t\n\r\v\f") * 2 + ["  ", "\r\n", "\u0085", "\u00a0", "\u1680", "\u2003", "\u2028", "\u2029", "\u202f", "\u3000"],
    [chr(c) for c in range(0x21, 0x7f) if not chr(c).isalnum()],
    ["'s", "'t", "'RE", "'ve", "'Ll", "'d", "'\u017f", "\u2019s", "'m"],
    ["\u0301", "\u0308", "\u0323", "\u0327", "\u0338", "\u0344", "\u0345", "\u093c", "\u0f71", "\u0f73", "\u0f81", "\u3099", "\u20dd", "\u1161", "\u11a8"],
    list("\u00e9\u00fc\u00f1\u00e7\u00df\u0130\u0131\u017f\u1e9b\u212b\u2126\u0958\ufb01\uff21\u2460\u00bd\u00b2\u2167\uac00\uac01\u1100\u1112\u0d4a\u1fbf"),
    list("\u0434\u0416\u044b\u03a9\u03c2\u05d0\u0628\u0645\u0915\u093f\u0e01\u4eca\u5929\u3042\u30ab\u6f22\ud55c\uae00"),
    ["\U0001f600", "\U0001f44d\U0001f3fd", "\u200d", "\ufe0f", "\U0001f1e9\U0001f1ea", "\U00020bb7", "\U0001d49c"],
    ["\u200b", "\u180e", "\ufeff", "\x00", "\x1c", "\x7f", "\u2060", "\u00ad", "\ufffd", "\ue000"],
    ["the ", " and", " of ", "ing", "er", "tion", "    ", "\n\n", "...", "----", "==", "aaaa", "\u2581", "\u0120", "<0x41>", "_"],
]


def any_char(rng):
    while True:
        c = chr(rng.choice([rng.randrange(0x20, 0x3000), rng.randrange(0x3000, 0xd800), rng.randrange(0xe000, 0x10000),
                            rng.randrange(0x10000, 0x20000)]))
        if unicodedata.category(c) not in ("Cn", "Cs") and unicodedata.ucd_3_2_0.category(c) != "Cn":
            return c


def text(rng, added):
    kind = rng.random()
    n = rng.randint(1, 40)
    if kind < 0.15:
        return "".join(any_char(rng) for _ in range(n))
    pools = rng.sample(POOLS, rng.randint(1, 5))
    if added and rng.random() < 0.4:
        pools = pools + [[rng.choice(added) for _ in range(3)]] + [POOLS[2]]
    return "".join(rng.choice(rng.choice(pools)) for _ in range(n))


def record(path, tk, rng, count):
    vocab = tk.get_vocab(with_added_tokens=True)
    added = [t.content for t in tk.get_added_tokens_decoder().values()]
    with open(os.path.join(path, "cases.jsonl"), "w") as f:
        for i in range(count):
            s = text(rng, added)
            try:
                e = tk.encode(s, add_special_tokens=False)
            except BaseException as panic:      # overlapping added tokens with lstrip
                if type(panic).__name__ != "PanicException":
                    raise
                continue
            pos = [0]
            for c in s:
                pos.append(pos[-1] + len(c.encode()))
            f.write(json.dumps({"name": f"{i}: {s!r}", "text": s, "ids": e.ids, "offsets": [[pos[a], pos[b]] for a, b in e.offsets],
                                "decoded": tk.decode(e.ids, skip_special_tokens=False),
                                "decoded_skip_special": tk.decode(e.ids, skip_special_tokens=True)}) + "\n")
    with open(os.path.join(path, "decode.jsonl"), "w") as f:
        top = max(vocab.values()) + 3
        for i in range(count // 4):
            ids = [rng.randrange(min(top, 400) if rng.random() < 0.5 else top) for _ in range(rng.randint(1, 20))]
            f.write(json.dumps({"name": f"ids {ids}", "ids": ids, "decoded": tk.decode(ids, skip_special_tokens=False),
                                "decoded_skip_special": tk.decode(ids, skip_special_tokens=True)}) + "\n")


BEHAVIOURS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
REGEXES = [r"\s+", r"\w+", r"\W", r"\d{1,3}", r"[^\S\n]+|\n+", r"\p{Lu}\p{Ll}*|\p{N}", r"\b", r"(?<=\p{L})(?=\p{N})", r"[\p{L}&&[^a-z]]+",
           r"(?i:'s|'t|'re)|\p{Han}|.", r"^.|.$", r"[^\r\n\p{L}\p{N}]?+\p{L}++| ?[^\s\p{L}\p{N}]++[\r\n]*|\s+$|\s+(?!\S)|\s",
           r"a{2}|b{,2}|[[:space:]]{2,}", r"x*", r"(?:\p{M}|[a-e[x-z]])+?(?=\p{L}|$)", r"\P{L}{2,3}+"]


def bl(rng):
    return {"type": "ByteLevel", "add_prefix_space": rng.random() < .4, "trim_offsets": rng.random() < .5, "use_regex": rng.random() < .6}


def normalizer(rng, depth=0):
    k = rng.choice(["NFC", "NFD", "NFKC", "NFKD", "Replace", "Prepend", "Lowercase", "Sequence"] + ["null"] * 3)
    if k == "null":
        return None
    if k == "Replace":
        return {"type": k, "pattern": rng.choice([{"String": " "}, {"String": "e"}, {"Regex": r"\s+"}, {"Regex": r"[a-f]{2}"}]),
                "content": rng.choice(["\u2581", "", "xy", "\u00e9"])}
    if k == "Prepend":
        return {"type": k, "prepend": rng.choice(["\u2581", " ", "ab"])}
    if k == "Sequence":
        n = [] if depth else [normalizer(rng, 1) for _ in range(rng.randint(0, 3))]
        return {"type": k, "normalizers": [x for x in n if x]}
    return {"type": k}


def pre_tokenizer(rng, byte):
    steps = []
    for _ in range(rng.randint(0, 2)):
        k = rng.choice(["Split", "Split", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "CharDelimiterSplit", "Metaspace"])
        if k == "Split":
            steps.append({"type": k, "pattern": rng.choice([{"Regex": rng.choice(REGEXES)}, {"String": rng.choice([" ", "a", "  ", "\n"])}]),
                          "behavior": rng.choice(BEHAVIOURS), "invert": rng.random() < .3})
        elif k == "Digits":
            steps.append({"type": k, "individual_digits": rng.random() < .5})
        elif k == "Punctuation":
            steps.append({"type": k, "behavior": rng.choice(BEHAVIOURS)})
        elif k == "CharDelimiterSplit":
            steps.append({"type": "CharDelimiterSplit", "delimiter": rng.choice([" ", "a", "\u00e9"])})
        elif k == "Metaspace":
            steps.append({"type": k, "replacement": "\u2581", "prepend_scheme": rng.choice(["first", "always", "never"]), "split": rng.random() < .5})
        else:
            steps.append({"type": k})
    if byte:
        steps.insert(rng.choice([len(steps), len(steps), len(steps), 0]), bl(rng))
    return {"type": "Sequence", "pretokenizers": steps}


def decoder(rng, old):
    steps = []
    for _ in range(rng.randint(0, 3)):
        k = rng.choice(["ByteFallback", "Fuse", "Strip", "Replace", "Metaspace"])
        if k == "Strip":
            steps.append({"type": k, "content": rng.choice([" ", "a"]), "start": rng.randint(0, 2), "stop": 0})
        elif k == "Replace":
            steps.append({"type": k, "pattern": rng.choice([{"String": "\u2581"}, {"Regex": r"\s"}]), "content": rng.choice([" ", ""])})
        elif k == "Metaspace":
            steps.append({"type": k, "replacement": "\u2581", "prepend_scheme": rng.choice(["first", "always", "never"]), "split": True})
        else:
            steps.append({"type": k})
    return rng.choice([old, None, {"type": "Sequence", "decoders": ([old] if old and rng.random() < .5 else []) + steps}])


def variant(rng, j):
    j = json.loads(json.dumps(j))
    byte = "\u0120" in j["model"]["vocab"]
    j["normalizer"] = normalizer(rng)
    j["pre_tokenizer"] = pre_tokenizer(rng, byte)
    j["post_processor"] = rng.choice([None, bl(rng), {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
                                                     "trim_offsets": rng.random() < .5, "add_prefix_space": rng.random() < .5}])
    j["decoder"] = decoder(rng, j["decoder"])
    for t in j["added_tokens"]:
        for flag in ("single_word", "lstrip", "rstrip", "normalized", "special"):
            t[flag] = rng.random() < .35
    m = j["model"]
    m["ignore_merges"] = rng.random() < .3
    m["byte_fallback"] = rng.random() < .5
    m["fuse_unk"] = rng.random() < .5
    if rng.random() < .3:
        m["unk_token"] = rng.choice(list(m["vocab"]))
    return j


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("program")
    ap.add_argument("folder")
    ap.add_argument("--texts", type=int, default=500)
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--variants", type=int, default=0)
    ap.add_argument("--keep", help="write the sets here and leave them")
    a = ap.parse_args()
    rng = random.Random(a.seed)
    sets = []
    for name in sorted(os.listdir(a.folder)):
        path = os.path.join(a.folder, name, "tokenizer.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                sets.append((name, json.load(f)))
    sets += [(f"variant-{i}", variant(rng, rng.choice(sets)[1])) for i in range(a.variants)]
    if a.variants:
        sets = sets[-a.variants:]
    with tempfile.TemporaryDirectory() as tmp:
        tmp = a.keep or tmp
        for name, j in sets:
            try:
                tk = Tokenizer.from_str(json.dumps(j))
            except Exception as e:
                print(name, "is refused by the library:", e)
                continue
            d = os.path.join(tmp, name)
            os.makedirs(d, exist_ok=True)
            with open(os.path.join(d, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(j, f, ensure_ascii=False)
            record(d, tk, rng, a.texts)
        return subprocess.run([a.program, tmp]).returncode


if __name__ == "__main__":
    sys.exit(main())
