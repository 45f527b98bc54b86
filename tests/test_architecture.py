"""The house plan, enforced: imports point down, and each framework has its own few homes."""

import ast
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {
    "qml": "qml",
    "qml.circuits": "circuits",
    "qml.simulators": "simulators",
    "qml.layers": "layers",
}
# A module imports only from lines above its own; its line is the first that matches.
ORDER = [
    "qml.errors",
    "qml.shapes",
    "qml.foreign",
    "qml.endings",
    "qml.settings",
    "qml.kinds_sampling",
    "qml.kinds_*",
    "qml.kinds",
    "qml.config",
    "qml.context",
    "qml.circuits.paulis",
    "qml.circuits.gates",
    "qml.circuits.program",
    "qml.circuits.observables",
    "qml.circuits.formulas",
    "qml.circuits.archive",
    "qml.circuits.polynomials",
    "qml.circuits.probes",
    "qml.circuits.symbolic",
    "qml.circuits.expressions",
    "qml.circuits.lowering",
    "qml.circuits.tracing",
    "qml.circuits.binding",
    "qml.simulators.base",
    "qml.simulators.registry",
    "qml.gradients",
    "qml.simulators.qiskit_circuit",
    "qml.simulators.measurement",
    "qml.simulators.fake_devices",
    "qml.simulators.shortage",
    "qml.simulators.*",
    "qml.simulators",
    "qml.budget",
    "qml.journal",
    "qml.progress",
    "qml.jobs",
    "qml.plans",
    "qml.execution",
    "qml.lowerings",
    "qml.primitives",
    "qml.registry",
    "qml.seeds",
    "qml.kernel",
    "qml.circuits.stored",
    "qml.circuits.templates",
    "qml.circuits.library",
    "qml.circuits.interop",
    "qml.circuits",
    "qml.layers.*",
    "qml.layers",
    "qml.estimates",
    "qml.oracle",
    "qml.subjects",
    "qml.checks",
    "qml.testing",
    "qml",
]
ENGINES = ORDER.index("qml.simulators.*")
# Importing one of their modules runs them first, so they import nothing themselves: names are
# looked up when asked for.
FACADES = {"qml", "qml.circuits", "qml.simulators"}
JAX = (
    "qml.context qml.circuits.binding qml.lowerings qml.primitives qml.registry qml.seeds "
    "qml.kernel qml.layers qml.layers.* qml.simulators.statevector.ffi qml.simulators.xla.*"
)
HOMES = {
    "jax": JAX,
    "jaxlib": JAX,
    "keras": "qml.layers qml.layers.*",
    "llvmlite": "qml.simulators.statevector.*",
    "numba": "qml.simulators.statevector.*",
    "numpy": "*",
    "pennylane": "qml.simulators.pennylane*",
    "pydantic": "qml.settings qml.kinds_*",
    "qiskit": "qml.circuits.* qml.oracle qml.simulators.qiskit_circuit qml.simulators.fake_devices "
    "qml.simulators.aer* qml.simulators.estimators*",
    "qiskit_aer": "qml.simulators.fake_devices qml.simulators.aer*",
    "qiskit_ibm_runtime": "qml.simulators.aer*",
    "sympy": "qml.circuits.symbolic",
    "tensorflow": "qml.layers.*",
    "torch": "qml.layers.torch_bridge",
}


def modules(root: Path) -> dict[str, Path]:
    """The files of a source tree by the names they are imported under."""
    found = {}
    for package, folder in FOLDERS.items():
        home = root / folder
        for path in sorted(home.glob("*.py") if package == "qml" else home.rglob("*.py")):
            name = ".".join((package, *path.relative_to(home).with_suffix("").parts))
            found[name.removesuffix(".__init__")] = path
    return found


def line(name: str) -> int | None:
    return next((i for i, place in enumerate(ORDER) if fnmatchcase(name, place)), None)


