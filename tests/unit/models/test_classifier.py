"""The classifier: transformers' DistilBERT to the bit that counts, and the same without padding."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.flop_counter import FlopCounterMode

from rankbook.models import Classifier, ClassifierConfig
from rankbook.models import attention as ways
from rankbook.models.attention import ATTENTION

LENGTHS = torch.tensor([5, 40, 17, 1])
SMALL = {"vocab_size": 100, "d_model": 32, "d_hidden": 48, "heads": 4, "layers": 2}
NO_DROPOUT = {"dropout": 0.0, "attention_dropout": 0.0, "head_dropout": 0.0}


def small(**changes) -> ClassifierConfig:
    return ClassifierConfig(**(SMALL | {"max_length": 40} | NO_DROPOUT | changes))


@pytest.fixture(scope="module")
def texts():
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(1, 100, (int(n),), generator=generator) for n in LENGTHS]


@pytest.fixture(scope="module")
def padded(texts):
    return pad_sequence(texts, batch_first=True), torch.arange(40) < LENGTHS[:, None]


@pytest.fixture(scope="module")
def packed(texts):
    offsets = torch.tensor([0, *LENGTHS]).cumsum(0).int()
    return torch.cat(texts), None, offsets, 40


def gradients(model: Classifier, inputs) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    model.zero_grad()
    logits = model(*inputs)
    logits.square().sum().backward()
    return logits.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def large(model: Classifier) -> Classifier:
    """Ten times DistilBERT's first weights, so that attention is far from even."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(10)
    return model


@pytest.mark.parametrize("attention", ATTENTION)
def test_it_is_transformers_distilbert(attention, padded):
    transformers = pytest.importorskip("transformers")
    config = small()
    theirs = transformers.DistilBertForSequenceClassification(
        transformers.DistilBertConfig(
            vocab_size=config.vocab_size,
            dim=config.d_model,
            hidden_dim=config.d_hidden,
            n_heads=config.heads,
            n_layers=config.layers,
            max_position_embeddings=config.max_length,
        )
    ).eval()
    ours = large(Classifier(config, attention=attention).initialise(1)).eval()
    theirs.load_state_dict(ours.state_dict())  # strict: the very same names and shapes
    ids, mask = padded
    expected = theirs(ids, attention_mask=mask).logits
    assert expected.std() > 0.1, "logits that are all alike would prove nothing"
    torch.testing.assert_close(ours(ids, mask), expected, atol=1e-5, rtol=1e-5)


