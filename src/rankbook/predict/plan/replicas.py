"""Messages among replicas: gradients, parameters, and what of it no work hides.

P: parameters of a rank before they are cut. Source: https://arxiv.org/abs/1910.02054, section 7.
"""

from dataclasses import dataclass

from rankbook.comm.ring_model import half_ring, ring
from rankbook.predict.memory.states import widths
from rankbook.predict.memory.terms import Term
from rankbook.predict.plan.work import Work

BUCKET = 25 * 2**20  # bytes of gradients that DDP averages at once


@dataclass(frozen=True)
class Replicas:
    """What the ranks of a mesh that hold the same part send each other in a step."""

    work: Work

    def exposed(self, behind: float) -> Term:
        """What `behind`, seconds of work, does not hide.

        Of its backward pass, the last microbatch's for zero 0 and 1.
        """
        setup, m = self.work.setup, self.work.setup.microbatches
        if setup.dp == 1:
            return Term(0.0, "no other replica")
        hidden = self.work.machines.assumed.hidden * behind
        backward = hidden * 2 / 3
        gradients, values = self.messages()
        hides = "backward hides"
        match setup.zero:
            case 0:
                seconds, said = max(0.0, 2 * gradients - backward / m), "all_reduce of w P"
            case 1:
                seconds = max(0.0, gradients - backward / m) + values
                said = "reduce_scatter of w P, then all_gather of w P"
            case 2:
                seconds = max(0.0, m * gradients - backward) + values
                said = "m reduce_scatters of w P, then all_gather of w P"
            case _:
                gathers = 2 if setup.reshard else 1
                first = values / max(1, self.work.layers)  # nothing is there to hide it behind
                seconds = max(first, m * (gathers * values + gradients) - hidden)
                said = f"m ({gathers} all_gathers + reduce_scatter) of w P"
                hides = "both passes hide"
        return Term(seconds + self.copies(), f"{said}, less what {hides}")

    def messages(self) -> tuple[float, float]:
        """Seconds of a reduce_scatter of all gradients, of an all_gather of all parameters."""
        work, setup = self.work, self.work.setup
        n = setup.sharing if setup.zero else setup.dp
        link = work.machines.link(n, setup.tp)
        gradients = work.parameters * widths(setup.precision).gradient
        calls = work.layers if setup.zero > 1 else max(1.0, gradients / BUCKET)
        values = work.parameters * work.width
        return half_ring(n, gradients, link, calls), half_ring(n, values, link, calls)

    def copies(self) -> float:
        """Seconds of averaging among groups that each have a copy (HSDP): once a step.

        FSDP2 does it for every microbatch unless `set_requires_all_reduce(False)` says otherwise.
        """
        work, setup = self.work, self.work.setup
        groups = setup.dp // setup.sharing
        if groups == 1 or not setup.zero:
            return 0.0
        mine = work.parameters * widths(setup.precision).gradient / setup.sharing
        return ring(groups, mine, work.machines.link(groups, setup.tp * setup.sharing))
