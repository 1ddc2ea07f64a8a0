"""The tokenizer and the model that train_lm_trainer trains: given ones, or tiny new ones.

Needs ``transformers``, and loads it where it is used.
"""

from pathlib import Path
from typing import Any, cast

import torch

from rankbook.data.hub import unreachable
from rankbook.data.sources import need
from rankbook.programs.train_lm_trainer.options import Options

TINY: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}


def load(options: Options) -> tuple[Any, Any]:
    """The tokenizer and the model: those of ``--model``, or bytes and a tiny, new Llama."""
    for package in ("numpy", "transformers", "accelerate"):
        need(package, "transformers' Trainer")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if options.model is None:
        return tiny(options.seed)
    folder = Path(options.model).is_dir()
    # left alone, transformers asks a hub that does not answer for 50 s
    silent = "" if folder else unreachable(f"{options.model}/resolve/main/config.json")
    here = folder or bool(silent)
    try:
        tokenizer = AutoTokenizer.from_pretrained(options.model, local_files_only=here)
        model = AutoModelForCausalLM.from_pretrained(options.model, local_files_only=here)
    except (OSError, ValueError) as error:
        why = silent or str(error).strip().splitlines()[0]
        raise ValueError(
            f"--model {options.model} is no folder with a causal language model and its tokenizer, "
            f"and the hub gave none: {why}"
        ) from error
    tokenizer = cast(Any, tokenizer)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    longest = getattr(model.config, "max_position_embeddings", options.length)
    if options.length > longest:
        raise ValueError(f"--length {options.length}: {options.model} takes {longest} at most")
    return tokenizer, model


def tiny(seed: int) -> tuple[Any, Any]:
    """A tokenizer whose tokens are bytes, which needs no file, and a Llama of 150,000 parameters.

    The same parameters on every rank: DDP would make them so, from those of rank 0.
    """
    from transformers import ByT5Tokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = ByT5Tokenizer(extra_ids=0)
    ids: dict[str, Any] = {"vocab_size": len(tokenizer), "bos_token_id": None}
    ids |= {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    torch.manual_seed(seed)
    return tokenizer, LlamaForCausalLM(LlamaConfig(**ids, **TINY))
