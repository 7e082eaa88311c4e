"""Actions that run right after a module is imported.

The driver patches PySpark this way without importing it: a script that does not use PySpark does not pay for the import.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Action = Callable[[ModuleType], None]


def run_after_import(actions: dict[str, Action]) -> None:
    """Call each action with its module: immediately if the module is loaded, otherwise after its import."""
    waiting = dict(actions)
    for name in list(waiting):
        if name in sys.modules:
            waiting.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, _Finder(waiting))


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, waiting: dict[str, Action]) -> None:
        self._waiting = waiting

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = self._waiting.pop(fullname, None)
        if action is None:
            return None
        try:
            spec = importlib.util.find_spec(fullname)  # asks the other finders: the action is popped
            if spec is None or spec.loader is None:
                return spec
            spec.loader = _Loader(spec.loader, action)
            return spec
        finally:
            self._waiting[fullname] = action


class _Loader(importlib.abc.Loader):
    """Wrapper that runs the action after the original loader, and then leaves only the original loader on the module."""

    def __init__(self, loader: importlib.abc.Loader, action: Action) -> None:
        self._loader = loader
        self._action = action

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._action(module)
