"""GPT training under torchrun's elastic restarts, as tests/bench/peers/recovery times it.

recovery.py measure --kills N --out DIR     starts torchrun, kills a worker again and again; prints the times as JSON
recovery.py train --out DIR                 one worker, which torchrun starts
recovery.py report [--json FILE] FILE...    one table of what this and `death --device --json` have printed

The quickstart's size: 4 layers of width 128, 4 heads, 32 sequences of 64 tokens a step, 1,024 pieces. The four workers are data parallel
(DistributedDataParallel over Gloo); rank 0 saves model and optimiser every 10 steps, all load them when they start.
"""
import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time

WORKERS = 4
CHECKPOINT_EVERY = 10
GOES_ON_WITHIN = 180
STEPS_BETWEEN = 25


def train(arguments):
    try:
        import torch
        import torch.distributed as dist
        from torch.nn import functional
        from torch.nn.parallel import DistributedDataParallel
    except ImportError as error:
        sys.exit(f"PyTorch is missing ({error}); see tests/bench/peers/peer_venv")
    from pytorch_models import Gpt

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    with open(os.path.join(arguments.out, f"worker.{rank}"), "w") as file:
        file.write(str(os.getpid()))
    torch.manual_seed(1)
    model = DistributedDataParallel(Gpt(4, 128, 4, 64, 1024))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1, fused=True)
    checkpoint, step = os.path.join(arguments.out, "checkpoint.pt"), 0
    if os.path.exists(checkpoint):
        stored = torch.load(checkpoint)
        model.module.load_state_dict(stored["model"])
        optimizer.load_state_dict(stored["optimizer"])
        step = stored["step"]
    steps = open(os.path.join(arguments.out, "steps.jsonl"), "a") if rank == 0 else None
    while True:
        step += 1
        generator = torch.Generator().manual_seed(step * WORKERS + rank)
        tokens, targets = torch.randint(1024, (2, 32 // WORKERS, 64), generator=generator).unbind()
        optimizer.zero_grad()
        functional.cross_entropy(model(tokens).view(-1, 1024), targets.view(-1)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if rank != 0:
            continue
        print(json.dumps({"step": step, "pid": os.getpid(), "ns": time.monotonic_ns()}), file=steps, flush=True)
        if step % CHECKPOINT_EVERY == 0:
            stored = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
            torch.save(stored, checkpoint + ".new")
            os.replace(checkpoint + ".new", checkpoint)


def read_steps(out):
    try:
        with open(os.path.join(out, "steps.jsonl")) as file:
            return [json.loads(line) for line in file if line.endswith("\n")]
    except FileNotFoundError:
        return []


def wait_for(out, found, run):
    """The steps, as soon as `found` is true of them."""
    give_up = time.monotonic() + GOES_ON_WITHIN
    while time.monotonic() < give_up and run.poll() is None:
        steps = read_steps(out)
        if found(steps):
            return steps
        time.sleep(0.01)
    with open(os.path.join(out, "log")) as log:
        sys.exit("torchrun does not go on:\n" + "".join(log.readlines()[-40:]))


def measure(arguments):
    shutil.rmtree(arguments.out, ignore_errors=True)
    os.makedirs(arguments.out)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(WORKERS), "--max-restarts", "1000",
               "--monitor-interval", "0.1", os.path.abspath(__file__), "train", "--out", arguments.out]
    chance = random.Random(1)
    ms, repeated, since = [], [], 0
    # With a store shared by all attempts, Gloo's workers find the addresses of those before them there, and no restart comes to anything.
    environment = {**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with open(os.path.join(arguments.out, "log"), "w") as log:
        run = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)
    try:
        for kill in range(arguments.kills):
            least = STEPS_BETWEEN + chance.randrange(10)
            wait_for(arguments.out, lambda steps: len(steps) >= since + least, run)
            time.sleep(chance.random() / 10)
            with open(os.path.join(arguments.out, f"worker.{kill % WORKERS}")) as file:
                victim = int(file.read())
            before = read_steps(arguments.out)
            killed = time.monotonic_ns()
            os.kill(victim, signal.SIGKILL)
            pid = before[-1]["pid"]
            steps = wait_for(arguments.out, lambda steps: steps[-1]["pid"] != pid, run)
            first = next(i for i, step in enumerate(steps) if i >= len(before) and step["pid"] != pid)
            ms.append((steps[first]["ns"] - killed) / 1e6)
            repeated.append(steps[first - 1]["step"] - steps[first]["step"] + 1)
            since = first
        last = [step["ns"] for step in steps[first - STEPS_BETWEEN:first] if step["pid"] == pid]
        each = [(b - a) / 1e6 for a, b in zip(last, last[1:])]
    finally:
        os.killpg(run.pid, signal.SIGTERM)
        run.wait()
    print(json.dumps({"peer": {"ms": ms, "steps_repeated": repeated, "ms_per_step": statistics.median(each)}}))


def report(arguments):
    found = {}
    for path in arguments.files:
        with open(path) as file:
            for who, figures in json.load(file).items():
                entry = found.setdefault(who, {"ms": [], "steps_repeated": []})
                for key in entry:
                    entry[key] += figures[key]
    for who, name in (("device", "Weft"), ("peer", "PyTorch, torchrun")):
        e = found[who]
        print(f"{name:18} killed -> first step repeated: median {statistics.median(e['ms']):6.0f} ms, {min(e['ms']):.0f} to {max(e['ms']):.0f}; "
              f"steps repeated: median {statistics.median(e['steps_repeated']):.0f}, most {max(e['steps_repeated']):.0f} ({len(e['ms'])} kills)")
    ratio = statistics.median(found["peer"]["ms"]) / statistics.median(found["device"]["ms"])
    print(f"Weft is back {ratio:.1f} times as fast")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(found, file)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run in (("measure", measure), ("train", train)):
        command = commands.add_parser(name)
        command.add_argument("--out", required=True)
        command.set_defaults(run=run)
        if name == "measure":
            command.add_argument("--kills", type=int, default=5)
    command = commands.add_parser("report")
    command.add_argument("--json")
    command.add_argument("files", nargs="+")
    command.set_defaults(run=report)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
