"""DistilBERT's weights: found, refused, or done without, and always said."""

import pytest
import torch

from rankbook.data import hub, sources
from rankbook.models import Classifier, ClassifierConfig, load_pretrained
from rankbook.models.pretrained import FILE, REPO

torch_file = pytest.importorskip("safetensors.torch")

SMALL = ClassifierConfig(vocab_size=50, d_model=8, d_hidden=16, heads=2, layers=1, max_length=9)


@pytest.fixture
def model():
    return Classifier(SMALL).initialise(0)


@pytest.fixture
def published():
    """What such a file holds: the weights of another task, whose head has other names."""
    weights = dict(Classifier(SMALL).initialise(1).state_dict())
    kept = {k: v for k, v in weights.items() if k.startswith("distilbert.")}
    return kept | {"vocab_projector.bias": torch.zeros(50)}


@pytest.fixture(autouse=True)
def here(monkeypatch, tmp_path):
    """A data folder without weights, and no hub."""

    def file(repo, name):
        raise sources.Absent("the hub did not answer")

    monkeypatch.setenv(sources.FOLDER, str(tmp_path))
    monkeypatch.setattr(hub, "file", file)
    sources.announce.cache_clear()
    return tmp_path / "distilbert-base-uncased"


def test_a_folder_s_weights_and_a_new_head(here, model, published, capsys):
    here.mkdir()
    torch_file.save_file(published, here / FILE)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    source = load_pretrained(model)
    assert source == (
        "DistilBERT's weights: model.safetensors of $RANKBOOK_DATA/distilbert-base-uncased"
    )
    assert capsys.readouterr().out == f"{source}\n"
    for name, value in model.state_dict().items():
        kept = published[name] if name.startswith("distilbert.") else before[name]
        assert torch.equal(value, kept), name


def test_the_hub_s_weights(monkeypatch, model, published):
    asked = []
    monkeypatch.setattr(
        hub, "file", lambda *names: (asked.append(names) or torch_file.save(published), "the hub")
    )
    source = load_pretrained(model)
    assert asked == [(REPO, FILE)]
    assert source.startswith("DistilBERT's weights: the hub ($RANKBOOK_DATA has no folder")
    name = "distilbert.embeddings.word_embeddings.weight"
    assert torch.equal(model.get_parameter(name), published[name])


def test_without_weights_the_model_stays_and_the_line_says_so(model):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    source = load_pretrained(model)
    assert source.startswith("DistilBERT's weights: random; ")
    assert source.endswith("has no folder distilbert-base-uncased; the hub did not answer)")
    torch.testing.assert_close(dict(model.state_dict()), before, atol=0, rtol=0)


def test_half_present(here, model):
    here.mkdir()
    with pytest.raises(FileNotFoundError, match=r"half-present: model\.safetensors is not there"):
        load_pretrained(model)


def test_torn(here, model, published):
    here.mkdir()
    (here / FILE).write_bytes(torch_file.save(published)[:-5])
    with pytest.raises(ValueError, match=r"model\.safetensors is torn, or no safetensors file"):
        load_pretrained(model)


def test_of_another_model_nothing_is_taken(here, model, published):
    here.mkdir()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    last = list(published)[-2]
    for wrong in ({last: torch.zeros(3)}, {}):
        weights = {k: v for k, v in published.items() if k != last} | wrong
        torch_file.save_file(weights, here / FILE)
        with pytest.raises(ValueError, match=f"of another model: {last} (has shape|is missing)"):
            load_pretrained(model)
        torch.testing.assert_close(dict(model.state_dict()), before, atol=0, rtol=0)
