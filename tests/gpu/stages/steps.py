"""Stages `step`, `peers` and `again`: times of a training step in bf16, by Weft and by PyTorch."""
import re
import time

from stages.stage import LeftOut, json_lines

PEAK = 989e12  # FLOP/s in bf16 of an H100 or H200, by NVIDIA's data sheet
NO_GRAPHS = {"WEFT_CUDA_GRAPHS": "0"}
# name: options of training_step, variables
ARMS = {
    "deterministic": ([], {}),
    "not deterministic": (["--nondeterministic"], {}),
    "runtime": (["--engine", "runtime"], {}),
    "runtime without graphs": (["--engine", "runtime"], NO_GRAPHS),
    "without graphs": ([], NO_GRAPHS),
}
BOTH = ("deterministic", "not deterministic")
# (model, arm) in the order of need; a model alone: its ops, by op_rates.
ON_GPU = [*(("124m", arm) for arm in BOTH), *(("350m", arm) for arm in BOTH),
          ("124m", "runtime"), ("124m", "runtime without graphs"), ("124m",),
          *(("u-large", arm) for arm in BOTH), *(("1.3b", arm) for arm in BOTH), ("124m", "without graphs"), ("350m",)]
ON_CPU = [*(("tiny", arm) for arm in ARMS), ("tiny",), ("u-tiny", "deterministic")]
# Seconds within which a run can start and end, by model; others: SHORTEST.
SHORTEST, SHORTEST_OF = 10, {"350m": 13, "u-large": 18, "1.3b": 20}
LIMIT = 60  # seconds of a run of training_step


def step(stage):
    known = {option: stage.has_option("training_step", option) for option in ("--nondeterministic", "--engine")}
    for model, *arm in ON_GPU if stage.on_gpu else ON_CPU:
        if not arm:
            rate_ops(stage, model)
            continue
        options = ARMS[arm[0]][0]
        if missing := [option for option in options if not known.get(option, True)]:
            stage.leave_out(f"{model}, {arm[0]}", f"this training_step does not know {missing[0]}")
        else:
            time_step(stage, model, arm[0])


def again(stage):
    """Repeats the first arm, and compares it with stage `step`'s figure if there is one."""
    model, arm = (ON_GPU if stage.on_gpu else ON_CPU)[0]
    ms = time_step(stage, model, arm)
    before = [row["value"] for row in stage.settings.figures
              if (row["stage"], row["figure"], row["model"], row["arm"]) == ("step", "step", model, arm)]
    if ms and before:
        stage.figure("change of the step's time", 100 * (ms / before[0] - 1), "%", model, arm)
        stage.say(f"{model}: {100 * (ms / before[0] - 1):+.1f} % beside stage step")


def time_step(stage, model, arm):
    """Runs training_step once, and records its figures. Returns the milliseconds of a step."""
    if stage.left() < SHORTEST_OF.get(model, SHORTEST):
        stage.leave_out(f"{model}, {arm}", "the stage has no time left")
        return None
    options, variables = ARMS[arm]
    steps = 20 if stage.on_gpu else 3
    command = [stage.program("training_step"), "--model", model, "--device", stage.device, "--bf16", "--steps", steps,
               "--json", *options]
    ended = stage.run(f"{model}-{arm.replace(' ', '-')}", command, LIMIT, variables)
    if ended.status is None and ended.seconds < LIMIT - 1:
        stage.leave_out(f"{model}, {arm}", f"the stage ended {ended.seconds:.0f} s after it began")
        return None
    records = json_lines(ended.text)
    if ended.status != 0 or not records:
        stage.fail(f"{model}, {arm}: training_step {ended.cause}")
        return None
    record_step(stage, model, f"Weft {arm}", arm, records[-1])
    return records[-1]["ms_per_step"]


