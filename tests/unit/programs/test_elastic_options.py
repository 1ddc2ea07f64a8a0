"""The options of elastic: what they mean, and what they refuse; what it trains."""

import multiprocessing
import sys

import pytest
import torch

from rankbook.data.global_batches import collate_share
from rankbook.programs.elastic import run as elastic
from rankbook.programs.elastic.options import read
from rankbook.programs.elastic.tasks import ToyData, Windows, make_task
from rankbook.programs.elastic.training import shares_its_store
from tests.waiting import SOON


@pytest.fixture(autouse=True)
def three_ranks(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.delenv("RANK", raising=False)


def options(line: str):
    return read(["--checkpoint", "kept", *line.split()])


@pytest.mark.parametrize(
    ("line", "batch", "lr"),
    [
        ("", 16, 0.05),
        ("--global-batch 20 --lr 0.3", 20, 0.3),
        ("--model lm", 16, 0.003),
        ("--batch-per-rank 4 --scale-lr none", 12, 0.05),
        ("--batch-per-rank 4 --scale-lr linear", 12, 0.15),
        ("--batch-per-rank 4 --scale-lr sqrt --lr 1", 12, 3**0.5),
    ],
)
def test_batch_and_rate_for_three_ranks(line, batch, lr):
    found = options(line)
    assert found.batch == batch and found.lr == pytest.approx(lr)


def test_a_pace_of_nothing_is_what_help_shows(capsys):
    assert options("--pace 0").pace == options("").pace == 0
    with pytest.raises(SystemExit):
        options("--help")
    assert "of a step, at least (0)" in capsys.readouterr().out


def test_a_pace_ends_when_its_file_is_there(tmp_path):
    given = options(f"--pace 2 --pace-until {tmp_path / 'go'}")
    assert elastic.pace(given) == elastic.pace(options("--pace 2")) == 2
    (tmp_path / "go").touch()
    assert elastic.pace(given) == 0


def test_two_epochs_unless_it_says_how_long():
    assert (options("").epochs, options("").steps) == (2, None)
    assert (options("--steps 7").epochs, options("--steps 7").steps) == (None, 7)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--batch-per-rank 4", "say what the learning rate does then: --scale-lr linear, sqrt or"),
        ("--scale-lr linear", "--scale-lr is for --batch-per-rank; a global batch is the same for"),
        ("--global-batch 4 --batch-per-rank 4", "not allowed with argument"),
        ("--steps 4 --epochs 4", "not allowed with argument"),
        ("--length 8", "--length is for text; add --model lm"),
        ("--events .", "--events . is a folder; name a file"),
        ("--dropout 1", "1 is no number from 0 to below 1"),
        ("--pace -1", "argument --pace: -1 is no number of 0 or more"),
        ("--pace nan", "argument --pace: nan is no number of 0 or more"),
        ("--global-batch 0", "0 is no whole number of 1 or more"),
        ("--seed x", "argument --seed: invalid int value: 'x'"),
        ("--nproc-per-node 2", "unrecognized arguments: --nproc-per-node 2"),
    ],
)
def test_wrong_options_are_one_sentence(line, sentence):
    with pytest.raises(ValueError) as told:
        options(line)
    assert sentence in str(told.value) and "\n" not in str(told.value)


def test_a_folder_for_checkpoints_is_needed():
    with pytest.raises(ValueError, match="--checkpoint DIR is missing"):
        read([])


def test_a_missing_torchdata_is_said(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match="torchdata is not installed"):
        options("")


def test_toy_samples_are_functions_of_their_number():
    few, many = ToyData(3), ToyData(300)
    for index in range(3):
        number, inputs, targets = few[index]
        assert number == index and inputs.shape == (10,) and targets.shape == (5,)
        assert torch.equal(inputs, many[index][1]) and torch.equal(targets, many[index][2])
    assert not torch.equal(few[0][1], few[1][1])


def test_windows_of_a_text():
    windows = Windows(torch.arange(21), 5)
    assert len(windows) == 4
    number, tokens, targets = windows[3]
    assert (number, tokens.tolist(), targets.tolist()) == (3, [*range(15, 20)], [*range(16, 21)])
    assert len(Windows(torch.arange(21), 5, 2)) == 2
    with pytest.raises(ValueError, match="a text of 21 tokens has 4 samples of 5, not 9"):
        Windows(torch.arange(21), 5, 9)


@pytest.mark.parametrize("line", ["--samples 6", "--model lm --samples 6 --length 4"])
def test_the_loss_of_each_sample(line):
    task = make_task(options(line), torch.device("cpu"))
    samples = [task.data[index] for index in range(4)]
    share = collate_share(samples)
    together = task.losses(task.model, share)
    assert together.shape == (4,) and len(task.data) == 6
    for index, sample in enumerate(samples):
        alone = collate_share([sample])
        torch.testing.assert_close(task.losses(task.model, alone)[0], together[index])
    again = make_task(options(line), torch.device("cpu"))
    for one, other in zip(task.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("error", "why", "more"),
    [
        (
            "[/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4711. This "
            "is typically caused by a remote worker crashing. Check the logs.",
            "Connection closed by peer [127.0.0.1]:4711",
            "More on this: rankbook symptom peer-closed (symptoms.html#peer-closed)\n",
        ),
        (
            "[/x/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 60000ms for recv "
            "operation to complete",
            "Timed out waiting 60000ms for recv operation to complete",
            "More on this: rankbook symptom timed-out-waiting (symptoms.html#timed-out-waiting)\n",
        ),
    ],
)
def test_a_lost_rank_is_one_sentence_and_a_restart(error, why, more, tmp_path):
    def work() -> None:
        with (tmp_path / "said").open("w") as sys.stderr:
            elastic.lose(RuntimeError(error))

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(SOON)
    assert child.exitcode == 1
    said = f"elastic, rank 0: lost another rank before the first step: {why}\n"
    assert (tmp_path / "said").read_text() == said + more


def test_another_error_is_not_taken_for_a_lost_rank():
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        elastic.lose(RuntimeError("a mistake of ours"))


@pytest.mark.parametrize(
    ("shared", "restarts", "nodes", "told"),
    [
        ("True", "3", "1", True),
        ("True", "0", "2", True),
        ("True", "0", "1", False),
        ("False", "3", "2", False),
    ],
)
def test_a_shared_store_is_said_where_the_job_can_change(shared, restarts, nodes, told):
    environment = {
        "TORCHELASTIC_USE_AGENT_STORE": shared,
        "TORCHELASTIC_MAX_RESTARTS": restarts,
        "GROUP_WORLD_SIZE": nodes,
    }
    assert shares_its_store(environment) is told
    assert not shares_its_store({})
