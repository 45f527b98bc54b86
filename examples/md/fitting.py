"""Fitting a model to energies and forces: linear weights at once, then Adam, then least squares.

The loss is the mean square error of forces over their mean square, plus a fraction of that of
energies over their variance. Its gradient differentiates the circuit twice, by geometry and by
weights: one Hessian-vector product per step. It is a sum of squares with few hundred unknowns, so
Levenberg-Marquardt gets much further than gradient descent: it needs the derivatives of all forces
by all weights, and for a circuit these are products of its Hessian with one vector per coordinate.

    linear     the weights in which the energy is linear, by one linear solve
    adam       `steps` steps on batches, at a falling rate
    polish     `polish` steps of Levenberg-Marquardt on all frames (Marquardt 1963, damping after
               Nielsen, IMM-REP-1999-05)

The weights with the least loss on validation frames are kept, out of all stages.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.linalg
from configuration import Training
from frames import Frames
from jax.flatten_util import ravel_pytree
from potentials import Model, Params
from problems import MDError

CHUNK = 50
"""Steps of Adam in one compiled call, between which progress is shown and kept."""
ROUNDING = 1e-12
"""What is added to the diagonal of linear least squares, as a fraction of it."""
SINGULAR = 1e-11
"""Of the largest, eigenvalues that are as good as none."""
FRAMES_AT_ONCE = 128
"""Whose derivatives by all weights are held in memory together."""

Report = Callable[[str, int, int, str], None]
"""Called with the stage, what is done, what there is to do, and a few words."""
Keep = Callable[[dict[str, np.ndarray]], None]
"""Called with all that is needed to go on from here."""


@dataclass(frozen=True)
class Sample:
    """Frames as the loss needs them.

    Attributes:
        coordinates: (N, Q...) what the model's terms are functions of.
        slopes: (N, Q, 3A) their derivatives by the positions, in 1/Å.
        energies: (N,) less the shift, in units of the scale.
        forces: (N, 3A) in eV/Å.
    """

    coordinates: jax.Array
    slopes: jax.Array
    energies: jax.Array
    forces: jax.Array

    def at(self, index: Any) -> Sample:
        return Sample(*(value[index] for value in jax.tree.leaves(self)))


jax.tree_util.register_dataclass(Sample)


def sample(model: Model, frames: Frames) -> Sample:
    """The frames in the model's coordinates."""
    positions = jnp.asarray(frames.positions)
    coordinates = jax.vmap(model.coordinates)(positions)
    slopes = jax.vmap(jax.jacfwd(model.coordinates))(positions)
    count, atoms = len(frames), len(frames.symbols)
    return Sample(
        coordinates,
        slopes.reshape(count, -1, 3 * atoms),
        (jnp.asarray(frames.energies) - model.scaling.shift) / model.scaling.energy,
        jnp.asarray(frames.forces).reshape(count, -1),
    )


