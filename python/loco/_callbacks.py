# SPDX-License-Identifier: BSD-3-Clause
"""Functions of a program that threads of the library call."""
import ctypes

from ._runtime import Handle


class HandlerError(Exception):
    """A handler of a multicast, a view or a topic has raised the exception that is this one's cause."""


@ctypes.CFUNCTYPE(None, ctypes.py_object)
def _report(why):
    """What a callback without a result raises, ctypes hands to sys.unraisablehook."""
    raise why


class Calling(Handle):
    """A handle with handlers. One that raises is reported at once, and the next call of the handle but close()
    raises HandlerError from the first of them."""
    _failed = None

    def _guarded(self, kind, function, otherwise=None):
        """The function as a callback of that kind, whose result is `otherwise` where it raises."""
        @kind
        def hook(_, *arguments):
            try:
                return function(*arguments)
            except BaseException as why:
                if self._failed is None:
                    self._failed = why
                _report(why)
            return otherwise
        return hook

    @property
    def _h(self):
        failed, self._failed = self._failed, None
        if failed is not None:
            raise HandlerError('the handler of %s has raised %r' % (self._what, failed)) from failed
        return super()._h
