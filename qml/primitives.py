r"""Expectation values and their derivatives as JAX primitives, closed under every transformation.

With slot angles a (B, K) and outputs E (B, M), J the Jacobian and H_m the Hessian of output m:

    expval(a)                   E                 (B, M)
    expval_jvp(a, t)            J t               t (B, T, K)                  -> (B, T, M)
    expval_vjp(a, c)            J^T c             c (B, C, M)                  -> (B, C, K)
    expval_hvp(a, t, c)         sum_m c_m H_m t   t (B, S, T, K), c (B, S, C, M) -> (B, S, T, C, K)
    expval_curvature(a, t, u)   t^T H_m u         t (B, S, T, K), u (B, S, U, K) -> (B, S, T, U, M)

All but the first are linear in each operand after a. The derivative of `expval` is `expval_jvp`, whose
transpose is `expval_vjp`; the derivatives of these two are `expval_curvature` and `expval_hvp`,
which are each other's transposes. From the third order on, the shift rule acts on the last two:
every derivative of E is a trigonometric polynomial in each slot, so that too is exact.

`vmap` never repeats `a`: an axis that only t, u or c have becomes T, U or C, and one that two of
them share becomes S. So `jacrev` asks an engine for as many rows as `grad` does.

Every primitive carries its Program and its engine configuration as static parameters, resolved
when the kernel was called: nothing below reads the ambient backend. The first operand is the seed,
a uint32 scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from qml.circuits.program import Program
from qml.config import EngineConfig
from qml.execution import execute
from qml.gradients import SHIFT

Array = Any


class _Axes(NamedTuple):
    """The axes of a primitive's operands and result, batch first; K and M are sizes of the Program."""

    operands: tuple[str, ...]
    result: str


AXES: Final[dict[str, _Axes]] = {
    "expval": _Axes(("BK",), "BM"),
    "expval_jvp": _Axes(("BK", "BTK"), "BTM"),
    "expval_vjp": _Axes(("BK", "BCM"), "BCK"),
    "expval_hvp": _Axes(("BK", "BSTK", "BSCM"), "BSTCK"),
    "expval_curvature": _Axes(("BK", "BSTK", "BSUK"), "BSTUM"),
}
"""Everything that is particular to a primitive, but for its derivative."""


def _host(primitive: Primitive, operands: Sequence[Any], program: Program, config: EngineConfig) -> Any:
    """The value in NumPy: what both the eager and the compiled path call. No JAX in here."""
    seed, *arrays = (np.asarray(operand) for operand in operands)
    doubles = [array.astype(np.float64) for array in arrays]
    value = execute(primitive.name, program, config, int(seed), *doubles)
    return value.astype(arrays[0].dtype)


