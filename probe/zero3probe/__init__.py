"""Runs and records real DeepSpeed for zero3sim, in its own trace format."""
__version__ = "1.0.0"
