"""Self-tuning: a warm-up that finds scale, step, friction and noise, and says what it found."""

from sundman.tune.auto import Auto, auto
from sundman.tune.record import Tuning, WarmUpWindow

__all__ = ["Auto", "Tuning", "WarmUpWindow", "auto"]
