#!/usr/bin/env python3
"""Activation + dropout on the GPU: sinter beside attorch, PyTorch and torch.compile, in one run.

    ./run bench elementwise --attorch DIR
    python3 benchmarks/peers/elementwise.py --sinter build/release/bin/bench_elementwise --attorch DIR

Forward is that of training: where a system writes something down for its backward, that is in the time. Backward is
its own, from a fixed gradient. Every system runs from CUDA graphs on cold slices, so neither Python nor launches
count, except in the rows "tape": there it is forward and backward as a program calls them. Each process times its own
copy, and percentages are of that.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

from layers import find_layer, load_attorch

COMPILED = ["relu", "gelu", "mish", "silu", "tanh"]  # compiling all 21 takes a quarter of an hour
TENSORS = {"forward": 2, "backward": 3, "tape": 5}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    split = lambda text: [part for part in text.split(",") if part]
    numbers = lambda text: [int(part) for part in split(text)]
    parser.add_argument("--sinter", required=True, help="the program bench_elementwise")
    parser.add_argument("--attorch", help="a checkout of github.com/BobMcDear/attorch")
    parser.add_argument("--only", type=split, help="activations, separated by commas")
    parser.add_argument("--compile", type=split, default=COMPILED, help="those for torch.compile, or \"\"")
    parser.add_argument("--tape", type=split, default=["relu", "gelu", "mish"],
                        help="those also timed as a program calls them")
    parser.add_argument("--dtypes", type=split, default=["float32", "float16", "bfloat16"])
    parser.add_argument("--sizes", type=numbers, default=[1 << 27, 1 << 22])
    parser.add_argument("--p", type=float, default=0.1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", help="also write all results to this file")
    return parser.parse_args()


def run_sinter(options):
    """What bench_elementwise found for the same cases."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "sinter.json"
        command = [options.sinter, "--json", str(path), "--p", str(options.p), "--rounds", str(options.rounds),
                   "--dtypes", ",".join(options.dtypes), "--sizes", ",".join(map(str, options.sizes)),
                   "--tape", ",".join(options.tape)]
        if options.only:
            command += ["--only", ",".join(options.only)]
        if subprocess.run(command).returncode != 0:
            sys.exit("elementwise.py: sinter's own program failed, so there is nothing to compare with")
        return json.loads(path.read_text())


def row(system, name, dtype, direction, p, n, us, copy_us):
    size = 4 if dtype == "float32" else 2
    tensors = TENSORS[direction]
    return {"system": system, "name": name, "dtype": dtype, "direction": direction, "p": p, "n": n, "us": us,
            "bytes": tensors * n * size, "copy_us": copy_us, "percent_of_copy": 50 * tensors * copy_us / us}


def peer_functions(name, options, attorch):
    """name of the system -> dropout(act(x)) of that system, for those that have it."""
    import torch
    p, act = options.p, find_layer(torch.nn, name)
    fused = attorch and find_layer(attorch, name, drop_p=p)
    functions = {}
    if fused:
        functions["attorch"] = fused.train()
    elif attorch:
        print(f"attorch has no {name}")
    if act:
        eager = lambda x: torch.nn.functional.dropout(act(x), p, True)
        functions["eager"] = eager
        if name in options.compile:
            functions["compile"] = torch.compile(eager, dynamic=False)
    else:
        print(f"PyTorch has no {name}")
    return functions


