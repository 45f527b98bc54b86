"""`use`: the choice of a block, and what functions that are already jitted see of it."""

import asyncio
import threading

import jax
import pytest

from qml.config import resolve
from qml.context import use
from qml.errors import ConfigError, UnknownNameError
from qml.kinds import AerConfig, StatevectorConfig


def seeded(seed: int) -> AerConfig:
    return AerConfig(seed=seed)


class Traced:
    """x -> seed of the ambient backend * x**2, jitted; counts how often it is traced."""

    def __init__(self):
        self.traces = []
        self.jitted = jax.jit(self.function)

    def function(self, x):
        seed = resolve().seed
        self.traces.append(seed)
        return seed * x**2


def in_thread(function):
    """What `function` returns in a new thread."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


# --- the block


def test_a_block_chooses_and_gives_back():
    assert resolve() == StatevectorConfig()
    with use({"kind": "aer", "shots": 10}) as config:
        assert config == AerConfig(shots=10)
        assert resolve() is config
    assert resolve() == StatevectorConfig()


def test_blocks_nest_and_an_argument_comes_first():
    with use(seeded(1)):
        with use(seeded(2)):
            assert resolve().seed == 2
            assert resolve(seeded(9)).seed == 9
            with use(seeded(1)):
                assert resolve().seed == 1
            assert resolve().seed == 2
        assert resolve().seed == 1
    assert resolve() == StatevectorConfig()


def test_the_same_backend_can_be_entered_again_within_itself():
    with use("aer") as outer, use("aer") as inner, use(None) as innermost:
        assert resolve() == outer == inner == innermost == AerConfig()
    assert resolve() == StatevectorConfig()


def test_an_exception_passes_and_the_outer_choice_returns():
    f = Traced().jitted
    with use(seeded(1)):
        with pytest.raises(KeyError, match="mine"):
            with use(seeded(2)):
                raise KeyError("mine")
        assert resolve().seed == 1 and f(1.0) == 1
    assert resolve() == StatevectorConfig() and f(1.0) == 0


def test_use_comes_before_the_environment_and_the_file(tmp_path, monkeypatch):
    (tmp_path / "qml.toml").write_text("backend = 'f'\n[backends.f]\nkind = 'aer'\nseed = 1\n")
    monkeypatch.setenv("QML_BACKEND", "aer")
    with use("f"):
        assert resolve().seed == 1
        with use(seeded(5)):
            assert resolve().seed == 5
    assert resolve() == AerConfig()


@pytest.mark.parametrize(
    ("backend", "error", "message"),
    [
        ("are", UnknownNameError, r"did you mean 'aer'\?"),
        ({"kind": "aer", "shots": 0}, ConfigError, "'shots' must be"),
        (3, ConfigError, "must be the name of a backend"),
    ],
)
def test_a_wrong_backend_is_refused_on_entry_and_the_choice_stays(backend, error, message):
    with use(seeded(1)):
        with pytest.raises(error, match=message):
            with use(backend):
                pytest.fail("the block must not run")
        assert resolve().seed == 1


def test_a_name_is_resolved_on_entry_and_stays_what_it_was(tmp_path):
    path = tmp_path / "qml.toml"
    path.write_text("[backends.lab]\nkind = 'aer'\nseed = 1\n")
    with use("lab"):
        path.write_text("[backends.lab]\nkind = 'aer'\nseed = 222\n")
        assert resolve().seed == 1
    with use("lab"):
        assert resolve().seed == 222


def test_a_function_can_be_decorated_and_may_call_itself():
    @use(seeded(4))
    def depth(n):
        return resolve().seed if n == 0 else depth(n - 1)

    assert depth(0) == depth(3) == 4
    assert resolve() == StatevectorConfig()


# --- jitted functions


def test_a_jitted_function_is_traced_once_per_backend_and_found_again_on_return():
    f = Traced()
    for _ in range(3):
        assert f.jitted(3.0) == 0
        with use(seeded(1)):
            assert f.jitted(3.0) == 9
            with use(seeded(2)):
                assert f.jitted(3.0) == 18
            assert f.jitted(3.0) == 9
        assert f.jitted(3.0) == 0
    assert f.traces == [0, 1, 2]


def test_two_spellings_of_one_backend_share_one_trace(tmp_path):
    (tmp_path / "qml.toml").write_text("[backends.lab]\nkind = 'aer'\nseed = 1\n")
    f = Traced()
    for backend in ("lab", {"kind": "aer", "seed": 1}, seeded(1)):
        with use(backend):
            assert f.jitted(1.0) == 1
    assert f.traces == [1]


@pytest.mark.parametrize(
    ("derive", "values"),
    [
        (lambda f: jax.grad(f.jitted), (0, 6, 12)),
        (lambda f: jax.jit(jax.grad(f.function)), (0, 6, 12)),
        (lambda f: jax.jit(jax.grad(f.jitted)), (0, 6, 12)),
        (lambda f: jax.grad(jax.grad(f.jitted)), (0, 2, 4)),
        (lambda f: jax.jit(lambda x: f.jitted(x)), (0, 9, 18)),
        (lambda f: lambda x: jax.vmap(f.jitted)(x[None])[0], (0, 9, 18)),
    ],
    ids=["grad(jit)", "jit(grad)", "jit(grad(jit))", "grad(grad(jit))", "jit(jit)", "vmap(jit)"],
)
def test_derivatives_and_transforms_see_the_backend_of_the_block(derive, values):
    derivative = derive(Traced())
    x = jax.numpy.asarray(3.0)
    for _ in range(2):
        assert derivative(x) == values[0]
        with use(seeded(1)):
            assert derivative(x) == values[1]
        with use(seeded(2)):
            assert derivative(x) == values[2]


def test_grad_of_jit_is_traced_once_per_backend():
    f = Traced()
    gradient = jax.grad(f.jitted)
    for _ in range(3):
        for seed in (1, 2):
            with use(seeded(seed)):
                assert gradient(3.0) == 6 * seed
    assert f.traces == [1, 2]


# --- threads and tasks


def test_a_new_thread_does_not_inherit_the_choice_nor_does_its_jit():
    f = Traced()
    with use(seeded(1)):
        assert f.jitted(1.0) == 1
        assert in_thread(resolve) == StatevectorConfig()
        assert in_thread(lambda: float(f.jitted(1.0))) == 0
        assert f.jitted(1.0) == 1


def test_a_block_in_another_thread_does_not_reach_this_one():
    f = Traced()

    def other():
        with use(seeded(1)):
            entered.set()
            assert left.wait(10)
            return float(f.jitted(1.0))

    entered, left, results = threading.Event(), threading.Event(), []
    thread = threading.Thread(target=lambda: results.append(other()))
    thread.start()
    assert entered.wait(10)
    assert resolve() == StatevectorConfig() and f.jitted(1.0) == 0
    left.set()
    thread.join()
    assert results == [1.0]


def test_a_block_without_await_works_in_a_coroutine():
    async def main():
        with use(seeded(1)):
            seen = resolve().seed
        await asyncio.sleep(0)
        return seen, resolve()

    assert asyncio.run(main()) == (1, StatevectorConfig())


def test_a_block_that_is_suspended_by_await_is_refused_at_its_end():
    async def main():
        with pytest.raises(ConfigError, match="suspended by an `await`"):
            with use(seeded(1)):
                await asyncio.sleep(0)
        return resolve()

    assert asyncio.run(main()) == StatevectorConfig()


def test_an_exception_of_a_suspended_block_is_not_replaced():
    async def main():
        with pytest.raises(KeyError, match="mine"):
            with use(seeded(1)):
                await asyncio.sleep(0)
                raise KeyError("mine")
        return resolve()

    assert asyncio.run(main()) == StatevectorConfig()


def test_a_thread_started_by_a_coroutine_never_pairs_one_backend_with_another_trace():
    """`asyncio.to_thread` carries context variables into the thread, but not JAX's key."""
    f = Traced()

    async def main():
        with pytest.raises(ConfigError, match="suspended"):
            with use(seeded(1)):
                assert await asyncio.to_thread(lambda: float(f.jitted(1.0))) == 0

    asyncio.run(main())
    assert f.jitted(1.0) == 0
    assert set(f.traces) == {0}
    with use(seeded(1)):
        assert f.jitted(1.0) == 1
