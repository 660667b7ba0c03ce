"""GPT training under PyTorch's tensor parallelism over Gloo, as tests/bench/peers/tensor_parallel times it.

tensor_parallel.py train --rank R --world 4 --address A:P --out FILE ...   one rank; rank 0 writes what was measured as JSON
tensor_parallel.py report [--json FILE] PEER METRICS...                    one table of what rank 0 and Weft's runs wrote

The model is that of pytorch_models.py, but for q, k and v, which are three linears here: a fused one cannot be split by heads. It is
split as PyTorch's tutorial on tensor parallelism says: q, k, v, expand and the output layer by columns, projection and contract by rows,
the embedding by rows, the loss in parts (loss_parallel); everything else lies on every rank. With --world 1 nothing is split.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import time

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, loss_parallel, parallelize_module
except ImportError as error:
    sys.exit(f"PyTorch is missing ({error}). Make a virtual environment with it and give its folder as WEFT_PEER_VENV:\n"
             "  python3 -m venv VENV && VENV/bin/pip install torch==2.15.0 numpy")

from pipelining import gathered, interface_bytes, join, span
from pytorch_models import Gpt


class Qkv(nn.Module):
    """A linear as three, of one input."""

    def __init__(self, fused):
        super().__init__()
        width = fused.in_features
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        with torch.no_grad():
            for i, part in enumerate((self.q, self.k, self.v)):
                part.weight.copy_(fused.weight[i * width:(i + 1) * width])
                part.bias.copy_(fused.bias[i * width:(i + 1) * width])

    def forward(self, x):
        return self.q(x), self.k(x), self.v(x)


class Block(nn.Module):
    """A block of pytorch_models.Gpt with its q, k and v apart."""

    def __init__(self, fused):
        super().__init__()
        self.head_width = fused.qkv.in_features // fused.heads
        self.ln1, self.ln2, self.qkv = fused.ln1, fused.ln2, Qkv(fused.qkv)
        self.projection, self.expand, self.contract = fused.projection, fused.expand, fused.contract

    def forward(self, x):
        batch, sequence, _ = x.shape
        q, k, v = (y.view(batch, sequence, -1, self.head_width).transpose(1, 2) for y in self.qkv(self.ln1(x)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(batch, sequence, -1))
        return x + self.contract(F.gelu(self.expand(self.ln2(x)), approximate="tanh"))


def split(model, mesh):
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False),
    })
    for block in model.blocks:
        parallelize_module(block, mesh, {
            # Once for the three, so that their input's gradient is reduced once (57 MB sent in a step, not 82).
            "qkv": PrepareModuleInput(input_layouts=(Replicate(),), desired_input_layouts=(Replicate(),)),
            **{name: ColwiseParallel() for name in ("qkv.q", "qkv.k", "qkv.v", "expand")},
            **{name: RowwiseParallel() for name in ("projection", "contract")},
        })


def train(arguments):
    rank, world = arguments.rank, arguments.world
    interface = join(arguments)
    torch.manual_seed(1)
    model = Gpt(arguments.layers, arguments.width, arguments.heads, arguments.sequence, arguments.vocabulary)
    model.blocks = nn.ModuleList(Block(block) for block in model.blocks)
    if world > 1:
        split(model, dist.device_mesh.init_device_mesh("cpu", (world,)))
    parameters = list(model.parameters())
    # One for what is split and one for what is not: a fused one does not take both.
    optimizers = []
    for is_split in (False, True):
        own = [p for p in parameters if hasattr(p, "placements") == is_split]
        groups = [{"params": [p for p in own if p.dim() >= 2], "weight_decay": 0.1},
                  {"params": [p for p in own if p.dim() < 2], "weight_decay": 0.0}]
        if own:
            optimizers.append(torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True))
    steps, sent, losses = [], [], []
    for number in range(arguments.warmup + arguments.steps):
        generator = torch.Generator().manual_seed(number)
        tokens, targets = torch.randint(arguments.vocabulary, (2, arguments.batch, arguments.sequence), generator=generator).unbind()
        dist.barrier()
        before, start = interface_bytes(interface)[0], time.monotonic()
        with loss_parallel() if world > 1 else contextlib.nullcontext():
            loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
            model.zero_grad(set_to_none=True)
            loss.backward()
        clip(parameters)
        for optimizer in optimizers:
            optimizer.step()
        end = time.monotonic()
        dist.barrier()
        bytes_sent = gathered(interface_bytes(interface)[0] - before)
        seconds = span(start, end)
        losses.append(float((loss.full_tensor() if hasattr(loss, "full_tensor") else loss).detach()))
        if number >= arguments.warmup:
            steps.append(seconds)
            sent.append(max(bytes_sent))
    if rank == 0:
        with open(arguments.out, "w") as file:
            json.dump({"device": f"torch {torch.__version__} eager over Gloo, {world} processes of 1 thread", "steps": steps,
                       "losses": losses, "bytes_sent": statistics.median(sent)}, file)
    dist.barrier()
    dist.destroy_process_group()


def clip(parameters):
    """By the norm of all gradients, 1. By hand: the squares of all that are split are reduced together, once."""
    split_ones, whole = [], []  # local parts
    for p in parameters:
        on_mesh = hasattr(p.grad, "placements")
        is_split = on_mesh and p.grad.placements[0].is_shard()
        (split_ones if is_split else whole).append(p.grad.to_local() if on_mesh else p.grad)
    squares = nn.utils.get_total_norm(split_ones).square() if split_ones else torch.zeros(())
    dist.all_reduce(squares)
    norm = (squares + nn.utils.get_total_norm(whole).square()).sqrt()
    torch._foreach_mul_([*split_ones, *whole], torch.clamp(1.0 / (norm + 1e-6), max=1.0))


def report(arguments):
    peer = json.load(open(arguments.peer))
    rows = [{"system": "PyTorch", "layout": "1d", "seconds": peer["steps"], "losses": peer["losses"], "bytes_sent": peer["bytes_sent"]}]
    for path in arguments.metrics:
        lines = [json.loads(line) for line in open(path)]
        rows.append({"system": "Weft", "layout": os.path.basename(os.path.dirname(path)),
                     "seconds": [line["seconds"] for line in lines[arguments.warmup:]], "losses": [line["loss"] for line in lines]})
    first = statistics.median(rows[0]["seconds"])
    print(f"{peer['device']}; {arguments.about}; median of {len(rows[0]['seconds'])} steps")
    print(f"  {'system':8} {'layout':12} {'step s':>8} {'min':>8} {'max':>8} {'speed':>6}   losses, first and last")
    for row in rows:
        times = row["seconds"]
        row["speed"] = first / statistics.median(times)
        print(f"  {row['system']:8} {row['layout']:12} {statistics.median(times):8.3f} {min(times):8.3f} {max(times):8.3f} {row['speed']:6.2f}"
              f"   {row['losses'][0]:.4f} {row['losses'][-1]:.4f}")
    print(f"PyTorch sends {peer['bytes_sent'] / 1e6:.1f} MB from each host in a step")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"benchmark": "tensor_parallel", "about": arguments.about, "rows": rows}, file, indent=1)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("train")
    for name, default in (("rank", None), ("world", 4), ("steps", 5), ("warmup", 2), ("layers", 4), ("width", 512), ("heads", 8),
                          ("sequence", 128), ("vocabulary", 1024), ("batch", 8)):
        one.add_argument("--" + name, type=int, default=default, required=default is None)
    one.add_argument("--address", required=True, help="HOST:PORT of rank 0")
    one.add_argument("--out", required=True)
    two = commands.add_parser("report")
    two.add_argument("--json")
    two.add_argument("--about", required=True)
    two.add_argument("--warmup", type=int, default=2)
    two.add_argument("peer")
    two.add_argument("metrics", nargs="+")
    arguments = parser.parse_args()
    {"train": train, "report": report}[arguments.command](arguments)


if __name__ == "__main__":
    main()
