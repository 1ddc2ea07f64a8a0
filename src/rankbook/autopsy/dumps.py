"""Files that others wrote: dumps of the flight recorder, and torchrun's error files."""

import io
import json
import pickle
import re
from pathlib import Path
from typing import Any, NoReturn


class _Plain(pickle.Unpickler):
    """Dicts, lists, strings and numbers, and nothing that could run: a dump has no more."""

    def find_class(self, module_name: str, global_name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")


def load_dump(data: bytes) -> dict[str, Any]:
    """A flight recorder's dump, as JSON or as the pickle that NCCL's watchdog writes.

    Raises ValueError if it is neither, or a pickle that would run code: none of it has run then.
    """
    try:
        dump = json.loads(data) if data.lstrip()[:1] == b"{" else _Plain(io.BytesIO(data)).load()
    except Exception as error:  # a pickle that is torn, or worse, raises almost anything
        raise ValueError(f"no dump of the flight recorder: {error}") from None
    if not isinstance(dump, dict) or not isinstance(dump.get("entries"), list):
        raise ValueError("no dump of the flight recorder: it has no entries")
    return dump


def members(dump: dict[str, Any]) -> dict[str, list[int]]:
    """The ranks of each group, by its name, where the dump says them; gloo's does not."""
    said = {}
    for name, group in dump.get("pg_config", {}).items():
        if ranks := re.findall(r"\d+", str(group.get("ranks", ""))):
            said[str(group.get("name") or name)] = sorted(map(int, ranks))
    return said


def rank_of(path: Path) -> int | None:
    """The rank in the name of a dump's file: its last number (``nccl_trace_rank_3``)."""
    numbers = re.findall(r"\d+", path.stem if path.suffix in (".json", ".pickle") else path.name)
    return int(numbers[-1]) if numbers else None


def error_file(path: Path) -> tuple[int | None, str]:
    """The local rank and the message of one of torchrun's error files, ``.../0/error.json``.

    Raises ValueError if it is none. Source of the form:
    https://docs.pytorch.org/docs/stable/elastic/errors.html
    """
    try:
        message = json.loads(path.read_text("utf-8"))["message"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"no error file of torchrun: {error}") from None
    text = message.get("message", "") if isinstance(message, dict) else message
    local = path.parent.name
    return (int(local) if local.isdecimal() else None), str(text)
