"""What a layer must know, and say, of the TensorFlow graph that it is traced into."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

import tensorflow as tf
from tensorflow.python.ops import control_flow_util
from tensorflow.python.ops.control_flow_v2_func_graphs import ControlFlowFuncGraph

Check = Callable[[], None]

NOTHING: Final = tf.TensorSpec((), tf.bool)
"""What a check gives to the graph, which makes no use of it."""


def is_compiled() -> bool:
    """Whether XLA will compile the graph that is traced: within `tf.function(jit_compile=True)`."""
    graph = tf.compat.v1.get_default_graph()
    return bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def check_at_calls(check: Check, key: Hashable) -> None:
    """From now on the graph that is traced runs `check` first, whenever it is called from Python.

    So do graphs that call it. A graph that already has a check of this key keeps that one; one that
    is no `tf.function`'s is never called, and gets none.
    """
    graph = _function_graph(tf.compat.v1.get_default_graph())
    if graph is not None:
        _captured(graph, check, key)


def _captured(graph: Any, check: Check, key: Hashable) -> Any:
    """The tensor of the graph that gets its value from a call of `check`.

    TensorFlow asks for it where it calls the graph. It hands the question on to a graph that calls,
    but not out of a loop or a branch, whose graph is called by no Python.
    """

    def value() -> tf.Tensor:
        check()
        return tf.zeros((), tf.bool)

    captures = graph.function_captures
    if key not in captures.by_ref_internal:
        graph.capture_call_time_value(value, NOTHING, key, default_value=tf.zeros((), tf.bool))
        asked = captures.by_ref_external[key]

        def ask() -> Any:
            caller = tf.compat.v1.get_default_graph()
            if not isinstance(caller, ControlFlowFuncGraph):
                return asked()
            outer = _function_graph(caller)
            if outer is None:
                return [value()]
            with outer.as_default():
                return [_captured(outer, check, key)]

        ask.output_spec = asked.output_spec  # type: ignore[attr-defined]
        captures.by_ref_external[key] = ask
    return captures.by_ref_internal[key]


def _function_graph(graph: Any) -> Any:
    """The innermost graph of a function around, past loops and branches; None if there is none."""
    while isinstance(graph, ControlFlowFuncGraph):
        graph = graph.outer_graph
    return graph if isinstance(graph, tf.__internal__.FuncGraph) else None
