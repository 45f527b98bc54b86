"""How a primitive gets into compiled code: as JAX operations, a custom call, or a callback.

Where rows of angles are sharded over a mesh of devices, each device computes those that it has;
under `jit` the mesh must be in the types of the operands, as it is where sharded arrays come in or
`jax.set_mesh` is in force. By `in_shardings` alone it is not, and along no other axis than B is
anything shared out: then every device computes the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, cast

import jax
import numpy as np
from jax.experimental.custom_partitioning import custom_partitioning
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from qml.circuits.program import Program
from qml.errors import EngineError
from qml.execution import execute, has_xla_call, is_traceable, trace, xla_call
from qml.settings import EngineConfig

Array = Any
Rule = Callable[..., Array]


class Axes(NamedTuple):
    """The axes of operands and result, batch first; K and M are sizes of the Program."""

    operands: tuple[str, ...]
    result: str


AXES: Final[dict[str, Axes]] = {
    "expval": Axes(("BK",), "BM"),
    "expval_jvp": Axes(("BK", "BTK"), "BTM"),
    "expval_vjp": Axes(("BK", "BCM"), "BCK"),
    "expval_hvp": Axes(("BK", "BSTK", "BSCM"), "BSTCK"),
    "expval_curvature": Axes(("BK", "BSTK", "BSUK"), "BSTUM"),
}
"""All that is particular to a primitive, but for its derivative and its transpose."""


def host(name: str, operands: Sequence[Any], program: Program, config: EngineConfig) -> Any:
    """The value of a primitive. Runs inside XLA's callbacks, so no JAX in here."""
    seed, *arrays = (np.asarray(operand) for operand in operands)
    value = execute(name, program, config, int(seed), *arrays)
    return value.astype(arrays[0].dtype)


def lowered(
    primitive: Any, axes: Axes, ctx: Any, *operands: Any, program: Program, config: EngineConfig
) -> Any:
    """The lowering rule of a primitive: a JAX function, a call without Python, or a callback."""
    name = primitive.name
    if is_traceable(name, config):

        def traced(seed: Array, *arrays: Array) -> Array:
            return traceable_value(name, program, config, *arrays)

        return mlir.lower_fun(traced, multiple_results=False)(ctx, *operands)
    _refuse_export(ctx, config)
    on_cpu = ctx.module_context.platforms == ("cpu",)
    without_python = on_cpu and has_xla_call(name, config)
    mesh = ctx.avals_out[0].sharding.mesh
    if on_cpu and mesh.size > 1 and not mesh.manual_axes:
        whole: Rule = partial(primitive.bind, program=program, config=config)
        part = whole
        if not without_python:
            part = _callback_in_part(ctx, name, whole, program, config)
        # XLA's cache of compiled code does not see what is lowered within a part.
        digests: Any = {"program": program.digest, "engine": config.digest}
        with set_xla_metadata(**digests):  # type: ignore[no-untyped-call]
            return _lower_in_parts(ctx, axes, operands, mesh, whole, part)
    if not without_python:
        return _emit_callback(ctx, name, operands, program, config)

    def call(seed: Array, *arrays: Array) -> Array:
        return xla_call(name, program, config, *arrays)

    return mlir.lower_fun(call, multiple_results=False)(ctx, *operands)


def traceable_value(
    name: str, program: Program, config: EngineConfig, a: Array, *operands: Array
) -> Array:
    """`trace`, within which XLA settles what is where even along explicit axes of a mesh."""
    mesh, spec = jax.typeof(a).sharding.mesh, jax.typeof(a).sharding.spec
    traced = partial(trace, name, program, config)
    if mesh.explicit_axes:
        traced = jax.sharding.auto_axes(traced, out_sharding=along(mesh, spec[0]))
    return traced(a, *operands)


def along(mesh: Any, *names: Any) -> Any:
    """Of an array: along which axes of a mesh each of its own is split."""
    spec = jax.P(*names)  # type: ignore[no-untyped-call]
    return jax.NamedSharding(mesh, spec)


