"""Prints what the Python SDK offers, as JSON: members of classes with what they take, and fields of values."""

import dataclasses
import inspect
import json
import re

import dormouse
from dormouse import _execution, _fan_out, _network, _ports, _process, _values, _why


def takes(function, owner):
    names = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            # "Takes what the constructor takes", except that only what is new by all means is asked whether it stays.
            more = [each for each in takes(owner.__init__, owner) if each not in names]
            names += [each for each in more if function.__name__ == "create" or each != "persistent"]
        elif name != "self":
            names.append(name)
    return names


def members(cls):
    found = {"constructor": takes(cls.__init__, cls)}
    for base in cls.__mro__:
        if not base.__module__.startswith("dormouse"):
            continue
        for name in re.findall(r"^ {8}self\.([a-z]\w*)(?:: [^=]+)? = ", inspect.getsource(base), re.M):
            found[name] = None
        for name in vars(base):
            value = getattr(cls, name)
            if name.startswith("_"):
                continue
            is_of_class = isinstance(vars(base)[name], classmethod)
            found[f"static {name}" if is_of_class else name] = takes(value, cls) if callable(value) else None
    if cls is dormouse.Sandbox:
        # One name for both.
        found["static resume"] = takes(cls.resume, cls)
        found["resume"] = takes(object.__new__(cls).resume, cls)
    return found


def main():
    names = [name for name in dormouse.__all__ if not name.startswith(("Async", "__"))]
    public = [getattr(dormouse, name) for name in names]
    classes = [each for each in public if not dataclasses.is_dataclass(each) and inspect.isclass(each)]
    modules = (_execution, _fan_out, _network, _ports, _process, _values, _why)
    inner = [each for module in modules for each in vars(module).values()]
    values = [each for each in [*inner, *public] if dataclasses.is_dataclass(each)]
    own = vars(dormouse.Template)
    beginnings = [name for name, value in own.items() if isinstance(value, staticmethod)]
    print(
        json.dumps(
            {
                "classes": {each.__name__: members(each) for each in classes},
                "others": [name for name in names if not inspect.isclass(getattr(dormouse, name))],
                "beginnings": beginnings,
                "fields": {each.__name__: [field.name for field in dataclasses.fields(each)] for each in values},
            }
        )
    )


main()
