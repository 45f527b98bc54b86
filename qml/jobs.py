"""A request to an engine: within its budget, as jobs that are journalled and tried again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qml.circuits.program import Program
from qml.settings import EngineConfig
from qml.simulators.base import Engine, Evaluation


def run(
    runner: Engine,
    config: EngineConfig,
    program: Program,
    angles: NDArray[np.float64],
    *,
    outputs: NDArray[np.bool_],
    seed: int,
) -> Evaluation:
    """The answer of an engine to one request; see Engine.expval.

    Raises:
        BudgetError: it would exceed what the backend may spend; nothing was sent.
        EngineError: the engine cannot run it, or failed as often as it may be tried.
    """
    return runner.expval(program, angles, outputs=outputs, seed=seed)
