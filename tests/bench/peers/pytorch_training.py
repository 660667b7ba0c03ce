"""One training step of one arm in PyTorch: model, optimizer and inputs, and what tests/bench/peers/pytorch_step.py measures of it."""
import contextlib
import math
import statistics
import time

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from pytorch_models import decays, load_inputs, load_values, make_model, random_inputs
from pytorch_shapes import batch_of, items_per_step, matmul_flops

ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def matmul_rate(device, dtype):
    """Returns the operations per second of the product of two square matrices of random numbers, the best of several."""
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


def fused_adamw(parameters):
    """AdamW with the settings of `training_step`. `parameters`: pairs of name and parameter."""
    groups = [{"params": [p for name, p in parameters if decays(name, p) == decayed], "weight_decay": 0.1 if decayed else 0.0}
              for decayed in (True, False)]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), eps=1e-8, fused=True)


class Plain:
    """Clips to a global norm of 1, then AdamW on the parameters themselves."""

    def __init__(self, parameters):
        self.parameters = [parameter for _, parameter in parameters]
        self.optimizer = fused_adamw(parameters)

    def step(self):
        nn.utils.clip_grad_norm_(self.parameters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class MasterCopies:
    """The same on float32 master copies of parameters that are rounded to bf16."""

    def __init__(self, parameters):
        masters = [(name, parameter.detach().float().clone().requires_grad_()) for name, parameter in parameters]
        self.masters = [master for _, master in masters]
        self.optimizer = fused_adamw(masters)
        self.parameters = [parameter for _, parameter in parameters]
        for parameter in self.parameters:
            parameter.data = parameter.data.to(torch.bfloat16)

    def step(self):
        for master in self.masters:
            master.grad = torch.empty_like(master)
        torch._foreach_copy_([master.grad for master in self.masters], [parameter.grad for parameter in self.parameters])
        for parameter in self.parameters:
            parameter.grad = None
        nn.utils.clip_grad_norm_(self.masters, 1.0, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_copy_(self.parameters, self.masters)


class Training:
    """A model that an arm trains. `weights`: a folder that `training_step --dump` wrote, or None for random values and inputs."""

    def __init__(self, arm, model_name, batch, device, precision, weights=None):
        self.arm, self.model_name, self.device, self.precision = arm, model_name, device, precision
        self.batch = batch or batch_of(model_name)
        torch.manual_seed(1)
        with torch.device(device):
            model = make_model(model_name)
        if weights:
            load_values(model, weights)
        self.inputs = load_inputs(weights, device) if weights else [random_inputs(model_name, self.batch, device)]
        self.optimizer = (MasterCopies if arm.form == "copies" else Plain)(list(model.named_parameters()))

        def compiled(function):
            return torch.compile(function, mode=arm.mode, dynamic=False)

        forward = compiled(model) if arm.mode and not arm.loss_compiled else model
        cast = torch.autocast(device, dtype=torch.bfloat16) if arm.form == "autocast" else contextlib.nullcontext()

        def loss_of(inputs):
            with cast:
                return model.loss(forward, inputs)

        self.loss_of = compiled(loss_of) if arm.mode and arm.loss_compiled else loss_of

    def step(self, number=0):
        """Takes the step of these inputs. Returns the loss, which may not be computed yet."""
        with sdpa_kernel([ATTENTION[self.arm.attention]]) if self.arm.attention else contextlib.nullcontext():
            loss = self.loss_of(self.inputs[number % len(self.inputs)])
            loss.backward()
        self.optimizer.step()
        return loss.detach()

    def losses(self, steps):
        losses = [self.step(number) for number in range(steps)]
        return {"losses": [loss.item() for loss in losses]}

    def times(self, steps):
        """Times `steps` steps on the CPU. On a GPU the host may run ahead of the device, as it does in training: it waits once for
        `steps` steps, three times."""
        gpu = self.device == "cuda"
        begin = time.perf_counter()
        for _ in range(5 if gpu else 2):
            loss = self.step()
        loss.item()
        warm_up = time.perf_counter() - begin
        if gpu:
            torch.cuda.reset_peak_memory_stats()
        rounds, at_once = (3, steps) if gpu else (steps, 1)
        seconds, cpu = [], []
        for _ in range(rounds):
            begin, cpu_begin = time.perf_counter(), time.process_time()
            for _ in range(at_once):
                loss = self.step()
            loss = loss.item()
            seconds.append((time.perf_counter() - begin) / at_once)
            cpu.append((time.process_time() - cpu_begin) / at_once)
        if not math.isfinite(loss):
            raise ArithmeticError(f"the loss is {loss}")
        peak = torch.cuda.max_memory_allocated() if gpu else None
        rate = matmul_rate(self.device, torch.bfloat16 if self.precision == "bf16" else torch.float32)
        median = statistics.median(seconds)
        achieved = matmul_flops(self.model_name, self.batch) / median
        return {"ms_per_step": median * 1e3, "ms_per_step_best": min(seconds) * 1e3, "cpu_ms_per_step": statistics.median(cpu) * 1e3,
                "warm_up_seconds": warm_up, "peak_bytes": peak, "items_per_second": items_per_step(self.model_name, self.batch) / median,
                "tflops": achieved * 1e-12, "gflops": achieved * 1e-9, "matmul_gflops": rate * 1e-9,
                "share_of_matmul_rate": achieved / rate, "loss": loss}
