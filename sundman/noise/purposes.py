"""What streams of random words are for: each number is one independent use of a key.

Numbers from 100 on are free for integrators and estimators outside this library.
"""

GRADIENT_NOISE = 1
CHAIN = 2
ROWS = 3
SAMPLER = 4
CURVATURE = 5
SWAP = 6
REPLICA = 7
