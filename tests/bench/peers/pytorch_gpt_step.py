"""The GPT training step of tests/bench/gpt_step in eager PyTorch: same architecture, shapes, initial distribution and optimizer.

Prints one JSON line with the same keys as `gpt_step --json`. Run it through tests/bench/peers/pytorch_gpt_step.
"""
import argparse
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

SHAPES = {  # layers, width, heads, sequence, batch, vocabulary
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


def matmul_rate():
    a, b = torch.zeros(1024, 1024), torch.zeros(1024, 1024)
    best = math.inf
    for _ in range(8):
        begin = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - begin)
    return 2 * 1024**3 / best


def matmul_flops(layers, width, heads, sequence, batch, vocabulary):
    tokens = batch * sequence
    attention = 7 * batch * sequence * (sequence + 1) * width
    return layers * (6 * tokens * 12 * width * width + attention) + 6 * tokens * width * vocabulary


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--variant", default="stock", help="a name for the record")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers, width, heads, sequence, batch, vocabulary = SHAPES[arguments.shape]
    model = Gpt(layers, width, heads, sequence, vocabulary)
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=3e-4, betas=(0.9, 0.95), eps=1e-8)

    def step():
        tokens = torch.randint(vocabulary, (batch, sequence))
        targets = torch.randint(vocabulary, (batch, sequence))
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens).view(-1, vocabulary), targets.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    step()
    step()
    rate_before = matmul_rate()
    seconds, cpu = [], []
    for _ in range(arguments.steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        loss = step()
        seconds.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - cpu_begin)
    assert 0 < loss < 2 * math.log(vocabulary)
    rate = max(rate_before, matmul_rate())
    median = statistics.median(seconds)
    flops = matmul_flops(*SHAPES[arguments.shape])
    print(json.dumps({
        "benchmark": "pytorch_gpt_step", "variant": arguments.variant, "shape": arguments.shape, "device": f"torch {torch.__version__} eager, 1 thread",
        "ms_per_step": median * 1e3, "ms_per_step_best": min(seconds) * 1e3, "cpu_ms_per_step": statistics.median(cpu) * 1e3, "tokens_per_second": batch * sequence / median,
        "gflops": flops / median * 1e-9, "matmul_gflops": rate * 1e-9, "share_of_matmul_rate": flops / median / rate,
    }))


if __name__ == "__main__":
    main()
