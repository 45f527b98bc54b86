"""The potential as a Keras model, on Keras' JAX, TensorFlow and PyTorch backends alike.

    from keras_potential import ForceField, energy_model
    model = energy_model(potential)  # positions (B, A, 3) in Å -> energies (B,) in eV
    field = ForceField(model)        # ... -> {"energy": (B,), "forces": (B, A, 3) in eV/Å}
    field.compile("adam", loss={"energy": "mse", "forces": "mse"}, loss_weights=...)
    field.fit(positions, {"energy": ..., "forces": ...})

The energy is that of potentials.py to rounding; the forces are its exact negative gradient, and
training on them differentiates the quantum layer twice.
"""

import os
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "jax")  # Keras reads it when it is imported

import qml.layers  # before Keras: it says what to do where Keras' backend does not fit

# isort: split
import keras
import numpy as np
from descriptors import RANGE
from keras import ops
from potentials import Model, Params, Potential
from problems import MDError
from symmetry import pairs
from terms import Circuit, Network, Polynomial

DTYPE = "float64"


def constant(values):
    """An array as a tensor: PyTorch does not multiply its own with those of NumPy."""
    return ops.convert_to_tensor(values, DTYPE)


class MorseVariables(keras.layers.Layer):
    """Positions (B, A, 3) in Å to scaled Morse variables (B, P) of the distances."""

    def __init__(self, model: Model) -> None:
        super().__init__(dtype=DTYPE, trainable=False, name="morse_variables")
        self.first, self.second = np.array(pairs(len(model.symbols))).T.tolist()
        self.mean, self.deviation = map(constant, (model.scaling.mean, model.scaling.deviation))

    def call(self, positions):
        between = ops.take(positions, self.first, axis=1) - ops.take(positions, self.second, axis=1)
        distances = ops.sqrt(ops.sum(between * between, axis=-1))
        return (ops.exp(-distances / RANGE) - self.mean) / self.deviation


class PolynomialEnergy(keras.layers.Layer):
    """Variables (B, P) to an invariant polynomial of them (B, 1)."""

    def __init__(self, term: Polynomial) -> None:
        super().__init__(dtype=DTYPE, name="polynomial")
        self.term = term

    def build(self, shape):
        self.coefficients = self.add_weight(shape=(self.term.basis.size,), name="coefficients")

    def call(self, variables):
        basis = self.term.basis
        powers = [ops.ones_like(variables)]
        for _ in range(basis.degree):
            powers.append(powers[-1] * variables)
        table = ops.stack(powers, axis=1)  # (B, degree + 1, P)
        monomials = ops.ones_like(table[:, :1, 0])
        for k in range(basis.exponents.shape[1]):
            monomials = monomials * ops.take(table[:, :, k], basis.exponents[:, k], axis=1)
        weights = ops.take(self.coefficients, basis.orbit) * constant(basis.weight)
        return ops.sum(monomials * weights, axis=-1, keepdims=True)


class Turns(keras.layers.Layer):
    """Variables (B, P) to the circuit's angles about Y, (B, layers, P)."""

    def __init__(self, term: Circuit) -> None:
        super().__init__(dtype=DTYPE, name="turns")
        self.term = term

    def build(self, shape):
        first = self.term.initial(np.random.default_rng(0))
        self.slope = self.add_weight(shape=first["slope"].shape, name="slope")
        self.offset = self.add_weight(shape=first["offset"].shape, name="offset")

    def call(self, variables):
        offset = ops.take(self.offset, self.term.kind, axis=1)
        if self.term.settings.mixing:
            slopes = ops.take(self.slope, self.term.mixed, axis=1)
            return offset + ops.sum(slopes * variables[:, None, None, :], axis=-1)
        return offset + ops.take(self.slope, self.term.kind, axis=1) * variables[:, None, :]


class NetworkEnergy(keras.layers.Layer):
    """Variables (B, P) to dense layers averaged over permutations of like atoms, (B, 1)."""

    def __init__(self, term: Network) -> None:
        super().__init__(dtype=DTYPE, name="network")
        self.term = term

    def build(self, shape):
        first = self.term.initial(np.random.default_rng(0))
        self.own = {
            name: self.add_weight(shape=np.shape(value), name=name) for name, value in first.items()
        }

    def call(self, variables):
        x = ops.take(variables, self.term.group, axis=1)  # (B, G, P)
        depth = len(self.term.settings.widths)
        for k in range(depth):
            x = tanh(product(x, self.own[f"kernel{k}"]) + self.own[f"bias{k}"])
        return ops.sum(product(x, self.own[f"kernel{depth}"]), axis=1) / len(self.term.group)


def product(x, matrix):
    """(..., n) times (n, m): what keras.ops has for it computes in floatx on PyTorch."""
    return ops.sum(x[..., :, None] * ops.convert_to_tensor(matrix), axis=-2)


def tanh(x):
    """That of keras.ops is computed in Keras' floatx, single precision by default, as its mean."""
    return 1 - 2 / (1 + ops.exp(2 * x))


class Readout(keras.layers.Layer):
    """Expectation values (B, M) to their weighted sum (B, 1)."""

    def __init__(self) -> None:
        super().__init__(dtype=DTYPE, name="readout")

    def build(self, shape):
        self.weight = self.add_weight(shape=(shape[-1],), name="readout")

    def call(self, values):
        return ops.sum(values * self.weight, axis=-1, keepdims=True)


