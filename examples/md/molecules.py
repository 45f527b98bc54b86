"""The molecules of the examples: what they consist of, and roughly where their atoms sit.

A new molecule is a line here; `generate.py` then makes its data.
"""

from dataclasses import dataclass

from problems import MDError

Place = tuple[float, float, float]


@dataclass(frozen=True)
class Molecule:
    """Atoms and charge of a molecule in its electronic singlet.

    Attributes:
        name: what the command lines and configurations call it.
        title: how people write it.
        symbols: chemical symbols of the A atoms, in the order of all arrays.
        charge: in units of e.
        start: (A, 3) positions in Å, near the equilibrium; relaxed before use.
    """

    name: str
    title: str
    symbols: tuple[str, ...]
    charge: int
    start: tuple[Place, ...]


MOLECULES = {
    molecule.name: molecule
    for molecule in (
        Molecule("lih", "LiH", ("Li", "H"), 0, ((0, 0, 0), (0, 0, 1.6))),
        Molecule("h2o", "H2O", ("O", "H", "H"), 0, ((0, 0, 0), (0.76, 0.59, 0), (-0.76, 0.59, 0))),
        Molecule(
            "h3o",
            "H3O+",
            ("O", "H", "H", "H"),
            1,
            ((0, 0, 0.05), (0.94, 0, -0.2), (-0.47, 0.814, -0.2), (-0.47, -0.814, -0.2)),
        ),
        Molecule(
            "ethanol",
            "C2H5OH",
            ("C", "C", "O", "H", "H", "H", "H", "H", "H"),
            0,
            (
                (-1.27, -0.25, 0.0),
                (0.0, 0.55, 0.0),
                (1.14, -0.31, 0.0),
                (-1.31, -0.89, 0.89),
                (-1.31, -0.89, -0.89),
                (-2.15, 0.4, 0.0),
                (0.04, 1.2, 0.89),
                (0.04, 1.2, -0.89),
                (1.95, 0.22, 0.0),
            ),
        ),
    )
}


def molecule(name: str) -> Molecule:
    """The molecule of that name.

    Raises:
        MDError: there is none.
    """
    try:
        return MOLECULES[name]
    except KeyError:
        raise MDError(
            f"there is no molecule {name!r}; known are {', '.join(MOLECULES)}. "
            "A new one is a line in molecules.py"
        ) from None
