"""Stage `runs`: `weft run` with several device processes on one GPU.

A tensor-parallel and a data-parallel mesh exchange tensors through host memory. The losses must equal those of
the CPU, of a run that lost a device, of resumed runs, and of other ways to split the same model.
"""
import os
import pathlib
import random
import signal

import processes
from stages.stage import json_lines

F32, BF16 = 2e-4, 2e-2  # largest relative differences of losses
KILL_AFTER = 13  # steps
LARGEST_HOST = 512 * 2**30  # bytes of memory that a run of 1 TiB certainly exceeds

RUN_FILE = """\
name: {name}
app: gpt
cluster: {{launcher: local, device: {device}, share_gpu: true, hosts: [{hosts}]}}
meshes: {{{meshes}}}
{sharding}
pipeline: {{stages: [{stages}], schedule: eager-1f1b, microbatches: 4, gpu_transfers: host{pipeline}}}
training: {{steps: {steps}, batch: {batch}, learning_rate: 1e-3, validate_every: 0}}
checkpoint: {{every: {checkpoint}}}
recovery: {{copy_every: 5}}
model: {{{model}{precision}}}
data: {{text: '{work}/text', tokenizer: bytes, cache: '{work}/cache'}}
sample: {{tokens: 0}}
"""
BY_HEADS = "sharding: {batch: data, heads: tensor, mlp: tensor}"
TWO_MESHES = {
    "hosts": "{name: w0, devices: 2}, {name: w1, devices: 2}",
    "meshes": "front: {hosts: [w0], shape: {data: 1, tensor: 2}}, back: {hosts: [w1], shape: {data: 2, tensor: 1}}",
    "stages": "{mesh: front, layers: 2}, {mesh: back, layers: 2}",
    "sharding": BY_HEADS,
}
ONE_MESH = {
    "hosts": "{name: w0, devices: 2}",
    "meshes": "front: {hosts: [w0], shape: {data: 2, tensor: 1}}",
    "stages": "{mesh: front, layers: 4}",
    "sharding": BY_HEADS,
}
CUBE = {
    "hosts": "{name: w0, devices: 8}",
    "meshes": "cube: {hosts: [w0], shape: {i: 2, j: 2, l: 2}, layout: {name: 3d, weight: i, input: j, output: l}}",
    "stages": "{mesh: cube, layers: 4}",
    "sharding": "",
}
TOO_LARGE = {
    "hosts": "{name: w0, devices: 1}",
    "meshes": "front: {hosts: [w0], shape: {data: 1}}",
    "stages": "{mesh: front, layers: 8}",
    "sharding": "sharding: {batch: data}",
    "model": "layers: 8, width: 1024, heads: 16, sequence: 1024",
    "batch": 8192,  # 1 TiB of activations in each of four microbatches
    "steps": 2,
    "checkpoint": 0,
}


