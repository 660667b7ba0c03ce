"""torch.distributed.broadcast over Gloo, as tests/bench/peers/broadcast times it: gloo_broadcast.py RANK WORLD ADDRESS MIB REPETITIONS

Rank 0 prints, per repetition, the seconds from the first rank's start to the last rank's end (the ranks share one machine's clock).
"""
import sys
import time

import torch
import torch.distributed as dist

rank, world, address, mib, repetitions = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=rank, world_size=world)
words = mib << 18
dist.broadcast(torch.zeros(words, dtype=torch.int32), src=0)  # not timed, as in `weft bench reshard`
for repetition in range(1, repetitions + 1):
    expected = torch.arange(words, dtype=torch.int32) * 40503 + repetition
    data = expected.clone() if rank == 0 else torch.zeros(words, dtype=torch.int32)
    dist.barrier()
    start = time.monotonic()
    dist.broadcast(data, src=0)
    end = time.monotonic()
    assert torch.equal(data, expected)
    times = torch.tensor([-start, end], dtype=torch.float64)
    dist.all_reduce(times, op=dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{float(times[0] + times[1]):.6f}", flush=True)
dist.destroy_process_group()
