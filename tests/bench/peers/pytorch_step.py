"""Times the training step of tests/bench/training_step in PyTorch: same models, shapes, initial distribution, clipping and optimizer.

Runs arms (pytorch_arms.py: eager and compiled, both forms of bf16, attention kernels) one after the other in one process; the fastest is
the fair opponent. An arm runs all models before the next arm begins. An arm that cannot run, or has no time left before --end, is left out
with a reason. An arm that fails does not end the others. Prints one line per arm and model; reasons and errors go to stderr, and with
--json also to stdout, as the keys "left_out" and "error". Exit status: 1 if an arm failed, 2 for wrong arguments.

What makes PyTorch fast is on: fused attention, fused AdamW, gradients set to none, pictures in channels-last memory; on a GPU the fastest
of cuDNN's algorithms and one synchronisation for many steps. f32 means f32: TF32 is off, as it is in Weft.
--weights DIR: starts from the values and inputs that `training_step --dump DIR` wrote, and prints the loss of each of --steps steps.
"""
import argparse
import gc
import json
import sys
import time

from pytorch_arms import ARMS, reason_to_leave_out, select
from pytorch_shapes import MODELS


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = "; ".join(f"{precision}: {', '.join(arm.name for arm in arms)}" for precision, arms in ARMS.items())
    parser.add_argument("--arms", default="all", help=f"all, or names separated by commas ({names})")
    parser.add_argument("--model", default="small", help=f"names separated by commas: {', '.join(MODELS)}")
    parser.add_argument("--batch", type=int, help="sequences or pictures a step, instead of the model's own")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=tuple(ARMS), default="bf16")
    parser.add_argument("--end", type=float, metavar="EPOCH_SECONDS", help="begin no arm that would probably end after this time")
    parser.add_argument("--weights", metavar="DIR")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    arguments = parser.parse_args()
    try:
        arguments.arms = select(arguments.arms, arguments.precision)
    except ValueError as error:
        parser.error(str(error))
    arguments.models = arguments.model.split(",")
    for model in arguments.models:
        if model not in MODELS:
            parser.error(f"there is no model '{model}'; there are: {', '.join(MODELS)}")
    for option, value in (("--steps", arguments.steps), ("--batch", arguments.batch)):
        if value is not None and value < 1:
            parser.error(f"{option} must be at least 1, not {value}")
    if arguments.weights and len(arguments.models) > 1:
        parser.error(f"--weights holds the values of one model, but --model names {len(arguments.models)}")
    return arguments


def free_memory(torch):
    """Frees what an arm has left, so that the next one finds the device as the first did."""
    gc.collect()
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
        gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def in_words(record):
    if "losses" in record:
        return f"losses {record['losses'][0]:.6f} -> {record['losses'][-1]:.6f}"
    memory = f", {record['peak_bytes'] / 2**30:.2f} GiB" if record["peak_bytes"] else ""
    return (f"{record['ms_per_step']:.2f} ms per step (best {record['ms_per_step_best']:.2f}), {record['tflops']:.3f} TFLOP/s, "
            f"warm-up {record['warm_up_seconds']:.1f} s{memory}")


def main():
    arguments = parse()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"PyTorch is missing ({error}). `tests/bench/peers/peer_venv pytorch --install` installs it and prints its folder; run "
                 "this with bin/python of that folder.")
    from pytorch_training import Training

    if arguments.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"PyTorch {torch.__version__} finds no GPU; use --device cpu")
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = not arguments.weights
    torch.backends.cudnn.allow_tf32 = False
    about = {"benchmark": "pytorch_step", "torch": torch.__version__, "precision": arguments.precision,
             "device": torch.cuda.get_device_name() if arguments.device == "cuda" else "cpu, 1 thread"}

    def run(arm, model):
        training = Training(arm, model, arguments.batch, arguments.device, arguments.precision, arguments.weights)
        measured = training.losses(arguments.steps) if arguments.weights else training.times(arguments.steps)
        return {"batch": training.batch} | measured

    def report(arm, model, result):
        words = result.get("error") or result.get("left_out")
        if arguments.json:
            print(json.dumps(about | {"model": model, "arm": arm.name} | result), flush=True)
        elif not words:
            print(f"{model}: {arm.name}: {in_words(result)}", flush=True)
        if words:
            print(f"{model}: {arm.name} {'failed' if 'error' in result else 'is left out'}: {words}", file=sys.stderr, flush=True)

    failed = False
    for arm in arguments.arms:
        for model in arguments.models:
            seconds_left = arguments.end - time.time() if arguments.end else float("inf")
            reason = reason_to_leave_out(arm, arguments.device, seconds_left)
            if reason:
                report(arm, model, {"left_out": reason})
                continue
            try:
                report(arm, model, run(arm, model))
            except Exception as error:  # Any arm may fail in its own way; the others still run.
                failed = True
                report(arm, model, {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"})
            free_memory(torch)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