def _make(name: str) -> Primitive:
    primitive = Primitive(name)
    axes = AXES[name]

    def shape(avals: Sequence[Any], program: Program) -> tuple[int, ...]:
        sizes = {"K": program.num_slots, "M": program.num_outputs}
        for letters, aval in zip(axes.operands, avals, strict=True):
            for letter, size in zip(letters, aval.shape, strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise TypeError(f"{name}: axis {letter} is {sizes[letter]} and {size} in {avals}")
        return tuple(sizes[letter] for letter in axes.result)

    def abstract(seed: Any, *avals: Any, program: Program, config: EngineConfig) -> Any:
        return jax.core.ShapedArray(shape(avals, program), avals[0].dtype)

    def impl(seed: Array, *operands: Array, program: Program, config: EngineConfig) -> Array:
        value = _host(primitive, (seed, *operands), program, config)
        return jax.device_put(value, getattr(operands[0], "sharding", None))

    def lowering(ctx: Any, *operands: Any, program: Program, config: EngineConfig) -> Any:
        def callback(*arrays: Any) -> tuple[Any]:
            return (_host(primitive, arrays, program, config),)

        # Not pure_callback: it hands over JAX arrays and deadlocks on one core (jax-ml/jax#24255).
        results, _, _ = mlir.emit_python_callback(
            ctx,
            callback,
            None,
            operands,
            ctx.avals_in,
            ctx.avals_out,
            has_side_effect=False,
            returns_token=False,
        )
        return results

    primitive.def_abstract_eval(abstract)
    primitive.def_impl(impl)
    mlir.register_lowering(primitive, lowering)
    batching.primitive_batchers[primitive] = _batcher(primitive, axes)
    return primitive


def _batcher(primitive: Primitive, axes: _Axes) -> Callable[..., Any]:
    def rule(
        operands: Sequence[Array], dims: Sequence[int | None], **parameters: Any
    ) -> tuple[Array, int]:
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        (seed, *arrays), (seed_dim, *array_dims) = operands, dims
        if seed_dim is not None:
            seed = _hash_seeds(seed)
        batched = [letters for letters, d in zip(axes.operands, array_dims, strict=True) if d is not None]
        # A batch of seeds asks for independent samples, so for rows of their own.
        letter = _merged_axis(batched, axes) if seed_dim is None else "B"
        merged = [
            _merge(x, d, letters, letter, size)
            for x, d, letters in zip(arrays, array_dims, axes.operands, strict=True)
        ]
        value = primitive.bind(seed, *merged, **parameters)
        where = axes.result.index(letter)
        length = next(
            _without(x, d)[letters.index(letter)]
            for x, d, letters in zip(arrays, array_dims, axes.operands, strict=True)
            if letter in letters
        )
        split = (*value.shape[:where], size, length, *value.shape[where + 1 :])
        return value.reshape(split), where

    return rule


def _merged_axis(batched: Sequence[str], axes: _Axes) -> str:
    """The axis a new batch axis is merged into: the first one that only the batched operands have."""
    unbatched = [letters for letters in axes.operands if letters not in batched]
    if "BK" in batched:
        return "B"
    shared = [x for x in batched[0] if all(x in other for other in batched) and x not in "BKM"]
    own = [x for x in shared if not any(x in other for other in unbatched)]
    return own[0]


def _merge(x: Array, dim: int | None, letters: str, letter: str, size: int) -> Array:
    """x with a batch axis merged into `letter`, repeated along it if it has that axis but no batch."""
    if letter not in letters:
        return x
    where = letters.index(letter)
    if dim is None:
        x = jnp.broadcast_to(jnp.expand_dims(x, where), (*x.shape[:where], size, *x.shape[where:]))
    else:
        x = jnp.moveaxis(x, dim, where)
    return x.reshape(*x.shape[:where], size * x.shape[where + 1], *x.shape[where + 2 :])


def _without(x: Array, dim: int | None) -> tuple[int, ...]:
    return tuple(n for i, n in enumerate(x.shape) if i != dim)


def _hash_seeds(seeds: Array) -> Array:
    """One uint32 that depends on all of them and their order (FNV-1a over words)."""

    def step(i: Array, hashed: Array) -> Array:
        return (hashed ^ seeds[i]) * np.uint32(16777619)

    return jax.lax.fori_loop(0, seeds.shape[0], step, jnp.uint32(2166136261))


expval_p, jvp_p, vjp_p, hvp_p, curvature_p = map(_make, AXES)


def expval(seed: Array, a: Array, program: Program, config: EngineConfig) -> Array:
    """Expectation values (B, M) at slot angles a (B, K), differentiable to any order."""
    return expval_p.bind(seed, a, program=program, config=config)


def _jvp(primitive: Primitive, angle_derivative: Callable[..., Array]) -> None:
    """The product rule over the operands; the tangent of `a` is given by `angle_derivative`."""

    def rule(primals: Sequence[Array], tangents: Sequence[Any], **parameters: Any) -> tuple[Any, Any]:
        seed, *operands = primals
        value = primitive.bind(seed, *operands, **parameters)
        terms = []
        for i, tangent in enumerate(tangents[1:]):
            if type(tangent) is ad.Zero:
                continue
            if i == 0:
                terms.append(angle_derivative(seed, *operands, tangent, **parameters))
            else:
                replaced = [*operands[:i], tangent, *operands[i + 1 :]]
                terms.append(primitive.bind(seed, *replaced, **parameters))
        if not terms:
            return value, ad.Zero.from_primal_value(value)
        return value, sum(terms[1:], terms[0])

    ad.primitive_jvps[primitive] = rule


def _shifted(primitive: Primitive) -> Callable[..., Array]:
    """sum_k da_k [f(a + pi/2 e_k) - f(a - pi/2 e_k)] / 2, in one bind."""

    def derivative(seed: Array, a: Array, t: Array, u: Array, da: Array, **parameters: Any) -> Array:
        batch, slots = a.shape
        shifts = np.stack([np.eye(slots), -np.eye(slots)]).astype(a.dtype) * a.dtype.type(SHIFT)
        rows = (a[:, None, None, :] + shifts[None]).reshape(-1, slots)
        t, u = (jnp.repeat(operand, 2 * slots, axis=0) for operand in (t, u))
        values = primitive.bind(_next_seed(seed), rows, t, u, **parameters)
        plus, minus = jnp.moveaxis(values.reshape(batch, 2, slots, *values.shape[1:]), 1, 0)
        return 0.5 * jnp.einsum("bk,bk...->b...", da, plus - minus)

    return derivative


def _next_seed(seed: Array) -> Array:
    """Another stream of samples for the next order, whose request is of the same primitive."""
    return jnp.asarray(seed) * np.uint32(747796405) + np.uint32(2891336453)


_jvp(expval_p, lambda seed, a, da, **ps: jvp_p.bind(seed, a, da[:, None], **ps)[:, 0])
_jvp(
    jvp_p,
    lambda seed, a, t, da, **ps: curvature_p.bind(
        seed, a, t[:, None], da[:, None, None], **ps
    )[:, 0, :, 0],
)
_jvp(
    vjp_p,
    lambda seed, a, c, da, **ps: hvp_p.bind(seed, a, da[:, None, None], c[:, None], **ps)[:, 0, 0],
)
_jvp(hvp_p, _shifted(hvp_p))
_jvp(curvature_p, _shifted(curvature_p))


def _transpose(primitive: Primitive, *rules: Callable[..., Array]) -> None:
    """`rules[i](seed, a, other operands..., cotangent)` transposes operand 1 + i."""

    def rule(cotangent: Any, seed: Array, a: Array, *operands: Any, **parameters: Any) -> list[Any]:
        results: list[Any] = [None, None, *(None for _ in operands)]
        for i, operand in enumerate(operands):
            if not ad.is_undefined_primal(operand):
                continue
            if type(cotangent) is ad.Zero:
                results[2 + i] = ad.Zero(operand.aval)
                continue
            others = [o for j, o in enumerate(operands) if j != i]
            results[2 + i] = rules[i](seed, a, *others, cotangent, **parameters)
        return results

    ad.primitive_transposes[primitive] = rule


def _paired(primitive: Primitive) -> Callable[..., Array]:
    """sum over Y of primitive(a, left_Y, right_XY): left (B, S, Y, .), right (B, S, X, Y, .) -> (B, S, X, .)."""

    def total(seed: Array, a: Array, left: Array, right: Array, **parameters: Any) -> Array:
        batch, shared, x, y, last = right.shape
        left = left.reshape(batch, shared * y, 1, left.shape[-1])
        right = jnp.swapaxes(right, 2, 3).reshape(batch, shared * y, x, last)
        value = primitive.bind(seed, a, left, right, **parameters)[:, :, 0]
        return value.reshape(batch, shared, y, x, value.shape[-1]).sum(axis=2)

    return total


def _swapped(seed: Array, a: Array, c: Array, g: Array, **parameters: Any) -> Array:
    """sum over C of H_{c_C} g_TC: c (B, S, C, M), g (B, S, T, C, K) -> (B, S, T, K)."""
    batch, shared, t, count, slots = g.shape
    c = c.reshape(batch, shared * count, 1, c.shape[-1])
    g = jnp.swapaxes(g, 2, 3).reshape(batch, shared * count, t, slots)
    value = hvp_p.bind(seed, a, g, c, **parameters)[:, :, :, 0]
    return value.reshape(batch, shared, count, t, slots).sum(axis=2)


_transpose(jvp_p, lambda seed, a, g, **ps: vjp_p.bind(seed, a, g, **ps))
_transpose(vjp_p, lambda seed, a, g, **ps: jvp_p.bind(seed, a, g, **ps))
_transpose(
    hvp_p,
    _swapped,
    lambda seed, a, t, g, **ps: _paired(curvature_p)(seed, a, t, jnp.swapaxes(g, 2, 3), **ps),
)
_transpose(
    curvature_p,
    lambda seed, a, u, g, **ps: _paired(hvp_p)(seed, a, u, g, **ps),
    lambda seed, a, t, g, **ps: _paired(hvp_p)(seed, a, t, jnp.swapaxes(g, 2, 3), **ps),
)
