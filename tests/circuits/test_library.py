"""Ready kernels: the circuits they say they are, one Kernel for each call, checked shapes."""

import inspect
import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pennylane as qp
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit.library import efficient_su2, n_local, qaoa_ansatz, zz_feature_map
from qiskit.quantum_info import Operator, SparsePauliOp, Statevector

import qml
from qml.circuits import library
from qml.errors import (
    ArgumentError,
    KernelNameError,
    ObservableError,
    ShapeError,
    UnknownNameError,
)

ROOT = Path(__file__).resolve().parents[2]
RNG = np.random.default_rng(8)
FACTORIES = list(library.FACTORIES.values())


def features(kernel):
    """The length of x: that of the default graph of qaoa is the number of its edges."""
    ring = "qaoa" in kernel.name and kernel.num_qubits == 2
    return 1 if ring else kernel.num_qubits


def arguments(kernel, layers):
    """Random ones, in the order of the kernel's signature."""
    shapes = library.weights(kernel, layers)
    return [RNG.normal(size=features(kernel)), *(RNG.normal(size=s) for s in shapes.values())]


def values(circuit, labels):
    state = Statevector(circuit)
    return [state.expectation_value(SparsePauliOp(label)).real for label in labels]


def z_labels(qubits):
    return ["I" * (qubits - 1 - q) + "Z" + "I" * q for q in range(qubits)]


# The circuits, against what others make of the same formula.

I2, X, Y, Z = np.eye(2), np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1])
LETTERS = {"I": I2, "X": X, "Y": Y, "Z": Z}


def on(qubits, letters):
    """A product of Pauli matrices, by their qubits; qubit 0 is the last factor."""
    matrix = np.eye(1)
    for q in range(qubits):
        matrix = np.kron(LETTERS[letters.get(q, "I")], matrix)
    return matrix


def rotation(qubits, letters, angle):
    matrix = on(qubits, letters)
    return np.cos(angle / 2) * np.eye(2**qubits) - 1j * np.sin(angle / 2) * matrix


def cx(qubits, control, target):
    flip = np.eye(2**qubits) - on(qubits, {target: "X"})
    return np.eye(2**qubits) - (np.eye(2**qubits) - on(qubits, {control: "Z"})) @ flip / 2


def cz(qubits, a, b):
    return np.diag([(-1) ** (i >> a & i >> b & 1) for i in range(2**qubits)])


def measured(gates, qubits):
    state = np.eye(2**qubits)[0].astype(complex)
    for gate in gates:
        state = gate @ state
    return [np.vdot(state, on(qubits, {q: "Z"}) @ state).real for q in range(qubits)]


@pytest.mark.parametrize("qubits", [1, 2, 3])
def test_reuploading_is_its_formula_in_matrices(qubits):
    kernel = library.reuploading(qubits)
    x, theta = arguments(kernel, 2)
    gates = []
    for layer in theta:
        for q in range(qubits):
            for letter, angle in (("Y", x[q]), ("Z", layer[q, 0]), ("Y", layer[q, 1])):
                gates.append(rotation(qubits, {q: letter}, angle))
        gates += [cx(qubits, q, (q + 1) % qubits) for q in range(qubits) if qubits > 1]
    np.testing.assert_allclose(kernel(x, theta), measured(gates, qubits), atol=1e-12)


def test_every_layer_of_reuploading_adds_a_frequency_of_the_data():
    kernel = library.reuploading(1)
    for layers in (1, 2, 3):
        theta = RNG.normal(size=(layers, 1, 2))
        grid = 2 * np.pi * np.arange(16) / 16
        spectrum = np.fft.rfft(jax.vmap(lambda a, t=theta: kernel(a[None], t)[0])(grid)) / 16
        assert np.abs(spectrum[layers]) > 1e-3
        np.testing.assert_allclose(spectrum[layers + 1 :], 0, atol=1e-12)


