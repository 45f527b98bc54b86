"""IBM's service: which machine, whose account, and sessions that are always closed."""

from __future__ import annotations

import importlib
import json
import os
from typing import Any, Final

from qiskit.exceptions import QiskitError
from qiskit.providers import BackendV2
from qiskit.providers.exceptions import QiskitBackendNotFoundError

from qml.errors import (
    ConfigError,
    EngineError,
    MissingDependencyError,
    UnknownNameError,
    looks_like_token,
    named,
    nearest,
)
from qml.kinds import RuntimeConfig
from qml.simulators.estimators.jobs import Hide, failures

DEFAULT: Final = "QISKIT_IBM_TOKEN"
"""The variable in which qiskit-ibm-runtime itself looks for a token."""


def runtime() -> Any:
    """The module qiskit_ibm_runtime.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        return importlib.import_module("qiskit_ibm_runtime")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "kind = 'runtime' needs qiskit-ibm-runtime: pip install 'hybrid-qml[runtime]'"
        ) from error


def opened(config: RuntimeConfig) -> tuple[Any, BackendV2, Hide]:
    """(the service, the machine `config.name` of it, what leaves the token out of a text).

    Raises:
        ConfigError: there is no token, or no account.
        UnknownNameError: the account has no machine of that name.
        EngineError: the service refused.
    """
    arguments = {
        "channel": config.channel,
        "instance": config.instance,
        "name": config.account,
        "token": _token(config),
    }
    given = {key: value for key, value in arguments.items() if value is not None}
    hide = hiding(config)
    try:
        service = runtime().QiskitRuntimeService(**given)
    except (QiskitError, OSError, ValueError) as error:
        # Not `from error`: what others put into their exceptions may hold the token.
        raise EngineError(f"IBM's service could not be reached: {hide(str(error))}") from None
    return service, _machine(service, config.name or "", hide), hide


def hiding(config: RuntimeConfig) -> Hide:
    """What puts "..." in a text for every token that the service may be given."""
    names = [name for name in (config.token_env, DEFAULT) if name is not None]
    tokens = {token for name in names if (token := os.environ.get(name))}
    if config.token_env is None:
        tokens |= _saved_tokens()
    # One may have been written where a name belongs, which services repeat.
    places = (config.token_env, config.name, config.account, config.instance, config.channel)
    tokens |= {name for name in places if name is not None and looks_like_token(name)}

    def hide(text: str) -> str:
        for token in sorted(tokens, key=len, reverse=True):  # one may be part of another
            text = text.replace(token, "...")
        return text

    return hide


def _saved_tokens() -> set[str]:
    """Those of the saved accounts; what is wrong with their file is for the service to say."""
    try:
        with open(_file()) as stream:
            accounts = json.load(stream)
    except (OSError, ValueError):
        return set()
    saved = accounts.values() if isinstance(accounts, dict) else ()
    found = {account.get("token") for account in saved if isinstance(account, dict)}
    return {token for token in found if token and isinstance(token, str)}


def _file() -> str:
    return os.path.join(os.path.expanduser("~"), ".qiskit", "qiskit-ibm.json")


def _token(config: RuntimeConfig) -> str | None:
    if config.token_env is not None:
        token = os.environ.get(config.token_env)
        if not token:
            raise ConfigError(
                f"token_env = {named(config.token_env)}: there is no environment variable of that "
                "name, or it is empty. Set it to the token of your IBM Quantum account."
            )
        return token
    # Asked for an account where no file is, qiskit-ibm-runtime writes an empty one.
    file = _file()
    if not os.path.exists(file) and (config.account or not os.environ.get(DEFAULT)):
        raise ConfigError(
            f"there is no account of IBM Quantum: {file} does not exist. Name an environment "
            "variable that holds a token, as token_env = 'IBM_QUANTUM_TOKEN', or save an account "
            "by QiskitRuntimeService.save_account (and let only its owner read the file)."
        )
    return None


def _machine(service: Any, name: str, hide: Hide) -> BackendV2:
    try:
        machine: BackendV2 = service.backend(name)
    except QiskitBackendNotFoundError:
        with failures("asking IBM's service which machines it has", hide):
            names = [one.name for one in service.backends()]
        raise UnknownNameError(
            f"name = {named(name)}: the account has no machine of that name; {nearest(name, names)}"
        ) from None
    except (QiskitError, OSError, ValueError) as error:
        told = hide(str(error))
        raise EngineError(f"IBM's service did not give the machine {named(name)}: {told}") from None
    return machine


class Mode:
    """How jobs reach a machine: each by itself, or in a batch or session of our own.

    A batch or session is opened when the first job is sent, and closed by `close`.
    """

    def __init__(self, kind: str, hide: Hide | None) -> None:
        self._kind, self._hide = kind, hide
        self._machine: BackendV2 | None = None
        self._group: Any = None

    def on(self, machine: BackendV2 | None) -> Any:
        """What an estimator takes as its mode: the machine, or a batch or session open on it."""
        if self._kind == "job":
            return machine
        if self._group is None or self._machine is not machine:
            self.close()
            group = {"batch": "Batch", "session": "Session"}[self._kind]
            self._group, self._machine = getattr(runtime(), group)(backend=machine), machine
        return self._group

    def close(self) -> None:
        """Lets the machine go; jobs that were sent still run. A later job opens a new one.

        Raises:
            JobError: the service did not close it.
        """
        group, self._group = self._group, None
        if group is not None:
            with failures(f"closing the {self._kind}", self._hide):
                group.close()
