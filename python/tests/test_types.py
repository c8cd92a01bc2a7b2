"""The type stubs of the native module agree with it, and all that users see has annotations and a docstring."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

import longfat
from longfat import _native

STUBS = Path(longfat.__file__).with_name("_native.pyi")
# Modules whose contents users import.
MODULES = ["longfat", "longfat.agent", "longfat.cc", "longfat.errors", "longfat.executors", "longfat.gym"]


def parameters_of_stub(function):
    """Names of the parameters, and whether each has a default value."""
    arguments = function.args
    assert not arguments.kwonlyargs and not arguments.vararg, function.name
    names = [one.arg for one in [*arguments.posonlyargs, *arguments.args] if one.arg != "self"]
    required = len(names) - len(arguments.defaults)
    return [(name, index >= required) for index, name in enumerate(names)]


def parameters_of_native(function):
    found = inspect.signature(function).parameters.values()
    return [(one.name, one.default is not inspect.Parameter.empty) for one in found if one.name != "self"]


def members_of_native(owner):
    """Functions, classes and properties, without those that every object has."""
    inherited = set(dir(object)) | {"__module__", "__new__", "__dict__", "__weakref__"}
    names = vars(owner) if inspect.isclass(owner) else dir(owner)
    return {name for name in names if name not in inherited and (not name.startswith("_") or name.startswith("__arrow"))}


def test_stubs_have_the_functions_and_classes_of_the_native_module():
    body = ast.parse(STUBS.read_text()).body
    stubs = {one.name: one for one in body if isinstance(one, (ast.FunctionDef, ast.ClassDef))}
    assert stubs.keys() == members_of_native(_native)
    for name, stub in stubs.items():
        native = getattr(_native, name)
        if isinstance(stub, ast.FunctionDef):
            assert parameters_of_stub(stub) == parameters_of_native(native), name
            continue
        members = {one.name: one for one in stub.body}
        if constructor := members.pop("__init__", None):
            assert parameters_of_stub(constructor) == parameters_of_native(native), name
        else:
            with pytest.raises(TypeError):
                native()
        members.pop("__len__", None)
        assert members.keys() == members_of_native(native), name
        for member, one in members.items():
            found = getattr(native, member)
            is_property = any(isinstance(decorator, ast.Name) and decorator.id == "property" for decorator in one.decorator_list)
            assert is_property == inspect.isgetsetdescriptor(found), f"{name}.{member}"
            if not is_property:
                assert parameters_of_stub(one) == parameters_of_native(found), f"{name}.{member}"


def test_the_package_has_the_syntax_of_python_3_9():
    files = [*STUBS.parent.glob("*.py"), STUBS]
    assert len(files) > 10
    for file in files:
        ast.parse(file.read_text(), file.name, feature_version=(3, 9))


def seen_by_users():
    """What the modules export, and the public members of their classes."""
    for module in MODULES:
        if module == "longfat.gym":
            pytest.importorskip("gymnasium")
        loaded = importlib.import_module(module)
        yield module, loaded
        for name in loaded.__all__:
            exported = getattr(loaded, name)
            if not callable(exported):
                continue
            yield f"{module}.{name}", exported
            for member, value in vars(exported).items() if inspect.isclass(exported) else ():
                value = getattr(value, "__func__", value)
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    yield f"{module}.{name}.{member}", value


def test_all_that_users_see_has_a_docstring():
    everything = dict(seen_by_users())
    assert len(everything) > 100
    assert [name for name, value in everything.items() if not (value.__doc__ or "").strip()] == []


def test_all_functions_have_annotations():
    functions = {name: value.fget if isinstance(value, property) else value for name, value in seen_by_users()}
    functions = {name: value for name, value in functions.items() if inspect.isfunction(value)}
    assert len(functions) > 50
    for name, function in functions.items():
        needed = {"return", *inspect.signature(function).parameters} - {"self", "cls"}
        assert needed <= function.__annotations__.keys(), name
