"""Measures a GPU by PyTorch: rates of copies and matrix products. Prints a JSON line. Run by stage `machine`."""
import json

import torch


def best_seconds(work, times=8):
    work()
    torch.cuda.synchronize()
    best = float("inf")
    for _ in range(times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end) / 1e3)
    return best


def main():
    source = torch.randn(1 << 30, device="cuda")  # 4 GiB, far more than the cache
    target = torch.empty_like(source)
    rates = {"copy": 2 * source.nbytes / best_seconds(lambda: target.copy_(source))}
    del source, target
    for size in (8192, 4096):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        rates[f"matmul {size}"] = 2 * size**3 / best_seconds(lambda: a @ b)
    pinned, memory = torch.empty(1 << 28, pin_memory=True), torch.empty(1 << 28, device="cuda")
    rates["copy to host"] = pinned.nbytes / best_seconds(lambda: pinned.copy_(memory, non_blocking=True), 3)
    properties = torch.cuda.get_device_properties(0)
    print(json.dumps({"rates": rates, "torch": torch.__version__, "cuda": torch.version.cuda,
                      "cudnn": torch.backends.cudnn.version(), "nccl": torch.cuda.nccl.version(),
                      "multiprocessors": properties.multi_processor_count,
                      "l2_mib": properties.L2_cache_size / 2**20}))


main()
