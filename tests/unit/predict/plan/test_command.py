"""rankbook plan: text, JSON, and one sentence for what is wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rankbook
from rankbook.__main__ import main

PACKAGE = Path(rankbook.__file__).parent
FLAGS = re.MULTILINE | re.DOTALL
GPU = "name=x,memory=48e9,flops=360e12,bandwidth=864e9,inside=32e9,between=12.5e9"


def said(capsys, *words: str) -> tuple[int, str, str]:
    """Status, stdout, stderr."""
    status = main(["plan", *words])
    shown = capsys.readouterr()
    return status, shown.out, shown.err


def document(capsys, *words: str) -> dict:
    status, out, _ = said(capsys, *words, "--json")
    assert status == 0
    return json.loads(out)


def test_parameters_alone_are_enough(capsys):
    found = document(capsys, "--params", "7.5e9")
    states = found["model_states_gb"]
    assert [round(states[z], 1) for z in "0123"] == [120.0, 31.4, 16.6, 1.9]
    assert states["3"] == 16 * 7.5 / 64
    assert found["machines"]["gpus"] == 64 and found["machines"]["gpu"] == "h200"


def test_layouts_come_best_first_and_add_up(capsys):
    found = document(capsys, "--params", "7.5B", "--batch-tokens", "4M")
    layouts = found["layouts"]
    fast = [each["tokens_per_second"] for each in layouts if each["fits"]]
    assert fast == sorted(fast, reverse=True) and len(fast) > 3
    for each in layouts:
        assert each["pp"] * each["dp"] * each["tp"] == each["ranks"] == 64
        parts = each["memory"]["parts"].values()
        assert sum(p["gb"] for p in parts) == pytest.approx(each["memory"]["total_gb"])
        parts = each["step"]["parts"].values()
        assert sum(p["seconds"] for p in parts) == pytest.approx(each["step"]["seconds"])
        assert all(p["formula"] for p in parts if p["seconds"])
        pace = each["batch_tokens"] / each["step"]["seconds"]
        assert each["tokens_per_second"] == pytest.approx(pace)
        assert each["fits"] == (each["memory"]["total_gb"] <= found["machines"]["usable_gb"])
    assert found["losers"] and all(loser["reason"] for loser in found["losers"])
    assert set(found["settings"][0]) == {"book", "torchtitan", "megatron", "deepspeed", "fsdp2"}
    assert found["accuracy"]["time"]["held out"]["rows"] > 100


def test_the_text_has_every_part(capsys):
    status, out, _ = said(capsys, "--params", "7.5e9")
    assert status == 0
    for line in (
        "7.5 B parameters on 64 x h200 in 8 nodes, 4,194,304 tokens a step",
        "  3      1.88   (2 + 2 + 12) P/n",
        "Why the others lose",
        "Memory of the fullest rank in GB",
        "Assumed, as no data sheet has it",
        "  not tried interleaved stages",
        "-m rankbook.programs.train_lm",
        "  torchtitan 0.3.0",
        "  Megatron-LM",
        "  DeepSpeed 0.19",
        "  FSDP2 (torch 2.13)",
    ):
        assert line in out, line
    assert max(map(len, out.splitlines())) <= 96


def test_by_itself_it_is_short(capsys):
    """Each cause once, settings in brief; `--for` prints those of one program in full."""
    _, brief, _ = said(capsys, "--params", "7.5e9")
    assert len(brief.splitlines()) < 120
    losers = brief[brief.index("Why the others lose") : brief.index("Memory of the fullest")]
    assert (
        len(losers.strip().splitlines()) <= 11 and " ".join(losers.split()).count("of tensor") == 1
    )
    assert "--untie-embeddings" not in brief and "from torch.distributed.fsdp" not in brief
    _, one, _ = said(capsys, "--params", "7.5e9", "--for", "megatron")
    assert "--untie-embeddings" in one and "from torch.distributed.fsdp" not in one
    _, every, _ = said(capsys, "--params", "7.5e9", "--for", "all")
    assert "--untie-embeddings" in every and "from torch.distributed.fsdp" in every


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_readmes_excerpt_is_true(capsys, name):
    page = (PACKAGE / name).read_text("utf-8")
    shape = r"^rankbook (plan [^\n]*)\n```\n```text\n(.*?)^```"
    command, shown = re.search(shape, page, FLAGS).groups()
    status, out, _ = said(capsys, *command.split()[1:])
    assert status == 0 and shown.strip() in out, "write it again: " + command


def test_every_number_of_the_best_has_its_formula(capsys):
    found = document(capsys, "--params", "13B")
    _, out, _ = said(capsys, "--params", "13B")
    best = found["layouts"][0]
    section = out[out.index("Where the numbers of") :]
    for parts, unit in ((best["memory"]["parts"], "gb"), (best["step"]["parts"], "seconds")):
        for name, part in parts.items():
            if part[unit]:
                assert any(
                    name in line and part["formula"] in line for line in section.splitlines()
                ), name


def test_a_config_and_other_machines(capsys, tmp_path):
    config = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336}
    config |= {"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 128256}))
    words = ["--config", str(tmp_path / "config.json"), "--gpus", "16", "--sequence", "8192"]
    found = document(capsys, *words, "--gpu", GPU, "--gpus-per-node", "4", "--batch-tokens", "1M")
    assert found["model"]["parameters"] == 8_030_261_248
    assert found["model"]["shape"]["sequence"] == 8192
    assert (
        found["machines"]["nodes"] == 4 and round(found["machines"]["inside"]["bandwidth"]) == 32e9
    )


def test_nothing_fits(capsys):
    status, out, _ = said(capsys, "--params", "70B", "--gpus", "2", "--gpu", "a10g")
    assert status == 1 and "layouts fits into" in out and "  nearest   " in out
    status, out, _ = said(capsys, "--params", "70B", "--gpus", "2", "--gpu", "a10g", "--json")
    found = json.loads(out)
    assert status == 1 and not any(each["fits"] for each in found["layouts"])
    assert found["settings"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing is given; name the model by one of --params 7.5e9, --config config.json"),
        (["--params", "1e9", "--config", "c.json"], "--params and --config are given; name the"),
        (["--params", "seven"], "'seven' is no number of parameters; write 7.5e9, 7.5B or 350M"),
        (["--params=-7e9"], "'-7e9' is no number of parameters"),
        (["--params", "0"], "'0' is no number of parameters"),
        (["--params", "5"], "5 parameters; a plan needs 20 million to 10 trillion"),
        (["--config", "/no/such.json"], "there is no file /no/such.json; name a config.json"),
        (["--params", "7e9", "--gpus", "0"], "'0' is no number of GPUs (--gpus); give a whole"),
        (["--params", "7e9", "--gpus", "12"], "12 GPUs are not whole nodes of 8; use a multiple"),
        (["--params", "7e9", "--gpus-per-node", "-1"], "'-1' is no number of GPUs of a node"),
        (["--params", "7e9", "--gpu", "h300"], "the card 'h300' is unknown; known are v100-32"),
        (["--params", "7e9", "--gpu", "memory=1e9"], "--gpu: the card lacks flops"),
        (["--params", "7e9", "--batch-tokens", "lots"], "'lots' is no number of tokens; write 4M"),
        (["--params", "7e9", "--batch-tokens", "0"], "'0' is no number of tokens"),
        (["--params", "7e9", "--batch-tokens", "512"], "has not one sequence of 4,096; give a la"),
        (
            ["--params", "7e9", "--sequence", "1.5"],
            "'1.5' is no number of tokens; write 8192 or 8k",
        ),
        (["--params", "7e9", "--time-limit", "soon"], "--time-limit=soon is no number above 0; wr"),
        (
            ["--module", "models.py:fn"],
            "models.py is a path; go to its folder, and write models:fn",
        ),
        (["--module", "no_such:fn"], "no_such cannot be imported (ModuleNotFoundError"),
        (["--params", "7e9", "--fake-ranks", "8"], "--fake-ranks runs a module; name it with"),
        (["--module", "m:fn", "--input", "8x3"], "--input is for --fake-ranks; say how many"),
    ],
)
def test_what_is_wrong_is_one_sentence(capsys, words, says):
    status, out, err = said(capsys, *words)
    assert status == 2 and not out
    assert err.startswith("rankbook plan: ") and says in err and err.count("\n") == 1


def test_a_sequence_is_written_like_a_batch(capsys):
    found = document(capsys, "--params", "7e9", "--sequence", "8k")
    assert found["model"]["shape"]["sequence"] == 8192


NOISY = """
print("imported")
def ends(): raise SystemExit(3)
def make():
    from torch import nn
    print("made")
    layers = nn.ModuleList(nn.TransformerEncoderLayer(64, 4, 128) for _ in range(2))
    return nn.ModuleDict({"table": nn.Embedding(100, 64), "layers": layers})