class Loss:
    """The loss of a model as a function of its weights in one vector (n,), and its derivatives.

    Attributes:
        unravel: a vector of weights as the model's.
        linear: (n,) whether the energy is linear in the weight.
    """

    def __init__(self, model: Model, settings: Training) -> None:
        self.model, self.settings = model, settings
        first = model.initial(settings.seed)
        _, self.unravel = ravel_pytree(first)
        self.linear = _linear(model, first)
        self.weight = float(np.sqrt(settings.energy_weight))
        self.mean = jax.jit(self._mean)
        self.slope = jax.jit(jax.value_and_grad(self._mean))
        self.equations = jax.jit(self._equations)

    def residuals(self, flat: jax.Array, one: Sample, key: jax.Array | None = None) -> jax.Array:
        """(1 + 3A,) of one frame, whose squares sum to its loss."""
        energy, slope = jax.value_and_grad(self.model.scaled_energy, 1)(
            self.unravel(flat), one.coordinates, key
        )
        return self._weighted(energy - one.energies, self._forces(slope, one) - one.forces)

    def _forces(self, slope: jax.Array, one: Sample) -> jax.Array:
        return -self.model.scaling.energy * (slope.reshape(-1) @ one.slopes)

    def _weighted(self, energy: jax.Array, forces: jax.Array) -> jax.Array:
        size = self.model.scaling.force * np.sqrt(forces.shape[0])
        return jnp.concatenate([self.weight * energy[None], forces / size])

    def _mean(self, flat: jax.Array, many: Sample, key: jax.Array | None = None) -> jax.Array:
        each = jax.vmap(self.residuals, (None, 0, None))(flat, many, key)
        return jnp.sum(each**2) / each.shape[0] + self.settings.decay * jnp.sum(flat**2)

    def _derivatives(self, flat: jax.Array, one: Sample) -> tuple[jax.Array, jax.Array]:
        """Residuals (1 + 3A,) of a frame and their derivatives (1 + 3A, n) by the weights."""

        def by_weights(coordinates: jax.Array) -> tuple[jax.Array, jax.Array]:
            slope = jax.grad(lambda w: self.model.scaled_energy(self.unravel(w), coordinates))(flat)
            return slope, slope

        mixed, of_energy = jax.jacfwd(by_weights, has_aux=True)(one.coordinates)
        mixed = mixed.reshape(flat.shape[0], -1)
        of_forces = jax.vmap(self._forces, (0, None))(mixed, one)
        return self.residuals(flat, one), jax.vmap(self._weighted, 0, 1)(of_energy, of_forces)

    def _equations(self, flat: jax.Array, many: Sample) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The loss (), half its gradient (n,), and half its Gauss-Newton Hessian (n, n)."""
        count = many.energies.shape[0]
        residuals, derivatives = jax.lax.map(
            partial(self._derivatives, flat), many, batch_size=min(FRAMES_AT_ONCE, count)
        )
        r = residuals.reshape(-1)
        d = derivatives.reshape(-1, flat.shape[0])
        decay = self.settings.decay
        return (
            r @ r / count + decay * flat @ flat,
            d.T @ r / count + decay * flat,
            d.T @ d / count + decay * jnp.eye(flat.shape[0]),
        )


def _linear(model: Model, first: Params) -> np.ndarray:
    marked = {
        name: {key: np.full(np.shape(value), key in model.terms[name].LINEAR) for key, value in
               weights.items()} if name != "constant" else np.array(True)
        for name, weights in first.items()
    }  # fmt: skip
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(marked)]).astype(bool)


@dataclass
class Best:
    """The weights of the least validation loss so far."""

    flat: np.ndarray
    loss: float = np.inf
    since: int = 0

    def offer(self, flat: np.ndarray, loss: float) -> None:
        self.since += 1
        if loss < self.loss:
            self.flat, self.loss, self.since = np.array(flat), loss, 0


@dataclass
class Run:
    """Where a fit stands: all of it is kept, so that it goes on to the last digit.

    Attributes:
        stage: linear, adam, polish or done.
        step: of the stage.
        flat: the weights now.
        best: the best so far.
        moments: (2, n) of Adam.
        damping, factor: of Levenberg-Marquardt.
        scale: (n,) largest diagonal of its Hessian so far.
        history: (stage, step, training loss, validation loss) so far.
    """

    stage: str
    step: int
    flat: np.ndarray
    best: Best
    moments: np.ndarray
    damping: float = 1e-3
    factor: float = 2.0
    scale: np.ndarray = field(default_factory=lambda: np.zeros(0))
    history: list[tuple[str, int, float, float]] = field(default_factory=list)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, as arrays by name."""
        return {
            "stage": np.array(self.stage),
            "step": np.array(self.step),
            "flat": self.flat,
            "best": self.best.flat,
            "best_loss": np.array(self.best.loss),
            "since": np.array(self.best.since),
            "moments": self.moments,
            "damping": np.array([self.damping, self.factor]),
            "scale": self.scale,
            "history": np.array(json.dumps(self.history)),
        }

    @staticmethod
    def of(arrays: dict[str, np.ndarray]) -> Run:
        """What `arrays` has given."""
        best = Best(arrays["best"], float(arrays["best_loss"]), int(arrays["since"]))
        damping, factor = map(float, arrays["damping"])
        history = [tuple(entry) for entry in json.loads(str(arrays["history"]))]
        return Run(
            str(arrays["stage"]), int(arrays["step"]), arrays["flat"], best, arrays["moments"],
            damping, factor, arrays["scale"], history,
        )  # fmt: skip


