"""The GPT training step of tests/bench/gpt_step in PyTorch: same architecture, shapes, initial distribution and optimizer.

Prints one JSON line with the same keys as `gpt_step --json`. Run it through tests/bench/peers/pytorch_gpt_step (CPU) or
tests/gpu/peers/gpt (GPU). What makes PyTorch fast is on: fused attention, fused AdamW, gradients set to none, one host
synchronisation for all timed steps on a GPU.

--precision bf16 has two forms, of which the faster one is the fair opponent: `autocast` (float32 parameters, cast for each
product) and `copies` (bf16 parameters, with float32 master values that a fused AdamW updates and that are copied back).
--weights DIR: initial values and tokens that `gpt_step --dump DIR` has written; then the losses of --steps steps can be compared.
"""
import argparse
import contextlib
import json
import math
import os
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {  # layers, width, heads, sequence, batch, vocabulary
    "1.3b": (24, 2048, 16, 1024, 8, 50304),
    "350m": (24, 1024, 16, 1024, 16, 50304),
    "124m": (12, 768, 12, 1024, 32, 50304),
    "large": (6, 384, 6, 256, 8, 4096),
    "small": (4, 128, 4, 128, 16, 2048),
    "tiny": (2, 64, 2, 32, 2, 128),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, sequence, width = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, sequence, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, sequence, width))
        return x + self.contract(F.gelu(self.expand(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, sequence, vocabulary):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.empty(sequence, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.final = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                nn.init.constant_(parameter, 1.0 if ("ln" in name or "final" in name) and name.endswith("weight") else 0.0)
            else:
                residual = "projection" in name or "contract" in name
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.final(x))

    def load(self, folder):
        """Initial values written by gpt_step: a linear layer's weight is [inputs, outputs...] there."""
        names = {"final.gamma": self.final.weight, "final.beta": self.final.bias, "embedding": self.embedding.weight,
                 "positions": self.positions, "head": self.head.weight}
        for i, block in enumerate(self.blocks):
            for norm in ("ln1", "ln2"):
                names[f"h{i}.{norm}.gamma"], names[f"h{i}.{norm}.beta"] = getattr(block, norm).weight, getattr(block, norm).bias
            for part, layers in (("attention", ("qkv", "projection")), ("mlp", ("expand", "contract"))):
                for layer in layers:
                    linear = getattr(block, layer)
                    names[f"h{i}.{part}.{layer}.weight"], names[f"h{i}.{part}.{layer}.bias"] = linear.weight, linear.bias
        values = torch.from_file(os.path.join(folder, "weights.f32"), size=os.path.getsize(os.path.join(folder, "weights.f32")) // 4)
        entries = json.load(open(os.path.join(folder, "weights.json")))
        if {entry["name"] for entry in entries} != set(names):
            raise SystemExit(f"{folder} has other parameters: {sorted({entry['name'] for entry in entries} ^ set(names))}")
        with torch.no_grad():
            for entry in entries:
                parameter = names[entry["name"]]
                value = values[entry["offset"]:entry["offset"] + parameter.numel()]
                is_linear = entry["name"].endswith(".weight") or entry["name"] == "head"
                parameter.copy_(value.view(parameter.shape[1], parameter.shape[0]).T if is_linear else value.view(parameter.shape))


def matmul_rate(device, dtype):
    """Of the product of two square matrices of random numbers: operations per second, the best of several."""
    size = 8192 if device == "cuda" else 1024
    a, b = torch.randn(size, size, device=device, dtype=dtype), torch.randn(size, size, device=device, dtype=dtype)
    best = math.inf
    for _ in range(8):
        wait(device)
        begin = time.perf_counter()
        a @ b
        wait(device)
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best


def matmul_flops(layers, width, heads, sequence, batch, vocabulary):
    tokens = batch * sequence
    attention = 7 * batch * sequence * (sequence + 1) * width
    return layers * (6 * tokens * 12 * width * width + attention) + 6 * tokens * width * vocabulary


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


class MasterCopies:
    """AdamW on float32 master values of bf16 parameters."""

    def __init__(self, parameters, make):
        self.parameters = list(parameters)
        self.masters = [p.detach().float().requires_grad_() for p in self.parameters]
        self.optimizer = make(self.masters)

    def step(self):
        for parameter, master in zip(self.parameters, self.masters):
            master.grad = parameter.grad.float()
        nn.utils.clip_grad_norm_(self.masters, 1.0, foreach=True)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.masters)
        for parameter in self.parameters:
            parameter.grad = None


class Plain:
    def __init__(self, parameters, make):
        self.parameters = list(parameters)
        self.optimizer = make(self.parameters)

    def step(self):
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--batch", type=int, help="sequences a step, instead of the shape's")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--bf16-form", choices=("autocast", "copies"), default="copies")
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--weights", metavar="DIR", help="start from what gpt_step --dump wrote, and report every loss")
    parser.add_argument("--variant", default="stock", help="a name for the record")
    arguments = parser.parse_args()
    device = arguments.device
    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers, width, heads, sequence, batch, vocabulary = SHAPES[arguments.shape]
    batch = arguments.batch or batch
    with torch.device(device):
        model = Gpt(layers, width, heads, sequence, vocabulary)
    if arguments.weights:
        model.load(arguments.weights)
    low = arguments.precision == "bf16"
    copies = low and arguments.bf16_form == "copies"

    def make(parameters):
        decayed = [p for p in parameters if p.dim() >= 2]
        others = [p for p in parameters if p.dim() < 2]
        return torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                 lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=device == "cuda")

    if copies:
        optimizer = MasterCopies(model.parameters(), make)  # before the rounding: the masters are exact
        model.to(torch.bfloat16)
        optimizer.parameters = list(model.parameters())
    else:
        optimizer = Plain(model.parameters(), make)
    forward = torch.compile(model) if arguments.compile else model
    cast = torch.autocast(device, dtype=torch.bfloat16) if low and not copies else contextlib.nullcontext()
    if arguments.weights:
        path = os.path.join(arguments.weights, "tokens.i32")
        data = torch.from_file(path, size=os.path.getsize(path) // 4, dtype=torch.int32).view(-1, 2, batch, sequence).long().to(device)
    else:
        data = torch.randint(vocabulary, (4, 2, batch, sequence), device=device)

    def step(number):
        tokens, targets = data[number % len(data)]
        with cast:
            loss = F.cross_entropy(forward(tokens).view(-1, vocabulary).float(), targets.view(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    record = {"benchmark": "pytorch_gpt_step", "variant": arguments.variant, "shape": arguments.shape, "batch": batch,
              "precision": arguments.precision + (f" ({arguments.bf16_form})" if low else ""),
              "device": (torch.cuda.get_device_name() if device == "cuda" else "1 thread") +
                        f", torch {torch.__version__} {'compiled' if arguments.compile else 'eager'}"}
    if arguments.weights:
        losses = [step(number) for number in range(arguments.steps)]
        print(json.dumps(record | {"losses": [loss.item() for loss in losses]}))
        return
    for number in range(5 if device == "cuda" else 2):
        loss = step(number)
    wait(device)
    dtype = torch.bfloat16 if low else torch.float32
    rate_before = matmul_rate(device, dtype)
    seconds, cpu = [], []
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        # Rounds of several steps, so that the host may run ahead of the device as it does in training.
        for _ in range(3):
            begin, cpu_begin = time.perf_counter(), time.process_time()
            for number in range(arguments.steps):
                loss = step(number)
            wait(device)
            seconds.append((time.perf_counter() - begin) / arguments.steps)
            cpu.append((time.process_time() - cpu_begin) / arguments.steps)
        record["peak_bytes"] = torch.cuda.max_memory_allocated()
    else:
        for number in range(arguments.steps):
            begin, cpu_begin = time.perf_counter(), time.process_time()
            loss = step(number).item()
            seconds.append(time.perf_counter() - begin)
            cpu.append(time.process_time() - cpu_begin)
    assert 0 < float(loss) < 2 * math.log(vocabulary)
    rate = max(rate_before, matmul_rate(device, dtype))
    median = statistics.median(seconds)
    flops = matmul_flops(layers, width, heads, sequence, batch, vocabulary)
    print(json.dumps(record | {
        "ms_per_step": median * 1e3, "ms_per_step_best": min(seconds) * 1e3, "cpu_ms_per_step": statistics.median(cpu) * 1e3,
        "tokens_per_second": batch * sequence / median, "gflops": flops / median * 1e-9, "matmul_gflops": rate * 1e-9,
        "share_of_matmul_rate": flops / median / rate,
    }))


if __name__ == "__main__":
    main()
