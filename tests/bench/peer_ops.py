"""The ops of the peer's LoRA step: PyTorch + Transformers + PEFT, recorded op by op without their numbers.

peer_ops.py OUT    writes the table that make roofline reads (tests/data/peer_ops.tsv)
peer_ops.py --host prints what an op costs the host, measured with a model so small that nothing else counts

A real training step of a LlamaForCausalLM with PEFT's adapters runs on tensors that have shapes but no memory;
each op that PyTorch dispatches is written down with what it reads and writes. As a user of Trainer runs it:
weights in bfloat16, bf16=True (autocast), attention by the flash kernel, adapter in float32 as PEFT keeps it, the
gradient clipped, AdamW fused; once with all activations kept and once with gradient checkpointing. (Without
autocast and with the adapter in bfloat16 too, which is not what PEFT does by itself, about a tenth less time.)
"""
import collections
import math
import sys
import time
import weakref

import torch
from peft import LoraConfig, get_peft_model
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

# As published in each model's config.json: layers, width, heads, KV heads, head dimension, MLP width, vocabulary, tied
MODELS = {
    "SmolLM2-135M": (30, 576, 9, 3, 64, 1536, 49152, True),
    "Llama-3.2-1B": (16, 2048, 32, 8, 64, 8192, 128256, True),
    "Llama-3.2-3B": (28, 3072, 24, 8, 128, 8192, 128256, True),
    "Llama-3.1-8B": (32, 4096, 32, 8, 128, 14336, 128256, False),
    "Llama-2-7B": (32, 4096, 32, 32, 128, 11008, 32000, False),
}
LENGTHS = (512, 4096)
RANK = 8
aten = torch.ops.aten


def flash(module, q, k, v, mask, scaling=None, **_):
    """What scaled_dot_product_attention calls on CUDA without a mask; heads of keys are shared in the kernel."""
    out = aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True, scale=scaling)[0]
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register("recorded", flash)


def build(model, attention="recorded"):
    layers, width, heads, kv, dim, mlp, vocabulary, tied = model
    torch.set_default_dtype(torch.bfloat16)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=width, intermediate_size=mlp, num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv, head_dim=dim, tie_word_embeddings=tied, use_cache=False, attn_implementation=attention)
    net = LlamaForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return get_peft_model(net, LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"))


def place(net):
    """Every weight as a fake one: of the mode that is on."""
    seen = {}
    for m in net.modules():
        for table in (m._parameters, m._buffers):
            for name, p in list(table.items()):
                if p is None:
                    continue
                if id(p) not in seen:
                    t = torch.empty(p.shape, dtype=p.dtype)
                    seen[id(p)] = (p, torch.nn.Parameter(t, p.requires_grad) if table is m._parameters else t)
                table[name] = seen[id(p)][1]


def tensors(x):
    return [t for t in tree_leaves(x) if isinstance(t, torch.Tensor)]


def size(t):
    """Bytes that a kernel has to touch: a broadcast element once."""
    return min(t.numel() * t.element_size(), t.untyped_storage().nbytes())


class Recorder(TorchDispatchMode):
    """Counts launches by kind, and the bytes of all storage that lives."""

    def __init__(self):
        super().__init__()
        self.rows = collections.Counter()
        self.bytes = collections.Counter()
        self.live = self.peak = self.ops = 0
        self.storages = weakref.WeakSet()

    def hold(self, t):
        s = t.untyped_storage()
        if s not in self.storages:
            self.storages.add(s)
            self.live += s.nbytes()
            self.peak = max(self.peak, self.live)
            weakref.finalize(s, self.drop, s.nbytes())

    def drop(self, n):
        self.live -= n

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        out = op(*args, **(kwargs or {}))
        if op.namespace != "aten":
            return out
        ins, outs = tensors((args, kwargs)), tensors(out)
        held = {id(t.untyped_storage()) for t in ins}
        fresh = [t for t in outs if id(t.untyped_storage()) not in held]
        for t in fresh:
            self.hold(t)
        self.ops += 1
        if (fresh or op._schema.is_mutable) and "empty" not in op.__name__:
            self.count(op, args, ins, outs)
        return out

    def count(self, op, args, ins, outs):
        name = op.__name__.split(".")[0]
        if name in ("mm", "addmm", "bmm"):
            a, b = [t for t in ins if t.dim() >= 2][-2:]
            self.rows["product", a.shape[-2] * math.prod(a.shape[:-2]), b.shape[-1], a.shape[-1], a.element_size(), outs[0].element_size()] += 1
            return
        if "flash_attention" in name:
            q, k = (ins[1], ins[2]) if "backward" in name else (ins[0], ins[1])
            kind = "attention_backward" if "backward" in name else "attention"
            self.rows[kind, q.shape[2], q.shape[1] * q.shape[3], k.shape[1] * k.shape[3], q.shape[1], q.element_size()] += 1
            return
        once = {t.untyped_storage()._cdata: size(t) for t in ins}
        if name in ("embedding", "nll_loss_forward", "nll_loss_backward"):
            once.pop((ins[1] if name == "nll_loss_backward" else ins[0]).untyped_storage()._cdata)  # a few of its elements
        elif op._schema.is_mutable:
            outs = [t for a, x in zip(op._schema.arguments, args) if a.alias_info is not None and a.alias_info.is_write for t in tensors(x)]
            if name in ("copy_", "fill_", "zero_"):
                once.pop(outs[0].untyped_storage()._cdata, None)
        self.rows["moves", name] += 1
        self.bytes["moves", name] += sum(once.values()) + sum(size(t) for t in outs)


def step(net, optimizer, ids):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = net(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in net.parameters() if p.requires_grad], 1.0, foreach=True)
    optimizer.step()
    optimizer.zero_grad()


