"""A recipe by hand in NumPy: float32, buffers reused, updates in place. Prints samples/s."""

import math
import sys

import recipe as recipes

try:
    import numpy as np
except ImportError as missing:
    recipes.skip(f"{missing}: install python3-numpy, python3-scipy and libopenblas0-pthread")

try:
    from scipy.special import erf
except ImportError:
    erf = None  # only GELU needs it

F = np.float32
rng = np.random.Generator(np.random.SFC64(7))


class Layer:
    """w [in, out] and its optimizer state; the bias is the last row of each array."""

    def __init__(self, inputs, outputs, batch, is_last):
        bound = 1 / math.sqrt(inputs)
        self.all = rng.uniform(-bound, bound, (inputs + 1, outputs)).astype(F)
        self.grad = np.zeros_like(self.all)
        self.state = [np.zeros_like(self.all) for _ in range(2)]
        self.scratch = np.empty_like(self.all)
        self.w, self.b = self.all[:-1], self.all[-1]
        self.dw, self.db = self.grad[:-1], self.grad[-1]
        self.y = np.empty((batch, outputs), F)
        self.dx = np.empty((batch, inputs), F)
        self.slope = None if is_last else np.empty((batch, outputs), F)


class Network:
    def __init__(self, recipe):
        self.recipe = recipe
        pairs = list(zip(recipe.sizes, recipe.sizes[1:]))
        self.layers = [
            Layer(i, o, recipe.batch, n == len(pairs) - 1) for n, (i, o) in enumerate(pairs)
        ]
        self.steps = 0
        # A kept element has one of 65536 lanes at or above this.
        self.threshold = np.uint16(round(65536 * recipe.drop))
        self.rows = np.arange(recipe.batch)

    def activate(self, layer):
        """y = dropout(act(y)); what the gradient is multiplied by goes into layer.slope."""
        y, slope = layer.y, layer.slope
        if self.recipe.activation == "gelu":
            np.multiply(y, F(math.sqrt(0.5)), out=slope)
            erf(slope, out=slope)
            slope += F(1)
            slope *= F(0.5)  # Phi(y)
            density = np.square(y)
            density *= F(-0.5)
            np.exp(density, out=density)
            density *= F(1 / math.sqrt(2 * math.pi))
            density *= y
            y *= slope
            slope += density
        else:
            np.greater(y, 0, out=slope, casting="unsafe")
        if self.threshold:
            lanes = np.frombuffer(rng.bytes(2 * y.size), np.uint16).reshape(y.shape)
            keep = np.multiply(lanes >= self.threshold, F(1 / (1 - self.recipe.drop)), dtype=F)
            slope *= keep
            if self.recipe.activation == "gelu":
                y *= keep
        if self.recipe.activation != "gelu":
            y *= slope  # 0 or the scale

    def loss_gradient(self, labels):
        """Softmax in place: the mean cross entropy, and its gradient in the last y."""
        z = self.layers[-1].y
        z -= z.max(axis=1, keepdims=True)
        np.exp(z, out=z)
        z /= z.sum(axis=1, keepdims=True)
        right = z[self.rows, labels]
        loss = -np.log(np.maximum(right, F(1e-30))).mean()
        z[self.rows, labels] = right - 1
        z *= F(1 / self.recipe.batch)
        return loss

    def update(self, layer):
        p, g, scratch = layer.all, layer.grad, layer.scratch
        lr = self.recipe.lr
        if self.recipe.optimizer == "adam":
            mean, square = layer.state
            mean *= F(0.9)
            np.multiply(g, F(0.1), out=scratch)
            mean += scratch
            square *= F(0.999)
            np.square(g, out=g)
            g *= F(0.001)
            square += g
            np.sqrt(square, out=scratch)
            scratch *= F(1 / math.sqrt(1 - 0.999**self.steps))
            scratch += F(1e-8)
            np.divide(mean, scratch, out=scratch)
            scratch *= F(lr / (1 - 0.9**self.steps))
            p -= scratch
        else:
            velocity = layer.state[0]
            velocity *= F(self.recipe.momentum)
            velocity += g
            np.multiply(velocity, F(lr), out=scratch)
            p -= scratch

    def step(self, x, labels):
        h = x
        for layer in self.layers:
            np.matmul(h, layer.w, out=layer.y)
            layer.y += layer.b
            if layer.slope is not None:
                self.activate(layer)
            h = layer.y
        loss = self.loss_gradient(labels)
        gradient = self.layers[-1].y
        for n in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[n]
            below = self.layers[n - 1].y if n else x
            np.matmul(below.T, gradient, out=layer.dw)
            np.sum(gradient, axis=0, out=layer.db)
            if n:
                np.matmul(gradient, layer.w.T, out=layer.dx)
                layer.dx *= self.layers[n - 1].slope
                gradient = layer.dx
        self.steps += 1
        for layer in self.layers:
            self.update(layer)
        return loss


def main():
    recipe = recipes.parse(sys.argv[1:])
    if recipe.activation == "gelu" and erf is None:
        recipes.skip("NumPy has no erf: install python3-scipy for the same Python")
    recipes.require_fast_blas(np)
    images, labels = recipes.read(np, recipe)
    network = Network(recipe)
    x = np.empty((recipe.batch, recipe.sizes[0]), F)
    steps = recipe.items // recipe.batch

    def loaded_epoch():
        order = rng.permutation(recipe.items)
        total = 0.0
        for at in range(0, recipe.items, recipe.batch):
            rows = order[at : at + recipe.batch]
            np.multiply(images[rows], F(1 / 255), out=x)
            total += network.step(x, labels[rows])
        return total / steps

    at_hand = [slice(i * recipe.batch, (i + 1) * recipe.batch) for i in range(64)]
    at_hand = [(images[s] * F(1 / 255), labels[s]) for s in at_hand]

    def epoch_at_hand():
        return sum(network.step(*at_hand[i % len(at_hand)]) for i in range(steps)) / steps

    recipes.report(recipe, loaded_epoch if recipe.load else epoch_at_hand)


main()
