"""Times PyTorch work on a GPU exactly as bench_elementwise times sinter's: slices of one large tensor in turn,
launched from a CUDA graph, medians of rounds in which everything takes its turn."""
import statistics
import time

import torch

WHOLE = 1 << 27  # elements: what the slices are cut from


def slices_of(n):
    return min(max(WHOLE // n, 1), 512)


def launches_of(n, dtype):
    return min(max((1 << 31) // (n * dtype.itemsize), 4), 512)


class Arena:
    """x, dy and a tensor to copy to, of normal numbers, of which a size takes slices."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.stream = torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.x, self.dy, self.to = (torch.randn(WHOLE, device="cuda", dtype=dtype) for _ in range(3))
            for _ in range(200):  # the clock of a GPU that was idle takes a while to rise
                self.to.copy_(self.x)
        torch.cuda.synchronize()

    def slices(self, n):
        cut = lambda t: [t[i * n:(i + 1) * n].detach() for i in range(slices_of(n))]
        return cut(self.x), cut(self.dy), cut(self.to)


class Replay:
    """`launch(i)` for many i, captured in a CUDA graph, or called where it cannot be captured."""

    def __init__(self, arena, n, launch, what):
        self.stream = arena.stream
        self.launches = launches_of(n, arena.dtype)
        self.begin, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.kept, self.slices, self.launch = [], slices_of(n), launch
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                launch(0)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.call()
        except RuntimeError as error:
            print(f"{what}: not captured, timed launch by launch: {str(error).splitlines()[0]}")
            self.graph = None
            torch.cuda.synchronize()
        self.time()

    def call(self):
        # Outputs live as long as there are slices, or they would all be written to one place, which
        # the cache holds.
        for i in range(self.launches):
            self.kept.append(self.launch(i))
            if len(self.kept) > self.slices:
                self.kept.pop(0)

    def time(self):
        with torch.cuda.stream(self.stream):
            self.begin.record()
            if self.graph is None:
                self.call()
            else:
                self.graph.replay()
            self.end.record()
        self.end.synchronize()
        return 1e3 * self.begin.elapsed_time(self.end) / self.launches


def rounds_of(replays, rounds):
    """Microseconds a launch of each replay, medians; they take turns."""
    times = {key: [] for key in replays}
    for _ in range(rounds):
        for key, replay in replays.items():
            times[key].append(replay.time())
    return {key: statistics.median(values) for key, values in times.items()}


def wall_clock(arena, n, call, rounds):
    """Microseconds a call, one after the other, as a program makes them."""
    launches, times = launches_of(n, arena.dtype), []
    with torch.cuda.stream(arena.stream):
        call(0)
        for _ in range(rounds):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for i in range(launches):
                call(i)
            torch.cuda.synchronize()
            times.append(1e6 * (time.perf_counter() - start) / launches)
    return statistics.median(times)
