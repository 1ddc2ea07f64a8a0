"""From a model and machines to a layout: what fits, how long a step takes, why the others lose.

::

    machines = Machines(find_card("h200"), gpus=64)
    plans = best_plans(shape_from_params(70e9), machines, batch_tokens=4e6)
    plans.best[0].setup, plans.best[0].time.lines()
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.predict.plan.configs import model_from_config, shape_from_config
    from rankbook.predict.plan.machines import (
        Assumptions,
        Card,
        Machines,
        cards,
        find_card,
        make_card,
    )
    from rankbook.predict.plan.model import Model
    from rankbook.predict.plan.reasons import why_it_lost
    from rankbook.predict.plan.search import Plan, Plans, best_plans
    from rankbook.predict.plan.shapes import shape_from_params
    from rankbook.predict.plan.step import idle_share, step_time

__getattr__, __dir__ = attach(__name__, __file__)
