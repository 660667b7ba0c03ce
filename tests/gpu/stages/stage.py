"""What a stage gets: the programs under test, its time limit, and the place for its figures."""
import concurrent.futures
import dataclasses
import json
import math
import os
import pathlib
import threading
import time

import processes


class LeftOut(Exception):
    """Thrown by a stage that cannot run here. The text is the reason."""


@dataclasses.dataclass
class Settings:
    """What all stages share."""

    device: str  # "cuda" or "cpu"
    small: bool  # small models and few steps in stage `runs`
    binaries: pathlib.Path  # folder of Weft's programs
    peers: pathlib.Path  # folder of PyTorch's programs
    python: str  # a Python that may have PyTorch
    work: pathlib.Path  # scratch folder of this run
    logs: pathlib.Path  # folder of the programs' outputs
    environment: dict  # variables of every program
    figures: list = dataclasses.field(default_factory=list)  # results of the stages before

    @property
    def on_gpu(self):
        return self.device == "cuda"


class Stage:
    """One stage, in a process of its own. Methods may be called by several threads."""

    def __init__(self, name, settings, seconds, channel):
        self.name = name
        self.settings = settings
        self.deadline = time.monotonic() + seconds
        self.failures = 0
        self._channel = channel
        self._mutex = threading.Lock()

    # Settings by shorter names.
    @property
    def on_gpu(self):
        return self.settings.on_gpu

    @property
    def device(self):
        return self.settings.device

    @property
    def work(self):
        return self.settings.work

    def program(self, name):
        return self.settings.binaries / name

    def left(self):
        """Returns the seconds until the stage's limit, less a second to report."""
        return self.deadline - time.monotonic() - 1

    # --- reports ---
    def tell(self, message):
        """Sends a message to the driver: {kind: value}."""
        with self._mutex:
            data = json.dumps(message).encode() + b"\n"
            while data:
                data = data[os.write(self._channel, data):]

    def say(self, text):
        with self._mutex:
            print(text, flush=True)

    def figure(self, figure, value, unit="", model="", arm="", **more):
        """Records one figure: a line of results.jsonl."""
        if value is None or not math.isfinite(value):
            self.fail(f"{figure} of {model} {arm} is {value}, not a finite number")
            return
        self.tell({"figure": {"stage": self.name, "figure": figure, "model": model, "arm": arm,
                               "value": value, "unit": unit} | more})

    def fail(self, cause):
        """Records a failure. The stage continues."""
        self.failures += 1
        self.say(f"FAILED: {cause}")
        self.tell({"failure": cause})

    def leave_out(self, part, reason):
        """Records that a part of the stage did not run."""
        self.say(f"left out: {part}: {reason}")
        self.tell({"left_out": f"{part}: {reason}"})

    def note(self, text):
        """Records what a reader of the figures must know."""
        self.say(f"note: {text}")
        self.tell({"note": text})

    # --- programs ---
    def run(self, name, command, seconds, variables=None, watch=None):
        """Runs a program, not beyond the stage's limit. Its output goes into the log `name`."""
        log = self.settings.logs / f"{self.name}-{name}.log"
        seconds = min(seconds, self.left() - processes.GRACE)
        if seconds < processes.LEAST:
            log.write_text("not started: the stage has no time left\n")
            return processes.Ended(None, 0.0, log)
        return processes.run(command, seconds, log, self.settings.environment | (variables or {}), watch)

    def at_once(self, calls, workers=4):
        """Runs functions in `workers` threads. Returns their results in order."""
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            return [future.result() for future in [pool.submit(call) for call in calls]]

    def has_option(self, program, option):
        """Returns true if the help of a program names the option."""
        path = self.program(program)
        ended = self.run(f"help-{program}", [path, "--help"], 10)
        return ended.status == 0 and option in ended.text

    def has_pytorch(self):
        check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        return self.run("find-pytorch", [self.settings.python, "-c", check], 20).status == 0

    def need_pytorch(self):
        if not self.has_pytorch():
            raise LeftOut(f"{self.settings.python} has no PyTorch; WEFT_PEER_PYTHON names another Python")


def json_lines(text):
    """Returns the JSON objects among the lines of a program's output."""
    found = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                found.append(json.loads(line))
            except ValueError:
                pass
    return found
