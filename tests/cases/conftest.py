"""The engines on which every fault is looked for, one of every kind: tests/shared/engines.py."""

from typing import get_args

import pytest
from engines import EXACT, PATHS, SAMPLING

import qml
from qml.kinds import KINDS


@pytest.fixture(params=PATHS)
def exact(request):
    """The test runs on an engine without shots; its configuration."""
    gradient = request.node.callspec.params.get("gradient", "auto")
    if gradient not in get_args(KINDS[request.param].model_fields["gradient"].annotation):
        pytest.skip(f"{request.param} has no gradient {gradient!r}")
    with qml.use(EXACT[request.param]) as config:
        yield config


@pytest.fixture(params=SAMPLING)
def sampling(request):
    """An engine that can sample, as a table without shots."""
    return SAMPLING[request.param]


@pytest.fixture(params=[None, *SAMPLING], ids=lambda kind: kind or "exact")
def with_or_without_shots(request):
    """The test runs on the default engine or on one that samples."""
    table = {**SAMPLING[request.param], "shots": 20_000} if request.param else None
    with qml.use(table) as config:
        yield config
