"""Examples as their users run them: tests/shared/scripts.py."""

from scripts import refused, run_example

__all__ = ["refused", "run_example"]