@pytest.mark.parametrize("qubits", [1, 2, 4])
def test_strongly_entangling_layers_are_those_of_pennylane(qubits):
    kernel = library.strongly_entangling(qubits)
    x, theta = arguments(kernel, 4)

    @qp.qnode(qp.device("default.qubit", wires=qubits))
    def circuit():
        qp.AngleEmbedding(x, wires=range(qubits), rotation="Y")
        qp.StronglyEntanglingLayers(theta, wires=range(qubits))
        return [qp.expval(qp.PauliZ(q)) for q in range(qubits)]

    np.testing.assert_allclose(kernel(x, theta), circuit(), atol=1e-12)


def angles_of(theta):
    """In the order of Qiskit: one gate on all qubits, then the next."""
    return theta.transpose(0, 2, 1).ravel()


@pytest.mark.parametrize("qubits", [1, 3])
def test_hardware_efficient_is_qiskits_efficient_su2(qubits):
    kernel = library.hardware_efficient(qubits)
    x, theta = arguments(kernel, 2)
    circuit = QuantumCircuit(qubits)
    for q in range(qubits):
        circuit.ry(x[q], q)
    ansatz = efficient_su2(qubits, ["rz", "ry"], entanglement="linear", reps=2)
    circuit = circuit.compose(ansatz.assign_parameters(angles_of(theta)))
    np.testing.assert_allclose(kernel(x, theta), values(circuit, z_labels(qubits)), atol=1e-12)


@pytest.mark.parametrize("qubits", [2, 3, 4])
def test_brickwork_is_its_formula_in_matrices(qubits):
    kernel = library.brickwork(qubits)
    x, theta = arguments(kernel, 2)
    gates = [rotation(qubits, {q: "Y"}, x[q]) for q in range(qubits)]
    for layer in theta:
        for k in sorted(range(qubits - 1), key=lambda k: k % 2):
            a, b, c, d = layer[k]
            gates.append(cz(qubits, k, k + 1))
            for q, letter, angle in ((k, "Z", a), (k, "Y", b), (k + 1, "Z", c), (k + 1, "Y", d)):
                gates.append(rotation(qubits, {q: letter}, angle))
    np.testing.assert_allclose(kernel(x, theta), measured(gates, qubits), atol=1e-12)


def test_an_output_of_brickwork_depends_on_its_light_cone_only():
    kernel = library.brickwork(6)
    x, theta = arguments(kernel, 1)
    slopes = np.abs(jax.jacobian(kernel)(x, theta)) > 1e-9
    # One layer of bricks on (0, 1), (2, 3), (4, 5), then on (1, 2), (3, 4).
    np.testing.assert_array_equal(slopes[0], [True, True, False, False, False, False])
    np.testing.assert_array_equal(slopes[1], [True, True, True, True, False, False])


@pytest.mark.parametrize(("qubits", "repetitions"), [(2, 2), (3, 1), (3, 2)])
def test_the_zz_feature_map_is_that_of_qiskit(qubits, repetitions):
    labels = ["".join(letters) for letters in itertools.product("XYZ", repeat=qubits)]
    kernel = library.zz_feature_map(qubits, repetitions, observables=labels)
    x = RNG.normal(size=qubits)
    circuit = zz_feature_map(qubits, repetitions).assign_parameters(x)
    np.testing.assert_allclose(kernel(x), values(circuit, labels), atol=1e-12)


def test_the_classifier_on_the_zz_feature_map_is_that_of_qiskit():
    kernel = library.zz_feature_map(3)
    x, theta = arguments(kernel, 2)
    separator = n_local(3, ["rz", "ry"], "cz", "linear", reps=2).assign_parameters(angles_of(theta))
    circuit = zz_feature_map(3).assign_parameters(x).compose(separator)
    np.testing.assert_allclose(kernel(x, theta), values(circuit, z_labels(3)), atol=1e-12)


