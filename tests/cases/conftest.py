"""The engines on which every fault is looked for: whatever the registry lists."""

from typing import get_args

import pytest

import qml
from qml.kinds import KINDS
from qml.simulators.registry import ENGINES

SAMPLING = sorted(kind for kind in ENGINES if "shots" in KINDS[kind].model_fields)


@pytest.fixture(params=sorted(ENGINES))
def exact(request):
    """The test runs on an engine without shots; its configuration."""
    gradient = request.node.callspec.params.get("gradient", "auto")
    if gradient not in get_args(KINDS[request.param].model_fields["gradient"].annotation):
        pytest.skip(f"{request.param} has no gradient {gradient!r}")
    with qml.use(request.param) as config:
        yield config


@pytest.fixture(params=SAMPLING)
def sampling(request):
    """The kind of an engine that can sample."""
    return request.param


@pytest.fixture(params=[None, *SAMPLING], ids=lambda kind: kind or "exact")
def with_or_without_shots(request):
    """The test runs on the default engine or on one that samples."""
    with qml.use({"kind": request.param, "shots": 20_000} if request.param else None) as config:
        yield config