"""


def test_what_a_module_prints_is_not_in_the_document(capsys, tmp_path, monkeypatch):
    (tmp_path / "noisy_model.py").write_text(NOISY)
    monkeypatch.syspath_prepend(str(tmp_path))
    status, out, err = said(capsys, "--module", "noisy_model:make", "--gpus", "8", "--json")
    assert status == 0 and json.loads(out)["model"]["parameters"] > 6400
    assert err == "imported\nmade\n"
    status, out, err = said(capsys, "--module", "noisy_model:ends", "--json")
    assert (status, out) == (2, "") and "raised SystemExit: 3; it is called without" in err


def test_an_interrupt_is_no_traceback(capsys, monkeypatch):
    def interrupted(question):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankbook.predict.plan.answer.answer", interrupted)
    assert said(capsys, "--params", "7e9") == (130, "", "")


def test_an_option_without_its_value(capsys):
    with pytest.raises(SystemExit) as end:
        main(["plan", "--params"])
    err = capsys.readouterr().err
    assert end.value.code == 2 and err.count("\n") == 1
    assert err.startswith(
        "rankbook plan: argument --params: expected one argument; rankbook plan --h"
    )


def test_parameters_load_no_torch():
    program = "import sys; from rankbook.__main__ import main; main(['plan', '--params', '7e9']);"
    program += "assert 'torch' not in sys.modules, 'torch'; assert 'numpy' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
