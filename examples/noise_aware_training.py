"""A quantum classifier trained without noise, with it, and with its effect extrapolated away.

Two qubits tell points of two rings apart. Their readings shrink with every noisy gate, so that a
loss which asks for +1 and -1 cannot be had on a noisy machine. Zero-noise extrapolation runs each
circuit U also as U U^-1 U and as U U^-1 U U^-1 U, which is the same with three and with five times
the noise, and continues the parabola through the three values to no noise at all.

    python examples/noise_aware_training.py                 # a minute or two
    python examples/noise_aware_training.py --quick         # two steps, to see that all works
    python examples/noise_aware_training.py --backend mine  # the noise of that backend
    python examples/noise_aware_training.py --plan          # what would be asked of it?

Each of the three is trained by the values that it sees: exact ones of the built-in simulator, those
of the noisy backend, extrapolated ones of the noisy backend. Then each is judged by all three, on
points that none was trained with. Unless --backend names another, the noisy backend is Aer with
depolarising noise, exact to the last digit. Shots would cost more: the extrapolated value has 2.3
times the standard deviation of a plain one. Errors of reading are not extrapolated away. The step
of the optimizer and the initial angles were chosen by the ideal training, in a few tries.
"""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from command_line import first_seed, picture, told_in_one_line
from matplotlib.figure import Figure
from qiskit import QuantumCircuit
from sklearn.datasets import make_circles

import qml

QUBITS = 2
LAYERS = 3
SCALES = (1, 3, 5)
NOISE = {"kind": "aer", "noise": {"depolarizing_1q": 0.004, "depolarizing_2q": 0.04}}
IDEAL = {"kind": "statevector"}
COLORS = {"ideal": "lightgreen", "noisy": "tab:red", "extrapolated": "tab:blue"}

Reading = Callable[[jax.Array, jax.Array], jax.Array]
"""Values (N,) between -1 and 1 of points (N, 2), with the angles theta (3, 2, 2)."""


@qml.qkernel(qubits=QUBITS)
def classifier(qc, x, theta):
    """<Z> of the last qubit after the point x (2,) was encoded in every layer of theta."""
    for layer in theta:
        for q in range(QUBITS):
            qc.ry(x[q], q)
            qc.ry(layer[q, 0], q)
            qc.rz(layer[q, 1], q)
        qc.cx(0, 1)
    return qml.Z(QUBITS - 1)


def fold(kernel: qml.Kernel, scale: int) -> Callable[..., jax.Array]:
    """The kernel with its circuit U run as U (U^-1 U)^k: its values, and scale = 2 k + 1 its noise.

    What follows every copy are rotations by angles that are zero, but that are arguments, so that
    no compiler can tell that the copies cancel. They are there for scale 1 too: the noise is
    proportional to the scale.
    """
    if scale < 1 or scale % 2 == 0:
        raise ValueError(f"a circuit is folded to an odd scale of at least 1, got {scale}")

    @qml.qkernel(qubits=kernel.num_qubits, name=f"{kernel.name}, folded {scale} times")
    def folded(qc, seam, *arguments):
        once = QuantumCircuit(kernel.num_qubits)
        outputs = kernel.function(once, *arguments)
        for turn in range(scale):
            qc.compose(once.inverse() if turn % 2 else once, inplace=True)
            for qubit, angle in enumerate(seam):
                qc.rz(angle, qubit)
        return outputs

    return partial(folded, jnp.zeros(kernel.num_qubits))


def weights(scales: tuple[int, ...]) -> list[float]:
    """w with sum_i w_i p(scales_i) = p(0) for all polynomials of a degree below len(scales)."""
    return [float(np.prod([t / (t - s) for t in scales if t != s])) for s in scales]


def readings(noisy: str | dict) -> dict[str, Reading]:
    """The three ways to read the classifier, by name."""

    def extrapolated(x, theta):
        values = [batch(kernel, noisy)(x, theta) for kernel in kernels]
        return sum(w * value for w, value in zip(weights(SCALES), values, strict=True))

    kernels = [fold(classifier, scale) for scale in SCALES]
    return {
        "ideal": batch(classifier, IDEAL),
        "noisy": batch(classifier, noisy),
        "extrapolated": extrapolated,
    }


def batch(kernel: Callable[..., jax.Array], backend: str | dict) -> Reading:
    return jax.vmap(partial(kernel, backend=backend), (0, None))


def rings(samples: int, seed: int) -> tuple[jax.Array, jax.Array]:
    """Points (N, 2) on two noisy circles, and +1 for the outer, -1 for the inner one (N,)."""
    points, inner = make_circles(samples, noise=0.1, factor=0.4, random_state=seed)
    return jnp.asarray(points * 1.8), jnp.asarray(1.0 - 2.0 * inner)


