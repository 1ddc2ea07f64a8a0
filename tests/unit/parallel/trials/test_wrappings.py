"""A wrapping is one object; a name that is not one is refused before anything is wrapped."""

import pytest
import torch
from torch.distributed.device_mesh import DeviceMesh

from rankbook.models import TransformerLM, preset
from rankbook.parallel.trials import WRAPPINGS, wrap
from rankbook.parallel.trials.wrappings import KNOWN, find_wrapping


def test_every_wrapping_is_found_by_its_name():
    assert [find_wrapping(name).name for name in WRAPPINGS] == list(KNOWN)
    by_hand = [name for name in WRAPPINGS if find_wrapping(name).average_after_step]
    assert by_hand == ["all_reduce after step"]


@pytest.mark.parametrize("name", ["", "ddp", "fully_shard all", "DDP no_sync"])
def test_a_wrapping_that_is_not_known_is_refused(name):
    """It would be recorded as silently wrong, if the module came back unwrapped."""
    with torch.device("meta"):
        stage = TransformerLM(preset("tiny", vocab_size=9))
    mesh = DeviceMesh.__new__(DeviceMesh)  # nobody may ask it for anything
    with pytest.raises(ValueError, match=f"wrapping '{name}' is unknown; use all_reduce after"):
        wrap(stage, name, mesh)