class Runs:
    """The runs of one stage, by name."""

    def __init__(self, stage):
        self.stage = stage
        self.steps, self.checkpoint = (16, 8) if stage.settings.small else (40, 20)
        self.width, self.sequence = (32, 32) if stage.settings.small else (128, 64)
        self.folder = stage.work / "runs"
        self.folder.mkdir()

    def write_text(self):
        """Writes a text of made-up words, of which few are frequent."""
        draw = random.Random(1)
        words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(2, 7))) for _ in range(400)]
        weights = [1 / (rank + 3) for rank in range(len(words))]
        lines = (" ".join(draw.choices(words, weights, k=12)) for _ in range(9000))
        (self.folder / "text").write_text("\n".join(lines) + "\n")

    def out(self, name):
        return self.folder / name

    def start(self, name, layout, device=None, watch=None, options=(), variables=None, **more):
        """Runs `weft run` to its end. Returns how it ended."""
        values = {"name": name, "device": device or self.stage.device, "work": self.folder, "steps": self.steps,
                  "batch": 16, "checkpoint": self.checkpoint, "pipeline": "", "precision": "",
                  "model": f"layers: 4, width: {self.width}, heads: 4, sequence: {self.sequence}"} | layout | more
        file = self.folder / f"{name}.yaml"
        file.write_text(RUN_FILE.format(**values))
        command = [self.stage.program("weft"), "run", file, "--out", self.out(name), *options]
        return self.stage.run(name, command, 45, variables, watch)

    def succeeds(self, name, layout, **more):
        """Runs `weft run`, and reports a failure. Returns true on success."""
        ended = self.start(name, layout, **more)
        self.stage.say(f"weft run {name}: {ended.seconds:.0f} s")
        if ended.status != 0:
            self.stage.fail(f"weft run {name} {ended.cause}")
        for line in ended.text.splitlines():
            if " died: " in line or line.startswith("  GPUs"):
                self.stage.say(f"  {line.strip()[:200]}")
        return ended.status == 0

    def losses(self, name):
        metrics = self.out(name) / "metrics.jsonl"
        return {row["step"]: row["loss"] for row in json_lines(metrics.read_text())} if metrics.exists() else {}

    def compare(self, what, expected, found, allowed, first=1, last=None):
        """Compares the losses of two runs in the steps from `first` to `last`, or to the last of all."""
        last = last or self.steps
        a, b = self.losses(expected), self.losses(found)
        steps = range(first, last + 1)
        if missing := [step for step in steps if a.get(step) is None or b.get(step) is None]:
            self.stage.fail(f"{what}: no losses of {len(missing)} steps, the first is step {missing[0]}")
            return
        apart = max(abs(a[step] - b[step]) / abs(a[step]) for step in steps)
        told = "equal bits" if apart == 0 else f"at most {apart:.2g} apart"
        self.stage.say(f"{what}: {len(steps)} steps, {told}, {allowed:g} allowed")
        self.stage.figure("apart", apart, "of the loss", arm=what, allowed=allowed, steps=len(steps))
        if not apart <= allowed:
            self.stage.fail(f"{what}: losses are {apart:.2g} apart, {allowed:g} allowed")

    # --- the runs ---
    def beside_the_cpu(self):
        """Returns false if later runs have nothing to be compared with."""
        ran = self.stage.at_once([lambda: self.succeeds("cpu", TWO_MESHES, device="cpu"),
                                  lambda: self.succeeds("four", TWO_MESHES)], workers=2)
        if all(ran):
            self.compare("four devices beside the CPU's", "cpu", "four", F32)
        return all(ran)

    def killed(self):
        victim = []

        def kill(pid):
            if not victim and len(self.losses("killed")) >= KILL_AFTER:
                for process in processes.descendants(pid):
                    if "--weft-role=device" in processes.command_of(process):
                        victim.append(process)
                        processes.send(victim, signal.SIGKILL)
                        return

        if self.succeeds("killed", TWO_MESHES, watch=kill):
            if not victim:
                self.stage.fail("no device process was killed: the run had ended before")
            elif "died: SIGKILL" not in (self.stage.settings.logs / "runs-killed.log").read_text():
                self.stage.fail("weft run did not report the killed device process")
            self.compare("a device process killed at step 13", "four", "killed", 0)

    def resumed(self, name, what, device):
        checkpoint = self.out("four") / "checkpoints" / f"step-{self.checkpoint:08}"
        options = ["--set", f"checkpoint.resume={checkpoint}"]
        if self.succeeds(name, ONE_MESH, device=device, options=options):
            self.compare(what, "four", name, F32, first=self.checkpoint + 1)

    def beside_four(self, name, what, allowed, layout, **more):
        steps = more.setdefault("steps", self.steps)
        if self.succeeds(name, layout, checkpoint=0, **more):
            self.compare(what, "four", name, allowed, last=steps)

    def too_large(self):
        """Expects a run that needs 1 TiB on one device to end, with the reason in its last line."""
        if not self.stage.on_gpu and not refuses_large_blocks():
            self.stage.leave_out("a run that fills the memory", "this host might grant a CPU device 1 TiB")
            return
        # $GPU_DOUBLE_BYTES is the memory of a double of a GPU (tests/support/gpu_double).
        ended = self.start("too-large", TOO_LARGE, variables={"GPU_DOUBLE_BYTES": f"{64 << 20}"})
        last = (ended.text.strip().splitlines() or [""])[-1]
        self.stage.say(f"weft run too-large: {ended.seconds:.0f} s, status {ended.status}: {last[:300]}")
        if ended.status != 1 or "memory left" not in last or "front[" not in last:
            self.stage.fail(f"a run that fills the memory must end with status 1, and name the device; it {ended.cause}")


def refuses_large_blocks():
    """Returns true if Linux certainly refuses a block of 1 TiB."""
    policy = pathlib.Path("/proc/sys/vm/overcommit_memory").read_text().strip()
    return policy != "1" and os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") < LARGEST_HOST


def runs(stage):
    all_runs = Runs(stage)
    all_runs.write_text()
    if not all_runs.beside_the_cpu():
        return
    vocabulary = {"pipeline": ", vocabulary: vocab-2"}
    # Eight processes on two processors are slow.
    few = {} if stage.on_gpu and not stage.settings.small else {"steps": 5}
    stage.at_once([
        all_runs.killed,
        lambda: all_runs.resumed("resumed", "resumed on one mesh", None),
        lambda: all_runs.resumed("resumed-cpu", "resumed on the CPU", "cpu"),
        lambda: all_runs.beside_four("bf16", "bf16 beside f32", BF16, TWO_MESHES, precision=", precision: bf16"),
        lambda: all_runs.beside_four("3d", "split in three dimensions", F32, CUBE, **few),
        lambda: all_runs.beside_four("vocabulary", "vocabulary split over all devices", F32, TWO_MESHES,
                                       **vocabulary, **few),
    ], workers=2)
    # Alone, as it takes the memory of others.
    all_runs.too_large()