class Offset(keras.layers.Layer):
    """Scaled energies (B, 1) to energies (B,) in eV: shift + scale * (constant + energy)."""

    def __init__(self, shift: float, scale: float) -> None:
        super().__init__(dtype=DTYPE, name="offset")
        self.shift, self.scale = shift, scale

    def build(self, shape):
        self.constant = self.add_weight(shape=(), name="constant", initializer="zeros")

    def call(self, scaled):
        return self.shift + self.scale * (self.constant + scaled[:, 0])


def energy_model(potential: Potential) -> keras.Model:
    """A model of positions (B, A, 3) in Å whose output is the energies (B,) in eV.

    Its layers `polynomial`, `turns`, `circuit`, `readout` and `network` hold the weights.

    Raises:
        MDError: the potential has terms that are not functions of all distances.
    """
    model = potential.model
    if other := set(model.terms) - {"polynomial", "circuit", "network"}:
        raise MDError(
            f"a Keras model is built of polynomial, circuit and network, but this potential has "
            f"{', '.join(sorted(other))}. Use its energy_fn, a JAX function"
        )
    positions = keras.Input((len(model.symbols), 3), dtype=DTYPE, name="positions")
    variables = MorseVariables(model)(positions)
    parts = []
    for term in model.terms.values():
        if isinstance(term, Circuit):
            layer = qml.layers.QuantumLayer(
                term.kernel,
                weights={"twist": term.twist, "coupling": term.coupling},
                data_axes=2,
                backend=model.backend,
                dtype=DTYPE,
                name="circuit",
            )
            parts.append(Readout()(layer(Turns(term)(variables))))
        elif isinstance(term, Polynomial):
            parts.append(PolynomialEnergy(term)(variables))
        else:
            parts.append(NetworkEnergy(term)(variables))
    scaled = keras.layers.Add(dtype=DTYPE)(parts) if len(parts) > 1 else parts[0]
    energies = Offset(model.scaling.shift, model.scaling.energy)(scaled)
    built = keras.Model(positions, energies, name="potential")
    set_weights(built, potential.params)
    return built


def set_weights(built: keras.Model, params: Params) -> None:
    """Gives the weights of a potential to the model of its energy."""
    for variable, value in _paired(built, params):
        variable.assign(np.asarray(value))


def weights(built: keras.Model, potential: Potential) -> Params:
    """The weights of a potential, as training has left them in the model of its energy."""
    found: Params = {name: {} for name in potential.model.terms}
    found["constant"] = np.asarray(ops.convert_to_numpy(built.get_layer("offset").constant))
    for (name, key), variable in _variables(built, potential.params).items():
        shape = np.shape(potential.params[name][key])
        found[name][key] = np.asarray(ops.convert_to_numpy(variable)).reshape(shape)
    return found


def _paired(built: keras.Model, params: Params) -> list[tuple[Any, Any]]:
    found = [
        (variable, np.asarray(params[name][key]).reshape(variable.shape))
        for (name, key), variable in _variables(built, params).items()
    ]
    return [*found, (built.get_layer("offset").constant, params["constant"])]


def _variables(built: keras.Model, params: Params) -> dict[tuple[str, str], Any]:
    """(term, weight) -> the model's variable."""
    homes = {"slope": "turns", "offset": "turns", "readout": "readout"}
    found = {}
    for name, own in params.items():
        for key in own if isinstance(own, dict) else ():
            layer = built.get_layer(homes.get(key, name) if name == "circuit" else name)
            (found[name, key],) = [v for v in layer.weights if v.name == key]
    return found


class ForceField(keras.Model):
    """Positions (B, A, 3) in Å to {"energy": (B,) in eV, "forces": (B, A, 3) in eV/Å}.

    The forces are the exact negative gradient of the energy; losses of both train all weights.
    """

    def __init__(self, energy: keras.Model) -> None:
        super().__init__(dtype=DTYPE, name="force_field")
        self.energy = energy

    def call(self, positions):
        energies, slopes = VALUE_AND_SLOPE[keras.backend.backend()](self.energy, positions)
        return {"energy": energies, "forces": -slopes}


def _by_jax(energy: keras.Model, positions: Any) -> tuple[Any, Any]:
    import jax

    def total(r: Any) -> tuple[Any, Any]:
        energies = energy(r)
        return energies.sum(), energies

    slopes, energies = jax.grad(total, has_aux=True)(positions)
    return energies, slopes


def _by_tensorflow(energy: keras.Model, positions: Any) -> tuple[Any, Any]:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(positions)
        energies = energy(positions)
    return energies, tape.gradient(energies, positions)


def _by_torch(energy: keras.Model, positions: Any) -> tuple[Any, Any]:
    import torch

    with torch.enable_grad():
        r = positions if positions.requires_grad else positions.detach().requires_grad_()
        energies = energy(r)
        (slopes,) = torch.autograd.grad(energies.sum(), r, create_graph=True)
    return energies, slopes


VALUE_AND_SLOPE = {"jax": _by_jax, "tensorflow": _by_tensorflow, "torch": _by_torch}