def test_iqp_of_one_layer_is_a_product_of_cosines():
    kernel = library.iqp(3)
    x, fields, couplings = arguments(kernel, 1)
    (ab, ac, bc) = np.cos(couplings[0])
    expected = np.cos(x + fields[0]) * [ab * ac, ab * bc, ac * bc]
    np.testing.assert_allclose(kernel(x, fields, couplings), expected, atol=1e-12)


def test_iqp_is_diagonal_between_hadamards():
    kernel = library.iqp(3, observables="probs")
    x, fields, couplings = arguments(kernel, 2)
    signs = 1 - 2 * np.array([[i >> q & 1 for q in range(3)] for i in range(8)])
    hadamard = np.array([[(-1) ** (i & j).bit_count() for i in range(8)] for j in range(8)])
    state = np.eye(8)[0]
    for field, coupling in zip(fields, couplings, strict=True):
        energy = signs @ (x + field)
        for angle, (a, b) in zip(coupling, [(0, 1), (0, 2), (1, 2)], strict=True):
            energy = energy + angle * signs[:, a] * signs[:, b]
        state = np.exp(-0.5j * energy) * (hadamard @ state) / np.sqrt(8)
    expected = np.abs(hadamard @ state / np.sqrt(8)) ** 2
    np.testing.assert_allclose(kernel(x, fields, couplings), expected, atol=1e-12)


def free_fermions(qubits, x, theta, phases):
    """<Z_q> from 2 qubits x 2 qubits matrices, never a state.

    Majorana operators c_2q = Z..Z X_q, c_2q+1 = Z..Z Y_q have -i c_2q c_2q+1 = Z_q,
    -i c_2q+1 c_2q+2 = X_q X_q+1 and i c_2q c_2q+3 = Y_q Y_q+1; exp(-i a/2 P) of such a product
    rotates the covariance matrix <-i c_j c_k> in the plane of its two operators.
    """
    covariance = np.kron(np.eye(qubits), [[0.0, 1.0], [-1.0, 0.0]])

    def rotate(j, k, angle):
        nonlocal covariance
        turn = np.eye(2 * qubits)
        turn[[j, k], [j, k]] = np.cos(angle)
        turn[j, k], turn[k, j] = -np.sin(angle), np.sin(angle)
        covariance = turn @ covariance @ turn.T

    for i, row in enumerate(theta):
        if i:
            for q in range(qubits):
                rotate(2 * q, 2 * q + 1, (x + phases[i - 1])[q])
        for k in sorted(range(qubits - 1), key=lambda k: k % 2):
            rotate(2 * k + 1, 2 * k + 2, row[k, 0])
            rotate(2 * k, 2 * k + 3, -row[k, 1])
    return covariance[2 * np.arange(qubits), 2 * np.arange(qubits) + 1]


@pytest.mark.parametrize("qubits", [2, 3, 5])
def test_matchgates_are_free_fermions(qubits):
    kernel = library.matchgate(qubits)
    given = arguments(kernel, 2)
    np.testing.assert_allclose(kernel(*given), free_fermions(qubits, *given), atol=1e-12)
    assert np.abs(kernel(*given)).max() < 0.999


def test_every_gate_of_matchgate_is_a_matchgate():
    kernel = library.matchgate(3)
    given = arguments(kernel, 1)
    circuit = kernel.trace(*given).circuit
    names = {
        f"{name}({','.join(map(str, index))})": array[index]
        for name, array in zip(kernel.signature.parameters, given, strict=True)
        for index in np.ndindex(array.shape)
    }
    assert set(names) == {p.name for p in circuit.parameters}
    bound = circuit.assign_parameters({p: names[p.name] for p in circuit.parameters})
    assert len(bound.data) == 11
    for gate in bound.data:
        qubits = sorted(bound.find_bit(q).index for q in gate.qubits)
        assert len(qubits) == 1 or qubits[1] == qubits[0] + 1
        matrix = Operator(gate.operation).data
        if len(qubits) == 1:
            matrix = np.kron(I2, matrix)
        even, odd = matrix[np.ix_([0, 3], [0, 3])], matrix[np.ix_([1, 2], [1, 2])]
        np.testing.assert_allclose(matrix[np.ix_([0, 3], [1, 2])], 0, atol=1e-15)
        np.testing.assert_allclose(matrix[np.ix_([1, 2], [0, 3])], 0, atol=1e-15)
        np.testing.assert_allclose(np.linalg.det(even), np.linalg.det(odd), atol=1e-12)


