"""DistilBERT's published weights, where there are any: in a folder of the reader's, or the hub."""

import os
from pathlib import Path

from torch import Tensor

from rankbook.data import hub
from rankbook.data.sources import FOLDER, Absent, need, search
from rankbook.models.classifier import Classifier

REPO = "distilbert/distilbert-base-uncased"
FILE = "model.safetensors"
HEAD = ("pre_classifier.", "classifier.")  # what a new task begins anew


def load_pretrained(model: Classifier) -> str:
    """Give `model` DistilBERT's weights, all but the head's, in place; return where they were.

    Searched in ``$RANKBOOK_DATA/distilbert-base-uncased``, then on the Hugging Face hub. Without
    both, the model stays as it is, and the line that is printed and returned says so. Raises
    FileNotFoundError for a folder without the file, ImportError without ``safetensors``,
    ValueError for a file that is torn or of another model.
    """
    weights, source = search("DistilBERT's weights", _from_folder, _from_hub, _nowhere)
    if weights:
        _fill(model, weights, source)
    return source


def _from_folder() -> tuple[dict[str, Tensor], str]:
    named = os.environ.get(FOLDER)
    if not named:
        raise Absent(f"${FOLDER} is not set")
    folder = Path(named).expanduser() / REPO.split("/")[1]
    if not folder.is_dir():
        raise Absent(f"${FOLDER} has no folder {folder.name}")
    if not (folder / FILE).is_file():
        raise FileNotFoundError(
            f"{folder} is half-present: {FILE} is not there; copy the whole folder again, or "
            "remove it to use another source"
        )
    content = (folder / FILE).read_bytes()
    return _weights(content, str(folder / FILE)), f"{FILE} of ${FOLDER}/{folder.name}"


def _from_hub() -> tuple[dict[str, Tensor], str]:
    content, where = hub.file(REPO, FILE)
    return _weights(content, where), where


def _nowhere() -> tuple[dict[str, Tensor], str]:
    return {}, "random; as fast, but its accuracy is not to be compared with the pretrained one's"


def _weights(content: bytes, where: str) -> dict[str, Tensor]:
    safetensors = need("safetensors.torch", "Reading DistilBERT's weights")
    try:
        return safetensors.load(content)
    except Exception as error:  # its own kinds, for a wrong header, a length, a number format
        raise ValueError(f"{where} is torn, or no safetensors file: {error}") from None


def _fill(model: Classifier, weights: dict[str, Tensor], source: str) -> None:
    """Copy each parameter but the head's by its name, after all names and shapes were checked."""
    wanted = {
        name: parameter for name, parameter in model.named_parameters() if not name.startswith(HEAD)
    }
    for name, parameter in wanted.items():
        found = weights.get(name)
        shape = "is missing" if found is None else f"has shape {tuple(found.shape)}"
        if found is None or found.shape != parameter.shape:
            raise ValueError(
                f"{source}: these are weights of another model: {name} {shape}, and this one "
                f"needs {tuple(parameter.shape)}"
            )
    for name, parameter in wanted.items():
        parameter.data.copy_(weights[name])
