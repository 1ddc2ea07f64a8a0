"""Why a cell or a launch failed: one model of how ranks end, one judge, one report.

`ending` is what is known of a rank, `blame` decides who is the cause, `report` says it. What the
live ranks and the launches of torchrun know comes in through `ranks.report` and `torchrun.report`.
"""
