"""Errors of code that is not ours: named, explained, and kept as the cause."""

import traceback

import pytest

from qml.errors import ConfigError, EngineError, QMLError, UnknownNameError
from qml.foreign import foreign, function_at, raised, told


class Odd(Exception):
    """Of a kind that nobody foresees."""


def test_any_error_becomes_ours_with_the_cause_and_what_to_do():
    for error in (Odd("x"), KeyError("x"), ImportError("x"), MemoryError(), StopIteration(3)):
        with pytest.raises(ConfigError) as caught:
            with foreign(raised("the lab failed", ConfigError, "Mend it.")):
                raise error
        assert str(caught.value) == f"the lab failed: {told(error)}. Mend it."
        assert type(error).__name__ in str(caught.value)
        assert caught.value.__cause__ is error


def test_ours_go_through_unless_others_are_kept():
    ours = UnknownNameError("no such lab")
    with pytest.raises(UnknownNameError) as caught, foreign(raised("x", EngineError)):
        raise ours
    assert caught.value is ours and ours.__cause__ is None
    with pytest.raises(EngineError), foreign(raised("x", EngineError), kept=AssertionError):
        raise ours
    with pytest.raises(AssertionError), foreign(raised("x", EngineError), kept=AssertionError):
        raise AssertionError


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_a_program_is_no_error_of_foreign_code(end):
    with pytest.raises(end), foreign(raised("x", EngineError)):
        raise end


def test_a_secret_is_left_out_of_the_message_and_of_the_traceback():
    hide = lambda text: text.replace("marker", "...")
    with pytest.raises(EngineError, match=r"Odd: Bearer \.\.\.") as caught:
        with foreign(raised("the lab", EngineError, hide=hide), chained=False):
            raise Odd("Bearer marker")
    assert "marker" not in "".join(traceback.format_exception(caught.value))


def test_notes_and_tuples_of_sentences_are_told():
    error = ValueError("The 0-th pub", "is wrong.")
    error.add_note("Look there")
    assert told(error) == "ValueError: The 0-th pub is wrong.; Look there"


def test_a_function_is_found_by_its_place_or_the_nearest_is_named():
    function, signature = function_at("factory", "textwrap:indent")
    assert function("a", "b") == "ba" and list(signature.parameters)[:2] == ["text", "prefix"]
    with pytest.raises(UnknownNameError, match="factory = 'textwrap:ident'.*did you mean 'indent'"):
        function_at("factory", "textwrap:ident")
    with pytest.raises(UnknownNameError, match="no function '__doc__'"):
        function_at("device", "textwrap:__doc__")
    with pytest.raises(ConfigError, match="device = 'nowhere_at_all:x' cannot be imported: Module"):
        function_at("device", "nowhere_at_all:x")
    assert issubclass(ConfigError, QMLError)
