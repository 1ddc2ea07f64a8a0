"""The shape of a model from its Hugging Face config.json, read without any library."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.plan.families import ENCODERS, EXPERTS, FAMILIES, KEYS, Family
from rankbook.predict.plan.model import SEQUENCE, Model
from rankbook.predict.plan.quantities import short

LARGEST = 10**9  # of a size; beyond, a config is no model's


def shape_from_config(path: Path | str, sequence: int = 0) -> ModelShape:
    """The shape in a config.json, or in the folder that has one; see `model_from_config`."""
    return model_from_config(path, sequence).shape


def model_from_config(path: Path | str, sequence: int = 0) -> Model:
    """The model that a Hugging Face config.json describes.

    sequence: tokens it will be trained on, 0 for 4,096 or the longest it can. Raises ValueError, in
    one sentence, for a file that is none, for a model of another kind, and for a size that is
    missing.
    """
    file = Path(path)
    file = file / "config.json" if file.is_dir() else file
    return model_of(_load(file), file.name, sequence)


def model_of(config: Mapping[str, Any], source: str, sequence: int = 0) -> Model:
    """The model of a config that has been read; `source` names it in sentences."""
    assumed = []
    if isinstance(config.get("text_config"), Mapping) and not _has_sizes(config):
        config = config["text_config"]
        assumed.append("the language model alone, of text_config; images and sound are left out")
    kind = str(config.get("model_type") or "llama")
    if "model_type" not in config:
        assumed.append("no model_type is given: read as a llama's")
    family = _family(kind, config, source)
    sizes = {name: _size(config, key, source, name) for name, key in family.keys.items()}
    shape = _shape(config, family, sizes, source, sequence, assumed)
    extra = family.extra(shape, config)
    if extra:
        assumed.append(f"{short(extra)} parameters ({family.what}) count in the states alone")
    return Model(f"{kind} of {source}", shape, shape.parameters + extra, tuple(assumed))


def _load(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no file {file}; name a config.json, or its folder") from None
    except OSError as error:
        raise ValueError(f"{file} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):  # the second: brackets in brackets, without an end
        raise ValueError(f"{file} is not JSON; name the config.json of a model") from None
    if not isinstance(found, dict):
        raise ValueError(f"{file} has no names in it, as a config.json has; name another file")
    return found


def _count(value: Any) -> int:
    """Of experts, however it is written; 0 for none."""
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        return 2  # a list, one for each layer: experts all the same


def _has_sizes(config: Mapping[str, Any]) -> bool:
    return any(key in config for key in ("hidden_size", "n_embd"))


def _family(kind: str, config: Mapping[str, Any], source: str) -> Family:
    if any(_count(config.get(key)) > 1 for key in EXPERTS):
        raise ValueError(
            f"{source} is a {kind} with experts, which no layout here shares out; "
            "--params with its number of parameters gives the model's states"
        )
    if kind in FAMILIES:
        return FAMILIES[kind]
    encoder = config.get("is_encoder_decoder") or any(word in kind for word in ENCODERS)
    why = "has an encoder, and plans are for decoder-only models" if encoder else "is unknown"
    raise ValueError(
        f"{source}: model_type {kind!r} {why}; known are {', '.join(FAMILIES)}. For any other, "
        "use --params or --module"
    )


def _size(config: Mapping[str, Any], key: str, source: str, name: str) -> int:
    value = config.get(key)
    if value is None and name == "feed_forward" and key == "n_inner":
        return 4 * _size(config, "n_embd", source, "hidden")
    if value is None and name == "longest" and key in KEYS.values():
        return 0  # nothing in the model depends on it
    if value is None:
        raise ValueError(f"{source} has no {key}; add it, or use --params for the states alone")
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= LARGEST:
        raise ValueError(
            f"{source}: {key} is {repr(value)[:40]}; it must be a whole number from 1 to 10^9"
        )
    return value


def _yes_or_no(config: Mapping[str, Any], key: str, source: str, usual: bool) -> bool:
    value = config.get(key)
    if value is None:
        return usual
    if not isinstance(value, bool):
        raise ValueError(f"{source}: {key} is {repr(value)[:40]}; it must be true or false")
    return value


def _shape(
    config: Mapping[str, Any],
    family: Family,
    sizes: dict[str, Any],
    source: str,
    sequence: int,
    assumed: list[str],
) -> ModelShape:
    longest = sizes.pop("longest")
    if config.get("word_embed_proj_dim", sizes["hidden"]) != sizes["hidden"]:
        raise ValueError(f"{source}: an embedding narrower than the layers is not known here")
    for name, key in (("kv_heads", "num_key_value_heads"), ("head_size", "head_dim")):
        if config.get(key) is not None:
            sizes[name] = _size(config, key, source, name)
    tied = _yes_or_no(config, "tie_word_embeddings", source, family.tied)
    biases = family.biases and all(
        _yes_or_no(config, key, source, True) for key in ("use_bias", "enable_bias")
    )
    try:
        return ModelShape(
            **sizes,
            sequence=_sequence(sequence, longest, family, source, assumed),
            gated=family.gated,
            tied=tied,
            biases=biases,
            positions=family.positions,
            relu=config.get("activation_function") == "relu",
        )
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None


def _sequence(wanted: int, longest: int, family: Family, source: str, assumed: list[str]) -> int:
    """Tokens of a sequence; longest: that the model can, 0 if any. Raises ValueError."""
    if not wanted:
        wanted = min(SEQUENCE, longest or SEQUENCE)
        assumed.append(f"sequences of {wanted} tokens (--sequence)")
    elif longest and wanted > longest:
        if family.positions:
            raise ValueError(f"it has positions for {longest} tokens; use --sequence {longest}")
        assumed.append(f"sequences are longer than the {longest} tokens of the config")
    return wanted
