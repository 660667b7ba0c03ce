"""GPT training with torch.distributed.pipelining over Gloo, as tests/bench/peers/pipelining times it.

pipelining.py train --rank R --world 2 --address A:P --out FILE ...   one rank; rank 0 writes what was measured as JSON
pipelining.py link --ratio 0.5 FILE                                   the link's rate at which a transfer takes that share of F+B
pipelining.py report [--json FILE] FILE...                            one table of what rank 0 wrote, one file per link

The model is that of pytorch_models.py (and of apps/models), cut into stages of equal numbers of layers: the embeddings
belong to the first, the final norm and the output layer to the last. Every schedule trains a copy of its own from the same start
on the same tokens; the copies take turns step by step, and their losses must agree. What bounds them all, forward and backward of
a rank's layers without any communication, is timed in the same turns.
"""
import argparse
import gc
import json
import math
import os
import statistics
import sys
import time
from datetime import timedelta

try:
    import torch
    import torch.distributed as dist
    import torch.nn.functional as F
    from torch import nn
    from torch.distributed import pipelining
except ImportError as error:
    sys.exit(f"PyTorch is missing ({error}). Make a virtual environment with it and give its folder as WEFT_PEER_VENV:\n"
             "  python3 -m venv VENV && VENV/bin/pip install torch==2.15.0 numpy")

from pytorch_models import Gpt

# name: (label, schedule, chunks per rank, order of the stages over ranks, all receives moved to the front)
# The four of the comparison, then what an expert may get out of the same package:
# - PyTorch's multi-stage classes with one stage per rank, which makes GPipe (backward in reverse), eager 1F1B and ZB-H1 of them.
#   Their runtime posts a receive before it needs it; ScheduleGPipe and Schedule1F1B post it and wait. Gloo starts a transfer only
#   when both sides have posted, so that with these two no transfer overlaps computation of the rank that receives.
# - The same with every receive posted when the step begins. PyTorch has no such schedule, but its runtime takes one from a user
#   (format "compute_comms").
SCHEDULES = {
    "gpipe": ("GPipe", pipelining.ScheduleGPipe, 1, "loop", False),
    "1f1b": ("1F1B", pipelining.Schedule1F1B, 1, "loop", False),
    "interleaved": ("Interleaved1F1B, 2 chunks", pipelining.ScheduleInterleaved1F1B, 2, "loop", False),
    "zbv": ("ZBVZeroBubble", pipelining.ScheduleZBVZeroBubble, 2, "v", False),
    "bfs-1": ("LoopedBFS, 1 chunk", pipelining.ScheduleLoopedBFS, 1, "loop", False),
    "interleaved-1": ("Interleaved1F1B, 1 chunk", pipelining.ScheduleInterleaved1F1B, 1, "loop", False),
    "zb1p-1": ("InterleavedZeroBubble, 1 chunk", pipelining.ScheduleInterleavedZeroBubble, 1, "loop", False),
    "interleaved-1-early": ("by hand: 1 chunk, early receives", pipelining.ScheduleInterleaved1F1B, 1, "loop", True),
    "zbv-early": ("by hand: ZBV, early receives", pipelining.ScheduleZBVZeroBubble, 2, "v", True),
}
DEFAULT = "gpipe,1f1b,interleaved,zbv,interleaved-1,interleaved-1-early"
SINGLE = (pipelining.ScheduleGPipe, pipelining.Schedule1F1B)


class Stage(nn.Module):
    """Layers [first, last) of a model, with the embeddings before or the output layer behind where they belong there."""

    def __init__(self, model, first, last):
        super().__init__()
        layers = len(model.blocks)
        self.blocks = model.blocks[first:last]
        self.embedding = model.embedding if first == 0 else None
        self.positions = model.positions if first == 0 else None
        self.final = model.final if last == layers else None
        self.head = model.head if last == layers else None

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x) + self.positions
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(self.final(x))


