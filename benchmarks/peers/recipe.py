"""What the Python peers share: the recipe on the command line, the images, and how a run is timed.

A peer prints samples/s alone; where it cannot run it says why on standard output and exits with 77.
"""

import gzip
import pathlib
import sys
import time
import types


def skip(why):
    print(why)
    sys.exit(77)


def parse(arguments):
    """The words of a recipe (benchmarks/mlp/recipe.h) as an object."""
    words = dict(word.split("=", 1) for word in arguments)
    return types.SimpleNamespace(
        data=pathlib.Path(words.get("data", ".")),
        sizes=[int(size) for size in words["sizes"].split("-")],
        activation=words.get("activation", "relu"),
        drop=float(words.get("drop", 0)),
        batch=int(words["batch"]),
        optimizer=words.get("optimizer", "sgd"),
        lr=float(words.get("lr", 0.05)),
        momentum=float(words.get("momentum", 0.9)),
        items=int(words["items"]),
        load=words.get("load", "1") != "0",
        dtype=words.get("dtype", "float32"),
        flops=float(words.get("flops", 0)),
    )


def require_fast_blas(np):
    """NumPy on the reference BLAS (Debian's default) is ten times slower and no peer."""
    np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32)
    maps = pathlib.Path("/proc/self/maps")
    if maps.exists() and not any(n in maps.read_text() for n in ("openblas", "mkl", "blis")):
        skip("this NumPy has no fast BLAS: install libopenblas0-pthread")


def read_idx(folder, name, header):
    for path in (folder / name, folder / (name + ".gz")):
        if path.exists():
            with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
                return file.read()[header:]
    sys.exit(f"{folder} has no {name} or {name}.gz")


def read(np, recipe):
    """The first `items` images [items, pixels] and labels [items], as bytes."""
    images = np.frombuffer(read_idx(recipe.data, "train-images-idx3-ubyte", 16), np.uint8)
    labels = np.frombuffer(read_idx(recipe.data, "train-labels-idx1-ubyte", 8), np.uint8)
    return images.reshape(-1, recipe.sizes[0])[: recipe.items], labels[: recipe.items]


def report(recipe, epoch):
    """Calls epoch() twice, to warm up and on the clock; it returns the mean loss."""
    epoch()
    start = time.perf_counter()
    loss = epoch()
    seconds = time.perf_counter() - start
    if not loss < 2:
        sys.exit(f"learnt nothing: loss {loss}")
    print(f"{recipe.items / seconds:.1f}")
