#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Loads a schedule as torch.distributed.pipelining does and walks through it.

usage: pytorch_schedule.py FILE FORM STAGES MICRO_BATCHES

Source: torch/distributed/pipelining/schedules.py. Since PyTorch 2.6: a stage, a type (F, I, B, W, UNSHARD, RESHARD, SEND_F, RECV_F, SEND_B,
RECV_B) and a micro-batch, matched from the front of a cell; one line a rank; _load_csv(FILE, format="compute_only") by default, which takes empty
cells; compute_comms takes none. Every stage has each forward once, and each backward whole or in two halves, I before W, on one rank. Since
2.9, compute_only refuses communication. Since 2.10 (pull request 166449) REDUCE_GRAD divides a stage's gradients by the micro-batches and
reduces them, which passes did before. What the walk asks for is what the runtime does (_step_microbatches): a pass takes what was received for it, unless its
neighbour is on the same rank; parameters must be gathered; sends and receives of two ranks match in their order.
"""
import csv
import re
import sys
from types import SimpleNamespace

CELL = re.compile(r"(\d+)(F|I|B|W|UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)(\d*)")
COMPUTE = ("F", "B", "I", "W")


def fail(message):
    sys.exit(f"refused: {message}")


def cell_of(text):
    """A stage, a type and a micro-batch or None; None for an empty cell. A match need not reach the end, upstream: here it must."""
    if not text.strip():
        return None
    match = CELL.fullmatch(text.strip())
    if not match:
        fail(f"'{text}' is no action")
    return int(match[1]), match[2], int(match[3]) if match[3] else None


def check_passes(ranks, stages, micro_batches):
    """_validate_schedule: returns the rank of each stage."""
    rank_of = {}
    done = {stage: {kind: set() for kind in COMPUTE} for stage in range(stages)}
    for rank, cells in enumerate(ranks):
        for cell in cells:
            if cell is None:
                continue
            stage, kind, micro_batch = cell
            if rank_of.setdefault(stage, rank) != rank:
                fail(f"stage {stage} lies on ranks {rank_of[stage]} and {rank}")
            if kind not in COMPUTE:
                continue
            passes = done[stage]
            if micro_batch in passes[kind]:
                fail(f"{cell} comes twice")
            if kind in "BI" and micro_batch not in passes["F"] or kind == "W" and micro_batch not in passes["I"]:
                fail(f"{cell} comes before what it needs")
            passes[kind].add(micro_batch)
    every = set(range(micro_batches))
    for stage, passes in done.items():
        if passes["F"] != every or passes["I"] != passes["W"] or passes["B"] & passes["W"] or passes["B"] | passes["W"] != every:
            fail(f"stage {stage} has passes {passes} of {micro_batches} micro-batches")
    return rank_of


class Rank:
    def __init__(self, cells):
        self.cells = [cell for cell in cells if cell is not None]
        self.received, self.gathered, self.passed, self.reduced = set(), set(), set(), {}


class Walk:
    """All ranks in turn, each as far as it comes. Messages between two ranks are taken in the order in which they were sent."""

    def __init__(self, ranks, rank_of, stages, micro_batches):
        self.ranks = [Rank(cells) for cells in ranks]
        self.rank_of, self.stages, self.micro_batches, self.messages = rank_of, stages, micro_batches, {}

    def run(self):
        moved = True
        while moved:
            moved = False
            for index, rank in enumerate(self.ranks):
                while rank.cells and self.step(index, rank, *rank.cells[0]):
                    rank.cells.pop(0)
                    moved = True
        for index, rank in enumerate(self.ranks):
            if rank.cells:
                fail(f"rank {index} waits at {rank.cells[0]}")
            if rank.gathered:
                fail(f"rank {index} keeps the parameters of stages {rank.gathered}")
        if any(self.messages.values()):
            fail("messages are left over")
        for stage in range(self.stages):
            if stage not in self.ranks[self.rank_of[stage]].reduced:
                fail(f"the gradients of stage {stage} are never reduced")

    def step(self, index, rank, stage, kind, micro_batch):
        """False if the rank has to wait."""
        if kind in ("UNSHARD", "RESHARD", "REDUCE_GRAD"):
            self.parameters(rank, stage, kind)
        elif kind in ("SEND_F", "SEND_B"):
            if (stage, kind[-1], micro_batch) not in rank.passed:
                fail(f"rank {index} sends {kind} of stage {stage}, micro-batch {micro_batch} before it has it")
            other = stage + (1 if kind == "SEND_F" else -1)
            self.messages.setdefault((index, self.rank_of[other]), []).append((other, kind[-1], micro_batch))
        elif kind in ("RECV_F", "RECV_B"):
            queue = self.messages.get((self.rank_of[stage + (-1 if kind == "RECV_F" else 1)], index), [])
            if not queue:
                return False
            if queue[0] != (stage, kind[-1], micro_batch):
                fail(f"rank {index} receives {stage}{kind}{micro_batch} where {queue[0]} was sent")
            rank.received.add(queue.pop(0))
        else:
            self.compute(index, rank, stage, kind, micro_batch)
        return True

    def parameters(self, rank, stage, kind):
        if (kind == "UNSHARD") == (stage in rank.gathered):
            fail(f"{kind} of stage {stage} finds it in that state")
        if kind == "UNSHARD":
            rank.gathered.add(stage)
        elif kind == "RESHARD":
            rank.gathered.remove(stage)
        else:
            backward = sum(1 for done in rank.passed if done[0] == stage and done[1] == "grad")
            if backward != self.micro_batches or stage in rank.reduced:
                fail(f"stage {stage} reduces gradients of {backward} micro-batches, or twice")
            rank.reduced[stage] = True

    def compute(self, index, rank, stage, kind, micro_batch):
        if stage not in rank.gathered:
            fail(f"stage {stage} computes without its parameters")
        end, before = (0, stage - 1) if kind == "F" else (self.stages - 1, stage + 1)
        direction = "F" if kind == "F" else "B"
        if kind != "W" and stage != end:
            own = self.rank_of[before] == index
            need = (before if own else stage, direction, micro_batch)
            if need not in (rank.passed if own else rank.received):
                fail(f"rank {index} computes {stage}{kind}{micro_batch} before its input is there")
        if kind != "W":
            rank.passed.add((stage, direction, micro_batch))
        if kind in "BW":
            rank.passed.add((stage, "grad", micro_batch))


def transcript(path, form, stages, micro_batches):
    with open(path, newline="") as file:
        ranks = [[cell_of(text) for text in row] for row in csv.reader(file)]
    rank_of = check_passes(ranks, stages, micro_batches)
    kinds = {cell[1] for cells in ranks for cell in cells if cell is not None}
    if form == "compute_only":
        if kinds - set(COMPUTE):
            fail(f"compute_only has {sorted(kinds - set(COMPUTE))}")
        return
    if any(cell is None for cells in ranks for cell in cells):
        fail("compute_comms has empty cells")
    Walk(ranks, rank_of, stages, micro_batches).run()


def own(schedules, path, form, stages, micro_batches):
    """PyTorch's own loader, on stages without a model."""
    with open(path, newline="") as file:
        ranks = sum(1 for _ in csv.reader(file))
    runtime = schedules._PipelineScheduleRuntime
    schedule = runtime.__new__(runtime)
    schedule._stages = [SimpleNamespace(num_stages=stages, group_size=ranks, group_rank=0, stage_index=0)]
    schedule._num_stages, schedule.pp_group_size, schedule.rank = stages, ranks, 0
    schedule._n_microbatches, schedule.pipeline_order = micro_batches, {}
    schedule._load_csv(path, format=form)


def main():
    path, form, stages, micro_batches = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    transcript(path, form, stages, micro_batches)
    try:
        import torch
        from torch.distributed.pipelining import schedules
    except ImportError:
        print("read by a transcript of PyTorch 2.10's loader")
        return
    release = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if release < ((2, 10) if form == "compute_comms" else (2, 6)):
        print(f"read by a transcript of PyTorch 2.10's loader; {torch.__version__} has not this form")
        return
    own(schedules, path, form, stages, micro_batches)
    print(f"read by PyTorch {torch.__version__}")


main()
