"""The stand-in for torchft's manager: what it answers without ranks."""

import pytest
import torch

from rankbook.parallel.sync.torchft_manager import GroupManager


def test_every_meeting_is_committed_and_counted():
    manager = GroupManager()
    assert manager.current_step() == 0
    assert manager.should_commit() and manager.current_step() == 1


def test_quantized_means_are_refused():
    with pytest.raises(ValueError, match="leave should_quantize False"):
        GroupManager().allreduce(torch.ones(1), should_quantize=True)
