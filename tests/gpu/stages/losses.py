"""Stage `losses`: losses of training on this device beside the CPU's, beside themselves, and beside PyTorch's."""
import re

from stages.stage import json_lines

# Largest differences: relative of two Weft runs, absolute beside PyTorch (in f32).
F32, BF16 = 2e-4, 2e-2


def losses_of(stage, model, device, arm, options=(), variables=None, steps=50):
    """Returns the losses of a run of training_step, or None after a failure."""
    command = [stage.program("training_step"), "--model", model, "--device", device, "--steps", steps, "--losses",
               *options]
    ended = stage.run(f"{model}-{arm.replace(' ', '-')}", command, 45, variables)
    records = json_lines(ended.text)
    if ended.status != 0 or not records:
        stage.fail(f"losses of {model}, {arm}: training_step {ended.cause}")
        return None
    for text in records[-1].get("notes", []):
        stage.note(f"{model}, {arm}: {text}")
    return records[-1]["losses"]


def compare(stage, model, arm, expected, found, allowed):
    """Records the largest relative difference of two lists of losses."""
    if expected is None or found is None:
        return
    apart = max(abs(a - b) / abs(a) for a, b in zip(expected, found, strict=True))
    told = "equal bits" if apart == 0 else f"at most {apart:.2g} apart"
    stage.say(f"{model}, {arm}: {found[0]:.6f} -> {found[-1]:.6f}, {told}, {allowed:g} allowed")
    stage.figure("apart", apart, "of the loss", model, arm, allowed=allowed)
    if not apart <= allowed:
        stage.fail(f"{model}, {arm}: losses are {apart:.2g} apart, {allowed:g} allowed")


def same_as_pytorch(stage, model, precision, steps):
    """Runs tests/bench/peers/same_losses, which judges the difference."""
    command = [stage.settings.peers / "same_losses", "--model", model, "--device", stage.device, "--steps", steps]
    command += ["--bf16"] if precision == "bf16" else []
    ended = stage.run(f"pytorch-{model}-{precision}", command, 50)
    found = re.search(r"at most (\S+) (?:of the loss )?apart", ended.text)
    if found:
        apart, allowed = float(found.group(1)), 1e-4 if precision == "f32" else BF16
        stage.say(ended.text.strip().splitlines()[-1])
        stage.figure("apart", apart, "", model, f"{precision} beside PyTorch", allowed=allowed)
    if ended.status != 0:
        stage.fail(f"{model}, {precision} beside PyTorch: same_losses {ended.cause}")


def losses(stage):
    models = ["small", "u-small"] if stage.on_gpu else ["tiny", "u-tiny"]
    steps = 50 if stage.on_gpu else 20
    no_graphs = {"WEFT_CUDA_GRAPHS": "0"}

    def run(model, device, arm, options=(), variables=None):
        return lambda: losses_of(stage, model, device, arm, options, variables, steps)

    calls = {}
    for model in models:
        calls[model, "CPU"] = run(model, "cpu", "CPU", ["--threads", 4 if stage.on_gpu else 1])
        calls[model, "f32"] = run(model, stage.device, "f32")
        calls[model, "bf16"] = run(model, stage.device, "bf16", ["--bf16"])
        # On a CPU these two are second runs: there are no CUDA graphs.
        calls[model, "f32 without graphs"] = run(model, stage.device, "f32 without graphs", [], no_graphs)
        calls[model, "bf16 without graphs"] = run(model, stage.device, "bf16 without graphs", ["--bf16"], no_graphs)
    if stage.has_pytorch():
        for model in models:
            for precision in ("f32", "bf16"):
                calls[model, "PyTorch", precision] = \
                    lambda model=model, precision=precision: same_as_pytorch(stage, model, precision, steps)
    else:
        stage.leave_out("losses beside PyTorch's", f"{stage.settings.python} has no PyTorch")
    found = dict(zip(calls, stage.at_once(calls.values())))
    for model in models:
        compare(stage, model, "f32 beside the CPU", found[model, "CPU"], found[model, "f32"], F32)
        compare(stage, model, "bf16 beside f32", found[model, "f32"], found[model, "bf16"], BF16)
        for precision in ("f32", "bf16"):
            compare(stage, model, f"{precision} with and without CUDA graphs", found[model, precision],
                    found[model, f"{precision} without graphs"], 0)
