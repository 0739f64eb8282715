#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a PyTorch model as an .onnx file that Planloom opens and trains.

    export_torch.py my_model.py:make -o model.onnx

`make` is a function of my_model.py without arguments, or a class. It returns the model and an example of its inputs:

    def make():
        return Net(), (torch.zeros(2, 16, dtype=torch.long),)

The model is a torch.nn.Module, a torch.fx.GraphModule, or what torch.export.export() returns. Its first axis is the
batch, which is left open. A model that returns a scalar returns its loss. Names of modules become scopes.
PyTorch 1.12 or newer.
"""
import argparse
import importlib
import importlib.util
import inspect
import os
import sys


def fail(why):
    sys.exit("export_torch.py: " + why)


def load(source):
    """The function or class that `source` names: FILE.py:NAME or package.module:NAME."""
    place, colon, name = source.rpartition(":")
    if not colon or not place or not name:
        fail(f"'{source}' names no model; write FILE.py:NAME, NAME being a function that returns the model and its inputs")
    if place.endswith(".py"):
        if not os.path.exists(place):
            fail(f"{place}: there is no such file")
        sys.path.insert(0, os.path.dirname(os.path.abspath(place)))
        spec = importlib.util.spec_from_file_location("planloom_model", place)
        module = importlib.util.module_from_spec(spec)
        sys.modules["planloom_model"] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            fail(f"{place}: {error}")
    if not hasattr(module, name):
        fail(f"{place} has no '{name}'")
    return getattr(module, name)


def made(source):
    """Model and example inputs."""
    import torch
    result = load(source)()
    if not isinstance(result, tuple) or len(result) != 2:
        fail(f"{source} returns {type(result).__name__}; return the model and an example of its inputs, such as "
             "Net(), (torch.zeros(2, 8),)")
    model, inputs = result
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if hasattr(torch, "export") and hasattr(torch.export, "ExportedProgram") and isinstance(model, torch.export.ExportedProgram):
        model = model.module()
    if not isinstance(model, torch.nn.Module):
        fail(f"{source} returns {type(model).__name__} in place of a torch.nn.Module; return the module itself")
    if not isinstance(inputs, tuple) or not inputs or not all(isinstance(each, torch.Tensor) for each in inputs):
        fail(f"{source}: the inputs are no tensors; return them as a tuple of tensors, in the order of forward()")
    return model, inputs


def input_names(model, count):
    names = [name for name, each in inspect.signature(model.forward).parameters.items()
             if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return names[:count] if len(names) >= count else [f"input{i}" for i in range(count)]


def outputs_of(model, inputs):
    """One run: what comes out, flat."""
    import torch
    with torch.no_grad():
        outputs = model(*inputs)
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    values = outputs.values() if hasattr(outputs, "values") else outputs
    flat = [each for each in values if isinstance(each, torch.Tensor)]
    if not flat:
        fail(f"forward() returns {type(outputs).__name__}; return a tensor or a tuple of tensors")
    return flat


def export(model, inputs, path, opset, weights, fixed):
    import torch
    torch.manual_seed(0)
    model.train()
    outputs = outputs_of(model, inputs)
    names = input_names(model, len(inputs))
    unknown = [name for name in fixed if name not in names]
    if unknown:
        fail(f"there is no input '{unknown[0]}'; there are {', '.join(names)}")
    batch = next((each.shape[0] for name, each in zip(names, inputs) if each.dim() > 0 and name not in fixed), None)
    axes = {name: {0: "N"} for name, each in zip(names, inputs) if each.dim() > 0 and name not in fixed}
    output_names = [f"output{i}" if len(outputs) > 1 else "output" for i in range(len(outputs))]
    axes.update({name: {0: "N"} for name, each in zip(output_names, outputs)
                 if each.dim() > 0 and each.shape[0] == batch})
    settings = {"dynamo": False} if "dynamo" in inspect.signature(torch.onnx.export).parameters else {}
    torch.onnx.export(model, inputs, path, export_params=weights, opset_version=opset, input_names=names,
                      output_names=output_names, dynamic_axes=axes, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, **settings)
    parameters = sum(each.numel() for each in model.parameters())
    print(f"{path}: {parameters} parameters, inputs {', '.join(names)}, "
          f"{len(outputs)} output{'s' if len(outputs) > 1 else ''}{'' if weights else ', without weights'}")


def main():
    parser = argparse.ArgumentParser(description="Writes a PyTorch model as an .onnx file that Planloom opens and trains.",
                                     epilog="See resources/docs/formats/onnx.md.")
    parser.add_argument("model", metavar="FILE.py:NAME", help="function that returns the model and an example of its inputs")
    parser.add_argument("-o", "--output", default="model.onnx", help="file to write (model.onnx)")
    parser.add_argument("--opset", type=int, default=14, help="of the file, 13 to 17 (14)")
    parser.add_argument("--no-weights", action="store_true", help="leave the weights out: a small file to plan with")
    parser.add_argument("--fixed", action="append", default=[], metavar="INPUT", help="input whose first axis is no batch")
    arguments = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        fail("PyTorch is not installed for this Python; install it (Debian: python3-torch), or run this with the one that has it")
    model, inputs = made(arguments.model)
    export(model, inputs, arguments.output, arguments.opset, not arguments.no_weights, arguments.fixed)


if __name__ == "__main__":
    main()
