"""Training steps by JAX, for mlp_step.py: a jit of one step, or, in mode scan, of a lax.scan over many. The optimizers
are written out, as optax writes them."""
import os

import step_peer

SCANNED = 128  # steps: more are no faster


def start(settings):
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory too
    if settings.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np
    try:
        device = jax.devices()[0]
    except RuntimeError as error:
        raise step_peer.Cannot(f"JAX finds no device: {step_peer.one_line(error)}") from error
    if settings.device == "cuda" and device.platform != "gpu":
        raise step_peer.Cannot("JAX sees no GPU")
    about = {"versions": {"jax": jax.__version__}, "device": device.device_kind}
    return about, lambda recipe: JaxSteps(np, jax, recipe, settings, device)


def make_parameters(jax, recipe):
    """As PyTorch draws them: uniform, within 1 / sqrt(inputs)."""
    keys = iter(jax.random.split(jax.random.key(7), 2 * len(recipe.sizes)))

    def draw(shape, bound):
        return jax.random.uniform(next(keys), shape, minval=-bound, maxval=bound).astype(recipe.dtype)

    return [(draw((i, o), i ** -0.5), draw((o,), i ** -0.5)) for i, o in zip(recipe.sizes, recipe.sizes[1:])]


def make_loss(jax, recipe):
    """loss(parameters, x, labels, key)"""
    jnp = jax.numpy

    def loss(parameters, x, labels, key):
        for n, (w, b) in enumerate(parameters):
            x = x @ w + b
            if n + 1 < len(parameters):
                x = jax.nn.gelu(x, approximate=False) if recipe.activation == "gelu" else jax.nn.relu(x)
                keep = jax.random.bernoulli(jax.random.fold_in(key, n), 1 - recipe.drop, x.shape)
                x = jnp.where(keep, x / (1 - recipe.drop), 0).astype(x.dtype)
        likelihoods = jax.nn.log_softmax(x.astype("float32"))
        return -jnp.take_along_axis(likelihoods, labels[:, None], axis=1).mean()

    return loss


def make_optimizer(jax, recipe):
    """(state of a parameter, update(p, g, state, step) -> p and state): in float32, stored in the parameter's type."""
    jnp = jax.numpy

    def sgd(p, g, state, step):
        if recipe.momentum:
            g = recipe.momentum * state[0] + g
        return p - recipe.lr * g, (g,) if recipe.momentum else ()

    def adam(p, g, state, step):
        mean, square = 0.9 * state[0] + 0.1 * g, 0.999 * state[1] + 0.001 * g * g
        corrected = jnp.sqrt(square / (1 - 0.999 ** step)) + 1e-8
        return p - recipe.lr / (1 - 0.9 ** step) * mean / corrected, (mean, square)

    rule, count = (adam, 2) if recipe.optimizer == "adam" else (sgd, 1 if recipe.momentum else 0)

    def update(p, g, state, step):
        wide = [t.astype("float32") for t in (p, g, *state)]
        p_new, state_new = rule(wide[0], wide[1], wide[2:], step)
        return p_new.astype(p.dtype), tuple(t.astype(p.dtype) for t in state_new)

    return (lambda p: tuple(jnp.zeros_like(p) for _ in range(count))), update


def make_step(jax, recipe):
    """A step as lax.scan takes it: ((parameters, states, steps so far), index) -> the same, and the loss."""
    loss = make_loss(jax, recipe)
    _, update = make_optimizer(jax, recipe)

    def step(carry, inputs, labels, index):
        parameters, states, done = carry
        key = jax.random.fold_in(jax.random.key(9), done)
        value, gradients = jax.value_and_grad(loss)(parameters, inputs[index], labels[index], key)
        flat, tree = jax.tree.flatten(parameters)
        updated = [update(p, g, s, (done + 1).astype("float32"))
                   for p, g, s in zip(flat, jax.tree.leaves(gradients), states)]
        parameters = jax.tree.unflatten(tree, [p for p, _ in updated])
        return (parameters, [s for _, s in updated], done + 1), value

    return step


class JaxSteps:
    note = ""

    def __init__(self, np, jax, recipe, settings, device):
        scan = "scan" in settings.modes
        self.jax, self.device = jax, device
        self.steps = SCANNED if scan else 1
        if recipe.dtype == "float32":
            jax.config.update("jax_default_matmul_precision", "tensorfloat32")
        inputs, labels = step_peer.data(np, recipe)
        self.inputs = jax.device_put(inputs.astype(jax.numpy.dtype(recipe.dtype)))
        self.labels = jax.device_put(labels.astype(np.int32))
        self.data_bytes = self.inputs.nbytes + self.labels.nbytes
        orders = step_peer.orders(np, recipe, self.steps).astype(np.int32)
        self.orders = [jax.device_put(order if scan else order[0]) for order in orders]
        self.at = 0

        parameters = make_parameters(jax, recipe)
        zeros, _ = make_optimizer(jax, recipe)
        self.carry = (parameters, [zeros(p) for p in jax.tree.leaves(parameters)], jax.numpy.int32(0))
        step = make_step(jax, recipe)

        def scanned(carry, inputs, labels, indices):
            return jax.lax.scan(lambda carry, index: step(carry, inputs, labels, index), carry, indices)

        self.run = jax.jit(scanned if scan else step, donate_argnums=0)

    def call(self):
        self.carry, losses = self.run(self.carry, self.inputs, self.labels, self.orders[self.at])
        self.at = (self.at + 1) % len(self.orders)
        return losses

    def wait(self):
        self.jax.block_until_ready(self.carry)

    def floats(self, losses):
        return losses.astype("float32").reshape(-1).tolist()

    def peak_bytes(self):
        """Since the process began: earlier tasks must have been smaller."""
        stats = self.device.memory_stats()
        return stats["peak_bytes_in_use"] - self.data_bytes if stats else None


if __name__ == "__main__":
    step_peer.serve(start)
