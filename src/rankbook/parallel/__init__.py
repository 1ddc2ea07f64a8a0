"""How ranks share one training: data, pipeline, tensor, context and expert parallelism.

`replicas`: data parallelism. `pipeline`: stages and schedules. `context`: long sequences. `mesh`:
all of them at once. `joining`: uneven inputs. `sync`: replicas that exchange seldom, or little.
`trials`: are the gradients those of one process?
"""
