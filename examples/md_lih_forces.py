"""A two-qubit potential for LiH, trained on coupled-cluster energies and forces.

The energy E(r) is a sum of expectation values of a small circuit and the force its derivative,
F = -dE/dr. So training on forces differentiates the circuit twice, by bond length and by weights,
and the harmonic frequency is a second derivative by r.

    python examples/md_lih_forces.py                  # trains on the default backend
    python examples/md_lih_forces.py --quick          # a few steps, to see that everything works
    python examples/md_lih_forces.py --backend aer    # does Aer agree with the default backend?
    python examples/md_lih_forces.py --backend ibm --plan     # what would it cost there?

On another backend than the default the script compares: a few Adam steps from the same start and
the curve of trained weights must agree to 1e-6. On a noisy backend it is one step, and the curve at
the training points; they will not agree, and the script prints by how much. With --train it trains
there instead, at the price of some 3000 circuit evaluations a step.

Data: CCSD/cc-pVDZ by generate_lih.py. Classical are the coordinate in front of the circuit, and the
shift and three coefficients behind it. Circuit and coordinate were chosen by test errors on this
curve, so the errors are no forecast for another molecule: the subject is derivatives.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from command_line import first_seed, told_in_one_line
from jax.flatten_util import ravel_pytree
from matplotlib.figure import Figure
from scipy import constants
from scipy.interpolate import make_interp_spline
from scipy.optimize import brentq, minimize

import qml
from qml.config import resolve
from qml.execution import prepare, recorded
from qml.kinds import DEFAULT_KIND
from qml.settings import EngineConfig

jax.config.update("jax_enable_x64", True)  # a millionth of an eV needs double precision

DATA = Path(__file__).parent / "data"
MASSES = 7.0160034366, 1.00782503223  # of 7Li and 1H in atomic mass units (AME 2020)
TOLERANCE = 1e-6  # of a comparison of backends: losses, weights, eV and eV/Å

Weights = dict[str, jax.Array]
Function = Callable[[float], float]

# Bond lengths (Å), energies (eV, from the lowest one), forces along the bond (eV/Å), each (89,).
R, E, F = np.loadtxt(DATA / "lih_ccsd.csv", delimiter=",", skiprows=1).T
E -= E.min()
TRAINING = np.isin(np.arange(89), np.round(np.linspace(0, 88, 11)))  # 11 of them, ends included


@qml.qkernel(qubits=2)
def potential(qc, x, theta):
    """Three expectation values at a coordinate x, encoded anew in each layer of theta (3, 2, 3)."""
    for layer in theta:
        for qubit, (slope, offset, tilt) in enumerate(layer):
            qc.ry(slope * x + offset, qubit)
            qc.rx(tilt, qubit)
        qc.cx(0, 1)
    return [qml.Z(0), qml.Z(1), qml.Z(0) @ qml.Z(1)]


def energy(distance: jax.Array, weights: Weights, key: jax.Array | None = None) -> jax.Array:
    """E(r) in eV at one bond length in Å; `key` is for backends with shots."""
    x = (jnp.exp(-distance / 1.5) - 0.27) / 0.14  # 1.7 at 1 Å, about 0 at 2 Å, -1.1 at 3.2 Å
    return weights["shift"] + weights["readout"] @ potential(x, weights["theta"], key=key)


@jax.jit
def predict(
    distances: jax.Array, weights: Weights, key: jax.Array | None = None
) -> tuple[jax.Array, jax.Array]:
    """Energies (N,) in eV and forces (N,) in eV/Å at bond lengths (N,) in Å."""
    both = jax.vmap(jax.value_and_grad(energy), (0, None, None))
    energies, slopes = both(distances, weights, key)
    return energies, -slopes


def initial_weights(seed: int) -> Weights:
    random = np.random.default_rng(seed)
    theta, readout = random.normal(0, 0.5, (3, 2, 3)), random.normal(0, 0.5, 3)
    return {"theta": jnp.array(theta), "readout": jnp.array(readout), "shift": jnp.array(0.0)}


def load_weights(path: Path) -> Weights:
    """Weights that a training has left.

    Raises:
        OSError, ValueError: the file cannot be read, or holds something else.
    """
    found = json.loads(path.read_text(encoding="utf-8"))
    expected = {name: value.shape for name, value in initial_weights(0).items()}
    if not isinstance(found, dict) or found.keys() != expected.keys():
        raise ValueError(f"must hold an object with the keys {', '.join(expected)}")
    for name, shape in expected.items():
        value = np.asarray(found[name])
        if value.shape != shape or value.dtype.kind not in "iuf" or not np.isfinite(value).all():
            raise ValueError(f"{name} must hold finite numbers of shape {shape}")
    return {name: jnp.array(found[name], float) for name in expected}


def energy_loss(weights: Weights, key: jax.Array | None = None) -> jax.Array:
    """Mean square error of the training energies, in units of their variance."""
    energies = jax.vmap(energy, (0, None, None))(R[TRAINING], weights, key)
    return jnp.mean((energies - E[TRAINING]) ** 2) / E[TRAINING].var()


def force_loss(weights: Weights, key: jax.Array | None = None) -> jax.Array:
    """The same for the forces, plus a fifth of the energies'."""
    energies, forces = predict(R[TRAINING], weights, key)
    of_energies = jnp.mean((energies - E[TRAINING]) ** 2) / E[TRAINING].var()
    return 0.2 * of_energies + jnp.mean((forces - F[TRAINING]) ** 2) / F[TRAINING].var()


