"""Error feedback: what a message leaves out is added to the next one, and nothing is lost.

Source: F. Seide et al., https://doi.org/10.21437/Interspeech.2014-274, and S. P. Karimireddy et
al., https://arxiv.org/abs/1901.09847.
"""

from collections.abc import Hashable

import torch

from rankbook.parallel.sync.compressors import Compressor


class ErrorFeedback:
    """A compressor that remembers: of each vector, what its messages so far have not said.

    All that was given for a key is what its messages say, added up, plus `residual[key]`.
    """

    def __init__(self, compressor: Compressor):
        self.compressor = compressor
        self.residual: dict[Hashable, torch.Tensor] = {}

    def pack(self, key: Hashable, vector: torch.Tensor) -> torch.Tensor:
        """The message for `vector`, (length,), and what is left over from those before it.

        key: which vector of a model it is; each has a residual of its own.
        """
        wanted = vector.float()
        if key in self.residual:
            wanted = wanted + self.residual[key]
        message = self.compressor.pack(wanted)
        self.residual[key] = wanted - self.compressor.unpack(message, len(vector))
        return message
