"""`@qkernel`: a function that writes a Qiskit circuit becomes a differentiable JAX function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import WRAPPER_ASSIGNMENTS, lru_cache
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from qml.circuits.binding import slot_angles
from qml.circuits.program import Program
from qml.circuits.tracing import Leaf, Trace, trace
from qml.config import Backend, resolve
from qml.errors import ArgumentError, DtypeError, KernelNameError, nearest
from qml.execution import prepare
from qml.primitives import expval
from qml.registry import Registry
from qml.seeds import request_seed

RESERVED: Final = ("key", "backend", "gradient")
"""Keywords of every kernel call; a kernel's function cannot use them as argument names."""

TRACES: Final = 256
"""How many shapes of arguments a kernel keeps its circuit for, the least recently used go first."""


class Kernel:
    """A registered, immutable function of arrays: expectation values of a circuit.

    Call it like the function, without the circuit. The shapes of the arguments fix the trace, as in
    `jax.jit`; every JAX transformation applies. One call is one sample: batch with `jax.vmap`.
    Arguments are arrays or pytrees of arrays; a default that is not overridden is handed to the
    function as it is, so it may steer Python (a depth, a flag). The function runs once per shapes:
    what it reads from globals or a closure is as it was then.

    Attributes:
        name: under which `qml.kernels` lists it.
        num_qubits: width of the circuit.
        function: the undecorated function.
        signature: the arguments of a call: those of the function, without the circuit.
    """

    name: str
    num_qubits: int
    function: Callable[..., Any]
    signature: inspect.Signature
    _traces: Callable[..., Trace]

    def __init__(self, function: Callable[..., Any], num_qubits: int, name: str) -> None:
        copied: dict[str, Any] = {
            k: getattr(function, k) for k in WRAPPER_ASSIGNMENTS if hasattr(function, k)
        }
        self.__dict__.update(
            copied,
            __wrapped__=function,
            name=name,
            num_qubits=num_qubits,
            function=function,
            signature=_signature(function),
            __signature__=_with_keywords(_signature(function)),
            # Of the kernel's own, so that what is compiled for it goes when it goes.
            _traces=lru_cache(maxsize=TRACES)(self._trace),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a kernel is immutable: define another instead of setting {name!r}.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a kernel is immutable: {name!r} cannot be deleted.")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by name: the reader must have imported the module that defines it."""
        if kernels.get(self.name) is not self:
            raise KernelNameError(
                f"the kernel {self.name!r} was replaced by another one of that name, so its name "
                "cannot stand for it in a pickle. Give it a name of its own."
            )
        return _registered, (self.name,)

    def __repr__(self) -> str:
        return f"<kernel {self.name}{self.signature} on {self.num_qubits} qubit(s)>"

    def __call__(
        self,
        *args: Any,
        key: Any = None,
        backend: Backend = None,
        gradient: str | None = None,
        **kwargs: Any,
    ) -> jax.Array:
        """Expectation values: a scalar for one observable, else a vector (M,).

        Args:
            *args, **kwargs: the function's arguments; the result has their promoted floating
                dtype, at least float32.
            key: a JAX random key or an integer; what a backend with shots draws from. Required
                under `jit`; outside, each call draws anew from the backend's seed.
            backend: name, table or configuration, instead of the ambient backend. It is resolved
                now, at trace time under `jit`.
            gradient: the rule for derivatives, instead of the backend's.

        Raises:
            ArgumentError: missing, surplus or misspelt arguments.
            DtypeError: an argument that is no array of real numbers.
            TracingError, ObservableError, UnsupportedCircuitError: see `trace`.
            SeedError: a backend with shots under `jit` without `key`.
            ConfigError, UnknownNameError: the backend cannot be resolved.
            EngineError: it cannot run this circuit.
            DeviceError, MissingDependencyError: what the backend needs is not there.
        """
        config = resolve(backend, gradient)
        leaves, traced = self._traced(args, kwargs)
        symbolic = [name for name, leaf in leaves if isinstance(leaf, jax.ShapeDtypeStruct)]
        if symbolic:
            raise ArgumentError(
                f"{self.name}: {symbolic} hold shapes, not numbers. Use `trace`, or jax.eval_shape."
            )
        prepare(traced.program, config)
        dtype = _dtype(leaves)
        flat = [jnp.asarray(leaf, dtype).reshape(-1) for _, leaf in leaves]
        arguments = jnp.concatenate(flat) if flat else jnp.zeros((0,), dtype)
        angles = slot_angles(traced.program.angles, arguments)
        values = expval(request_seed(config, key), angles[None], traced.program, config)
        result: jax.Array = values.reshape(traced.shape)
        return result

    def trace(self, *args: Any, **kwargs: Any) -> Trace:
        """The circuit, the Program and the result's shape for arguments of these shapes.

        The arguments may be arrays or `jax.ShapeDtypeStruct`.

        Raises:
            TracingError: the function fails on symbols of these shapes.
            ObservableError: it returns what cannot be measured.
            UnsupportedCircuitError: it writes what cannot be differentiated.
        """
        return self._traced(args, kwargs)[1]

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The lowered circuit for arguments of these shapes."""
        return self.trace(*args, **kwargs).program

    def draw(self, *args: Any, **kwargs: Any) -> str:
        """The circuit as text, for arguments of these shapes."""
        return str(self.trace(*args, **kwargs).circuit.draw("text"))

    def _traced(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[tuple[str, Any]], Trace]:
        """The named array arguments, and the trace that their shapes select."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            valid = [*self.signature.parameters, *RESERVED]
            unknown = [name for name in kwargs if name not in valid]
            problem = f"{error}."
            if unknown:
                problem = f"there is no argument {unknown[0]!r}: {nearest(unknown[0], valid)}"
            raise ArgumentError(f"{self.name}{self.signature}: {problem}") from None
        # Not as a dict, which JAX would sort: the order of the arguments is that of the signature.
        names = tuple(bound.arguments)
        paths, structure = jax.tree_util.tree_flatten_with_path(tuple(bound.arguments.values()))
        leaves = [
            (f"{names[path[0].idx]}{jax.tree_util.keystr(path[1:])}", leaf) for path, leaf in paths
        ]
        for name, leaf in leaves:
            _check_real(self.name, name, leaf)
        shapes = tuple((name, tuple(np.shape(leaf))) for name, leaf in leaves)
        return leaves, self._traces(names, structure, shapes)

    def _trace(self, names: tuple[str, ...], structure: Any, leaves: tuple[Leaf, ...]) -> Trace:
        def write(circuit: Any, symbols: Any) -> object:
            values = jax.tree_util.tree_unflatten(structure, symbols)
            arguments: Any = dict(zip(names, values, strict=True))
            bound = inspect.BoundArguments(self.signature, arguments)
            return self.function(circuit, *bound.args, **bound.kwargs)

        return trace(write, self.name, self.num_qubits, leaves)


kernels: Final[Registry[Kernel]] = Registry()
"""The registry: name -> Kernel."""


def qkernel(
    function: None = None, /, *, qubits: int | None = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Kernel]:
    """A kernel from a function `f(qc, ...)` that writes a Qiskit circuit and returns observables.

    The first argument is an empty QuantumCircuit; the others are arrays of Qiskit parameters, 0-d
    ones single parameters, and any gate of Qiskit may use any expression of them as an angle. By
    convention the first is the data, the others are weights.

    Args:
        qubits: width of the circuit, at least 1. Qubit 0 is the least significant bit.
        name: under which it is registered; by default `module.qualname`, replaced on redefinition.

    Raises:
        ArgumentError: `qubits` is no positive integer, or the function has no argument for the
            circuit, or uses one of the names key, backend, gradient.
        KernelNameError: an explicit name belongs to another kernel.

    >>> import jax, qml
    >>> @qkernel(qubits=1)
    ... def cosine(qc, x):
    ...     qc.rx(x, 0)
    ...     return qml.Z(0)
    >>> print(f"{cosine(0.5):.6f} {jax.grad(cosine)(0.5):.6f}")
    0.877583 -0.479426
    """
    if function is not None or qubits is None:
        raise ArgumentError("qkernel needs the number of qubits: write @qkernel(qubits=4).")
    if isinstance(qubits, bool) or not isinstance(qubits, int | np.integer) or qubits < 1:
        raise ArgumentError(f"qubits must be an integer of at least 1, got {qubits!r}.")

    def decorate(function: Callable[..., Any]) -> Kernel:
        automatic = f"{function.__module__}.{function.__qualname__}"
        kernel = Kernel(function, int(qubits), automatic if name is None else name)
        kernels.register(kernel, explicit=name is not None)
        return kernel

    return decorate


def _registered(name: str) -> Kernel:
    return kernels[name]


def _with_keywords(signature: inspect.Signature) -> inspect.Signature:
    """The signature with the keywords of every kernel call, for tools such as `jax.jit`."""
    parameters = list(signature.parameters.values())
    at = len(parameters)
    if parameters and parameters[-1].kind is inspect.Parameter.VAR_KEYWORD:
        at -= 1
    kind = inspect.Parameter.KEYWORD_ONLY
    keywords = [inspect.Parameter(name, kind, default=None) for name in RESERVED]
    return signature.replace(parameters=[*parameters[:at], *keywords, *parameters[at:]])


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    signature = inspect.signature(function)
    arguments = list(signature.parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not arguments or arguments[0].kind not in positional:
        raise ArgumentError(
            f"{function.__qualname__}{signature} must take the circuit as its first argument: "
            "def kernel(qc, x, ...)."
        )
    others = arguments[1:]
    taken = [p.name for p in others if p.name in RESERVED]
    if taken:
        raise ArgumentError(
            f"{function.__qualname__}{signature}: the name(s) {taken} are keywords of every kernel "
            "call. Rename the argument(s)."
        )
    return signature.replace(parameters=others, return_annotation=signature.empty)


def _check_real(kernel: str, name: str, leaf: Any) -> None:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        dtype = np.asarray(leaf).dtype
    real = jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)
    if not real:
        raise DtypeError(
            f"{kernel}: the argument {name} must hold real numbers, got {leaf!r} of type {dtype}. "
            "What steers the Python code of a kernel is given by a default or a closure."
        )


def _dtype(leaves: list[tuple[str, Any]]) -> Any:
    """The promoted floating dtype of the arguments, at least float32."""
    promoted = jnp.result_type(*(leaf for _, leaf in leaves)) if leaves else jnp.result_type(float)
    if not jnp.issubdtype(promoted, jnp.floating):
        return jnp.result_type(float)
    return jnp.promote_types(promoted, jnp.float32)
