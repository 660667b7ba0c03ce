"""GPT training under PyTorch's parallelism over Gloo, as tests/bench/peers/layouts times it.

layouts.py train --kind KIND --rank R --world 4 --address A:P --out FILE ...   one rank; rank 0 writes what was measured as JSON
layouts.py link --ratio R --computing FILE --peer FILE                         the rate of a link, such as 480mbit
layouts.py report [--json FILE] --peer KIND=FILE ... METRICS...                one table of what ranks 0 and Weft's runs wrote

Kinds: ddp and fsdp2 divide the batch among the ranks (DistributedDataParallel; fully_shard of each block); none divides it, and never
communicates. 1d is tensor parallelism. The model is that of pytorch_models.py, but for q, k and v under 1d, which are three linears there:
a fused one cannot be split by heads. It is split as PyTorch's tutorial on tensor parallelism says: q, k, v, expand and the output layer by
columns, projection and contract by rows, the embedding by rows, the loss in parts (loss_parallel); everything else lies on every rank.
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
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, loss_parallel, parallelize_module
    from torch.nn.parallel import DistributedDataParallel
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


def divide(model, kind, world):
    """Divides the model among the ranks. Returns what computes its logits."""
    if kind == "1d":
        model.blocks = nn.ModuleList(Block(block) for block in model.blocks)
        split(model, dist.device_mesh.init_device_mesh("cpu", (world,)))
    if kind == "ddp":
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    if kind == "fsdp2":
        mesh = dist.device_mesh.init_device_mesh("cpu", (world,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def mean_loss(loss, kind):
    if kind in ("ddp", "fsdp2"):
        dist.all_reduce(loss)
        loss /= dist.get_world_size()
    return float(loss)


def train(arguments):
    rank, world = arguments.rank, arguments.world
    interface = join(arguments)
    torch.manual_seed(1)
    model = Gpt(arguments.layers, arguments.width, arguments.heads, arguments.sequence, arguments.vocabulary)
    forward = divide(model, arguments.kind, world)
    parameters = list(model.parameters())
    rows = arguments.batch if arguments.kind == "1d" else arguments.batch // world
    mine = slice(0, rows) if arguments.kind == "1d" else slice(rank * rows, (rank + 1) * rows)
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
        with loss_parallel() if arguments.kind == "1d" else contextlib.nullcontext():
            loss = F.cross_entropy(forward(tokens[mine]).flatten(0, 1), targets[mine].flatten())
            model.zero_grad(set_to_none=True)
            loss.backward()
        clip(parameters, arguments.kind)
        for optimizer in optimizers:
            optimizer.step()
        end = time.monotonic()
        dist.barrier()
        bytes_sent = gathered(interface_bytes(interface)[0] - before)
        seconds = span(start, end)
        losses.append(mean_loss((loss.full_tensor() if hasattr(loss, "full_tensor") else loss).detach(), arguments.kind))
        if number >= arguments.warmup:
            steps.append(seconds)
            sent.append(max(bytes_sent))
    if rank == 0:
        with open(arguments.out, "w") as file:
            json.dump({"device": f"torch {torch.__version__} eager over Gloo, {world} processes of 1 thread", "kind": arguments.kind, "steps": steps,
                       "losses": losses, "bytes_sent": statistics.median(sent)}, file)
    dist.barrier()
    dist.destroy_process_group()


def clip(parameters, kind):
    """By the norm of all gradients, 1. By hand: the squares of all that are split are reduced together, once."""
    if kind in ("ddp", "none"):
        nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        return
    split_ones, whole = [], []  # local parts
    for p in parameters:
        on_mesh = hasattr(p.grad, "placements")
        is_split = on_mesh and p.grad.placements[0].is_shard()
        (split_ones if is_split else whole).append(p.grad.to_local() if on_mesh else p.grad)
    squares = nn.utils.get_total_norm(split_ones).square() if split_ones else torch.zeros(())
    dist.all_reduce(squares)
    norm = (squares + nn.utils.get_total_norm(whole).square()).sqrt()
    torch._foreach_mul_([*split_ones, *whole], torch.clamp(1.0 / (norm + 1e-6), max=1.0))


PEERS = {"data": "ddp", "fsdp": "fsdp2"}  # of Weft's layouts; of all others: 1d


def link(arguments):
    """The rate at which what the peer sends takes --ratio of the time of its computing alone."""
    computing = statistics.median(json.load(open(arguments.computing))["steps"])
    rate = 8 * json.load(open(arguments.peer))["bytes_sent"] / (arguments.ratio * computing)
    print(f"{max(1, round(rate / 1e6))}mbit")


def report(arguments):
    peers = dict(one.split("=", 1) for one in arguments.peer)
    peers = {kind: json.load(open(path)) for kind, path in peers.items()}
    rows = [{"system": "PyTorch", "layout": kind, "peer": kind, "seconds": peer["steps"], "losses": peer["losses"],
             "bytes_sent": peer["bytes_sent"]} for kind, peer in peers.items()]
    for path in arguments.metrics:
        lines = [json.loads(line) for line in open(path)]
        layout = os.path.basename(os.path.dirname(path))
        rows.append({"system": "Weft", "layout": layout, "peer": PEERS.get(layout, "1d"),
                     "seconds": [line["seconds"] for line in lines[arguments.warmup:]], "losses": [line["loss"] for line in lines]})
    print(f"{next(iter(peers.values()))['device']}; {arguments.about}; median of {len(rows[0]['seconds'])} steps; speed: beside its peer")
    print(f"  {'system':8} {'layout':12} {'peer':6} {'step s':>8} {'min':>8} {'max':>8} {'speed':>6}   losses, first and last")
    for row in rows:
        times = row["seconds"]
        row["speed"] = statistics.median(peers[row["peer"]]["steps"]) / statistics.median(times)
        print(f"  {row['system']:8} {row['layout']:12} {row['peer']:6} {statistics.median(times):8.3f} {min(times):8.3f} {max(times):8.3f} "
              f"{row['speed']:6.2f}   {row['losses'][0]:.4f} {row['losses'][-1]:.4f}")
    for kind, peer in peers.items():
        print(f"PyTorch {kind} sends {peer['bytes_sent'] / 1e6:.1f} MB from each host in a step")
    if arguments.json:
        with open(arguments.json, "a") as file:
            json.dump({"benchmark": "layouts", "about": arguments.about, "rows": rows}, file)
            file.write("\n")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("train")
    for name, default in (("rank", None), ("world", 4), ("steps", 5), ("warmup", 2), ("layers", 4), ("width", 512), ("heads", 8),
                          ("sequence", 128), ("vocabulary", 1024), ("batch", 8)):
        one.add_argument("--" + name, type=int, default=default, required=default is None)
    one.add_argument("--kind", choices=("1d", "ddp", "fsdp2", "none"), required=True)
    one.add_argument("--address", required=True, help="HOST:PORT of rank 0")
    one.add_argument("--out", required=True)
    two = commands.add_parser("report")
    two.add_argument("--json", help="a line is added")
    two.add_argument("--about", required=True)
    two.add_argument("--warmup", type=int, default=2)
    two.add_argument("--peer", action="append", required=True, metavar="KIND=FILE")
    two.add_argument("metrics", nargs="+")
    three = commands.add_parser("link")
    three.add_argument("--ratio", type=float, required=True)
    three.add_argument("--computing", required=True)
    three.add_argument("--peer", required=True)
    arguments = parser.parse_args()
    {"train": train, "report": report, "link": link}[arguments.command](arguments)


if __name__ == "__main__":
    main()