def statements(node: ast.AST, eager: bool = True) -> Iterator[tuple[ast.stmt, bool]]:
    """The import statements below a node, and whether importing the file runs them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, eager
        function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        typing = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
        yield from statements(child, eager and not function and not typing)


def imports(path: Path, known: set[str]) -> Iterator[tuple[str, bool]]:
    """Every module an import in the file names, function bodies included, and whether eagerly."""
    for node, eager in statements(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, eager) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            for alias in node.names:
                module = f"{source}.{alias.name}"
                # `from qml import x` stays an import of qml, even of a module x.
                yield (module if module in known and source != "qml" else source), eager


def complaints_about_ours(name: str, other: str) -> Iterator[str]:
    mine, theirs = line(name), line(other)
    if theirs is None:
        yield f"{name} imports {other}, which has no line in ORDER"
    elif mine is not None and theirs > mine:
        yield f"{name} imports upward: {other}"
    elif mine == theirs == ENGINES and name.split(".")[2] != other.split(".")[2]:
        yield f"{name} imports another engine: {other}"


def complaints_about_theirs(name: str, other: str) -> Iterator[str]:
    top = other.split(".")[0]
    homes = HOMES.get(top, "").split()
    if top not in sys.stdlib_module_names and not any(fnmatchcase(name, h) for h in homes):
        yield f"{name} imports {other}, at home in: {', '.join(homes) or 'no module'}"


def complaints(root: Path) -> list[str]:
    """All that is wrong with the imports of a source tree, one sentence each."""
    found = []
    files = modules(root)
    graph = {}
    for name, path in files.items():
        named = sorted(set(imports(path, set(files))))
        graph[name] = {other for other, _ in named if other != name}
        if line(name) is None:
            found.append(f"{name} has no line in ORDER")
        if path.stem in sys.stdlib_module_names or path.stem in HOMES:
            found.append(f"{name} shadows {path.stem}")
        for other, eager in named:
            ours = other.split(".")[0] == "qml"
            found += (complaints_about_ours if ours else complaints_about_theirs)(name, other)
            if eager and name in FACADES and other.split(".")[0] not in sys.stdlib_module_names:
                found.append(f"{name} imports {other} eagerly")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"a cycle: {' -> '.join(error.args[1])}")
    return found


def test_the_source_tree_keeps_to_the_plan() -> None:
    assert modules(ROOT).keys() >= {"qml", "qml.errors", "qml.circuits", "qml.layers"}
    assert complaints(ROOT) == []


def test_the_keys_of_every_kind_are_imported_from_one_place() -> None:
    files = modules(ROOT)
    of_families = {name for name in files if name.startswith("qml.kinds_")}
    importers = {
        name
        for name, path in files.items()
        if of_families & {other for other, _ in imports(path, set(files))}
    }
    assert len(of_families) == 5 and importers - of_families == {"qml.kinds"}


def catches_everything(source: str) -> bool:
    """Whether a handler of the source catches what nobody foresaw: all, or every Exception."""
    handlers = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ExceptHandler)]
    names = [[] if h.type is None else [n for n in ast.walk(h.type)] for h in handlers]
    return any(
        handler.type is None or any(isinstance(n, ast.Name) and n.id == "Exception" for n in found)
        for handler, found in zip(handlers, names, strict=True)
    )


def test_everything_is_caught_in_one_place_only_where_foreign_code_is_called() -> None:
    catching = [
        name for name, path in modules(ROOT).items() if catches_everything(path.read_text())
    ]
    assert catching == ["qml.foreign"]
    assert catches_everything("try: f()\nexcept: pass")
    assert catches_everything("try: f()\nexcept (ValueError, Exception) as error: raise")
    assert not catches_everything("try: f()\nexcept ValueError: pass")


TREE = {
    "qml/__init__.py": "from typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    from qml.kernel import Kernel as Kernel",
    "qml/errors.py": "import difflib",
    "qml/kernel.py": "import jax\nfrom qml.circuits import program\nfrom qml.errors import E",
    "circuits/__init__.py": "def __getattr__(name): from qml.circuits.interop import read",
    "circuits/interop.py": "import qiskit\nfrom qml.kernel import Kernel",
    "circuits/program.py": "import numpy as np\nfrom qml.errors import E",
    "simulators/__init__.py": "",
    "simulators/base.py": "from qml.circuits.program import Program",
    "simulators/aer/__init__.py": "",
    "simulators/aer/engine.py": "import qiskit_aer\nfrom qml.simulators.aer.noise import model",
    "simulators/aer/noise.py": "from qml.simulators.base import Engine",
    "simulators/reference.py": "from qml.simulators.base import Engine",
    "layers/__init__.py": "from qml.layers.keras_layer import QuantumLayer",
    "layers/keras_layer.py": "import keras\nfrom qml.kernel import Kernel",
}


def grow(root: Path, tree: dict[str, str]) -> None:
    for name, source in tree.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(source)


def test_a_tree_that_keeps_to_the_plan_is_not_blamed(tmp_path: Path) -> None:
    grow(tmp_path, TREE)
    assert complaints(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "source", "complaint"),
    [
        ("qml/errors.py", "from qml.kernel import Kernel", "imports upward: qml.kernel"),
        ("qml/errors.py", "def f(): import qml.kernel", "imports upward: qml.kernel"),
        ("qml/kernel.py", "import qml", "imports upward: qml"),
        ("qml/kernel.py", "from qml import errors", "imports upward: qml"),
        ("qml/kernel.py", "from qml.layers import QuantumLayer", "imports upward: qml.layers"),
        ("qml/kernel.py", "from qml.circuits import interop", "upward: qml.circuits.interop"),
        ("qml/kernel.py", "from qml.plumbing import pipe", "qml.plumbing, which has no line"),
        ("qml/plumbing.py", "", "qml.plumbing has no line in ORDER"),
        ("circuits/program.py", "from qml.simulators.base import Engine", "imports upward"),
        ("simulators/aer/noise.py", "import qml.simulators.reference", "another engine"),
        ("simulators/aer/noise.py", "from qml.simulators.aer import engine", "a cycle: "),
        ("simulators/reference.py", "import jax", "imports jax, at home in: qml.context"),
        ("simulators/reference.py", "from qiskit.circuit import Gate", "imports qiskit.circuit"),
        ("simulators/reference.py", "def f(): import qiskit_aer", "imports qiskit_aer"),
        ("qml/kernel.py", "import keras", "imports keras"),
        ("qml/kernel.py", "import tensorflow as tf", "imports tensorflow"),
        ("qml/kernel.py", "import sympy", "imports sympy"),
        (
            "qml/kernel.py",
            "import pydantic",
            "imports pydantic, at home in: qml.settings,",
        ),
        ("qml/kernel.py", "import pandas", "imports pandas, at home in: no module"),
        ("qml/kernel.py", "from circuits.program import Program", "imports circuits.program"),
        ("qml/kernel.py", "from .errors import E", "imports .errors"),
        ("qml/__init__.py", "from qml.errors import E", "qml imports qml.errors eagerly"),
        ("circuits/__init__.py", "from qml.errors import E", "imports qml.errors eagerly"),
        ("simulators/types.py", "", "qml.simulators.types shadows types"),
        ("simulators/jax.py", "", "qml.simulators.jax shadows jax"),
    ],
)
def test_a_tree_that_breaks_the_plan_is_blamed(
    tmp_path: Path, file: str, source: str, complaint: str
) -> None:
    grow(tmp_path, TREE | {file: source})
    found = complaints(tmp_path)
    assert any(complaint in sentence for sentence in found), found