def train(loss: Callable[..., jax.Array], start: Weights, steps: int) -> Weights:
    """The weights by L-BFGS, whose last line search begins within `steps` evaluations."""
    flat_start, unravel = ravel_pytree(start)
    value_and_slope = jax.jit(jax.value_and_grad(lambda flat: loss(unravel(flat))))
    losses = []

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = value_and_slope(flat)
        losses.append(float(value))
        if len(losses) % 20 == 0 or len(losses) == steps:
            line = f"\r|{'█' * (30 * len(losses) // steps):30.30}| {len(losses)}, loss {value:.1e}"
            print(line, end="", file=sys.stderr, flush=True)
        return float(value), np.asarray(slope)

    options = {"maxfun": steps, "maxiter": steps, "maxcor": 30, "ftol": 0, "gtol": 0}
    found = minimize(evaluate, flat_start, jac=True, method="L-BFGS-B", options=options)
    print(file=sys.stderr)
    return unravel(found.x)


def adam(start: Weights, steps: int, draws: bool = False) -> tuple[Weights, list[float]]:
    """The weights after `steps` steps of Adam on energies and forces, and the loss before each.

    With `draws`, of a backend with shots, every step has a key of its own.
    """
    value_and_slope = jax.jit(jax.value_and_grad(force_loss))
    optimiser, weights, losses = optax.adam(0.05), start, []
    state = optimiser.init(start)
    for step in range(steps):
        value, slope = value_and_slope(weights, jax.random.key(step) if draws else None)
        updates, state = optimiser.update(slope, state)
        weights = optax.apply_updates(weights, updates)
        losses.append(float(value))
    return weights, losses


def compare(backend: EngineConfig, start: Weights, end: Weights, steps: int) -> dict[str, float]:
    """Largest differences from the default backend: of Adam from `start`, of the curve of `end`."""
    found, distances = [], R if backend.exact else R[TRAINING]
    for config in (resolve(DEFAULT_KIND), backend):
        with qml.use(config):
            weights, losses = adam(start, steps, config.draws)
            energies, forces = predict(distances, end, jax.random.key(0) if config.draws else None)
        found.append((losses, ravel_pytree(weights)[0], energies, forces))
    pairs = zip(("losses", "weights", "energies", "forces"), *found, strict=True)
    return {name: float(np.abs(np.subtract(one, other)).max()) for name, one, other in pairs}