class Shape:
    """Sizes of the model and of one step, with what follows from them."""

    def __init__(self, arguments):
        self.layers, self.width, self.heads = arguments.layers, arguments.width, arguments.heads
        self.sequence, self.vocabulary = arguments.sequence, arguments.vocabulary
        self.batch, self.microbatches = arguments.batch, arguments.microbatches
        self.boundary_bytes = 4 * self.batch * self.sequence * self.width

    def model(self):
        torch.manual_seed(1)
        return Gpt(self.layers, self.width, self.heads, self.sequence, self.vocabulary)

    def stage(self, index, stages):
        each = self.layers // stages
        return Stage(self.model(), index * each, (index + 1) * each)

    def tokens(self, step):
        """Inputs and targets of a whole step, the same on every rank."""
        generator = torch.Generator().manual_seed(step)
        return torch.randint(self.vocabulary, (2, self.microbatches * self.batch, self.sequence), generator=generator).unbind()

    def loss(self, logits, targets):
        """A microbatch's share of the step's mean, so that neither losses nor gradients need scaling afterwards."""
        total = F.cross_entropy(logits.view(-1, self.vocabulary), targets.view(-1), reduction="sum")
        return total / (self.microbatches * self.batch * self.sequence)


def rank_of(index, stages, world, order):
    """The rank that has a stage: round robin, or there and back."""
    return index % world if order == "loop" else min(index, stages - 1 - index)


def interface_bytes(name):
    """What an interface of this network namespace has sent and received."""
    for line in open("/proc/net/dev"):
        interface, _, counters = line.partition(":")
        if interface.strip() == name:
            fields = counters.split()
            return int(fields[8]), int(fields[0])
    sys.exit(f"there is no interface {name} here; start this through tests/bench/peers/pipelining")


class Trainer:
    """One schedule with its stages, its optimizer and what was measured of it."""

    def __init__(self, name, shape, rank, world):
        self.name, self.shape, self.rank = name, shape, rank
        self.label, kind, chunks, order, early = SCHEDULES[name]
        stages = world * chunks
        places = [rank_of(i, stages, world, order) for i in range(stages)]
        mine = [i for i in range(stages) if places[i] == rank]
        self.has_first, self.has_last = 0 in mine, stages - 1 in mine
        device = torch.device("cpu")
        activation = torch.zeros(shape.batch, shape.sequence, shape.width, requires_grad=True)
        tokens = torch.zeros(shape.batch, shape.sequence, dtype=torch.int64)
        logits = torch.zeros(shape.batch, shape.sequence, shape.vocabulary, requires_grad=True)
        parts = [pipelining.PipelineStage(shape.stage(i, stages), i, stages, device, input_args=activation if i else tokens,
                                          output_args=activation if i < stages - 1 else logits) for i in mine]
        self.schedule = kind(parts[0] if kind in SINGLE else parts, shape.microbatches, loss_fn=shape.loss, scale_grads=False)
        if early:
            # Sorting is stable: what one rank sends to another is received in that order.
            actions = self.schedule.pipeline_order_with_comms[rank]
            actions.sort(key=lambda action: not action.computation_type.value.startswith("RECV"))
        self.parameters = [p for part in parts for p in part.submod.parameters()]
        self.optimizer = torch.optim.AdamW(
            [{"params": [p for p in self.parameters if p.dim() >= 2], "weight_decay": 0.1},
             {"params": [p for p in self.parameters if p.dim() < 2], "weight_decay": 0.0}],
            lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)
        crossing = [(a, b) for a, b in zip(places, places[1:]) if a != b]
        # Activations one way, their gradients back.
        tensors = [shape.microbatches * sum(r in edge for edge in crossing) for r in range(world)]
        self.expected = [n * shape.boundary_bytes for n in tensors]
        self.steps, self.cpu, self.losses, self.bytes = [], [], [], []

    def step(self, tokens, targets):
        """Forward, backward, clipping by the norm over all ranks, AdamW. The loss where the last stage is, else 0."""
        losses = []
        self.optimizer.zero_grad(set_to_none=True)
        self.schedule.step(*([tokens] if self.has_first else []), target=targets if self.has_last else None,
                           losses=losses if self.has_last else None, return_outputs=False)
        squares = nn.utils.get_total_norm([p.grad for p in self.parameters]).square()
        dist.all_reduce(squares)
        nn.utils.clip_grads_with_norm_(self.parameters, 1.0, squares.sqrt())
        self.optimizer.step()
        return float(sum(losses)) if self.has_last else 0.0

    def measure(self, number, interface, keep):
        tokens, targets = self.shape.tokens(number)
        dist.barrier()
        sent = interface_bytes(interface)[0]
        cpu, start = time.process_time(), time.monotonic()
        loss = self.step(tokens, targets)
        end, cpu = time.monotonic(), time.process_time() - cpu
        dist.barrier()
        sent = interface_bytes(interface)[0] - sent
        seconds = span(start, end)
        total = torch.tensor(loss, dtype=torch.float64)
        dist.all_reduce(total)
        self.losses.append(float(total))
        if keep:
            self.steps.append(seconds)
            self.cpu.append(gathered(cpu))
            self.bytes.append(gathered(sent))


