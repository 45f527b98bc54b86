r"""Ready kernels: circuits of the literature, for any number of qubits and layers.

Each function here makes a Kernel, whose first argument is the data `x`, whose others are weights,
and whose number of layers is that of the weights it is called with. `weights` knows their shapes:

>>> from qml.circuits import library
>>> kernel = library.reuploading(qubits=4)
>>> library.weights(kernel, layers=3)
{'theta': (3, 4, 2)}
>>> import numpy as np
>>> kernel(np.zeros(4), np.zeros((3, 4, 2))).shape
(4,)

The same arguments give the same Kernel, registered under the call that makes it:

>>> kernel is library.reuploading(4), kernel.name
(True, 'qml.circuits.library.reuploading(qubits=4)')

All take `observables=`, a list of Pauli labels with qubit 0 rightmost, such as ["ZZII", "IIZZ"], or
"probs" for the probabilities of all outcomes; by default Z on every qubit in turn. Below, R_P(a) is
the gate exp(-i a/2 P), angles are in radian, and gates are written in the order of time. A width
that is no integer, or too small for the circuit, is an ArgumentError, and arguments of other shapes
than a docstring says are a ShapeError when the kernel is traced.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from qml.circuits.paulis import Z
from qml.circuits.templates import (
    PREFIX,
    Observables,
    Template,
    count,
    ready,
    weights as weights,
)
from qml.errors import ArgumentError, UnknownNameError, nearest
from qml.kernel import Kernel

if TYPE_CHECKING:
    from qiskit import QuantumCircuit


def reuploading(qubits: int, observables: Observables = None) -> Kernel:
    """Data re-uploading: layers of R_Y(x_q) R_Z(theta_q0) R_Y(theta_q1) on each qubit, and a ring.

    With L layers the outputs are Fourier series in every x_q, of frequencies up to L. The ring is
    CX from each qubit to the next, and from the last to the first.

    Arguments: x (qubits,), theta (layers, qubits, 2).
    Source: A. Pérez-Salinas et al., Quantum 4, 226 (2020), where data and weights share a gate;
    frequencies: M. Schuld et al., Phys. Rev. A 103, 032430 (2021).
    """

    qubits = count("qubits", qubits, 1)

    def write(qc: QuantumCircuit, x: Any, theta: Any) -> None:
        for layer in theta:
            _rotate(qc, qc.ry, x)
            _rotate(qc, qc.rz, layer[:, 0])
            _rotate(qc, qc.ry, layer[:, 1])
            for a, b in _ring(qubits):
                qc.cx(a, b)

    template = {"x": (qubits,), "theta": ("layers", qubits, 2)}
    return ready(reuploading, write, template, observables, qubits)


def strongly_entangling(qubits: int, observables: Observables = None) -> Kernel:
    """R_Y(x_q), then layers of R_Z R_Y R_Z and CX from each qubit q to q + r, of another r each.

    The range r is 1 in the first layer and goes up to qubits - 1, then from 1 again. The last R_Z
    of the last layer does not reach observables of Z alone, so there its gradient is zero.

    Arguments: x (qubits,), theta (layers, qubits, 3), in the order of time.
    Source: M. Schuld et al., Phys. Rev. A 101, 032308 (2020), with angles for amplitudes of data.
    """

    qubits = count("qubits", qubits, 1)

    def write(qc: QuantumCircuit, x: Any, theta: Any) -> None:
        _rotate(qc, qc.ry, x)
        for i, layer in enumerate(theta):
            _rotate(qc, qc.rz, layer[:, 0])
            _rotate(qc, qc.ry, layer[:, 1])
            _rotate(qc, qc.rz, layer[:, 2])
            for a, b in _ring(qubits, 1 + i % max(qubits - 1, 1)):
                qc.cx(a, b)

    template = {"x": (qubits,), "theta": ("layers", qubits, 3)}
    return ready(strongly_entangling, write, template, observables, qubits)


def hardware_efficient(qubits: int, observables: Observables = None) -> Kernel:
    """R_Y(x_q), then R_Z(theta_q0) R_Y(theta_q1) on each qubit, repeated after each chain of CX.

    A layer is CX from each qubit to the next and the rotations after it.

    Arguments: x (qubits,), theta (layers + 1, qubits, 2).
    Source: A. Kandala et al., Nature 549, 242 (2017), with the CX of today's machines.
    """

    qubits = count("qubits", qubits, 1)

    def write(qc: QuantumCircuit, x: Any, theta: Any) -> None:
        _rotate(qc, qc.ry, x)
        _blocks(qc, theta, qc.cx)

    template = {"x": (qubits,), "theta": ("layers + 1", qubits, 2)}
    return ready(hardware_efficient, write, template, observables, qubits)


def brickwork(qubits: int, observables: Observables = None) -> Kernel:
    """R_Y(x_q), then in every layer a brick on each pair of neighbours k, k + 1, even k first.

    Brick k is CZ, then R_Z(theta_k0) R_Y(theta_k1) on k and R_Z(theta_k2) R_Y(theta_k3) on k + 1.
    A local observable depends on a light cone only; for random bricks its gradients vanish at most
    polynomially in the number of qubits, as long as the depth grows with its logarithm.

    Arguments: x (qubits,), theta (layers, qubits - 1, 4).
    Source: the alternating layered ansatz of M. Cerezo et al., Nat. Commun. 12, 1791 (2021).
    """

    qubits = count("qubits", qubits, 2)

    def write(qc: QuantumCircuit, x: Any, theta: Any) -> None:
        _rotate(qc, qc.ry, x)
        for layer in theta:
            for k in _bricks(qubits):
                qc.cz(k, k + 1)
                for q, (a, b) in ((k, layer[k, :2]), (k + 1, layer[k, 2:])):
                    qc.rz(a, q)
                    qc.ry(b, q)

    template = {"x": (qubits,), "theta": ("layers", qubits - 1, 4)}
    return ready(brickwork, write, template, observables, qubits)


def zz_feature_map(qubits: int, repetitions: int = 2, observables: Observables = None) -> Kernel:
    """H, R_Z(2 x_a), R_ZZ(2 (pi - x_a)(pi - x_b)) on all pairs, repeated; then a trained circuit.

    Called without theta it is the feature map alone, as for a quantum kernel, and as a layer with
    weights={} a fixed function of the data. Layers of theta are those of `hardware_efficient`, with
    CZ in the place of CX: the variational classifier of the same paper.

    Arguments: x (qubits,), theta (layers + 1, qubits, 2), which may be left out.
    Source: V. Havlíček et al., Nature 567, 209 (2019).
    """

    qubits = count("qubits", qubits, 2)
    repetitions = count("repetitions", repetitions, 1)

    def write(qc: QuantumCircuit, x: Any, theta: Any = ()) -> None:
        for _ in range(repetitions):
            qc.h(range(qubits))
            _rotate(qc, qc.rz, 2 * x)
            for a, b in _pairs(qubits):
                qc.rzz(2 * (math.pi - x[a]) * (math.pi - x[b]), a, b)
        _blocks(qc, theta, qc.cz)

    options = {} if repetitions == 2 else {"repetitions": repetitions}
    template = {"x": (qubits,), "theta": ("layers + 1", qubits, 2)}
    return ready(zz_feature_map, write, template, observables, qubits, options)


def iqp(qubits: int, observables: Observables = None) -> Kernel:
    """Layers of H, R_Z(x_q + fields_q) and R_ZZ(couplings_ab) on all pairs; at the end H.

    Between two walls of H everything is diagonal. The pairs come as (0, 1), (0, 2), ..., (1, 2).
    One layer gives <Z_q> = cos(x_q + fields_q) times the product over b of cos(couplings_qb).
    Outcomes of such circuits are believed to be hard to sample: observables="probs" gives them.

    Arguments: x (qubits,), fields (layers, qubits), couplings (layers, qubits (qubits - 1) / 2).
    Source: D. Shepherd and M. Bremner, Proc. R. Soc. A 465, 1413 (2009), for one layer; data in the
    diagonal and several layers as in V. Havlíček et al., Nature 567, 209 (2019).
    """

    qubits = count("qubits", qubits, 2)

    def write(qc: QuantumCircuit, x: Any, fields: Any, couplings: Any) -> None:
        for field, coupling in zip(fields, couplings, strict=True):
            qc.h(range(qubits))
            _rotate(qc, qc.rz, x + field)
            for angle, (a, b) in zip(coupling, _pairs(qubits), strict=True):
                qc.rzz(angle, a, b)
        qc.h(range(qubits))

    template: Template = {
        "x": (qubits,),
        "fields": ("layers", qubits),
        "couplings": ("layers", len(_pairs(qubits))),
    }
    return ready(iqp, write, template, observables, qubits)


def matchgate(qubits: int, observables: Observables = None) -> Kernel:
    """Free fermions: bricks R_XX(theta_k0) R_YY(theta_k1), then layers R_Z(x_q + phases_q), bricks.

    Brick k is on the qubits k and k + 1, even k first. Every gate is a matchgate G(A, B): A acts on
    |00>, |11> and B on |01>, |10>, with det A = det B. So the parity of ones is kept, and the
    circuit only rotates the Majorana operators, two per qubit, which is quickly computed
    classically: a baseline that tells whether a model needs more.

    Arguments: x (qubits,), theta (layers + 1, qubits - 1, 2), phases (layers, qubits).
    Source: L. Valiant, SIAM J. Comput. 31, 1229 (2002); R. Jozsa and A. Miyake, Proc. R. Soc. A
    464, 3089 (2008).
    """

    qubits = count("qubits", qubits, 2)

    def write(qc: QuantumCircuit, x: Any, theta: Any, phases: Any) -> None:
        for i, row in enumerate(theta):
            if i:
                _rotate(qc, qc.rz, x + phases[i - 1])
            for k in _bricks(qubits):
                qc.rxx(row[k, 0], k, k + 1)
                qc.ryy(row[k, 1], k, k + 1)

    template: Template = {
        "x": (qubits,),
        "theta": ("layers + 1", qubits - 1, 2),
        "phases": ("layers", qubits),
    }
    return ready(matchgate, write, template, observables, qubits)


def qaoa(
    qubits: int, edges: Iterable[Sequence[int]] | None = None, observables: Observables = None
) -> Kernel:
    """H, then layers exp(-i gamma sum_e x_e Z_a Z_b) exp(-i beta sum_q X_q), e = (a, b) the edges.

    The data are the weights of the edges, ones for plain MaxCut, and the outputs <Z_a Z_b> of the
    edges in their order, since Z alone has expectation 0: the cut is sum_e x_e (1 - <Z_a Z_b>) / 2.

    Arguments: x (edges,), gamma (layers,), beta (layers,).
    Source: E. Farhi et al., arXiv:1411.4028; for other mixers see S. Hadfield et al., Algorithms
    12, 34 (2019).

    Args:
        edges: pairs of qubits, each once; by default the ring (0, 1), (1, 2), ..., (qubits - 1, 0).
    """
    qubits = count("qubits", qubits, 2)
    ring = _edges(qubits, _ring(qubits)[: qubits if qubits > 2 else 1])
    drawn = ring if edges is None else _edges(qubits, edges)

    def write(qc: QuantumCircuit, x: Any, gamma: Any, beta: Any) -> None:
        qc.h(range(qubits))
        for cost, mixer in zip(gamma, beta, strict=True):
            for weight, (a, b) in zip(x, drawn, strict=True):
                qc.rzz(2 * cost * weight, a, b)
            qc.rx(2 * mixer, range(qubits))

    template: Template = {"x": (len(drawn),), "gamma": ("layers",), "beta": ("layers",)}
    options = {} if drawn == ring else {"edges": list(drawn)}
    default = [Z(a) @ Z(b) for a, b in drawn]
    return ready(qaoa, write, template, observables, qubits, options, default)


FACTORIES: Final[dict[str, Callable[..., Kernel]]] = {
    factory.__name__: factory
    for factory in (
        reuploading,
        strongly_entangling,
        hardware_efficient,
        brickwork,
        zz_feature_map,
        iqp,
        matchgate,
        qaoa,
    )
}
"""All of them by name."""


def named(name: str) -> Kernel:
    """The ready kernel of that name, made anew in a process that has not made it yet.

    Only the functions of this module are called, and with literals only.

    Raises:
        UnknownNameError: no ready kernel has that name.

    >>> named("qml.circuits.library.iqp(qubits=2)") is iqp(2)
    True
    """
    factory, _, rest = name.removeprefix(PREFIX).partition("(")
    if not name.startswith(PREFIX) or factory not in FACTORIES:
        raise UnknownNameError(
            f"no ready kernel is called {name!r}: {nearest(factory, FACTORIES)} Names are calls "
            f"such as {PREFIX}reuploading(qubits=4)."
        )
    try:
        call = ast.parse(f"f({rest}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError("that is no call with named arguments")
        options = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
        inspect.signature(FACTORIES[factory]).bind(**options)
    except (SyntaxError, TypeError, ValueError) as error:
        raise UnknownNameError(
            f"no ready kernel is called {name!r}: {error}. Names are calls such as "
            f"{PREFIX}reuploading(qubits=4)."
        ) from None
    return FACTORIES[factory](**options)


def _rotate(qc: QuantumCircuit, rotation: Callable[..., Any], angles: Any) -> None:
    """Each qubit by its angle."""
    for q in range(qc.num_qubits):
        rotation(angles[q], q)


def _blocks(qc: QuantumCircuit, theta: Any, entangle: Callable[..., Any]) -> None:
    """R_Z R_Y on each qubit, with a chain of entanglers between two such rows."""
    for i, row in enumerate(theta):
        for q in range(qc.num_qubits - 1 if i else 0):
            entangle(q, q + 1)
        _rotate(qc, qc.rz, row[:, 0])
        _rotate(qc, qc.ry, row[:, 1])


def _ring(qubits: int, distance: int = 1) -> list[tuple[int, int]]:
    return [(q, (q + distance) % qubits) for q in range(qubits)] if qubits > 1 else []


def _pairs(qubits: int) -> list[tuple[int, int]]:
    return list(itertools.combinations(range(qubits), 2))


def _bricks(qubits: int) -> list[int]:
    """The first qubit of each brick, even ones first."""
    return [*range(0, qubits - 1, 2), *range(1, qubits - 1, 2)]


def _edges(qubits: int, edges: Iterable[Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Pairs (a, b) with a < b.

    Raises:
        ArgumentError: an edge is no pair of two qubits, or comes twice, or there is none.
    """
    found = []
    for edge in edges:
        try:
            a, b = sorted(operator.index(q) for q in edge)
        except (TypeError, ValueError):
            a = b = -1
        if not 0 <= a < b < qubits or (a, b) in found:
            raise ArgumentError(
                f"edges must be pairs of two of the {qubits} qubits, each pair once, such as "
                f"[(0, 1)], got {edge!r}."
            )
        found.append((a, b))
    if not found:
        raise ArgumentError("edges must hold at least one pair of qubits, got none.")
    return tuple(found)
