"""Plans: every request of a step, at the cost it would have, and nothing is sent."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import qml
from qml import planning, qkernel
from qml.execution import recorded
from qml.kinds import AerConfig
from qml.simulators.registry import engine


@qkernel(qubits=2)
def kernel(qc, x, w):
    qc.ry(x[0], 0)
    qc.rx(w[0], 1)
    qc.cx(0, 1)
    qc.ry(x[1] * w[1], 1)
    return [qml.Z(0), qml.X(1), qml.X(0) @ qml.Y(1)]


X, W = jnp.array([0.3, 0.7]), jnp.array([0.5, -0.2])


def step(w, config):
    """A loss on forces: values, and derivatives of the first and the second order."""
    loss = lambda w: (jax.grad(lambda x: kernel(x, w, backend=config).sum())(X) ** 2).sum()
    return jax.value_and_grad(loss)(w)


def test_a_plan_holds_what_then_happens():
    config = AerConfig(shots=100)
    with planning(steps=10) as plan:
        step(W, config)
    with recorded() as runs:
        step(W, config)
    assert [item.primitive for item in plan.items] == [run.primitive for run in runs]
    assert [item.rows for item in plan.items] == [run.rows for run in runs]
    assert [item.cost.shots for item in plan.items] == [run.shots for run in runs]
    assert [item.cost.jobs for item in plan.items] == [run.jobs for run in runs]
    assert plan.shots == sum(run.shots for run in runs) > 0


def test_nothing_is_sent_and_nothing_recorded(monkeypatch):
    config = AerConfig(seed=77)
    before = qml.last_run()
    monkeypatch.setattr(engine(config), "expval", lambda *_, **__: pytest.fail("sent"))
    with recorded() as runs, planning() as plan:
        step(W, config)
        jax.jit(lambda x: kernel(x, W, backend=config))(X).block_until_ready()
    assert runs == [] and qml.last_run() is before
    assert plan.rows > 0


def test_afterwards_requests_are_sent_again():
    with planning():
        pass
    assert abs(kernel(X, W, backend="aer")[0] - np.cos(0.3)) < 1e-12


def test_blocks_nest_and_each_sees_its_own():
    with planning() as outer:
        kernel(X, W, backend="aer")
        with planning() as inner:
            kernel(X, W, backend="aer")
    assert (len(outer.items), len(inner.items)) == (2, 1)


def test_engines_that_cost_nothing_run_and_are_written_down():
    with planning() as plan:
        value, _ = step(W, "statevector")
    assert value != 0
    assert plan.shots == 0 and plan.items[-1].gradient == "adjoint"


def test_the_table_has_a_line_for_each_request_the_step_and_the_run():
    with planning(steps=1000) as plan:
        kernel(X, W, backend=AerConfig(shots=100))
    head, request, a_step, run = (line.split() for line in str(plan).splitlines())
    assert head == ["request", "rows", "circuits", "shots", "jobs", "seconds"]
    assert request == ["expval", "(aer)", "1", "2", "200", "1", "-"]
    assert a_step == ["a", "step", "1", "2", "200", "1", "-"]
    assert run == ["1,000", "steps", "1,000", "2,000", "200,000", "1,000", "-"]
    with planning() as plan:
        kernel(X, W, backend="aer")
    assert "exact" in str(plan) and "steps" not in repr(plan)
