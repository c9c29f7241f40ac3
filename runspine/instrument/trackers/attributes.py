"""Dicts whose entries are also attributes, as configurations and summaries of trackers are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Changed = Callable[[dict[str, Any]], None]


def given_values(values: Any) -> dict[str, Any]:
    """A mapping, or the attributes of an object such as `argparse.Namespace` or a dataclass."""
    if values is None or values == ():
        return {}
    if isinstance(values, Mapping):
        return {str(key): value for key, value in values.items()}
    return dict(vars(values)) if hasattr(values, "__dict__") else {}


class ReportingDict(dict[str, Any]):
    """Reports what is set."""

    def __init__(self, changed: Changed = lambda values: None) -> None:
        super().__init__()
        object.__setattr__(self, "_changed", changed)

    def on_change(self, changed: Changed) -> None:
        object.__setattr__(self, "_changed", changed)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        object.__getattribute__(self, "_changed")({name: value})

    def update(self, values: Any = (), /, **more: Any) -> None:
        more.pop("allow_val_change", None)
        found = {**given_values(values), **more}
        super().update(found)
        if found:
            object.__getattribute__(self, "_changed")(found)

    def setdefaults(self, values: Any) -> None:
        self.update({key: value for key, value in given_values(values).items() if key not in self})

    def as_dict(self) -> dict[str, Any]:
        return dict(self)