def record_step(stage, model, who, arm, run):
    """Records the figures of one line of training_step --json or pytorch_step.py --json."""
    ms, best = run["ms_per_step"], run.get("ms_per_step_best", run["ms_per_step"])
    stage.figure("step", ms, "ms", model, arm, best=best)
    told = f"{model}: {who}: {ms:.2f} ms, best {best:.2f}"
    rate = run["gflops"] * 1e9 if "gflops" in run else run.get("tflops", 0) * 1e12
    if rate:
        stage.figure("rate", rate / 1e12, "TFLOP/s", model, arm)
        told += f", {rate / 1e12:.1f} TFLOP/s"
        if stage.on_gpu:
            stage.figure("share of 989 TFLOP/s", rate / PEAK, "", model, arm)
            told += f" = {rate / PEAK:.3f} of 989"
        if "share_of_matmul_rate" in run:
            stage.figure("share of the matrix rate", run["share_of_matmul_rate"], "", model, arm)
            told += f", {run['share_of_matmul_rate']:.3f} of the matrix rate"
    if memory := run.get("device_bytes", run.get("peak_bytes")):
        stage.figure("memory", memory / 2**30, "GiB", model, arm)
        told += f", {memory / 2**30:.2f} GiB"
    if "cpu_ms_per_step" in run:
        stage.figure("busy cores", run["cpu_ms_per_step"] / ms, "cores", model, arm)
    stage.say(told)
    for text in run.get("notes", []):
        stage.note(f"{model}, {arm}: {text}")


def rate_ops(stage, model):
    """Runs op_rates: time, bytes and operations of each op, beside the ceilings."""
    program = stage.program("op_rates")
    if not program.exists():
        stage.leave_out(f"ops of {model}", f"there is no {program}")
        return
    if stage.left() < SHORTEST_OF.get(model, SHORTEST):
        stage.leave_out(f"ops of {model}", "the stage has no time left")
        return
    command = [program, "--model", model, "--device", stage.device, "--bf16", "--json", "--seconds",
               8 if stage.on_gpu else 2]
    ended = stage.run(f"ops-{model}", command, 45)
    rows = json_lines(ended.text)
    if ended.status != 0 or not rows:
        stage.fail(f"ops of {model}: op_rates {ended.cause}")
        return
    for row in rows:
        for ceiling, unit in (("copy_gb_s", "GB/s"), ("matmul_gflops", "GFLOP/s")):
            if ceiling in row:
                stage.figure(f"ceiling {ceiling.partition('_')[0]}", row[ceiling], unit, model, "Weft")
        for text in row.get("notes", []):
            stage.note(f"ops of {model}: {text}")
    ops = sorted((row for row in rows if "op" in row), key=lambda row: -row["ms"] * row.get("runs", 1))
    for row in ops:
        more = {key: row[key] for key in ("runs", "bytes", "flops", "gb_s", "gflops", "share_of_ceiling")
                if row.get(key) is not None}
        stage.figure("op", row["ms"], "ms", model, row.get("description", row["op"]), **more)
    for row in ops[:25]:
        stage.say(f"  {row['ms']:9.3f} ms {row['gb_s']:9.1f} GB/s {row['gflops']:10.1f} GFLOP/s  "
                  f"{row.get('description', row['op'])}")


def peers(stage):
    stage.need_pytorch()
    models = ["124m", "350m", "u-large"] if stage.on_gpu else ["tiny"]
    program = stage.settings.peers / "pytorch_step.py"
    end = time.time() + stage.left() - 3
    command = [stage.settings.python, program, "--arms", "all", "--model", ",".join(models), "--device", stage.device,
               "--precision", "bf16", "--end", f"{end:.0f}", "--json"]
    ended = stage.run("pytorch", command, stage.left())
    if "unrecognized arguments: --arms" in ended.text:
        raise LeftOut("this pytorch_step.py does not know --arms")
    rows = [row for row in json_lines(ended.text) if "ms_per_step" in row]
    for row in rows:
        record_step(stage, row["model"], f"PyTorch {row['arm']}", row["arm"], row)
        stage.figure("warm-up", row["warm_up_seconds"], "s", row["model"], row["arm"])
    for line in ended.text.splitlines():
        if left_out := re.match(r"(\S+: \S+) is left out: (.*)", line):
            stage.leave_out(*left_out.groups())
        elif re.match(r"\S+: \S+ failed: ", line):
            stage.fail(line)
    if ended.status not in (0, 1) or not rows:
        stage.fail(f"pytorch_step.py {ended.cause}")