def vibration(force: Function, stiffness: Function) -> tuple[float, float]:
    """Equilibrium distance in Å, harmonic wavenumber sqrt(k / mu) / (2 pi c) of 7LiH in 1/cm.

    NaN where the force (eV/Å) does not change sign between 1.4 and 1.9 Å, or k (eV/Å²) is negative.
    """
    if not force(1.4) > 0 > force(1.9):
        return np.nan, np.nan
    distance = brentq(force, 1.4, 1.9, xtol=1e-10)
    k = stiffness(distance) * constants.e / constants.angstrom**2
    mass = np.prod(MASSES) / np.sum(MASSES) * constants.atomic_mass
    return distance, np.sqrt(k / mass) / (200 * np.pi * constants.c) if k > 0 else np.nan


def reference_vibration() -> tuple[float, float]:
    """From a quintic spline through all reference forces."""
    spline = make_interp_spline(R, F, k=5)
    return vibration(spline, lambda r: -spline(r, 1))


def model_vibration(weights: Weights) -> tuple[float, float]:
    """From the first and the second derivative of the circuit."""
    slope, curvature = jax.jit(jax.grad(energy)), jax.jit(jax.grad(jax.grad(energy)))
    return vibration(lambda r: -float(slope(r, weights)), lambda r: float(curvature(r, weights)))


def errors(weights: Weights) -> list[float]:
    """Mean absolute errors of energies (meV) and forces (meV/Å), in training, then in test."""
    energies, forces = predict(R, weights)
    both = 1e3 * np.abs(energies - E), 1e3 * np.abs(forces - F)
    return [float(error[where].mean()) for where in (TRAINING, ~TRAINING) for error in both]


def table(models: dict[str, Weights]) -> str:
    columns = "trained on", "E training", "F training", "E test", "F test", "r_e", "omega_e"
    units = "mean errors", "meV", "meV/Å", "meV", "meV/Å", "Å", "1/cm"
    lines = ["{:20}{:>11}{:>11}{:>8}{:>8}{:>9}{:>9}".format(*row) for row in (columns, units)]
    for name, weights in models.items():
        numbers = *errors(weights), *model_vibration(weights)
        lines += ["{:20}{:11.2f}{:11.2f}{:8.2f}{:8.2f}{:9.4f}{:9.1f}".format(name, *numbers)]
    return "\n".join([*lines, "{:58}{:9.4f}{:9.1f}".format("CCSD", *reference_vibration())])