def record(model, tokens, recompute):
    with torch.device("meta"):
        net = build(model)
    with FakeTensorMode(allow_non_fake_inputs=True):
        place(net)
        net.train()
        if recompute:
            net.enable_input_require_grads()
            net.gradient_checkpointing_enable()
        optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-4, fused=True)
        ids = torch.zeros((1, tokens), dtype=torch.long)
        r = Recorder()
        with r:
            for p in net.parameters():
                r.hold(p)
            step(net, optimizer, ids)  # makes the optimizer's state
            r.rows.clear()
            r.bytes.clear()
            r.ops = 0
            step(net, optimizer, ids)
    return r


def write(path):
    with open(path, "w") as f:
        f.write("# Written by tests/bench/peer_ops.py: one step of PyTorch " + torch.__version__.split("+")[0] + ", rank " + str(RANK) + "; see there.\n"
                "# step MODEL TOKENS kept|recomputed PEAK_BYTES OPS\n# product COUNT M N K OPERAND_BYTES RESULT_BYTES\n"
                "# attention[_backward] COUNT TOKENS QUERIES KEYS HEADS ELEMENT_BYTES\n# moves COUNT BYTES NAME\n")
        for name, model in MODELS.items():
            for tokens in LENGTHS:
                for recompute in (False, True):
                    r = record(model, tokens, recompute)
                    print("step", name, tokens, "recomputed" if recompute else "kept", r.peak, r.ops, sep="\t", file=f)
                    for key in sorted(r.rows, key=str):
                        if key[0] == "moves":
                            print("moves", r.rows[key], r.bytes[key], key[1], sep="\t", file=f)
                        else:
                            print(key[0], r.rows[key], *key[1:], sep="\t", file=f)


def host():
    """One thread, 30 layers of width 64, four tokens: a step is its ops' overhead, small kernels of the CPU in it."""
    torch.set_num_threads(1)
    net = build((30, 64, 2, 1, 32, 64, 64, True), "sdpa")
    net.train()
    optimizer = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=1e-4, fused=True)
    ids = torch.zeros((1, 4), dtype=torch.long)
    step(net, optimizer, ids)
    r = Recorder()
    with r:
        step(net, optimizer, ids)
    best = math.inf
    for _ in range(20):
        begin = time.perf_counter()
        step(net, optimizer, ids)
        best = min(best, time.perf_counter() - begin)
    print(f"{best * 1e3:.1f} ms, {sum(r.rows.values())} ops with a kernel, {r.ops} in all: {best * 1e6 / sum(r.rows.values()):.1f} us each")


if __name__ == "__main__":
    host() if sys.argv[1:] == ["--host"] else write(sys.argv[1])
