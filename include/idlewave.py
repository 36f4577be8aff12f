"""Regions and points of a program for idlewave's recorder.

    import idlewave

    with idlewave.region("assemble"):
        ...

    @idlewave.region("solve")
    def solve():
        ...

    idlewave.point("restart written")

The functions of the recorder are there only while `idlewave record` runs the program; otherwise nothing is called.
Names are cut after 56 bytes; a thread may have 4,096 different ones. Regions of one thread nest; do not hold one
open across an `await`.

SPDX-License-Identifier: Apache-2.0 OR MIT
"""

import ctypes
from contextlib import ContextDecorator

__all__ = ["point", "region"]


def _find(name):
    try:
        function = getattr(ctypes.PyDLL(None), name)
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_char_p]
    function.restype = None
    return function


_begin = _find("idlewave_mark_begin")
_end = _find("idlewave_mark_end")
_point = _find("idlewave_mark_point")


def _bytes(name):
    return name.encode(errors="replace").replace(b"\0", b" ")


class region(ContextDecorator):
    """A region of this thread: a block of `with`, or all calls of a function."""

    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = _bytes(name)

    def __enter__(self):
        if _begin is not None:
            _begin(self._name)
        return self

    def __exit__(self, *_):
        if _end is not None:
            _end(self._name)
        return False


def point(name):
    """Something happened now."""
    if _point is not None:
        _point(_bytes(name))
