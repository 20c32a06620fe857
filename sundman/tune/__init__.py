"""Self-tuning: a warm-up that finds scale, step, friction and noise, and says what it found."""

from sundman.tune.auto import Auto, Tuning, WarmUpWindow, auto

__all__ = ["Auto", "Tuning", "WarmUpWindow", "auto"]
