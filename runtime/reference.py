"""Calls a reference in Python: reference.py CALL.json, in the folder of the arrays (codegen/run/python.c).

CALL.json: {"path", "function", "inputs": [{"name", "dtype"}], "outputs": [{"name", "dtype", "shape"}], "sizes": {}, "statics": {}}.
Inputs are NAME.npy. Outputs are written as NAME.out.npy: floats as float64 or float32, integers and bools as int64.
"""
import importlib.util
import inspect
import json
import os
import sys

import numpy as np


def load(path):
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("pkc_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def arguments(function, known):
    """Each parameter gets the input, size or static of its name."""
    chosen = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in known:
            chosen[name] = known[name]
        elif parameter.default is parameter.empty:
            raise SystemExit(f"the parameter {name} is not an input, size or static of the kernel")
    return chosen


def results(value, outputs):
    """The arrays in the order of the outputs: of a dictionary by name, of a tuple or list by place, of an array alone."""
    if isinstance(value, dict):
        missing = [o["name"] for o in outputs if o["name"] not in value]
        if missing:
            raise SystemExit(f"the result has no {', '.join(missing)}")
        return [value[o["name"]] for o in outputs]
    listed = list(value) if isinstance(value, (tuple, list)) else [value]
    if len(listed) != len(outputs):
        raise SystemExit(f"expected {len(outputs)} arrays, found {len(listed)}")
    return listed


def write(output, value):
    name, shape = output["name"], tuple(output["shape"])
    array = np.asarray(value)
    if array.shape != shape:
        raise SystemExit(f"{name}: expected the shape {shape}, found {array.shape}")
    if array.dtype.kind in "cOSUMm":
        raise SystemExit(f"{name}: expected real numbers, found {array.dtype}")
    if output["dtype"] == "f64":
        array = array.astype(np.float64)
    elif output["dtype"].startswith(("f", "bf")):
        array = array.astype(np.float32)
    elif array.dtype.kind in "iub":
        array = array.astype(np.int64)
    else:
        raise SystemExit(f"{name}: expected integers for {output['dtype']}, found {array.dtype}")
    np.save(f"{name}.out.npy", np.ascontiguousarray(array).reshape(shape))


def main():
    with open(sys.argv[1], encoding="utf-8") as f:
        call = json.load(f)
    known = {**call["sizes"], **call["statics"], **{i["name"]: np.load(f"{i['name']}.npy") for i in call["inputs"]}}
    function = getattr(load(call["path"]), call["function"], None)
    if not callable(function):
        raise SystemExit(f"{call['path']} has no function {call['function']}")
    value = function(**arguments(function, known))
    for output, array in zip(call["outputs"], results(value, call["outputs"])):
        write(output, array)


if __name__ == "__main__":
    main()
