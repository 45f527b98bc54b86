"""The one file that chooses molecule, model, training and quantum backend, read and checked.

molecule = "h3o"
backend = "statevector"  # or any other that qml knows: a kind, or a name of qml.toml

[model]  # the energy is the sum of these terms; any may be left out
polynomial = { degree = 4 }
circuit = { layers = 8 }

[training]
frames = 400
steps = 2000
"""

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from molecules import molecule
from problems import MDError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

FOLDER = Path(__file__).parent
DATA = FOLDER / "data"

T = TypeVar("T", bound=BaseModel)
Width = Annotated[int, Field(ge=1, le=1024)]


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Polynomial(Settings):
    """A permutation-invariant polynomial of the Morse variables."""

    degree: int = Field(default=4, ge=1, le=8)


class Circuit(Settings):
    """A circuit of one qubit per pair of atoms that is symmetric in like atoms.

    Attributes:
        layers: how often the distances are encoded.
        entanglers: whether RZZ gates couple the qubits; False is the ablation.
        mixing: whether a rotation sees all distances, weighted alike for equivalent ones, or only
            its own.
        spread: standard deviation of the first angles, in radians.
    """

    layers: int = Field(default=8, ge=1, le=64)
    entanglers: bool = True
    mixing: bool = False
    spread: float = Field(default=0.3, gt=0)


class Network(Settings):
    """Dense layers with tanh, averaged over the permutations of like atoms.

    Attributes:
        widths: of the hidden layers.
        spread: factor to weights of variance 1/inputs at the start.
    """

    widths: tuple[Width, ...] = Field(default=(9,), min_length=1)
    spread: float = Field(default=1.0, gt=0)


class KernelRidge(Settings):
    """Kernel regression on inverse distances and forces, after sGDML; stands alone.

    Attributes:
        width: of the kernel, in 1/Å.
        ridge: added to the diagonal of its matrix, in 1/Å².
        form: gaussian, or matern of order 5/2.
    """

    width: float = Field(default=1.0, gt=0)
    ridge: float = Field(default=1e-10, ge=0)
    form: Literal["gaussian", "matern"] = "gaussian"


class Heads(Settings):
    """Energies of atoms: a small circuit per atom, its weights shared by atoms of an element.

    Attributes:
        qubits: of each circuit; so many angles describe an atom's surroundings.
        layers: how often they are encoded.
        entanglers: whether neighbouring qubits are coupled.
        radial: Gaussians along the distance, per element of the neighbour.
        spread: standard deviation of the first angles, in radians.
    """

    qubits: int = Field(default=4, ge=1, le=12)
    layers: int = Field(default=3, ge=1, le=32)
    entanglers: bool = True
    radial: int = Field(default=8, ge=2, le=64)
    spread: float = Field(default=0.3, gt=0)


class Recipe(Settings):
    """The terms whose sum is the energy."""

    polynomial: Polynomial | None = None
    circuit: Circuit | None = None
    network: Network | None = None
    kernel: KernelRidge | None = None
    heads: Heads | None = None

    def terms(self) -> dict[str, Settings]:
        """The terms that are there, by name."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name))}

    @model_validator(mode="after")
    def _some_term(self) -> "Recipe":
        if not self.terms():
            raise ValueError(f"needs a term: {', '.join(type(self).model_fields)}")
        if self.kernel and len(self.terms()) > 1:
            raise ValueError("kernel is solved for, not trained: it takes no other term beside it")
        return self


class Training(Settings):
    """How a model is fitted; the defaults are those of the H3O+ potential.

    Attributes:
        frames: how many of the training file's frames, from the first; None for all.
        energy_weight: of the mean square error of energies over their variance, against that of
            forces over their mean square.
        steps: of Adam, on `batch` frames each, at a rate that falls from `rate` to 0 by a cosine.
        polish: of Levenberg-Marquardt on all frames, afterwards.
        decay: of weights, as a multiple of their mean square in the loss.
        patience: steps of polishing without a better validation error after which it ends.
        seed: of the first weights and of the order of frames.
    """

    frames: int | None = Field(default=None, ge=2)
    energy_weight: float = Field(default=0.2, ge=0)
    steps: int = Field(default=0, ge=0)
    batch: int = Field(default=32, ge=1)
    rate: float = Field(default=0.02, gt=0)
    polish: int = Field(default=200, ge=0)
    decay: float = Field(default=0.0, ge=0)
    patience: int = Field(default=50, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**32)


class Config(Settings):
    """Everything that a training needs to know.

    Attributes:
        molecule: a name of molecules.py.
        backend: what runs the circuits; None for what qml finds ambient.
        data: the folder with <molecule>_train.xyz, _valid.xyz and _test.xyz.
    """

    molecule: str
    backend: str | dict[str, Any] | None = None
    data: Path = DATA
    model: Recipe
    training: Training = Training()

    @field_validator("molecule")
    @classmethod
    def _known(cls, name: str) -> str:
        return molecule(name).name

    def frames(self, part: str) -> Path:
        """The file of one part of the data: train, valid, test or far."""
        return self.data / f"{self.molecule}_{part}.xyz"


def load(path: Path) -> Config:
    """The configuration in a TOML file; `data` is relative to it.

    Raises:
        MDError: the file is not there, is no TOML, or says what is not known; names the place.
    """
    try:
        table = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise MDError(f"{path} cannot be read: {error}") from error
    if isinstance(table.get("data"), str):
        table["data"] = Path(path).parent / table["data"]
    return parse(table, str(path))


def parse(table: dict[str, Any], source: str) -> Config:
    """A configuration out of a table.

    Raises:
        MDError: naming `source`, the key and what is wrong with it.
    """
    return checked(Config, table, source)


def checked(kind: type[T], table: Any, source: str) -> T:
    """A table as settings of a kind.

    Raises:
        MDError: naming `source`, the key and what is wrong with it.
    """
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "as a whole"
        raise MDError(f"{source}: {place}: {first['msg']}, got {first['input']!r}") from None
