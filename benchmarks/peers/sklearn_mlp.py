"""A recipe by scikit-learn's MLPClassifier, which has no GELU and no dropout. Prints samples/s."""

import sys

import recipe as recipes

try:
    import numpy as np
    from sklearn.neural_network import MLPClassifier
except ImportError as missing:
    recipes.skip(f"{missing}: install python3-sklearn and libopenblas0-pthread")


def main():
    recipe = recipes.parse(sys.argv[1:])
    recipes.require_fast_blas(np)
    images, labels = recipes.read(np, recipe)
    x = images.astype(np.float32) / np.float32(255)
    model = MLPClassifier(
        hidden_layer_sizes=recipe.sizes[1:-1],
        activation="relu",
        solver=recipe.optimizer,
        batch_size=recipe.batch,
        learning_rate_init=recipe.lr,
        momentum=recipe.momentum,
        nesterovs_momentum=False,
        alpha=0,
        random_state=7,
    )

    def epoch():
        # One call is one shuffled epoch in batches; a call for each batch would be slower.
        model.partial_fit(x, labels, classes=np.arange(recipe.sizes[-1]))
        return model.loss_

    recipes.report(recipe, epoch)


main()
