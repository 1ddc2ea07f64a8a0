"""config.json of fifteen families, against the models of transformers; and what is refused."""

import json

import pytest

from rankbook.predict.plan import model_from_config, shape_from_config
from rankbook.predict.plan.configs import model_of
from rankbook.predict.plan.families import FAMILIES

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
}
SMALL = {
    **dict.fromkeys(("hidden_size", "n_embd", "word_embed_proj_dim"), 128),
    **dict.fromkeys(("num_hidden_layers", "n_layer"), 3),
    **dict.fromkeys(("intermediate_size", "ffn_dim"), 320),
    **dict.fromkeys(("num_attention_heads", "n_head"), 8),
    **{"num_key_value_heads": 2, "head_dim": 24, "vocab_size": 1000},
}


def written(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    return folder / "config.json"


@pytest.mark.slow  # imports transformers
@pytest.mark.parametrize("kind", FAMILIES)
def test_parameters_are_those_of_transformers(kind):
    """Exactly, with sizes that no two of a model share."""
    transformers = pytest.importorskip("transformers")
    import torch

    usual = transformers.AutoConfig.for_model(kind).to_dict()
    small = {name: size for name, size in SMALL.items() if name in usual}
    config = transformers.AutoConfig.for_model(kind, **small, pad_token_id=0)
    with torch.device("meta"):
        whole = transformers.AutoModelForCausalLM.from_config(config)
    model = model_of(config.to_dict(), "config.json", 512)
    assert model.parameters == sum(p.numel() for p in whole.parameters())
    assert model.shape.layers == 3 and model.shape.hidden == 128 and model.shape.heads == 8


def test_llama_3_8b(tmp_path):
    model = model_from_config(written(tmp_path, LLAMA))
    assert model.parameters == 8_030_261_248 and model.shape.sequence == 4096
    assert model.shape == shape_from_config(tmp_path)  # a folder will do
    assert "sequences of 4096 tokens (--sequence)" in model.assumed


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hidden_size": None}, "config.json has no hidden_size; add it, or use --params"),
        ({"vocab_size": "many"}, "config.json: vocab_size is 'many'; it must be a whole number"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0; it must be a whole number from 1"),
        ({"hidden_size": 4096 * 10**9}, "hidden_size is 4096000000000; it must be a whole number"),
        ({"tie_word_embeddings": "false"}, "tie_word_embeddings is 'false'; it must be true or f"),
        ({"num_experts": "8"}, "is a llama with experts, which no layout here shares out"),
        ({"num_experts": [8, 8]}, "is a llama with experts, which no layout here shares out"),
        ({"hidden_size": 4100}, "config.json: a hidden size of 4100 is not divisible by 32 heads"),
        ({"num_key_value_heads": 5}, "32 heads cannot share 5 heads of keys and values evenly"),
        ({"model_type": "bert"}, "'bert' has an encoder, and plans are for decoder-only models"),
        ({"model_type": "mamba"}, "model_type 'mamba' is unknown; known are llama, mistral"),
        ({"num_local_experts": 8}, "is a llama with experts, which no layout here shares out"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, change, says):
    config = {k: v for k, v in (LLAMA | change).items() if v is not None}
    with pytest.raises(ValueError) as error:
        model_from_config(written(tmp_path, config))
    assert says in str(error.value) and "\n" not in str(error.value)


def test_files_that_are_none(tmp_path):
    with pytest.raises(ValueError, match=r"there is no file .*config\.json; name a config"):
        model_from_config(tmp_path)
    for text, says in (
        ("{", "is not JSON"),
        ("[1]", "has no names in it"),
        ("\xff", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ):
        (tmp_path / "config.json").write_bytes(text.encode("latin-1"))
        with pytest.raises(ValueError, match=says):
            model_from_config(tmp_path)


def test_longer_than_it_can(tmp_path):
    assert "longer than the 8192 tokens" in " ".join(model_of(LLAMA, "c", 16384).assumed)
    learned = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12}
    learned |= {"vocab_size": 50257, "n_positions": 1024}
    assert model_of(learned, "c").shape.sequence == 1024
    with pytest.raises(
        ValueError, match="c: it has positions for 1024 tokens; use --sequence 1024"
    ):
        model_of(learned, "c", 2048)


def test_null_is_not_said():
    config = LLAMA | {"num_key_value_heads": None, "head_dim": None, "tie_word_embeddings": None}
    shape = model_of(config, "c").shape
    assert not shape.kv_heads and not shape.head_size and not shape.tied
    opt = {"model_type": "opt", "hidden_size": 512, "ffn_dim": 2048, "vocab_size": 50272}
    opt |= {"num_hidden_layers": 2, "num_attention_heads": 8, "max_position_embeddings": None}
    assert model_of(opt, "c").shape.sequence == 4096


def test_what_is_not_said_is_assumed():
    config = {name: value for name, value in LLAMA.items() if name != "model_type"}
    assert "no model_type is given: read as a llama's" in model_of(config, "c").assumed
    both = model_of({"model_type": "llava", "text_config": LLAMA}, "c")
    assert both.parameters == 8_030_261_248 and "of text_config" in both.assumed[0]
