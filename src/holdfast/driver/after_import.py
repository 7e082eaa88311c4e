"""Do something to a module right after it was imported, whenever that is: PySpark is imported only if the script does."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

Action = Callable[[ModuleType], None]


def after_import(actions: dict[str, Action]) -> None:
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
            spec = importlib.util.find_spec(fullname)  # asks the other finders: this one does not wait for it any more
            if spec is None or spec.loader is None:
                return spec
            spec.loader = _Loader(spec.loader, action)
            return spec
        finally:
            self._waiting[fullname] = action


class _Loader(importlib.abc.Loader):
    """The module's own loader, and then the action. Nothing of it is left on the module."""

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
