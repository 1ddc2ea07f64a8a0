"""A causal language model, trained by transformers' Trainer on the lines of a text.

python -m rankbook.programs.train_lm_trainer --train-file FILE
torchrun --standalone --nproc-per-node 2 -m rankbook.programs.train_lm_trainer --train-file FILE
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.train_lm_trainer.run import main

__getattr__, __dir__ = attach(__name__, __file__)
