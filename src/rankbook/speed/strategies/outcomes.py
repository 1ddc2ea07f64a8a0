"""The outcome of a global batch under a strategy, whole on every rank, for `speed.proof`."""

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from rankbook.core.agreement import gather
from rankbook.speed.batches import Batch
from rankbook.speed.proof import Outcome
from rankbook.speed.strategies.strategy import Strategy


def outcome_on_ranks(trained: Strategy, batch: Batch) -> Outcome:
    """Loss, logits and averaged gradients of one step on `batch`, put together from all ranks.

    All ranks have to call it; it is a whole step, so the parameters change after it. Gradients are
    those that the optimizer finds.
    """
    seen: dict[str, dict[int, Tensor]] = {"logits": {}}
    gradients: dict[str, Tensor] = {}
    share, update = trained.share(batch), trained.update

    def note_logits(module, inputs, logits):
        rows = zip(share.samples.tolist(), logits.detach().double().cpu(), strict=True)
        seen["logits"] = dict(rows)

    def note_gradients():
        for name, parameter in trained.model.named_parameters():
            gradients[name.removeprefix("module.")] = whole_gradient(parameter).double().cpu()
        update()

    hook = trained.model.register_forward_hook(note_logits)
    trained.update = note_gradients
    try:
        loss = trained.step(batch).item()
    finally:
        hook.remove()
        trained.update = update
    by_sample = seen["logits"]
    if trained.ranks > 1:
        by_sample = {k: v for each in gather(by_sample) for k, v in each.items()}
    logits = torch.stack([by_sample[sample] for sample in batch.samples.tolist()])
    return Outcome(loss, logits, gradients)


def whole_gradient(parameter: Tensor) -> Tensor:
    """The gradient of `parameter` after the backward pass, put together from its shards."""
    if hasattr(parameter, "ds_id") or hasattr(parameter, "_hp_mapping"):  # DeepSpeed's
        from deepspeed.utils import safe_get_full_grad

        found = safe_get_full_grad(parameter)
    else:
        found = parameter.grad
    if found is None:
        return torch.zeros_like(parameter)
    return found.full_tensor() if isinstance(found, DTensor) else found.detach().clone()