def identity(model: Model, train: Frames, valid: Frames, settings: Training) -> str:
    """A digest of all that decides a fit's outcome; a kept run goes on only under its own."""
    told = hashlib.sha256(model.recipe.model_dump_json().encode())
    told.update(settings.model_dump_json().encode())
    told.update(json.dumps([model.symbols, str(model.backend)]).encode())
    for frames in (train, valid):
        for array in (frames.positions, frames.energies, frames.forces):
            told.update(np.ascontiguousarray(array).tobytes())
    return told.hexdigest()[:16]


def quiet(stage: str, done: int, total: int, words: str) -> None: ...


def forget(arrays: dict[str, np.ndarray]) -> None: ...


def fit(
    model: Model,
    train: Frames,
    valid: Frames,
    settings: Training,
    *,
    report: Report = quiet,
    keep: Keep = forget,
    kept: dict[str, np.ndarray] | None = None,
) -> tuple[Params, Run]:
    """The weights with the least validation loss, and how the fit went.

    Args:
        report: is told of progress.
        keep: is given the state of the fit now and then.
        kept: such a state; the fit goes on from there and ends as if it had never stopped.

    Raises:
        MDError: the loss is not finite; the weights diverged or the data are broken.
    """
    if model.recipe.kernel:
        return _solve_kernel(model, train, report)
    loss = Loss(model, settings)
    training, validation = sample(model, train), sample(model, valid)
    if kept is None:
        flat = np.array(ravel_pytree(model.initial(settings.seed))[0])
        run = Run("linear", 0, flat, Best(flat), np.zeros((2, len(flat))))
    else:
        run = Run.of(kept)
    stages = {"linear": _solve_linear, "adam": _adam, "polish": _polish}
    for name, stage in stages.items():
        if run.stage == name:
            stage(loss, training, validation, run, report, keep)
            following = [*stages, "done"]
            run.stage, run.step = following[following.index(name) + 1], 0
            keep(run.arrays())
    return loss.unravel(jnp.asarray(run.best.flat)), run


def _solve_kernel(model: Model, train: Frames, report: Report) -> tuple[Params, Run]:
    weights, constant = model.terms["kernel"].solve(train)
    report("kernel", 1, 1, "")
    nothing = np.zeros(0)
    run = Run("done", 0, nothing, Best(nothing), np.zeros((2, 0)))
    return {"kernel": weights, "constant": jnp.asarray(constant)}, run


def _note(run: Run, loss: Loss, validation: Sample, now: float) -> float:
    """Offers the weights; returns the validation loss."""
    there = float(loss.mean(run.flat, validation, jax.random.key(len(run.history))))
    if not np.isfinite(now + there):
        raise MDError(
            f"the loss became {now} on training and {there} on validation frames in stage "
            f"{run.stage}, step {run.step}. Lower [training] rate, or look at the data"
        )
    run.best.offer(run.flat, there)
    run.history.append((run.stage, run.step, now, there))
    return there


def _words(now: float, there: float) -> str:
    return f"loss {now:.2e}, validation {there:.2e}"


def _solve_linear(
    loss: Loss, training: Sample, validation: Sample, run: Run, report: Report, keep: Keep
) -> None:
    """Linear weights at their least squares, where values are exact."""
    if loss.linear.any() and loss.model.exact:
        _, slope, hessian = map(np.asarray, loss.equations(run.flat, training))
        of = np.flatnonzero(loss.linear)
        run.flat[of] += _least(hessian[np.ix_(of, of)], slope[of])
    now = float(loss.mean(run.flat, training, jax.random.key(0)))
    report("linear", 1, 1, _words(now, _note(run, loss, validation, now)))


