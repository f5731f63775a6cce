"""What the peers of bench_mlp_step share: data, timing, and the talk with mlp_step.py, which starts them.

A peer reads a request a line and answers it with a line of JSON:

    prepare M1 sizes=784-256-128-10 batch=128 ...   ->  {} once its steps are compiled and warm
    time                                            ->  {"us": a step, "first_loss": ..., "last_loss": ..., ...}

or with {"problem": why}. Its first line, unasked, is {"versions": ..., "device": ...} or {"problem": why}, if it cannot
run here at all. Its arguments are words: device=cpu, steps=64 (in a graph), and names of modes.
"""
import gc
import json
import os
import statistics
import sys
import time

import recipe as recipes

LEAST_SECONDS, LEAST_STEPS, RUNS = 0.05, 100, 3  # as bench_mlp_step does


class Cannot(Exception):
    """Why a peer, or one of its tasks, is not timed; no fault of the peer."""


class Settings:
    def __init__(self, arguments):
        words = dict(word.split("=", 1) for word in arguments if "=" in word)
        self.modes = {word for word in arguments if "=" not in word}
        self.device = words.get("device", "cuda")
        self.steps = int(words.get("steps", 64))


def data(np, recipe):
    """Inputs [items, features] float32, labels [items], made as bench_mlp_step makes them (mlp_step/training.cpp)."""
    random = np.random.default_rng(7)
    features, classes = recipe.sizes[0], recipe.sizes[-1]
    drawn = np.arange(recipe.items) % classes
    is_wrong = np.arange(recipe.items) // classes % 4 == 3
    prototypes = random.random((classes, features), np.float32) - np.float32(0.5)
    inputs = random.random((recipe.items, features), np.float32) - np.float32(0.5)
    inputs += prototypes[drawn]
    return inputs, np.where(is_wrong, (drawn + 1) % classes, drawn).astype(np.int64)


def orders(np, recipe, steps):
    """Items for calls of so many steps, int64 [calls, steps, batch]: shuffled epochs, one after the other."""
    random = np.random.default_rng(8)
    items = steps * recipe.batch
    calls = max(4, min(64, recipe.items // items))
    epochs = -(-calls * items // recipe.items)
    order = np.concatenate([random.permutation(recipe.items) for _ in range(epochs)])
    return order[:calls * items].reshape(calls, steps, recipe.batch).astype(np.int64)


class Timed:
    """`work` of a peer on the clock. It has call(), which makes `steps` steps without waiting and returns their losses;
    wait(); floats(losses); peak_bytes() without the data, or None; note, what it does otherwise than its peers."""

    def __init__(self, work):
        self.work = work
        self.first_loss = work.floats(work.call())[0]
        for _ in range(3):
            work.call()
        self.calls = 1
        self.calls = max(-(-LEAST_STEPS // work.steps), int(LEAST_SECONDS / self.seconds()) + 1)

    def seconds(self):
        self.work.wait()
        start = time.perf_counter()
        for _ in range(self.calls):
            self.losses = self.work.call()
        self.work.wait()
        return time.perf_counter() - start

    def result(self):
        us = [1e6 * self.seconds() / (self.calls * self.work.steps) for _ in range(RUNS)]
        last = self.work.floats(self.losses)
        return {"us": statistics.median(us), "runs": us, "first_loss": self.first_loss,
                "last_loss": sum(last) / len(last), "peak_bytes": self.work.peak_bytes(), "note": self.work.note}


def one_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}" if text else type(error).__name__


def serve(start):
    """start(settings) gives what there is to say first, and prepare(recipe), which makes the work of a Timed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def answer(content):
        print(json.dumps(content), file=answers, flush=True)

    try:
        about, prepare = start(Settings(sys.argv[1:]))
    except ImportError as error:
        return answer({"problem": f"not installed: {error}"})
    except Cannot as error:
        return answer({"problem": str(error)})
    answer(about)
    timed = None
    for line in sys.stdin:
        request, *words = line.split()
        try:
            if request == "prepare":
                timed = None
                gc.collect()  # its memory is needed
                timed = Timed(prepare(recipes.parse(words[1:])))
                answer({})
            else:
                answer(timed.result())
        except Cannot as error:
            answer({"problem": str(error)})
        except Exception as error:  # noqa: BLE001 - whatever it is, it belongs into the table
            answer({"problem": one_line(error)})