def _lower_in_parts(
    ctx: Any, axes: Axes, operands: Sequence[Any], mesh: Any, whole: Rule, part: Rule
) -> Any:
    """`whole` over a mesh, along whose axes XLA may split axis B: `part` of the rows everywhere.

    It is told how by a rule, since it splits when it compiles. Without one every device would
    compute all rows.
    """

    def partition(mesh: Any, operands: Any, result: Any) -> Any:
        names = result.sharding.spec[0] or ()
        names = (names,) if isinstance(names, str) else names
        if result.shape[0] % math.prod(mesh.shape[name] for name in names):
            names = ()  # what would fill up the last part is undefined
        everywhere, by_rows = along(mesh), along(mesh, names)

        def local(seed: Array, *arrays: Array) -> Array:
            # XLA may compile outside of the context in which a double was lowered.
            with jax.enable_x64(arrays[0].dtype == np.float64):
                if names:  # no two parts may draw alike
                    number = jax.lax.axis_index(names).astype(np.uint32)
                    seed = seed ^ number * np.uint32(2654435769)
                return part(seed, *arrays)

        return mesh, local, by_rows, (everywhere, *[by_rows] * len(axes.operands))

    letters = dict.fromkeys("".join(axes.operands) + axes.result)
    in_parts: Any = custom_partitioning(whole)  # type: ignore[no-untyped-call]
    in_parts.def_partition(
        partition,
        sharding_rule=", ".join(("", *map(" ".join, axes.operands))) + "->" + " ".join(axes.result),
        need_replication_factors=tuple(letter for letter in letters if letter != "B"),
    )
    # It counts devices, and does not ask which they are.
    devices = tuple(jax.devices("cpu")[: mesh.size])
    context = ctx.module_context.axis_context
    context = replace(context, device_assignment=devices, abstract_mesh=mesh)
    ctx = ctx.replace(module_context=ctx.module_context.replace(axis_context=context))
    return mlir.lower_fun(in_parts, multiple_results=False)(ctx, *operands)


def _callback(name: str, program: Program, config: EngineConfig) -> Callable[..., tuple[Any]]:
    """`host` for compiled code to call; it sends its result as `_sent`."""

    def callback(*operands: Any) -> tuple[Any]:
        value = host(name, operands, program, config)
        if value.dtype == np.float64:
            return (np.ascontiguousarray(value)[..., None].view(np.uint32),)
        return (value,)

    return callback


def _sent(aval: Any) -> Any:
    """What a callback sends for a result: doubles as words.

    JAX casts what a callback returns to single precision where double precision is off in the
    callback's own thread, whatever it is in the thread that called.
    """
    double = aval.dtype == np.float64
    return jax.core.ShapedArray((*aval.shape, 2), np.uint32) if double else aval


def _emit_callback(
    ctx: Any, name: str, operands: Sequence[Any], program: Program, config: EngineConfig
) -> Any:
    """A call of `host` from compiled code."""
    (aval,) = ctx.avals_out
    sent = _sent(aval)
    # Not pure_callback: it hands over JAX arrays and deadlocks on one core (jax-ml/jax#24255).
    results, _, _ = mlir.emit_python_callback(
        ctx.replace(avals_out=[sent]),
        _callback(name, program, config),
        None,
        operands,
        ctx.avals_in,
        [sent],
        has_side_effect=False,
        returns_token=False,
    )
    if sent is aval:
        return results
    goal = mlir.aval_to_ir_type(ctx.module_context, aval)
    (words,) = results
    return [stablehlo.bitcast_convert(goal, cast(Any, words))]


def _callback_in_part(
    ctx: Any, name: str, whole: Rule, program: Program, config: EngineConfig
) -> Rule:
    """The same from a part, which JAX lowers as a module of its own.

    An executable finds its callbacks by their number, in the module that is compiled.
    """
    ctx.module_context.add_host_callback(_callback(name, program, config))
    number = np.uint64(len(ctx.module_context.host_callbacks) - 1)

    def call(*operands: Array) -> Array:
        result = jax.eval_shape(whole, *operands)
        sent = _sent(result)
        send: Any = jax.ffi.ffi_call("xla_ffi_python_cpu_callback", sent)
        value = send(*operands, index=number)
        return value if sent is result else jax.lax.bitcast_convert_type(value, result.dtype)

    return call


def _refuse_export(ctx: Any, config: EngineConfig) -> None:
    """Raises EngineError where code is to be exported: it could not find this process again."""
    if ctx.module_context.lowering_parameters.for_export:
        raise EngineError(
            f"a kernel on the {config.kind!r} engine cannot be exported: it runs in this process, "
            "which an exported program cannot hold. Save the model instead "
            "(model.save('m.keras')), and load it where this library is installed."
        )
