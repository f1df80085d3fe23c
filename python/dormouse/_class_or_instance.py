"""One name for a method of the class and a method of its instances: `Sandbox.resume(id)` and `sandbox.resume()`."""

from __future__ import annotations

from typing import Any, Callable, Generic, TypeVar, overload

OnClass = TypeVar("OnClass", bound=Callable[..., Any])
OnInstance = TypeVar("OnInstance", bound=Callable[..., Any])


class ClassOrInstance(Generic[OnClass, OnInstance]):
    def __init__(self, on_class: Callable[..., Any], on_instance: Callable[..., Any]) -> None:
        self._on_class = on_class
        self._on_instance = on_instance
        self.__doc__ = on_class.__doc__

    @overload
    def __get__(self, instance: None, owner: Any) -> OnClass: ...
    @overload
    def __get__(self, instance: object, owner: Any) -> OnInstance: ...

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return self._on_class.__get__(owner)
        return self._on_instance.__get__(instance)
