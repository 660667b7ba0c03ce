"""The training step of tests/bench/training_step in PyTorch: same models, shapes, initial distribution and optimizer.

Prints one JSON line with the same keys as `training_step --json`. Run it through tests/bench/peers/pytorch_step (CPU). What makes
PyTorch fast is on: fused attention, fused AdamW, gradients set to none, pictures in channels-last memory, and on a GPU the
fastest of cuDNN's algorithms and one synchronisation for many steps.

--precision bf16 has two forms, of which the faster one is the fair opponent: `autocast` (float32 parameters, cast for each product)
and `copies` (bf16 parameters, with float32 master values that a fused AdamW updates and that are copied back).
--weights DIR: initial values and inputs that `training_step --dump DIR` has written; prints the loss of each of --steps steps.
"""
import argparse
import contextlib
import json
import math
import statistics
import time

import torch
from torch import nn

from pytorch_models import MODELS, decays, load_inputs, load_values, make_model, matmul_flops, random_inputs


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def matmul_rate(device, dtype):
    """Of the product of two square matrices of random numbers: operations per second, the best of several."""
    size = 8192 if device == "cuda" else 1024
    a, b = torch.randn(size, size, device=device, dtype=dtype), torch.randn(size, size, device=device, dtype=dtype)
    best = math.inf
    for _ in range(8):
        wait(device)
        begin = time.perf_counter()
        a @ b
        wait(device)
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best


class Plain:
    """AdamW on the parameters themselves."""

    def __init__(self, parameters, make):
        self.parameters = [parameter for _, parameter in parameters]
        self.optimizer = make(parameters)

    def step(self):
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class MasterCopies:
    """AdamW on float32 master values of parameters that are rounded to bf16."""

    def __init__(self, parameters, make):
        masters = [(name, parameter.detach().float().clone().requires_grad_()) for name, parameter in parameters]
        self.masters = [master for _, master in masters]
        self.optimizer = make(masters)
        self.parameters = [parameter for _, parameter in parameters]
        for parameter in self.parameters:
            parameter.data = parameter.data.to(torch.bfloat16)

    def step(self):
        for parameter, master in zip(self.parameters, self.masters):
            master.grad = parameter.grad.float()
            parameter.grad = None
        nn.utils.clip_grad_norm_(self.masters, 1.0, foreach=True)
        self.optimizer.step()
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.masters)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--batch", type=int, help="sequences or pictures a step, instead of the model's own")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--bf16-form", choices=("autocast", "copies"), default="copies")
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--weights", metavar="DIR", help="start from what training_step --dump wrote, and report every loss")
    parser.add_argument("--variant", default="stock", help="a name for the record")
    arguments = parser.parse_args()
    device = arguments.device
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = device == "cuda" and not arguments.weights
    torch.backends.cudnn.allow_tf32 = False  # f32 means f32, in products and convolutions.
    with torch.device(device):
        model, batch = make_model(arguments.model, arguments.batch)
    if arguments.weights:
        load_values(model, arguments.weights)
    low = arguments.precision == "bf16"
    copies = low and arguments.bf16_form == "copies"

    def make(parameters):
        groups = [{"params": [p for name, p in parameters if decays(name, p) == decayed], "weight_decay": 0.1 if decayed else 0.0}
                  for decayed in (True, False)]
        return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)

    optimizer = (MasterCopies if copies else Plain)(list(model.named_parameters()), make)
    forward = torch.compile(model) if arguments.compile else model
    cast = torch.autocast(device, dtype=torch.bfloat16) if low and not copies else contextlib.nullcontext()
    inputs = load_inputs(arguments.weights, device) if arguments.weights else [random_inputs(arguments.model, batch, device)]

    def step(number):
        with cast:
            loss = model.loss(forward, inputs[number % len(inputs)])
        loss.backward()
        optimizer.step()
        return loss.detach()

    record = {"benchmark": "pytorch_step", "variant": arguments.variant, "model": arguments.model, "batch": batch,
              "precision": arguments.precision + (f" ({arguments.bf16_form})" if low else ""),
              "device": (torch.cuda.get_device_name() if device == "cuda" else "1 thread") +
                        f", torch {torch.__version__} {'compiled' if arguments.compile else 'eager'}"}
    if arguments.weights:
        losses = [step(number) for number in range(arguments.steps)]
        print(json.dumps(record | {"losses": [loss.item() for loss in losses]}))
        return
    for number in range(5 if device == "cuda" else 2):
        loss = step(number)
    wait(device)
    dtype = torch.bfloat16 if low else torch.float32
    rate_before = matmul_rate(device, dtype)
    seconds, cpu = [], []
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    # On a GPU the host may run ahead of the device, as it does in training: it waits once for several steps.
    at_once = arguments.steps if device == "cuda" else 1
    for _ in range(3 if device == "cuda" else arguments.steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        for number in range(at_once):
            loss = step(number)
        loss = loss.item()
        seconds.append((time.perf_counter() - begin) / at_once)
        cpu.append((time.process_time() - cpu_begin) / at_once)
    assert math.isfinite(loss)
    if device == "cuda":
        record["peak_bytes"] = torch.cuda.max_memory_allocated()
    rate = max(rate_before, matmul_rate(device, dtype))
    median = statistics.median(seconds)
    items = batch * (inputs[0][0].shape[1] if len(inputs[0]) == 2 else 1)
    record |= {"ms_per_step": median * 1e3, "ms_per_step_best": min(seconds) * 1e3, "cpu_ms_per_step": statistics.median(cpu) * 1e3,
               "items_per_second": items / median, "matmul_gflops": rate * 1e-9}
    flops = matmul_flops(arguments.model, batch)
    if flops:
        record |= {"gflops": flops / median * 1e-9, "share_of_matmul_rate": flops / median / rate}
    print(json.dumps(record))


if __name__ == "__main__":
    main()