def loss(theta: jax.Array, reading: Reading, x: jax.Array, y: jax.Array) -> jax.Array:
    return jnp.mean((reading(x, theta) - y) ** 2)


def start() -> jax.Array:
    return jax.random.normal(jax.random.key(1), (LAYERS, QUBITS, 2)) * 0.5


def train(
    name: str, reading: Reading, x: jax.Array, y: jax.Array, steps: int
) -> tuple[jax.Array, list[float]]:
    """The angles after `steps` steps of Adam, and the loss before each."""
    theta, optimizer = start(), optax.adam(0.2)
    state = optimizer.init(theta)
    slope = jax.value_and_grad(loss)
    losses = []
    for step in range(steps):
        value, gradient = slope(theta, reading, x, y)
        updates, state = optimizer.update(gradient, state)
        theta = optax.apply_updates(theta, updates)
        losses.append(float(value))
        if sys.stdout.isatty() or step % 10 == 0 or step == steps - 1:
            end = "\r" if sys.stdout.isatty() and step < steps - 1 else "\n"
            line = f"{name:<12} step {step + 1:3d} of {steps}, loss {value:.4f}"
            print(line, end=end, flush=True)
    return theta, losses


def score(
    thetas: dict[str, jax.Array], ways: dict[str, Reading], x: jax.Array, y: jax.Array
) -> dict[str, dict[str, tuple[float, float]]]:
    """(loss, accuracy in %) by how it was trained, and by how it is read."""
    table: dict[str, dict[str, tuple[float, float]]] = {}
    for trained, theta in thetas.items():
        table[trained] = {}
        for read, reading in ways.items():
            values = reading(x, theta)
            right = 100 * float(jnp.mean(values * y > 0))
            table[trained][read] = float(jnp.mean((values - y) ** 2)), right
    return table


def plot(
    curves: dict[str, list[float]],
    ways: dict[str, Reading],
    theta: jax.Array,
    x: jax.Array,
    path: Path,
) -> None:
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, losses in curves.items():
        # The extrapolated curve is near the ideal one, which is to be seen below it.
        width = 5 if name == "ideal" else 1.5
        left.plot(
            range(1, len(losses) + 1), losses, color=COLORS[name], linewidth=width, label=name
        )
    left.set(xlabel="step", ylabel="loss, as it is read in training", ylim=(0, None))
    left.legend()
    values = {name: np.asarray(reading(x, theta)) for name, reading in ways.items()}
    right.plot([-1, 1], [-1, 1], color=COLORS["ideal"], linewidth=5, label="ideal")
    for name in ("noisy", "extrapolated"):
        right.plot(values["ideal"], values[name], ".", markersize=4, color=COLORS[name], label=name)
    ticks = np.linspace(-1, 1, 5)
    right.set(xlabel="ideal <Z>", ylabel="<Z> as it is read", xticks=ticks, yticks=ticks)
    right.set_title("unseen points", fontsize="medium")
    right.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", help="name of the noisy backend; by default Aer's noise")
    parser.add_argument("--plan", action="store_true", help="print what it would cost, and stop")
    parser.add_argument("--quick", action="store_true", help="two steps with eight points")
    parser.add_argument("--seed", type=first_seed(2), default=0, help="of the points")
    parser.add_argument("--plot", type=picture, default="noise_aware_training.png")
    options = parser.parse_args()
    steps, samples = (2, 8) if options.quick else (30, 30)
    ways = readings(options.backend or NOISE)
    x, y = rings(samples, options.seed)
    unseen = rings(8 * samples, options.seed + 1)
    with told_in_one_line(parser):
        with qml.planning(steps) as plan:  # it also says what is wrong with the backend
            jax.grad(loss)(start(), ways["extrapolated"], x, y)
        if options.plan:
            print(f"Training by extrapolated values\n{plan}")
            return
        trained = {name: train(name, reading, x, y, steps) for name, reading in ways.items()}
    thetas = {name: theta for name, (theta, _) in trained.items()}
    plot({name: losses for name, (_, losses) in trained.items()}, ways, thetas["extrapolated"],
         unseen[0], options.plot)  # fmt: skip
    print(f"\nLoss and accuracy (%) on {len(unseen[0])} unseen points")
    print("trained         " + "".join(f"{'read ' + name:>22}" for name in ways))
    for name, row in score(thetas, ways, *unseen).items():
        cells = [f"{value:14.4f} {right:7.1f}" for value, right in row.values()]
        print(f"{name:<16}{''.join(cells)}")
    print(f"curves: {options.plot}")


if __name__ == "__main__":
    main()