def test_matchgates_keep_the_parity_of_ones():
    kernel = library.matchgate(4, observables="probs")
    chances = np.asarray(kernel(*arguments(kernel, 3)))
    odd = [i for i in range(16) if i.bit_count() % 2]
    np.testing.assert_allclose(chances[odd], 0, atol=1e-14)
    assert np.all(np.delete(chances, odd) > 1e-6)


GRAPHS = {"ring": None, "star": [(0, 1), (2, 0), (0, 3)], "one edge": [(3, 1)]}


@pytest.mark.parametrize("name", GRAPHS)
def test_qaoa_is_that_of_qiskit(name):
    edges = GRAPHS[name] or [(0, 1), (1, 2), (2, 3), (3, 0)]
    kernel = library.qaoa(4, GRAPHS[name])
    x, gamma, beta = (RNG.normal(size=size) for size in (len(edges), 2, 2))
    terms = [("ZZ", edge, weight) for edge, weight in zip(edges, x, strict=True)]
    ansatz = qaoa_ansatz(SparsePauliOp.from_sparse_list(terms, 4), reps=2)
    angles = {f"γ[{i}]": g for i, g in enumerate(gamma)} | {
        f"β[{i}]": b for i, b in enumerate(beta)
    }
    circuit = ansatz.assign_parameters({p: angles[p.name] for p in ansatz.parameters})
    labels = ["".join("Z" if q in edge else "I" for q in (3, 2, 1, 0)) for edge in edges]
    np.testing.assert_allclose(kernel(x, gamma, beta), values(circuit, labels), atol=1e-12)


def test_qaoa_of_one_layer_cuts_a_ring_as_the_formula_says():
    """Of more than three qubits: <Z_a Z_b> = sin(4 beta) sin(2 gamma) cos(2 gamma)."""
    gamma, beta = 0.3, 0.7
    found = library.qaoa(5)(np.ones(5), np.array([gamma]), np.array([beta]))
    expected = np.sin(4 * beta) * np.sin(2 * gamma) * np.cos(2 * gamma)
    np.testing.assert_allclose(found, np.full(5, expected), atol=1e-12)


# Weights.


@pytest.mark.parametrize("factory", FACTORIES, ids=library.FACTORIES)
@pytest.mark.parametrize("layers", [1, 3])
def test_every_weight_of_the_stated_shape_matters(factory, layers):
    kernel = factory(3)
    given = arguments(kernel, layers)
    slopes = jax.jacobian(kernel, argnums=tuple(range(len(given))))(*given)
    dead = sum(int(np.sum(np.abs(slope).max(axis=0) < 1e-9)) for slope in slopes)
    # The last rotation about Z before Z is measured.
    assert dead == (3 if factory is library.strongly_entangling else 0)


@pytest.mark.parametrize("factory", FACTORIES, ids=library.FACTORIES)
def test_the_docstring_states_the_shapes_that_are_checked(factory):
    kernel = factory(4)
    shapes = {"x": (features(kernel),)} | library.weights(kernel, 5)
    line = next(line for line in factory.__doc__.splitlines() if "Arguments: " in line)
    sizes = {"qubits": 4, "layers": 5, "edges": 4}
    for name, shape in shapes.items():
        stated = line.split(f"{name} (")[1]
        depth, end = 1, 0
        while depth:
            depth += {"(": 1, ")": -1}.get(stated[end], 0)
            end += 1
        text = stated[: end - 1].replace("qubits (qubits", "qubits * (qubits")
        assert eval(f"({text},)" if "," not in text else f"({text})", sizes) == shape, line
    assert list(kernel.signature.parameters) == list(shapes)
    assert "Source: " in factory.__doc__ and kernel.__doc__ == factory.__doc__