def test_defaults_are_distilberts():
    with torch.device("meta"):
        model = Classifier(ClassifierConfig())
    assert sum(parameter.numel() for parameter in model.parameters()) == 66_955_010


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("path", ["_one_by_one", "_padded_inside", "_jagged"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_packed_is_padded(monkeypatch, path, attention, padded, packed):
    if path == "_jagged":
        monkeypatch.setattr(ways, "_one_by_one", lambda *a: ways._jagged(*a[:4], a[5]))
    else:
        monkeypatch.setattr(ways, "_one_by_one", getattr(ways, path))
    model = large(Classifier(small(), attention=attention).initialise(2))
    expected, expected_gradients = gradients(model, padded)
    logits, found = gradients(model, packed)
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    for name, gradient in found.items():
        scale = expected_gradients[name].abs().max().clamp(min=1)
        torch.testing.assert_close(gradient, expected_gradients[name], atol=1e-5 * scale, rtol=1e-5)


@pytest.mark.parametrize("attention", ATTENTION)
def test_what_pads_does_not_matter(attention, padded):
    ids, mask = padded
    model = Classifier(small(), attention=attention).initialise(3)
    others = torch.where(mask, ids, 7)
    torch.testing.assert_close(model(others, mask), model(ids, mask))
    alone = model(ids[:1, : LENGTHS[0]])  # without padding there need be no mask
    torch.testing.assert_close(model(ids[:1], mask[:1]), alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("attention", ATTENTION)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_is_never_asked(attention, dtype):
    # Tensors on "meta" have no values: whatever has to look at one raises. In 16 bits this is
    # varlen_attn. Nested tensors, which 32 bits need, do not run on "meta".
    model = Classifier(small(), attention=attention).to("meta", dtype)
    mask = torch.ones(4, 40, dtype=torch.bool, device="meta")
    ids = torch.zeros(4, 40, dtype=torch.long, device="meta")
    offsets = torch.zeros(5, dtype=torch.int32, device="meta")
    kinds = [(ids, mask)]
    if attention == "eager" or dtype == torch.bfloat16:
        kinds.append((ids.flatten()[:63], None, offsets, 40))
    for inputs in kinds:
        logits = model(*inputs)
        logits.sum().backward()
        assert logits.shape == (4, 2)


def test_sdpa_is_the_fused_kernel(padded, packed):
    model = Classifier(small(), attention="sdpa").initialise(0)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # raises where only another would do
        for inputs in (padded, packed):
            model(*inputs).sum().backward()


def test_varlen_attention_is_left_where_attention_has_dropout(monkeypatch):
    taken = []
    monkeypatch.setattr(ways, "_jagged", lambda q, k, v, *_: taken.append("jagged") or v)
    q = torch.zeros(9, 4, 8, dtype=torch.bfloat16, device="meta")
    offsets = torch.zeros(3, dtype=torch.int32, device="meta")
    sequences = ways.Sequences.packed(q[:, 0, 0], offsets, 5)
    assert ways.attend(q, q, q, sequences, "sdpa", 0.0).shape == q.shape and not taken
    ways.attend(q, q, q, sequences, "sdpa", 0.1)
    assert taken == ["jagged"]


def test_checkpointing_keeps_less_and_gives_the_same(padded):
    model = large(Classifier(small()).initialise(4))

    def kept() -> int:
        sizes = []
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda t: sizes.append(t.numel()) or t, lambda t: t
        )
        with hooks:
            model(*padded)
        return sum(sizes)

    without, plain = kept(), gradients(model, padded)
    model.checkpointing = True
    assert kept() < without / 4
    logits, found = gradients(model, padded)
    torch.testing.assert_close(logits, plain[0])
    torch.testing.assert_close(found, plain[1])


@pytest.mark.slow
def test_compiled_whole_without_a_break_in_the_graph(packed):
    model = large(Classifier(small(layers=1), attention="sdpa").initialise(5))
    expected = model(*packed)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(*packed), expected, atol=1e-5, rtol=1e-5)


def test_dropout_only_in_training(padded, packed):
    for dropouts in ({"dropout": 0.5}, {"attention_dropout": 0.5}, {"head_dropout": 0.5}):
        for attention in ATTENTION:
            model = large(Classifier(small(**dropouts), attention=attention).initialise(6))
            for inputs in (padded, packed):
                model.train()
                assert not torch.equal(model(*inputs), model(*inputs)), dropouts
                model.eval()
                assert torch.equal(model(*inputs), model(*inputs)), dropouts


def test_initialised_by_name():
    shallow, deep = Classifier(small(layers=1)), Classifier(small(layers=3)).initialise(7)
    names = dict(shallow.initialise(7).named_parameters())
    for name, parameter in deep.named_parameters():
        if name in names:
            assert torch.equal(parameter, names[name]), name
        if parameter.dim() > 1:
            assert 0.015 < parameter.std() < 0.025, name
    other = dict(Classifier(small(layers=1)).initialise(8).named_parameters())
    name = "distilbert.transformer.layer.0.ffn.lin1.weight"
    assert not torch.equal(other[name], names[name])
    norms = [name for name in names if name.endswith(("LayerNorm.weight", "layer_norm.weight"))]
    assert len(norms) == 3 and all((names[name] == 1).all() for name in norms)


def test_flop_are_counted_as_torch_counts_them(packed):
    model = Classifier(small(), attention="eager")
    with FlopCounterMode(display=False) as counter:
        model(*packed)
    assert counter.get_total_flops() == model.config.forward_flop(LENGTHS).sum()


def test_wrong_arguments_are_one_sentence(padded):
    with pytest.raises(ValueError, match="attention 'flash' is unknown; use eager or sdpa"):
        Classifier(small(), attention="flash")
    with pytest.raises(ValueError, match="not divisible by the heads"):
        ClassifierConfig(d_model=100)
    with pytest.raises(ValueError, match="layers is 0; it must be 1 or more"):
        ClassifierConfig(layers=0)
    with pytest.raises(ValueError, match="a sequence has 40 tokens, and this model takes 39"):
        Classifier(small(max_length=39))(*padded)


def rounding(residual: str, dtype: torch.dtype, inputs, **options):
    """Logits, gradients, and the formats that the last layer returned, under autocast."""
    model = large(Classifier(small(), residual=residual, **options).initialise(1))
    returned = []
    layers = model.distilbert["transformer"]["layer"]
    layers[-1].register_forward_hook(lambda _layer, _inputs, output: returned.append(output.dtype))
    with torch.autocast("cpu", dtype):
        logits, found = gradients(model, inputs)
    return logits, found, returned


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_residual_stream_takes_the_format_of_autocast(dtype, checkpointing, packed):
    wide, exact, of_wide = rounding("float32", dtype, packed, checkpointing=checkpointing)
    narrow, found, of_narrow = rounding("bf16", dtype, packed, checkpointing=checkpointing)
    assert set(of_wide) == {torch.float32} and set(of_narrow) == {dtype}
    roundoff = torch.finfo(dtype).eps / 2
    assert not torch.equal(wide, narrow)
    assert (wide - narrow).norm() < 20 * roundoff * wide.norm()
    for name, gradient in found.items():
        assert gradient.dtype == torch.float32
        assert gradient.isfinite().all() and gradient.shape == exact[name].shape


def test_residual_stream_stays_as_it_is_without_autocast(packed):
    same = [
        gradients(Classifier(small(), residual=residual).initialise(1), packed)[0]
        for residual in ("float32", "bf16")
    ]
    assert torch.equal(*same)
    with pytest.raises(ValueError, match="residual 'fp8' is unknown; use float32 or bf16"):
        Classifier(small(), residual="fp8")


@pytest.mark.slow
def test_sixteen_bit_stream_compiles_whole(packed):
    model = large(Classifier(small(), attention="sdpa", residual="bf16").initialise(1))
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(compiled(*packed), model(*packed), atol=0.05, rtol=0.05)