def time_name(arena, n, name, dtype, options, attorch):
    import torch
    from gpu_timing import Replay, rounds_of, wall_clock
    torch._dynamo.reset()
    xs, dys, tos = arena.slices(n)
    for x in xs:
        x.requires_grad_()
    of = lambda i: i % len(xs)
    functions = peer_functions(name, options, attorch)
    replays = {("", "copy"): Replay(arena, n, lambda i: tos[of(i)].copy_(xs[of(i)].detach()), "copy")}
    for system, function in functions.items():
        forward = lambda i, f=function: f(xs[of(i)])
        with torch.cuda.stream(arena.stream):  # backward runs on the stream that its forward ran on
            ys = [forward(i) for i in range(len(xs))]
        backward = lambda i, ys=ys: torch.autograd.grad(ys[of(i)], xs[of(i)], dys[of(i)], retain_graph=True)
        what = f"{system} {name} {dtype}"
        replays[system, "forward"] = Replay(arena, n, forward, what + " forward")
        replays[system, "backward"] = Replay(arena, n, backward, what + " backward")
    times = rounds_of(replays, options.rounds)
    copy_us = times.pop(("", "copy"))
    del replays
    if name in options.tape:
        for system, function in functions.items():
            call = lambda i, f=function: torch.autograd.grad(f(xs[of(i)]), xs[of(i)], dys[of(i)])
            times[system, "tape"] = wall_clock(arena, n, call, options.rounds)
    return [row(system, name, dtype, direction, options.p, n, us, copy_us)
            for (system, direction), us in times.items()]


def run_peers(names, options):
    """Rows and versions of every peer that is installed; says which is not."""
    try:
        import torch
    except ImportError as error:
        print(f"no peer is timed, for PyTorch is not installed: {error}")
        return [], {}
    if not torch.cuda.is_available():
        print("no peer is timed, for PyTorch sees no GPU")
        return [], {}
    versions = {"torch": torch.__version__}
    attorch, why_not = load_attorch(options.attorch)
    if attorch is None:
        print(f"attorch is not timed: {why_not}")
    else:
        import triton
        versions["triton"] = triton.__version__
        # A random seed may ask for another specialisation of the kernel in the middle of a timing.
        attorch.act_layers.randint = lambda low, high: 12345
    import torch._functorch.config as functorch
    functorch.donated_buffer = False  # one forward, many backwards
    from gpu_timing import Arena
    rows = []
    for dtype in options.dtypes:
        arena = Arena(getattr(torch, dtype))
        for n in options.sizes:
            for name in names:
                rows += time_name(arena, n, name, dtype, options, attorch)
                torch.cuda.empty_cache()
            print(f"peers: {dtype}, {n} elements: done", flush=True)
        del arena
    return rows, versions


def cell(rows, sinter, name, system):
    """ % of copy forward/backward, and in brackets their times divided by sinter's."""
    percents, ratios = [], []
    for direction in ("forward", "backward"):
        one, ours = rows.get((system, name, direction)), rows.get((sinter, name, direction))
        percents.append(f"{one['percent_of_copy']:.0f}" if one else "-")
        ratios.append(f"{one['us'] / ours['us']:.1f}" if one and ours else "-")
    if percents == ["-", "-"]:
        return ""
    return "/".join(percents) + ("" if system == sinter else f" ({'/'.join(ratios)})")


def print_table(rows):
    systems = list(dict.fromkeys(r["system"] for r in rows))
    print("\n% of copy, forward/backward (in brackets: time divided by sinter's)")
    for n, dtype in dict.fromkeys((r["n"], r["dtype"]) for r in sorted(rows, key=lambda r: -r["n"])):
        these = {(r["system"], r["name"], r["direction"]): r for r in rows if (r["n"], r["dtype"]) == (n, dtype)}
        print(f"\n{f'2^{n.bit_length() - 1} {dtype}':16}" + "".join(f"{system:>22}" for system in systems))
        for name in dict.fromkeys(name for _, name, _ in these):
            print(f"{name:16}" + "".join(f"{cell(these, 'sinter', name, system):>22}" for system in systems))
        for name in dict.fromkeys(name for _, name, direction in these if direction == "tape"):
            times = [these.get((system, name, "tape")) for system in systems]
            print(f"{name + ', called':16}" + "".join(f"{t['us']:>19.1f} us" if t else f"{'':22}" for t in times))


def main():
    options = parse_arguments()
    results = run_sinter(options)
    names = list(dict.fromkeys(r["name"] for r in results["rows"] if r["direction"] == "backward"))
    rows, versions = run_peers(names, options)
    results["rows"] += rows
    results["versions"] |= versions
    print_table(results["rows"])
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