@pytest.mark.parametrize("factory", FACTORIES, ids=library.FACTORIES)
def test_arguments_of_other_shapes_are_named_with_both_shapes(factory):
    kernel = factory(3)
    given = arguments(kernel, 2)
    for i, name in enumerate(kernel.signature.parameters):
        wrong = [given[i][None], given[i][..., :-1]]
        # A shorter vector of weights, one for each layer, is another number of layers.
        for array in wrong if i == 0 or given[i].ndim > 1 else wrong[:1]:
            with pytest.raises(ShapeError, match=f"'{name}' must have shape .* has shape"):
                kernel(*given[:i], array, *given[i + 1 :])


@pytest.mark.parametrize("factory", FACTORIES, ids=library.FACTORIES)
def test_no_layers_at_all_are_refused(factory):
    kernel = factory(3)
    none = [np.zeros((s[0] - 1, *s[1:])) for s in library.weights(kernel, 1).values()]
    with pytest.raises(ShapeError, match="at least 1"):
        kernel(np.zeros(3), *none)


def test_all_weights_have_the_same_number_of_layers():
    with pytest.raises(ShapeError, match=r"'phases' .*\(layers, 3\), with as many layers in every"):
        library.matchgate(3)(np.zeros(3), np.zeros((3, 2, 2)), np.zeros((1, 3)))


def test_weights_of_another_kernel_are_not_known():
    @qml.qkernel(qubits=1)
    def other(qc, x):
        return qml.Z(0)

    for stranger in (other, "qml.circuits.library.iqp(qubits=2)"):
        with pytest.raises(ArgumentError, match="not made by qml.circuits.library"):
            library.weights(stranger, 1)
    for layers in (0, 1.0, True, None):
        with pytest.raises(ArgumentError, match="layers must be an integer of at least 1"):
            library.weights(library.iqp(2), layers)


# Names.


@pytest.mark.parametrize("factory", FACTORIES, ids=library.FACTORIES)
def test_the_same_call_is_the_same_kernel_and_its_name_is_that_call(factory):
    kernel = factory(qubits=3)
    assert factory(3) is factory(np.int64(3)) is kernel
    assert "Any" not in repr(kernel)
    assert kernel.name == f"qml.circuits.library.{factory.__name__}(qubits=3)"
    assert qml.kernels[kernel.name] is kernel is library.named(kernel.name)
    assert eval(kernel.name, {"qml": qml}) is kernel
    assert pickle.loads(pickle.dumps(kernel)) is kernel


def test_other_options_are_other_kernels_of_other_names():
    made = [
        library.qaoa(3),
        library.qaoa(3, [(0, 1)]),
        library.qaoa(3, [(0, 1), (1, 2)]),
        library.qaoa(3, [(1, 2), (0, 1)]),
        library.qaoa(3, observables=["ZZI"]),
        library.qaoa(3, observables="probs"),
        library.qaoa(4),
        library.iqp(3),
        library.zz_feature_map(3),
        library.zz_feature_map(3, 3),
    ]
    assert len({kernel.name for kernel in made}) == len(made)
    assert [library.named(kernel.name) for kernel in made] == made


def test_what_is_said_of_the_default_changes_nothing():
    assert library.qaoa(3, ((1, 0), (1, 2), (0, 2))) is library.qaoa(3)
    assert library.qaoa(2) is library.qaoa(2, [(1, 0)])
    assert library.zz_feature_map(2, repetitions=2) is library.zz_feature_map(2)
    assert library.iqp(2, observables=("ZZ",)) is library.iqp(2, observables=["ZZ"])


