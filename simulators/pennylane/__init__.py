"""Any device of PennyLane as an engine."""

from qml.errors import MissingDependencyError

try:
    import pennylane as pennylane
except ImportError as error:
    raise MissingDependencyError(
        f"kind = 'pennylane' needs PennyLane ({error}). Install it by "
        "pip install 'hybrid-qml[pennylane]'."
    ) from error