class Alone:
    """Forward and backward of all microbatches by this rank's layers, without communication."""

    def __init__(self, shape, rank, world):
        self.shape = shape
        self.module = shape.stage(rank, world)
        self.last = rank == world - 1
        self.first = rank == 0
        self.input = torch.randn(shape.batch, shape.sequence, shape.width)
        self.seconds, self.cpu = [], []

    def measure(self, number, _interface, keep):
        tokens, targets = (t.split(self.shape.batch) for t in self.shape.tokens(number))
        self.module.zero_grad(set_to_none=True)
        dist.barrier()
        cpu, start = time.process_time(), time.monotonic()
        for i in range(self.shape.microbatches):
            y = self.module(tokens[i] if self.first else self.input.detach().requires_grad_())
            if self.last:
                self.shape.loss(y, targets[i]).backward()
            else:
                y.backward(self.input)
        seconds, cpu = time.monotonic() - start, time.process_time() - cpu
        seconds, cpu = gathered(seconds), gathered(cpu)
        if keep:
            self.seconds.append(seconds)
            self.cpu.append(cpu)


def gathered(value):
    """A number of each rank, as a list."""
    everyone = [torch.zeros(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, torch.tensor([value], dtype=torch.float64))
    return [float(t) for t in everyone]


def span(start, end):
    """From the first rank's start to the last rank's end; all are processes of one machine and have one clock."""
    times = torch.tensor([-start, end], dtype=torch.float64)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    return float(times.sum())


def median_by_rank(rows):
    return [statistics.median(column) for column in zip(*rows)]


def check(trainers, link):
    """Exits if the schedules did not compute the same, or if the links did not carry what they should."""
    for trainer in trainers[1:]:
        for i, (mine, first) in enumerate(zip(trainer.losses, trainers[0].losses)):
            if not math.isclose(mine, first, rel_tol=1e-4):
                sys.exit(f"the schedules must compute the same, but the loss of step {i} is {mine:.6f} with {trainer.name} and "
                         f"{first:.6f} with {trainers[0].name}")
    for trainer in trainers:
        for sent in trainer.bytes:
            for rank, (counted, expected) in enumerate(zip(sent, trainer.expected)):
                # Headers are 0.3 percent while the kernel hands over 64 KiB at once, 4.5 where it cuts segments; acknowledgements
                # and barriers come on top.
                if not expected <= counted <= 1.08 * expected + 100_000:
                    sys.exit(f"{trainer.name} on links of {link}: rank {rank} sent {counted:.0f} bytes in a step, "
                             f"where its tensors have {expected}")


def join(arguments):
    """Becomes a rank of one thread; the interface that it talks over."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://{arguments.address}", rank=arguments.rank, world_size=arguments.world,
                            timeout=timedelta(seconds=300))
    return os.environ.get("GLOO_SOCKET_IFNAME", "")


def train(arguments):
    rank, world = arguments.rank, arguments.world
    interface = join(arguments)
    shape = Shape(arguments)
    names = [name for name in arguments.schedules.split(",") if name]
    for name in names:
        stages = world * SCHEDULES[name][2]
        if shape.layers % stages:
            sys.exit(f"{shape.layers} layers cannot be divided into {stages} equal stages, as {name} wants them")
    alone = Alone(shape, rank, world)
    trainers = [Trainer(name, shape, rank, world) for name in names]
    gc.collect()
    gc.freeze()
    load = os.getloadavg()[0]
    for number in range(arguments.warmup + arguments.steps):
        for one in [alone, *trainers]:
            one.measure(number, interface, number >= arguments.warmup)
    if rank == 0:
        seconds = median_by_rank(alone.seconds)
        result = {
            "benchmark": "pytorch_pipelining", "variant": arguments.variant, "link": arguments.link, "load_average": load,
            "device": f"torch {torch.__version__} eager over Gloo, {world} processes of 1 thread", "shape": vars(shape),
            "stages": world, "steps": arguments.steps,
            "compute_alone": {"seconds": seconds, "cpu_seconds": median_by_rank(alone.cpu), "slower": max(seconds)},
            "schedules": [{
                "name": t.name, "label": t.label, "steps": t.steps, "losses": t.losses, "cpu_seconds": median_by_rank(t.cpu),
                "seconds": {"median": statistics.median(t.steps), "min": min(t.steps), "max": max(t.steps)},
                "bytes_sent": median_by_rank(t.bytes), "bytes_expected": t.expected} for t in trainers],
        }
        with open(arguments.out, "w") as file:
            json.dump(result, file)
        check(trainers, arguments.link)
    dist.barrier()
    dist.destroy_process_group()


def bits_of(rate):
    units = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3, "bit": 1.0}
    return next(float(rate[:-len(unit)]) * factor for unit, factor in units.items() if rate.endswith(unit))


def ratio_of(run):
    """The transfer of one boundary tensor over F+B of one microbatch on the slower stage; None where links are not shaped."""
    if run["link"] == "none":
        return None
    shape = run["shape"]
    return shape["boundary_bytes"] * 8 / bits_of(run["link"]) * shape["microbatches"] / run["compute_alone"]["slower"]


def link(arguments):
    run = json.load(open(arguments.file))
    seconds = arguments.ratio * run["compute_alone"]["slower"] / run["shape"]["microbatches"]
    print(f"{round(run['shape']['boundary_bytes'] * 8 / seconds / 1e3)}kbit")


def report(arguments):
    runs = [json.load(open(path)) for path in arguments.files]
    for run in runs:
        run["ratio"] = ratio_of(run)
    if arguments.json:
        text = json.dumps({"benchmark": "pipelining", "system": "PyTorch", "runs": runs}, indent=1)
        if arguments.json == "-":
            print(text)
            return
        with open(arguments.json, "w") as file:
            file.write(text + "\n")
    first = runs[0]
    shape = first["shape"]
    print(f"{first['device']}, MKL {first['variant']}; GPT of {shape['layers']} layers of width {shape['width']}, "
          f"{shape['heads']} heads, {first['stages']} stages, {shape['microbatches']} microbatches of {shape['batch']} x "
          f"{shape['sequence']} tokens; median of {first['steps']} steps")
    for run in runs:
        alone = run["compute_alone"]
        ratio = "links not shaped" if run["ratio"] is None else f"link {run['link']}: a transfer takes {run['ratio']:.2f} of F+B"
        print(f"\n{ratio}; load average {run['load_average']:.1f} before\n"
              f"compute alone, by rank: {' and '.join(f'{s:.3f}' for s in alone['seconds'])} s "
              f"({' and '.join(f'{s:.3f}' for s in alone['cpu_seconds'])} s of CPU)")
        print(f"  {'schedule':32} {'step s':>8} {'min':>8} {'max':>8} {'/compute':>9} {'CPU s by rank':>16} "
              f"{'MB sent by rank':>18}   loss by step")
        for row in run["schedules"]:
            times = row["seconds"]
            cpu, sent = " ".join(f"{s:.2f}" for s in row["cpu_seconds"]), " ".join(f"{b / 1e6:.1f}" for b in row["bytes_sent"])
            losses = " ".join(f"{loss:.5f}" for loss in row["losses"])
            print(f"  {row['label']:32} {times['median']:8.3f} {times['min']:8.3f} {times['max']:8.3f} "
                  f"{times['median'] / alone['slower']:9.2f} {cpu:>16} {sent:>18}   {losses}")


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("train")
    for name, default in (("rank", None), ("world", 2), ("steps", 3), ("warmup", 1), ("layers", 8), ("width", 384), ("heads", 6),
                          ("sequence", 256), ("vocabulary", 1024), ("batch", 4), ("microbatches", 8)):
        one.add_argument("--" + name, type=int, default=default, required=default is None)
    one.add_argument("--address", required=True, help="HOST:PORT of rank 0")
    one.add_argument("--schedules", default=DEFAULT, help="names with commas between, or all; empty: compute alone")
    one.add_argument("--link", default="none", help="for the record")
    one.add_argument("--variant", default="stock", help="for the record")
    one.add_argument("--out", required=True)
    two = commands.add_parser("link")
    two.add_argument("--ratio", type=float, required=True)
    two.add_argument("file")
    three = commands.add_parser("report")
    three.add_argument("--json")
    three.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    if arguments.command == "train":
        if arguments.schedules == "all":
            arguments.schedules = ",".join(SCHEDULES)
        unknown = [name for name in arguments.schedules.split(",") if name and name not in SCHEDULES]
        if unknown:
            sys.exit(f"there is no schedule {unknown[0]!r}; there are {', '.join(SCHEDULES)}")
    {"train": train, "link": link, "report": report}[arguments.command](arguments)


if __name__ == "__main__":
    main()