def _least(hessian: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """(n,) the step to the least squares; the shortest where it is singular up to rounding.

    It is where only a sum of weights matters, as of the constants of elements in one molecule.
    """
    step = _step(hessian, slope, ROUNDING * np.diag(hessian))
    if np.isfinite(step).all() or not np.isfinite(hessian).all():
        return step
    size = np.sqrt(np.maximum(np.diag(hessian), 1e-300))
    values, vectors = scipy.linalg.eigh(hessian / np.outer(size, size))
    known = values > SINGULAR * values[-1]
    part = vectors[:, known]
    return -(part @ (part.T @ (slope / size) / values[known])) / size


def _step(hessian: np.ndarray, slope: np.ndarray, damping: np.ndarray) -> np.ndarray:
    """(n,) -(H + damping)^-1 slope, the unknowns brought to one size; nan where H is broken."""
    matrix = hessian + np.diag(damping)
    size = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    try:
        factor = scipy.linalg.cho_factor(matrix / np.outer(size, size))
    except scipy.linalg.LinAlgError:
        return np.full_like(slope, np.nan)
    return -scipy.linalg.cho_solve(factor, slope / size) / size


def _adam(
    loss: Loss, training: Sample, validation: Sample, run: Run, report: Report, keep: Keep
) -> None:
    """Steps on batches; the batches of an epoch hold every frame once."""
    settings, count = loss.settings, training.energies.shape[0]
    if not settings.steps:
        return
    size = min(settings.batch, count)
    rate = optax.cosine_decay_schedule(settings.rate, settings.steps)
    adam = optax.scale_by_adam()

    @jax.jit
    def several(
        flat: jax.Array, moments: jax.Array, batches: jax.Array, steps: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        def step(carry: tuple[jax.Array, jax.Array], now: tuple[jax.Array, jax.Array]) -> Any:
            (flat, moments), (batch, number) = carry, now
            value, slope = loss.slope(flat, training.at(batch), jax.random.key(number))
            state = optax.ScaleByAdamState(number.astype(jnp.int32), moments[0], moments[1])
            change, state = adam.update(slope, state)
            return (flat - rate(number) * change, jnp.stack([state.mu, state.nu])), value

        (flat, moments), losses = jax.lax.scan(step, (flat, moments), (batches, steps))
        return flat, moments, losses

    batches = _batches(settings, count, size)
    while run.step < settings.steps:
        chunk = slice(run.step, min(run.step + CHUNK, settings.steps))
        steps = jnp.arange(chunk.start, chunk.stop)
        flat, moments, losses = several(run.flat, run.moments, batches[chunk], steps)
        run.flat, run.moments, run.step = np.array(flat), np.array(moments), chunk.stop
        now = float(losses.mean())
        there = _note(run, loss, validation, now)
        report("adam", run.step, settings.steps, _words(now, there))
        keep(run.arrays())


def _batches(settings: Training, count: int, size: int) -> np.ndarray:
    """(steps, size) numbers of frames."""
    rng = np.random.default_rng([settings.seed, 1])
    per_epoch = count // size
    epochs = -(-settings.steps // per_epoch)
    orders = [rng.permutation(count)[: per_epoch * size] for _ in range(epochs)]
    return np.concatenate(orders).reshape(-1, size)[: settings.steps]


def _polish(
    loss: Loss, training: Sample, validation: Sample, run: Run, report: Report, keep: Keep
) -> None:
    """Steps of Levenberg-Marquardt: damped Gauss-Newton steps, the damping by how well they do."""
    settings = loss.settings
    if loss.linear.all() and not settings.steps:
        return  # solved already
    if run.step == 0:
        run.scale, run.best.since = np.zeros_like(run.flat), 0
        if settings.steps:  # the best weights of Adam are a better start than its last
            run.flat = run.best.flat.copy()
    while run.step < settings.polish and run.best.since < settings.patience:
        now, slope, hessian = map(np.asarray, loss.equations(run.flat, training))
        run.scale = np.maximum(run.scale, np.maximum(np.diag(hessian), 1e-12))
        moved = False
        while not moved and run.damping < 1e12:
            change = _step(hessian, slope, run.damping * run.scale)
            after = float(loss.mean(run.flat + change, training))
            foreseen = change @ (run.damping * run.scale * change - slope)
            gain = (float(now) - after) / foreseen if np.isfinite(after) else -1.0
            if moved := gain > 0:
                run.flat = run.flat + change
                run.damping *= max(1 / 3, 1 - (2 * gain - 1) ** 3)
                run.factor = 2.0
            else:
                run.damping *= run.factor
                run.factor *= 2
        run.step += 1
        if not moved:
            break  # at a minimum, to rounding
        there = _note(run, loss, validation, after)
        report("polish", run.step, settings.polish, _words(after, there))
        keep(run.arrays())
