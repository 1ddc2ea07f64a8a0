"""How many ranks each kind of parallelism gets, and the mesh that they make."""

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a plan for ranks that are not there yet is made without torch
    from torch.distributed.device_mesh import DeviceMesh

    from rankbook.models.transformer import TransformerConfig

# in the order of the mesh: what talks most has neighbours
DIMENSIONS = {
    "pp": "the stages of a pipeline",
    "dp": "replicas, each with a share of the batch",
    "ep": "replicas too, among which the experts are divided",
    "cp": "parts of each sequence",
    "tp": "parts of each layer",
}
ALWAYS = "pp", "dp", "tp"  # dimensions of every mesh, whatever their sizes


@dataclass(frozen=True)
class Layout:
    """A mesh of ranks: `pp` stages x `dp` replicas x `tp` parts of each layer.

    cp: parts of each sequence. ep: replicas that hold different experts, and all else alike.
    shard: how many replicas share one copy of parameters, gradients and optimizer state. 1: none
    do, each has its own (gradients are averaged by all_reduce); dp: all do (FSDP2); between: groups
    of as many do (HSDP). Raises ValueError for what cannot be.
    """

    pp: int = 1
    dp: int = 1
    tp: int = 1
    shard: int = 1
    cp: int = 1
    ep: int = 1

    def __post_init__(self):
        for name in DIMENSIONS:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")
        if self.shard < 1 or self.dp % self.shard:
            raise ValueError(
                f"groups of {self.shard} that share one copy do not divide dp={self.dp}; "
                "use a divisor of it, none or fsdp"
            )

    @classmethod
    def parse(cls, text: str, shard: str = "none") -> "Layout":
        """From "pp=2,dp=2,tp=2"; a dimension that is left out is 1.

        shard: "none", "fsdp", or how many replicas share one copy. Raises ValueError, in one
        sentence, for anything else.
        """
        sizes: dict[str, int] = {}
        for word in filter(None, (word.strip() for word in text.split(","))):
            name, equals, size = (part.strip() for part in word.partition("="))
            if name not in DIMENSIONS or not equals:
                known = ", ".join(f"{n} ({about})" for n, about in DIMENSIONS.items())
                raise ValueError(f"{word!r} names no dimension of a mesh; there are {known}")
            if name in sizes:
                raise ValueError(f"{name} is given twice in {text!r}; give it once")
            sizes[name] = _count(size, name)
        return cls(**sizes, shard=_shard(shard, sizes.get("dp", 1)))

    def __str__(self) -> str:
        """As `parse` reads it; a mesh of one rank is "dp=1"."""
        return ",".join(f"{n}={size}" for n, size in self.sizes.items() if size > 1) or "dp=1"

    @property
    def sizes(self) -> dict[str, int]:
        """The dimensions of its mesh and their sizes: `ALWAYS`, and those that it uses besides."""
        sizes = {name: getattr(self, name) for name in DIMENSIONS}
        return {name: size for name, size in sizes.items() if name in ALWAYS or size > 1}

    @property
    def ranks(self) -> int:
        """How many ranks it takes."""
        return prod(self.sizes.values())

    @property
    def replicas(self) -> int:
        """Into how many shares the batch is cut."""
        return self.dp * self.ep

    def replica(self, mesh: "DeviceMesh") -> int:
        """Which share of the batch is this rank's; mesh: `self.mesh(...)`."""
        dp = mesh["dp"].get_local_rank()
        return dp * self.ep + (mesh["ep"].get_local_rank() if self.ep > 1 else 0)

    def mesh(self, device_type: str) -> "DeviceMesh":
        """The mesh of its `sizes`: (pp, dp, tp), with ep and cp before tp where they are used.

        device_type: "cpu" or "cuda". Ranks that differ in tp only are neighbours: on one node, as
        they talk in every layer. Raises ValueError where the world has another size.
        """
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh

        world = dist.get_world_size()
        if world != self.ranks:
            raise ValueError(
                f"the mesh {self} needs {self.ranks} ranks, but world_size is {world}; "
                "start as many, or change the mesh"
            )
        names, sizes = zip(*self.sizes.items(), strict=True)
        return init_device_mesh(device_type, sizes, mesh_dim_names=names)

    def sharing(self, mesh: "DeviceMesh") -> "DeviceMesh":
        """What `fully_shard` takes: of `self.mesh(...)`, the replicas, in groups if HSDP's."""
        if self.shard == self.dp:
            return mesh["dp"]
        sizes = self.dp // self.shard, self.shard
        # torch 2.13 has no public name for it
        return mesh._unflatten("dp", sizes, ("replicate", "shard"))["replicate", "shard"]

    def check_model(self, config: "TransformerConfig") -> None:
        """Raise ValueError if the tensor dimension does not cut `config` into equal parts.

        The vocabulary alone may be cut unequally. (Stages are the pipeline plan's to check.) Nor
        can weights of an attention that is cut be dropped, or experts be divided unequally.
        """
        self._check_experts(config)
        if self.cp > 1 and config.dropout:
            raise ValueError(
                f"cp={self.cp} cuts the attention, whose weights cannot be dropped then, and the "
                f"model's dropout is {config.dropout}; use a model without dropout, or cp=1"
            )
        for name in ("heads", "d_hidden"):
            if getattr(config, name) % self.tp:
                raise ValueError(
                    f"tp={self.tp} does not divide the model's {name}, {getattr(config, name)}; "
                    "each rank needs as many whole ones: choose a divisor"
                )

    def _check_experts(self, config: "TransformerConfig") -> None:
        if self.ep > 1 and not config.experts:
            raise ValueError(
                f"ep={self.ep} divides experts, and the model has none; use dp={self.ep}, or a "
                "model with experts"
            )
        each = self.ep * self.shard
        if self.ep > 1 and config.experts % each:
            groups = f"ep={self.ep}" + f" x {self.shard} that share a copy" * (self.shard > 1)
            raise ValueError(
                f"{groups} cannot hold equally many of {config.experts} experts; "
                f"use a number of experts that is a multiple of {each}, or another ep"
            )
        if config.experts and config.capacity is not None and self.cp * self.tp > 1:
            raise ValueError(
                f"an expert's capacity is counted over whole sequences, and the mesh {self} cuts "
                "them; leave out the capacity, or use cp=1 and tp=1"
            )

    def check_window(self, window: int) -> None:
        """Raise ValueError if sequences of `window` tokens are not cut into equal parts.

        By cp each is cut into twice as many as there are ranks: an early one and a late one each.
        """
        if self.cp > 1 and window % (2 * self.cp * self.tp):
            parts = f"2 x cp={self.cp}" + f" x tp={self.tp}" * (self.tp > 1)
            raise ValueError(
                f"sequences of {window} tokens are not cut into {parts} equal parts; "
                f"use a multiple of {2 * self.cp * self.tp}"
            )
        if window % self.tp:
            raise ValueError(
                f"tp={self.tp} does not divide sequences of {window} tokens, and between its "
                f"layers a rank keeps a part of each; use a multiple of {self.tp}"
            )


def _count(size: str, name: str) -> int:
    if not size.isdecimal() or int(size) < 1:
        raise ValueError(f"{name}={size} is no whole number of 1 or more")
    return int(size)


def _shard(text: str, dp: int) -> int:
    if text in ("none", "fsdp"):
        return dp if text == "fsdp" else 1
    if not text.isdecimal():
        raise ValueError(f"shard {text!r} is unknown; use none, fsdp, or how many share one copy")
    return int(text)