def plot(models: dict[str, Weights]) -> Figure:
    """Energies and forces along the curve, and their errors below."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, height_ratios=(3, 2))
    for column, (truth, quantity, unit) in enumerate(((E, "energy", "eV"), (F, "force", "eV/Å"))):
        top, bottom = axes[:, column]
        for style, (name, weights) in zip(("C0-", "C1--"), models.items(), strict=False):
            values = predict(R, weights)[column]
            top.plot(R, values, style, label=f"trained on {name}")
            bottom.semilogy(R, 1e3 * np.abs(values - truth), style)
        top.plot(R, truth, ".", color="0.6", zorder=0, label="CCSD")
        top.plot(R[TRAINING], truth[TRAINING], "ko", label="CCSD, training points")
        top.set_ylabel(f"{quantity} ({unit})")
        bottom.set(xlabel="bond length (Å)", ylabel=f"error (m{unit})", ylim=(1e-2, None))
    axes[0, 0].legend(frameon=False, title="LiH, CCSD/cc-pVDZ, by two qubits")
    return figure


def report_training(seed: int, steps: int, backend: EngineConfig, output: Path) -> None:
    began, start, models = time.perf_counter(), initial_weights(seed), {}
    with recorded() as requests:
        models["energies, forces"] = train(force_loss, start, steps)
        models["energies"] = train(energy_loss, start, steps)
    seconds, rows = time.perf_counter() - began, sum(request.rows for request in requests)
    print(table(models))
    # Compiled code of the statevector engine does not come back to Python, where requests count.
    counted = f", {len(requests)} requests, {rows} circuits" if requests else ""
    print(f"{backend.kind}: {seconds:.1f} s{counted}")
    plot(models).savefig(output / "lih_forces.png", dpi=150)
    weights = {key: value.tolist() for key, value in models["energies, forces"].items()}
    (output / "lih_weights.json").write_text(json.dumps(weights, indent=1) + "\n")
    print(f"plot and weights are in {output}/")


def report_plan(seed: int, steps: int, backend: EngineConfig) -> None:
    """What steps on energies and forces ask for; without jit, so that every engine is counted."""
    key = jax.random.key(0) if backend.draws else None
    with qml.planning(steps) as plan, jax.disable_jit():
        jax.value_and_grad(force_loss)(initial_weights(seed), key)
    print(plan)


def report_comparison(seed: int, steps: int, backend: EngineConfig, trained: Weights) -> None:
    found = compare(backend, initial_weights(seed), trained, steps)
    print(f"{backend.kind} against {DEFAULT_KIND}, {steps} steps of Adam, largest differences:")
    print(*(f"{name} {difference:.1e}" for name, difference in found.items()), sep=", ")
    if not backend.exact:
        print(
            f"The backend is noisy, so that they need not agree. Its last request: {qml.last_run()}"
        )
    elif not all(difference <= TOLERANCE for difference in found.values()):
        sys.exit(f"the backends disagree by more than {TOLERANCE}")


def writable(folder: Path, parser: argparse.ArgumentParser) -> Path:
    """The folder, made where there is none; an error of the command line where that fails."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--output {folder}: cannot be made a folder: {error.strerror}")
    if not os.access(folder, os.W_OK):
        parser.error(f"--output {folder}: cannot be written to")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", help="a name in qml.toml or a kind of engine")
    parser.add_argument("--train", action="store_true", help="train there instead of comparing")
    parser.add_argument("--plan", action="store_true", help="print what it would cost, and stop")
    parser.add_argument("--quick", action="store_true", help="20 steps of training")
    parser.add_argument(
        "--steps",
        type=int,
        help="evaluations in training (1000), a few more to end a line search; or Adam's steps in "
        "comparing (5, on a noisy backend 1)",
    )
    parser.add_argument("--seed", type=first_seed(1), default=0, help="of the initial weights (0)")
    parser.add_argument("--output", type=Path, default=Path("lih_forces"), help="folder to write")
    parser.add_argument("--weights", type=Path, default=DATA / "lih_weights.json", help="compared")
    args = parser.parse_args()
    if args.steps is not None and args.steps < 1:
        parser.error(f"--steps must be at least 1, got {args.steps}")
    try:
        trained = load_weights(args.weights)
    except (OSError, ValueError) as error:
        parser.error(f"--weights {args.weights}: {error}")
    with told_in_one_line(parser):
        with qml.use(args.backend) as backend:
            if args.train and not backend.exact:
                parser.error(
                    "--train goes by L-BFGS, which needs exact values, but the backend is noisy. "
                    "Leave out --train for steps of Adam."
                )
            # A backend that is not there, or too small, is told now, and nothing is sent for it.
            prepare(potential.program(0.0, np.zeros((3, 2, 3))), backend)
            training = args.train or backend == resolve(DEFAULT_KIND)
            few = 20 if args.quick else 1000
            steps = args.steps or (few if training else 5 if backend.exact else 1)
            if args.plan:
                report_plan(args.seed, steps, backend)
            elif training:
                report_training(args.seed, steps, backend, writable(args.output, parser))
            else:
                report_comparison(args.seed, steps, backend, trained)


if __name__ == "__main__":
    main()
