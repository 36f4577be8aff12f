"""Trains a small model on three ranks under torch.profiler; rank 2 has more work.

Writes rank0.json.gz to rank2.json.gz into the current directory.
"""

import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.profiler import ProfilerActivity, profile, record_function, schedule

RANKS = 3
STEPS = 4


def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def train(rank):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=2, active=STEPS),
        on_trace_ready=lambda p: p.export_chrome_trace(f"rank{rank}.json.gz"),
        record_shapes=True,
    ) as profiler:
        for _ in range(STEPS + 2):
            with record_function("forward"):
                loss = model(torch.ones(8, 64)).sum()
            if rank == RANKS - 1:
                with record_function("more work"):
                    spin(0.005)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total = torch.ones(1000)
            dist.all_reduce(total)
            dist.broadcast(total, 0)
            dist.barrier()
            profiler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    mp.spawn(train, nprocs=RANKS)
