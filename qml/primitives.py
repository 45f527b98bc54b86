r"""Expectation values and their derivatives as JAX primitives, closed under every transformation.

With slot angles a (B, K) and outputs E (B, M), J the Jacobian and H_m the Hessian of output m:

    expval(a)                  E                (B, M)
    expval_jvp(a, t)           J t              t (B, T, K)                    -> (B, T, M)
    expval_vjp(a, c)           J^T c            c (B, C, M)                    -> (B, C, K)
    expval_hvp(a, t, c)        sum_m c_m H_m t  t (B, S, T, K), c (B, S, C, M) -> (B, S, T, C, K)
    expval_curvature(a, t, u)  t^T H_m u        t (B, S, T, K), u (B, S, U, K) -> (B, S, T, U, M)

All but the first are linear in each operand after a. The derivative of `expval` is `expval_jvp`,
whose transpose is `expval_vjp`; the derivatives of these two are `expval_curvature` and
`expval_hvp`, which are each other's transposes. From the third order on, the shift rule acts on the
last two: every derivative of E is a trigonometric polynomial in each slot, so that too is exact.
Where the engine is a JAX function, JAX differentiates that instead, as often as asked.

`vmap` never repeats `a`: an axis that only t, u or c have becomes T, U or C, and one that two of
them share becomes S. So `jacrev` asks an engine for as many rows as `grad` does.

Every primitive carries its Program and its engine configuration as static parameters, resolved
when the kernel was called: nothing below reads the ambient backend. The first operand is the seed,
a uint32 scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import jet
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from qml.circuits.program import Program
from qml.errors import EngineError
from qml.execution import execute, is_traceable
from qml.gradients import SHIFT
from qml.lowerings import AXES, Axes, Rule, along, host, lowered, traceable_value
from qml.settings import EngineConfig

Array = Any


def expval(seed: Array, a: Array, program: Program, config: EngineConfig) -> Array:
    """Expectation values (B, M) at slot angles a (B, K), differentiable to any order."""
    return expval_p.bind(seed, a, program=program, config=config)


def _make(name: str) -> Any:
    primitive: Any = Primitive(name)
    axes = AXES[name]

    def abstract(seed: Any, *avals: Any, program: Program, config: EngineConfig) -> Any:
        sizes = {"K": program.num_slots, "M": program.num_outputs}
        for letters, aval in zip(axes.operands, avals, strict=True):
            for letter, size in zip(letters, aval.shape, strict=True):
                if sizes.setdefault(letter, size) != size:
                    raise TypeError(f"{name}: axis {letter} is {sizes[letter]} and {size}: {avals}")
        shape = tuple(sizes[x] for x in axes.result)
        # Within a shard_map, a result differs between the devices over which an operand does; with
        # explicit axes of a mesh, its rows are where those of an operand are.
        of = max(avals, key=lambda x: (len(x.manual_axis_type.varying), x.sharding.mesh.size))
        names = next((x.sharding.spec[0] for x in avals if x.sharding.spec[0]), None)
        sharding = along(of.sharding.mesh, names, *[None] * (len(shape) - 1))
        return of.update(shape=shape, dtype=avals[0].dtype, sharding=sharding, weak_type=False)

    def impl(*operands: Array, program: Program, config: EngineConfig) -> Array:
        if is_traceable(name, config):
            # Not through NumPy: what is on a device stays there.
            seed, *arrays = operands
            return execute(name, program, config, int(seed), *arrays)
        value = host(name, operands, program, config)
        return jax.device_put(value, getattr(operands[1], "sharding", None))

    primitive.def_abstract_eval(abstract)
    primitive.def_impl(impl)
    mlir.register_lowering(primitive, partial(lowered, primitive, axes))
    batching.primitive_batchers[primitive] = _batcher(primitive, axes)
    jet.jet_rules[primitive] = _refuse_jet
    return primitive


def _refuse_jet(*arguments: Any, **parameters: Any) -> Any:
    raise EngineError(
        "a kernel has no rule for jax.experimental.jet (Taylor series). Nest jax.jvp or jax.grad: "
        "derivatives of any order are exact."
    )


# Batching: a new axis is merged into one that the operands have.


def _batcher(primitive: Any, axes: Axes) -> Rule:
    def rule(
        operands: Sequence[Array], dims: Sequence[int | None], **parameters: Any
    ) -> tuple[Array, int]:
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        (seed, *arrays), (seed_dim, *array_dims) = operands, dims
        triples = list(zip(arrays, array_dims, axes.operands, strict=True))
        if seed_dim is None:
            letter = _merged_axis(axes, [letters for _, d, letters in triples if d is not None])
        else:
            # A batch of seeds asks for independent samples, so for rows of their own.
            seed, letter = _hash_seeds(seed), "B"
        merged = [_merge(x, d, letters, letter, size) for x, d, letters in triples]
        value = primitive.bind(seed, *merged, **parameters)
        length = next(
            _length(x, d, letters, letter) for x, d, letters in triples if letter in letters
        )
        where = axes.result.index(letter)
        split = (*value.shape[:where], size, length, *value.shape[where + 1 :])
        return value.reshape(split), where

    return rule


def _merged_axis(axes: Axes, batched: Sequence[str]) -> str:
    """B where the angles are batched, else the first axis that the batched operands alone have."""
    if "BK" in batched:
        return "B"
    others = "".join(letters for letters in axes.operands if letters not in batched)
    return next(x for x in batched[0] if all(x in b for b in batched) and x not in others + "KM")


def _merge(x: Array, dim: int | None, letters: str, letter: str, size: int) -> Array:
    """x with a batch axis merged into `letter`; repeated if it has that axis but no batch."""
    if letter not in letters:
        return x
    where = letters.index(letter)
    if dim is None:
        shape = (*x.shape[:where], size, *x.shape[where:])
        x = jnp.broadcast_to(jnp.expand_dims(x, where), shape)
    else:
        x = jnp.moveaxis(x, dim, where)
    return x.reshape(*x.shape[:where], size * x.shape[where + 1], *x.shape[where + 2 :])


def _length(x: Array, dim: int | None, letters: str, letter: str) -> Any:
    """The size of an axis before the batch was merged into it; symbolic in an export."""
    shape = [size for axis, size in enumerate(x.shape) if axis != dim]
    return shape[letters.index(letter)]


def _hash_seeds(seeds: Array) -> Array:
    """One uint32 that depends on all of them and their order; of none, a constant.

    Without a loop, so that within a shard_map it may differ between devices. Each is mixed with its
    place by the finalizer of MurmurHash3 (Appleby, public domain), and all are added up.
    """
    places = np.arange(1, len(seeds) + 1, dtype=np.uint32) * np.uint32(0x9E3779B9)
    mixed = jnp.asarray(seeds, jnp.uint32) ^ places
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
    return (mixed ^ (mixed >> np.uint32(16))).sum(dtype=jnp.uint32)


expval_p, jvp_p, vjp_p, hvp_p, curvature_p = map(_make, AXES)


# Derivatives: the product rule over the operands.


def _differentiate(primitive: Any, by_angles: Rule) -> None:
    """`by_angles(seed, a, operands..., da)` is the tangent of the result for a tangent of a."""

    def rule(primals: Sequence[Array], tangents: Sequence[Any], **parameters: Any) -> Any:
        seed, *operands = primals
        value = primitive.bind(seed, *operands, **parameters)
        terms = []
        for i, tangent in enumerate(tangents[1:]):
            if isinstance(tangent, ad.Zero):
                continue
            if i == 0:
                terms.append(by_angles(seed, *operands, tangent, **parameters))
            else:
                replaced = [*operands[:i], tangent, *operands[i + 1 :]]
                terms.append(primitive.bind(seed, *replaced, **parameters))
        if not terms:
            return value, ad.Zero(jax.typeof(value).to_tangent_aval())
        return value, sum(terms[1:], terms[0])

    ad.primitive_jvps[primitive] = rule


def _shifted(primitive: Any) -> Rule:
    """sum_k da_k [f(a + pi/2 e_k) - f(a - pi/2 e_k)] / 2, in one bind."""

    def by_angles(seed: Array, a: Array, t: Array, u: Array, da: Array, **parameters: Any) -> Array:
        batch, slots = a.shape
        shifts = np.stack([np.eye(slots), -np.eye(slots)]).astype(a.dtype) * a.dtype.type(SHIFT)
        rows = (a[:, None, None, :] + shifts[None]).reshape(-1, slots)
        t, u = (jnp.repeat(operand, 2 * slots, axis=0) for operand in (t, u))
        values = primitive.bind(_next_seed(seed), rows, t, u, **parameters)
        plus, minus = jnp.moveaxis(values.reshape(batch, 2, slots, *values.shape[1:]), 1, 0)
        return 0.5 * jnp.einsum("bk,bk...->b...", da, plus - minus)

    return by_angles


def _beyond_second(primitive: Any) -> Rule:
    """By JAX where the engine is a JAX function, else by the shift rule."""
    shifted = _shifted(primitive)

    def by_angles(
        seed: Array, a: Array, *rest: Array, program: Program, config: EngineConfig
    ) -> Array:
        if not is_traceable(primitive.name, config):
            return shifted(seed, a, *rest, program=program, config=config)
        *operands, da = rest

        def value(a: Array) -> Array:
            return traceable_value(primitive.name, program, config, a, *operands)

        return jax.jvp(value, (a,), (da,))[1]

    return by_angles


def _next_seed(seed: Array) -> Array:
    """Another stream of samples for the next order, whose request is of the same primitive."""
    return jnp.asarray(seed) * np.uint32(747796405) + np.uint32(2891336453)


def _expval_by_angles(seed: Array, a: Array, da: Array, **parameters: Any) -> Array:
    return jvp_p.bind(seed, a, da[:, None], **parameters)[:, 0]


def _jvp_by_angles(seed: Array, a: Array, t: Array, da: Array, **parameters: Any) -> Array:
    return curvature_p.bind(seed, a, t[:, None], da[:, None, None], **parameters)[:, 0, :, 0]


def _vjp_by_angles(seed: Array, a: Array, c: Array, da: Array, **parameters: Any) -> Array:
    return hvp_p.bind(seed, a, da[:, None, None], c[:, None], **parameters)[:, 0, 0]


_differentiate(expval_p, _expval_by_angles)
_differentiate(jvp_p, _jvp_by_angles)
_differentiate(vjp_p, _vjp_by_angles)
_differentiate(hvp_p, _beyond_second(hvp_p))
_differentiate(curvature_p, _beyond_second(curvature_p))


# Transposes: the cotangent g has the axes of the result.


def _transpose(primitive: Any, *rules: Rule) -> None:
    """`rules[i](seed, a, other operand, g)` transposes the i-th operand after a."""

    def rule(g: Any, seed: Array, a: Array, *operands: Any, **parameters: Any) -> list[Any]:
        results: list[Any] = [None, None]
        for i, operand in enumerate(operands):
            undefined = isinstance(operand, ad.UndefinedPrimal)
            if undefined and isinstance(g, ad.Zero):
                results.append(ad.Zero(operand.aval))
            elif undefined:
                others = [other for j, other in enumerate(operands) if j != i]
                results.append(rules[i](seed, a, *others, g, **parameters))
            else:
                results.append(None)
        return results

    ad.primitive_transposes[primitive] = rule


def _paired_sum(bind: Rule) -> Rule:
    """sum over Y of bind(a, left_Y, right_XY).

    left (B, S, Y, .) and right (B, S, X, Y, .) give (B, S, X, .): Y, an axis of both, joins S.
    """

    def total(seed: Array, a: Array, left: Array, right: Array, **parameters: Any) -> Array:
        batch, shared, x, y, last = right.shape
        left = left.reshape(batch, shared * y, 1, left.shape[-1])
        right = jnp.swapaxes(right, 2, 3).reshape(batch, shared * y, x, last)
        value = bind(seed, a, left, right, **parameters)
        return value.reshape(batch, shared, y, x, value.shape[-1]).sum(axis=2)

    return total


def _other_axis_first(rule: Rule) -> Rule:
    def swapped(seed: Array, a: Array, other: Array, g: Array, **parameters: Any) -> Array:
        return rule(seed, a, other, jnp.swapaxes(g, 2, 3), **parameters)

    return swapped


def _hvp_of_cotangent(seed: Array, a: Array, c: Array, t: Array, **parameters: Any) -> Array:
    """H_c t with the roles of the operands, and so the axes T and C, exchanged: H is symmetric."""
    return jnp.swapaxes(hvp_p.bind(seed, a, t, c, **parameters), 2, 3)


_transpose(jvp_p, vjp_p.bind)
_transpose(vjp_p, jvp_p.bind)
_transpose(
    hvp_p,
    _paired_sum(_hvp_of_cotangent),
    _other_axis_first(_paired_sum(curvature_p.bind)),
)
_transpose(
    curvature_p,
    _paired_sum(hvp_p.bind),
    _other_axis_first(_paired_sum(hvp_p.bind)),
)
