"""What goes wrong in molecular dynamics with learnt potentials, as errors and warnings.

MDError                 a ValueError: what was asked cannot be done, and what to do instead
ExtrapolationWarning    a geometry outside of what the potential was trained on
"""


class MDError(ValueError):
    """Data, molecules or settings that no potential can be trained on or run with."""


class ExtrapolationWarning(UserWarning):
    """A geometry outside of what the potential was trained on: its energy is a guess there."""
