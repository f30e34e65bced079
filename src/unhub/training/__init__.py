"""Training (extra `train`: torch): towers into a joint space and heads that weigh several queries of one target."""

from unhub.training.curve import draw_curve
from unhub.training.train import train

__all__ = ["draw_curve", "train"]
