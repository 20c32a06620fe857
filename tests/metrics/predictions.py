"""Predictions to score: random probabilities with labels drawn from them, or not."""

import numpy as np
from hypothesis import strategies as st


def softmax(logits: np.ndarray) -> np.ndarray:
    unnormalised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return unnormalised / unnormalised.sum(axis=-1, keepdims=True)


def random_predictions(seed: int, points: int, classes: int, sharpness: float = 2.0):
    rng = np.random.default_rng(seed)
    p = softmax(sharpness * rng.normal(size=(points, classes)))
    return p, rng.integers(classes, size=points)


@st.composite
def predictions(draw):
    """Probabilities (point, class) and labels (point,), from timid to certain."""
    return random_predictions(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(1, 60)),
        draw(st.integers(2, 6)),
        draw(st.sampled_from([0.1, 1.0, 5.0, 50.0])),
    )


@st.composite
def ensembles(draw):
    """Members (draw, point, class) and weights (draw,), some of them 0."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 10), st.integers(2, 5)))
    members = softmax(draw(st.sampled_from([0.1, 3.0, 30.0])) * rng.normal(size=shape))
    weight = rng.exponential(size=shape[0]) * (rng.random(shape[0]) < 0.8)
    weight[rng.integers(shape[0])] = 1.0
    return members, weight
