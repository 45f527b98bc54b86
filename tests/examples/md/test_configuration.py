"""The one file that chooses molecule, model, training and backend; what it says wrongly is told."""

from pathlib import Path

import configuration
import pytest
from problems import MDError

GOOD = """
molecule = "h3o"
backend = "aer"
data = "elsewhere"
[model]
polynomial = { degree = 3 }
circuit = { layers = 4, entanglers = false }
[training]
frames = 50
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "c.toml"
    path.write_text(text)
    return path


def test_a_file_is_read_with_its_defaults_and_its_folder(tmp_path: Path):
    config = configuration.load(written(tmp_path, GOOD))
    assert (config.molecule, config.backend) == ("h3o", "aer")
    assert config.frames("test") == tmp_path / "elsewhere" / "h3o_test.xyz"
    assert list(config.model.terms()) == ["polynomial", "circuit"]
    assert config.model.circuit == configuration.Circuit(layers=4, entanglers=False)
    assert (config.training.frames, config.training.seed) == (50, 0)


@pytest.mark.parametrize(
    ("before", "after", "sentence"),
    [
        ("h3o", "h4o", "molecule: Value error, there is no molecule 'h4o'; known are lih, h2o"),
        ("layers = 4", "layers = 0", "model.circuit.layers: Input should be greater than or equal"),
        ("layers = 4", "layer = 4", "model.circuit.layer: Extra inputs are not permitted"),
        (
            "frames = 50",
            "frames = 1",
            "training.frames: Input should be greater than or equal to 2",
        ),
        ("[model]", "[modell]", "model: Field required"),
        ("polynomial", "kernel = {}\npolynomial", "kernel is solved for, not trained"),
        ("molecule", "molecule = 1\nmolecule", "cannot be read: Cannot overwrite a value"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    before: str, after: str, sentence: str, tmp_path: Path
):
    path = written(tmp_path, GOOD.replace(before, after))
    with pytest.raises(MDError) as caught:
        configuration.load(path)
    assert str(path) in str(caught.value) and sentence in str(caught.value)


def test_a_model_without_terms_is_refused(tmp_path: Path):
    with pytest.raises(MDError, match="needs a term: polynomial, circuit"):
        configuration.load(written(tmp_path, 'molecule = "h2o"\n[model]\n'))


def test_a_file_that_is_not_there_is_told(tmp_path: Path):
    with pytest.raises(MDError, match=r"none.toml cannot be read: \[Errno 2\]"):
        configuration.load(tmp_path / "none.toml")


@pytest.mark.parametrize("path", sorted(configuration.FOLDER.glob("*.toml")), ids=lambda p: p.stem)
def test_the_configurations_that_come_along_are_right(path: Path):
    assert configuration.load(path).frames("train").parent.is_dir()
