"""Finds PyTorch's and attorch's layer for a name of sinter's list, so that no script spells the list out."""
import importlib
import sys


def load_attorch(folder):
    """attorch from a checkout of its repository; (module, None) or (None, why not)."""
    if not folder:
        return None, "no --attorch DIR, a checkout of github.com/BobMcDear/attorch"
    sys.path.insert(0, str(folder))
    try:
        return importlib.import_module("attorch"), None
    except ImportError as error:
        return None, f"{folder}: {error}"


def find_layer(module, name, **options):
    """A layer of `module` (torch.nn or attorch) for a name such as leaky_relu, or None."""
    if name == "gelu_tanh":
        return find_layer(module, "gelu", approximate="tanh", **options)
    wanted = name.replace("_", "")
    for candidate in dir(module):
        if candidate.lower() == wanted and isinstance(getattr(module, candidate), type):
            return getattr(module, candidate)(**options)
    return None