@pytest.mark.parametrize("factory", FACTORIES, ids=library.FACTORIES)
def test_observables_are_labels_or_probabilities(factory):
    given = arguments(factory(2), 1)
    labels = ["ZI", "XY"]
    kernel = factory(2, observables=labels)
    chances = np.asarray(factory(2, observables="probs")(*given))
    assert chances.shape == (4,) and np.isclose(chances.sum(), 1)
    ones = [1, 1, -1, -1]
    np.testing.assert_allclose(kernel(*given)[0], chances @ ones, atol=1e-12)
    assert kernel(*given).shape == (2,)


@pytest.mark.parametrize("observables", ["ZZ", [], [qml.Z(0)], ["ZZZ"], ["ZA"], 3])
def test_other_observables_are_refused(observables):
    with pytest.raises(ObservableError):
        library.reuploading(2, observables=observables)


@pytest.mark.parametrize("factory", FACTORIES, ids=library.FACTORIES)
def test_a_width_that_is_none_is_refused(factory):
    for qubits in (0, -1, True, 2.0, "2", None):
        with pytest.raises(ArgumentError, match="qubits must be an integer of at least [12]"):
            factory(qubits)


@pytest.mark.parametrize(
    "edges", [[], [(0, 0)], [(0, 3)], [(0, 1), (1, 0)], [(0, 1, 2)], [0], [(0.0, 1)], [(-1, 1)]]
)
def test_other_edges_are_refused(edges):
    with pytest.raises(ArgumentError, match="edges must"):
        library.qaoa(3, edges)


def test_repetitions_are_counted_from_one():
    with pytest.raises(ArgumentError, match="repetitions must be an integer of at least 1, got 0"):
        library.zz_feature_map(2, 0)


@pytest.mark.parametrize(
    "name",
    [
        "iqp(qubits=2)",
        "qml.circuits.library.ipq(qubits=2)",
        "qml.circuits.library.iqp",
        "qml.circuits.library.iqp(2)",
        "qml.circuits.library.iqp(qubits=2",
        "qml.circuits.library.iqp(width=2)",
        "qml.circuits.library.iqp(qubits=2)()",
        "qml.circuits.library.iqp(qubits=2).function",
        "qml.circuits.library.iqp(**{'qubits': 2})",
        "qml.circuits.library.iqp(qubits=__import__('os').getpid())",
        "qml.circuits.library.named(name='x')",
    ],
)
def test_a_name_is_read_and_never_run(name):
    with pytest.raises(UnknownNameError, match="no ready kernel is called"):
        library.named(name)


def test_a_name_that_a_user_took_is_not_taken_from_him():
    @qml.qkernel(qubits=7, name="qml.circuits.library.iqp(qubits=7)")
    def mine(qc, x):
        return qml.Z(0)

    with pytest.raises(KernelNameError, match="belongs to another kernel"):
        library.iqp(7)
    assert qml.kernels[mine.name] is mine


def test_a_name_is_enough_in_another_process():
    program = "; ".join(
        [
            "import qml",
            "name = 'qml.circuits.library.qaoa(qubits=3, edges=[(0, 1)])'",
            "assert name not in qml.kernels",
            "print(qml.circuits.library.named(name) is qml.kernels[name])",
        ]
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert run.stdout == "True\n", run.stderr


def test_the_page_lists_every_kernel_with_its_arguments():
    page = (ROOT / "docs" / "library.md").read_text()
    rows = {row.split("|")[1].strip(): row for row in page.splitlines() if row.startswith("| `")}
    assert set(rows) == {f"`{name}`" for name in library.FACTORIES}
    for name, factory in library.FACTORIES.items():
        line = next(line for line in factory.__doc__.splitlines() if "Arguments: " in line)
        stated = inspect.cleandoc(line).removeprefix("Arguments: ")
        assert stated.split(", which")[0].split(", in the")[0].rstrip(".") in rows[f"`{name}`"]
