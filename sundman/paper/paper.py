"""The numbers of the paper's table: NLL, accuracy % and ECE %, each with its 95% interval.

The interval of the last ECE is printed as 0.9; its neighbours suggest .09. Here as printed.
"""

TABLE = {
    "gaussian/sgld": {"nll": (0.192, 0.005), "accuracy": (95.23, 0.056), "ece": (5.72, 0.27)},
    "gaussian/sa-sgld": {"nll": (0.193, 0.004), "accuracy": (95.25, 0.034), "ece": (5.76, 0.22)},
    "horseshoe/sgld": {"nll": (0.086, 0.004), "accuracy": (98.03, 0.044), "ece": (3.64, 0.11)},
    "horseshoe/sa-sgld": {"nll": (0.080, 0.003), "accuracy": (98.12, 0.031), "ece": (3.49, 0.9)},
}
BEST = {
    "gaussian": {"h": 0.025, "nll": 0.1932, "accuracy": 95.14, "ece": 5.7},
    "horseshoe": {"h": 0.25, "nll": 0.0809, "accuracy": 98.14, "ece": 3.18},
}
