"""Stage `ranks`: NCCL between two processes on one GPU.

Each process has its own NCCL_HOSTID, so that NCCL takes them for two hosts. Their kernels take turns: no time of
this stage is a speed.
"""
import contextlib
import random
import re
import time

import processes
from stages import gtest
from stages.stage import json_lines

SHARED = re.compile(r"[Dd]uplicate GPU detected")  # NCCL's message if it refuses the shared GPU
CLOSE = 1e-3  # largest relative difference of losses of two ranks and of one

RUN_FILE = """\
name: {name}
app: gpt
cluster: {{launcher: manual, device: {device}, share_gpu: true, hosts: [{{name: rank0, devices: 1}}, {{name: rank1, devices: 1}}]}}
meshes: {{{meshes}}}
sharding: {{batch: data}}
pipeline: {{stages: [{stages}], schedule: 1f1b, microbatches: 8, gpu_transfers: {transfers}}}
training: {{steps: {steps}, batch: {batch}, learning_rate: 3e-4, weight_decay: 0.1, clip_norm: 1.0, validate_every: 0}}
checkpoint: {{every: 0}}
recovery: {{copy_every: 0}}
model: {{{model}, precision: bf16}}
data: {{text: '{folder}/text', tokenizer: bytes, cache: '{folder}/cache'}}
sample: {{tokens: 0}}
"""


def ranks(stage):
    if not run_tests(stage):
        return
    if stage.on_gpu:
        pipeline(stage, "layers: 12, width: 768, heads: 12, sequence: 1024", front=8, back=4, batch=32, steps=12)
    else:
        pipeline(stage, "layers: 4, width: 64, heads: 2, sequence: 64", front=2, back=2, batch=8, steps=6)


def run_tests(stage):
    """Runs the tests of NCCL and of training by two processes. Returns false if NCCL does not share the GPU."""
    variables = {"NCCL_DEBUG": "WARN"}
    for program in ("tests_transfer_nccl_plugin", "tests_training_gpu"):
        tests = gtest.list_tests(stage, program, "*" if stage.on_gpu else "-*Gpu*")
        name = f"{program}-0"
        results = gtest.run_slice(stage, program, tests, name, 30, variables) if tests else {}
        log = stage.settings.logs / f"{stage.name}-{name}.log"
        if tests and SHARED.search(log.read_text(errors="replace")):
            stage.leave_out("two ranks on one GPU", "NCCL refuses ranks that share a GPU (Duplicate GPU detected)")
            return False
        gtest.report(stage, program, results)
    return not stage.failures


def pipeline(stage, model, front, back, batch, steps):
    """Trains a pipeline of two processes, by NCCL and through host memory, and compares it with one process."""
    folder = stage.work / "ranks"
    folder.mkdir()
    draw = random.Random(1)
    words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 9))) for _ in range(2000)]
    (folder / "text").write_text("\n".join(" ".join(draw.choices(words, k=14)) for _ in range(8000)) + "\n")
    first, second = "first: {hosts: [rank0], shape: {data: 1}}", "second: {hosts: [rank1], shape: {data: 1}}"
    one = {"meshes": first, "stages": f"{{mesh: first, layers: {front + back}}}", "transfers": "auto"}
    two = {"meshes": f"{first}, {second}",
           "stages": f"{{mesh: first, layers: {front}}}, {{mesh: second, layers: {back}}}"}
    arms = {"one process": one, "two processes": two | {"transfers": "auto"},
            "two processes through host memory": two | {"transfers": "host"}}
    steps_of = {}
    with cluster(stage, folder) as address:
        for arm, values in arms.items():
            name = arm.replace(" ", "-")
            file = folder / f"{name}.yaml"
            file.write_text(RUN_FILE.format(name=name, device=stage.device, steps=steps, batch=batch, model=model,
                                            folder=folder, **values))
            command = [stage.program("weft"), "run", file, "--head", address, "--out", folder / name]
            ended = stage.run(name, command, 40)
            if ended.status != 0:
                stage.fail(f"weft run, {arm}, {ended.cause}")
                continue
            steps_of[arm] = json_lines((folder / name / "metrics.jsonl").read_text())
            last = steps_of[arm][-1]
            stage.say(f"{arm}: loss {steps_of[arm][0]['loss']:.6f} -> {last['loss']:.6f}, "
                      f"{last['resharded_bytes'] / 2**20:.1f} MiB moved a step")
            for line in ended.text.splitlines():
                if line.startswith("  GPUs"):
                    stage.say(f"  {line.strip()[:200]}")
    for arm in list(arms)[1:]:
        if "one process" in steps_of and arm in steps_of:
            compare(stage, arm, steps_of["one process"], steps_of[arm])


def compare(stage, arm, expected, found):
    apart = max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(expected, found, strict=True))
    stage.say(f"{arm} beside one: {'equal bits' if apart == 0 else f'at most {apart:.2g} apart'}, {CLOSE:g} allowed")
    stage.figure("apart", apart, "of the loss", arm=f"{arm} beside one", allowed=CLOSE)
    if not apart <= CLOSE:
        stage.fail(f"{arm}: losses are {apart:.2g} of one process's apart, {CLOSE:g} allowed")


@contextlib.contextmanager
def cluster(stage, folder):
    """Starts a head and two hosts for a `with` block. Yields the address of the head."""
    logs, environment, weft = stage.settings.logs, stage.settings.environment, stage.program("weft")
    with contextlib.ExitStack() as stack:
        log = logs / "ranks-head.log"
        command = [weft, "head", "--listen", "127.0.0.1:0", "--state", folder / "state"]
        head = stack.enter_context(processes.started(command, log, environment))
        address = None
        deadline = time.monotonic() + min(15, stage.left())
        while not address and head.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
            if found := re.search(r"^Weft's head listens on (\S+)", log.read_text(), re.MULTILINE):
                address = found.group(1)
        if not address:
            raise RuntimeError(f"weft head does not listen: {log.read_text()[-300:]}")
        for rank in range(2):
            command = [weft, "join", address, "--name", f"rank{rank}", "--devices", "1", "--logs", folder / f"rank{rank}"]
            stack.enter_context(processes.started(command, logs / f"ranks-join{rank}.log",
                                                  environment | {"NCCL_HOSTID": f"weft-rank-{rank}"}))
        yield address
