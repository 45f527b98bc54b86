"""Trains a potential on energies and forces: what a configuration says, or its changes here.

    python examples/md/train.py                                # H3O+, polynomial + circuit
    python examples/md/train.py --config examples/md/h2o.toml  # another molecule or model
    python examples/md/train.py --quick                        # a few steps, to see that it works
    python examples/md/train.py --backend aer --quick          # on any backend that qml knows
    python examples/md/train.py --plan --backend ibm           # what a step would cost there

It prints the errors on the test trajectories, which nothing was chosen by, and writes the potential
for evaluate.py, run_md.py and ASE. A run that was stopped goes on where it was, to the last digit.
"""

import argparse
import io
import time
import zipfile
from pathlib import Path

import jax
import numpy as np
from accuracy import errors
from command_line import first_seed
from configuration import FOLDER, Config, load, parse
from descriptors import spread_of
from files import write_atomically
from fitting import Loss, Report, Run, fit, identity, quiet, sample
from frames import Frames, read
from jax.flatten_util import ravel_pytree
from molecules import molecule
from potentials import Model, Potential, model_for
from problems import MDError
from symmetry import pair_kinds
from terminal import Bar, in_one_line

import qml
from qml.config import resolve

QUICK = {"frames": 20, "steps": 5, "batch": 8, "polish": 3}


def prepared(config: Config) -> tuple[Model, Frames, Frames]:
    """The model of a configuration, scaled to its training frames; they; and those to choose by.

    Raises:
        MDError: the data are missing or broken, or do not fit the molecule.
    """
    train, valid = part(config, "train"), part(config, "valid")
    wanted = config.training.frames
    if wanted is not None and wanted > len(train):
        raise MDError(
            f"[training] frames asks for {wanted}, but {config.frames('train')} has {len(train)}. "
            "Ask for fewer, or make more by generate.py"
        )
    train = train[:wanted]
    return model_for(config.model, train, config.backend), train, valid


def part(config: Config, name: str) -> Frames:
    """The frames of one part of the data.

    Raises:
        MDError: they are missing, broken, or of another molecule.
    """
    path, symbols = config.frames(name), molecule(config.molecule).symbols
    frames = read(path)
    if frames.symbols != symbols:
        raise MDError(
            f"{path} holds {''.join(frames.symbols)}, but the molecule is {config.molecule}: "
            f"{''.join(symbols)}, in this order. Change [molecule] or data"
        )
    return frames


def trained(
    config: Config, checkpoint: Path | None = None, bar: Report = quiet
) -> tuple[Potential, Run]:
    """The potential of a configuration, and how its training went.

    Where `checkpoint` holds what a run of the same configuration and data has left, it goes on.

    Raises:
        MDError: see `prepared`, `fit`; or the backend is noisy and the training needs exact values.
    """
    model, train, valid = prepared(config)
    backend = resolve(config.backend)
    if config.training.polish and not model.exact:
        raise MDError(
            f"[training] polish compares values to many digits, but the backend {backend.kind} is "
            "noisy. Set polish = 0 and steps, of Adam, instead (--polish 0 --steps 200)"
        )
    name = identity(model, train, valid, config.training)
    kept = recall(checkpoint, name)
    began = time.perf_counter()
    params, run = fit(
        model, train, valid, config.training, report=bar, kept=kept,
        keep=lambda arrays: remember(checkpoint, name, arrays),
    )  # fmt: skip
    facts = {
        "molecule": config.molecule,
        "frames": len(train),
        "parameters": sum(int(np.size(leaf)) for leaf in jax.tree.leaves(params)),
        "backend": backend.kind,
        "training": config.training.model_dump(mode="json"),
        "seconds": time.perf_counter() - began,
        "identity": name,
    }
    spread = spread_of(train.positions, pair_kinds(train.symbols))
    return Potential(model, params, spread, facts), run


def remember(checkpoint: Path | None, name: str, arrays: dict[str, np.ndarray]) -> None:
    """Keeps where a fit stands, under the name of its configuration and data."""
    if checkpoint is not None:
        content = io.BytesIO()
        np.savez(content, name=np.array(name), **arrays)
        write_atomically(checkpoint, content.getvalue())


def recall(checkpoint: Path | None, name: str) -> dict[str, np.ndarray] | None:
    """What was kept under that name; None where there is nothing, or something else."""
    if checkpoint is None or not checkpoint.exists():
        return None
    try:
        with np.load(checkpoint, allow_pickle=False) as found:
            arrays = dict(found)
    except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
        raise MDError(
            f"{checkpoint} cannot be read: {error}. Delete it to train from the start"
        ) from error
    return arrays if str(arrays.pop("name", "")) == name else None


def report_plan(config: Config) -> None:
    """What the steps of Adam ask of the backend; without jit, so that every engine is counted."""
    model, train, _ = prepared(config)
    loss = Loss(model, config.training)
    batch = sample(model, train[: config.training.batch])
    flat = ravel_pytree(model.initial(config.training.seed))[0]
    key = jax.random.key(0) if resolve(config.backend).draws else None
    with qml.planning(max(config.training.steps, 1)) as plan, jax.disable_jit():
        jax.value_and_grad(loss.mean)(flat, batch, key)
    print(plan)


def report(potential: Potential, config: Config, run: Run) -> None:
    """What was trained, how well it does on the test trajectories, and how long it took."""
    facts, test = potential.facts, part(config, "test")
    terms = " + ".join(potential.model.terms)
    print(f"{molecule(config.molecule).title}: {terms}, {facts['parameters']} parameters, ", end="")
    print(f"{facts['frames']} frames, {facts['seconds']:.1f} s on {facts['backend']}")
    print(errors(*potential.energy_and_forces(test.positions), test).table())


def changed(config: Config, args: argparse.Namespace) -> Config:
    """The configuration with what the command line says instead."""
    given = {"frames": args.frames, "steps": args.steps, "polish": args.polish, "seed": args.seed}
    changes = (QUICK if args.quick else {}) | {k: v for k, v in given.items() if v is not None}
    table = config.model_dump()
    table["training"] |= changes
    if args.backend is not None:
        table["backend"] = args.backend
    return parse(table, "command line")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, default=FOLDER / "h3o.toml", help="(h3o.toml)")
    parser.add_argument("--backend", help="a name in qml.toml or a kind of engine")
    parser.add_argument("--frames", type=int, help="of the training file, from the first")
    parser.add_argument("--steps", type=int, help="of Adam")
    parser.add_argument("--polish", type=int, help="steps of least squares, at most")
    parser.add_argument("--seed", type=first_seed(1), help="of first weights and order of frames")
    parser.add_argument("--output", type=Path, help="the file to write (<molecule>.json)")
    parser.add_argument("--plan", action="store_true", help="print what Adam would cost, and stop")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK}, to see that it works")
    args = parser.parse_args()
    if args.output is not None and args.output.is_dir():
        parser.error(f"--output {args.output} is a folder, not a file")
    bar = Bar()
    with in_one_line(parser):
        config = changed(load(args.config), args)
        if args.plan:
            report_plan(config)
            return
        output = args.output or Path(f"{config.molecule}.json")
        checkpoint = output.with_suffix(".training.npz")
        potential, run = trained(config, checkpoint, bar)
        potential.save(output)
        checkpoint.unlink(missing_ok=True)
        report(potential, config, run)
        print(f"potential: {output}")


if __name__ == "__main__":
    main()
