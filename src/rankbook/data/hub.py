"""The Hugging Face hub, asked once and briefly: a machine without a network must not wait for it.

Left alone, the hub's own clients retry for 23 s (datasets) to 50 s (transformers) before they
give up. So one short request goes first; without an answer only the local hub cache is asked.
``HF_ENDPOINT`` names a mirror; ``HF_HUB_OFFLINE=1`` sends no request at all.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rankbook.data.sources import Absent

TIMEOUT_S = 3.0


def dataset(repo: str, config: str):
    """Return the ``datasets.DatasetDict`` of the hub's `repo`, and words that say where it was.

    config: the name of one of its data sets, as "wikitext-2-raw-v1".

    Raises Absent when ``datasets`` is missing, or neither the hub nor its local cache has `repo`.
    """
    offline = unreachable(f"datasets/{repo}/resolve/main/README.md")
    try:
        import datasets
    except ImportError:
        raise Absent("the package datasets is not installed") from None
    with _quiet(offline):
        try:
            return datasets.load_dataset(repo, config), f"{repo} of the Hugging Face hub"
        except Exception as error:  # whatever the hub's reason, the next source is the cure
            raise Absent(_reason(offline, repo, error)) from error


def file(repo: str, name: str) -> tuple[bytes, str]:
    """Return the content of the file `name` of the hub's model `repo`, and words for where it was.

    Raises Absent when ``transformers`` is missing, or neither the hub nor its cache has the file.
    """
    offline = unreachable(f"{repo}/resolve/main/{name}")
    try:
        from transformers.utils import cached_file
    except ImportError:
        raise Absent("the package transformers is not installed") from None
    try:
        path = cached_file(repo, name, local_files_only=bool(offline))
    except Exception as error:  # as above
        raise Absent(_reason(offline, repo, error)) from error
    if path is None:
        raise Absent(f"{repo} has no file {name}")
    return Path(path).read_bytes(), f"{repo} of the Hugging Face hub"


def unreachable(path: str) -> str:
    """Return why the hub cannot be used for `path`; an empty string when it can.

    Name look-ups know no time-out, so the request has a thread that may be left behind.
    """
    try:
        from huggingface_hub import constants, get_session
    except ImportError:
        return "the package huggingface_hub is not installed"
    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    status: list[int] = []

    def ask() -> None:
        with suppress(Exception):  # no name, no route, no certificate: all are no answer
            answer = get_session().head(f"{constants.ENDPOINT}/{path}", timeout=TIMEOUT_S)
            status.append(answer.status_code)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(TIMEOUT_S)
    if not status:
        return "the hub did not answer"
    return "" if status[0] < 400 else f"the hub answered {status[0]}"


def _reason(offline: str, repo: str, error: Exception) -> str:
    return offline or f"{repo} could not be loaded from the hub: {type(error).__name__}"


@contextmanager
def _quiet(offline: str) -> Iterator[None]:
    """Keep ``datasets`` from drawing bars and, if `offline`, from asking the hub; then undo it."""
    from datasets import config, logging, utils

    verbosity, was_offline = logging.get_verbosity(), config.HF_HUB_OFFLINE
    bars = utils.are_progress_bars_disabled()
    logging.set_verbosity_error()
    utils.disable_progress_bars()
    config.HF_HUB_OFFLINE = bool(offline) or was_offline
    try:
        yield
    finally:
        config.HF_HUB_OFFLINE = was_offline
        logging.set_verbosity(verbosity)
        if not bars:
            utils.enable_progress_bars()
