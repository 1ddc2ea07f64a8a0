"""The program speed: its options, and runs of one process on a tiny model and made-up reviews."""

import json

import pytest
import torch

from benchmarks.ladder import options as speed_options
from benchmarks.ladder import record as speed_record
from benchmarks.ladder import run as speed
from rankbook.programs import ending
from rankbook.speed.loop import Training
from rankbook.speed.recipes import ladder
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import SIZES, size
from rankbook.speed.token_file import save_tokens

MODEL = {"layers": 1, "d_model": 16, "d_hidden": 32, "heads": 2, "vocab_size": 50, "max_length": 24}


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The size "cpu", made tiny, and a file of its token ids; errors of the program are raised."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # more would only wait for each other
    small = size("cpu", **MODEL, samples=24, validation=8, test=8, batch=4, epochs=1)
    monkeypatch.setitem(SIZES, "cpu", small)
    for name in ("WORLD_SIZE", "RANK"):
        monkeypatch.delenv(name, raising=False)
    tokens = tmp_path / "tokens.npz"
    splits = {name: synthetic(count, small) for name, count in small.splits.items()}
    save_tokens(splits, small, tokens)

    def fail(error, program):
        raise error

    monkeypatch.setattr(ending, "fail", fail)
    yield tokens
    torch.set_num_threads(threads)


@pytest.fixture
def two_ranks(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")


def sentence_of(line: str) -> str:
    with pytest.raises(ValueError) as told:
        speed_options.read(line.split())
    assert "\n" not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "say what to run: --recipe NAME, or --ladder cpu; --list names them all"),
        ("--recipe spda", "recipe 'spda' is unknown on the ladder 'cpu'; did you mean 'sdpa'"),
        ("--recipe plain --size half", "argument --size: invalid choice: 'half'"),
        ("--ladder half", "argument --ladder: invalid choice: 'half'"),
        ("--ladder cpu --recipe plain", "argument --recipe: not allowed with argument --ladder"),
        ("--ladder cpu --size full", "--ladder cpu has its own size; leave out --size"),
        ("--recipe plain --strategy ddpp", "argument --strategy: invalid choice: 'ddpp'"),
        ("--recipe plain --strategy ddp", "--strategy is for ranks, and there is one process"),
        ("--recipe plain --steps 0", "argument --steps: 0 is no whole number of 1 or more"),
        ("--recipe plain --steps 81", "need 972, and the size cpu has 960; use fewer steps"),
        ("--recipe plain --out gone/out.json", "in the folder gone, which does not exist"),
        ("--recipe plain --out .", "cannot be written: it is a folder"),
        ("--recipe plain --resume", "--resume goes on with a file: name it with --out FILE"),
        ("--recipes plain", "unrecognized arguments: --recipes plain"),  # nothing is completed
    ],
)
def test_wrong_options_are_one_sentence(line, sentence, monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    assert sentence in sentence_of(line)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--ladder cpu", "--ladder and --save-tokens are for one process; under torchrun use"),
        ("--recipe plain sdpa", "under torchrun one recipe is timed, without --accuracy"),
        ("--recipe fp16", "recipe 'fp16' (fp16) is for one process"),
        ("--recipe lightning", "recipe 'lightning' (lightning) is for one process"),
        ("--recipe compile", "recipe 'compile' is compiled, and the strategies are not"),
        ("--recipe sdpa --batch 5", "a batch of 5 cannot be shared by 2 parts (2 ranks x 1"),
        ("--recipe accumulation --batch 3", "a batch of 12 cannot be shared by 8 parts"),
        ("--recipe accumulation --strategy deepspeed2", "cuts a batch in 4, and deepspeed2 takes"),
        ("--recipe sdpa --strategy zero", "argument --strategy: invalid choice: 'zero'"),
    ],
)
def test_what_ranks_cannot_do_is_one_sentence(line, sentence, two_ranks):
    assert sentence in sentence_of(line)


def test_who_only_writes_tokens_times_no_recipe(monkeypatch, tmp_path):
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    options = speed_options.read(["--save-tokens", str(tmp_path / "tokens.npz")])
    assert (options.recipes, options.strategy, options.size.name) == ((), None, "cpu")
    whole = speed_options.read(["--ladder", "full", "--batch", "6"])
    assert len(whole.recipes) == len(ladder("full")) and whole.samples == 256 * 6


def test_a_last_smaller_batch_has_to_be_shared_as_well(two_ranks):
    options = speed_options.read(["--recipe=4x batch", "--steps=5"])
    assert (options.samples, options.ranks, options.strategy) == (60, 2, "ddp")  # 48 and 12
    with pytest.raises(ValueError, match="a batch of 15 cannot be shared by 2 parts"):
        speed_options.read(["--recipe=4x batch", "--steps=5", "--batch=15"])


def test_the_list_names_recipes_and_strategies(capsys):
    assert speed.main(["--list", "--size", "full"]) == []
    said = capsys.readouterr().out
    for name in (
        "  plain:",
        "    fp16:",
        "  16x batch:",
        "  fsdp2:",
        "(on 'packed': attention sdpa)",
    ):
        assert name in said


@pytest.mark.slow
def test_a_run_is_written_with_its_provenance(tiny, tmp_path, capsys):
    out = tmp_path / "out.json"
    line = (
        f"--recipe plain packed tf32 --steps 3 --repeats 2 --accuracy 1 --tokens {tiny} --out {out}"
    )
    rows = speed.main(line.split())
    assert [row["name"] for row in rows] == ["plain", "packed", "tf32"]
    assert rows[0]["samples"] == rows[1]["samples"] == 12 and rows[0]["steps"] == 3
    result = json.loads(out.read_text("utf-8"))
    kept = ("what", "where", "when", "command", "libraries", "kind", "load", "rows", "ladder")
    assert [len(row["seeds"]) for row in result["accuracies"]] == [1, 1, 0]
    assert all(key in result for key in kept)
    assert result["ladder"] == json.loads(json.dumps(rows))
    plain, packed, tf32 = result["rows"]
    assert plain["times"] == 1 and plain["repeats"] == 2
    assert plain["p10"] <= plain["median"] <= plain["p90"]
    assert packed["times"] == pytest.approx(
        rows[1]["samples_per_s"] / rows[0]["samples_per_s"], abs=0.01
    )
    assert all(
        not isinstance(value, dict | list) for row in result["rows"] for value in row.values()
    )
    said = capsys.readouterr().out
    assert "plain: turn 2 of 2" in said
    if not torch.cuda.is_available():
        assert "skipped: TF32" in tf32["note"] and "skipped: TF32" in said
    assert speed.status(rows) == 0


def test_a_run_that_was_ended_goes_on_where_it_stopped(tiny, tmp_path, capsys):
    out = tmp_path / "out.json"
    line = f"--steps 1 --repeats 1 --together 1 --tokens {tiny} --out {out} --resume"
    speed.main(f"--recipe plain seldom {line}".split())
    before = json.loads(out.read_text("utf-8"))["ladder"]
    capsys.readouterr()
    speed.main(f"--recipe plain seldom packed {line}".split())
    after = json.loads(out.read_text("utf-8"))["ladder"]
    assert after[:2] == before and [row["name"] for row in after] == ["plain", "seldom", "packed"]
    assert "seldom: turn" not in capsys.readouterr().out


def test_a_run_ends_in_time_and_says_that_there_is_more(tiny, tmp_path, capsys):
    out = tmp_path / "out.json"
    line = f"--recipe plain seldom packed --steps 1 --repeats 1 --together 1 --tokens {tiny}"
    for rows in (1, 2):
        with pytest.raises(SystemExit) as end:
            speed.main(f"{line} --out {out} --resume --minutes 0".split())
        assert end.value.code == speed.MORE == 75
        assert len(json.loads(out.read_text("utf-8"))["ladder"]) == rows
        assert f"{3 - rows} recipes are left" in capsys.readouterr().out
    rows = speed.main(f"{line} --out {out} --resume --minutes 0".split())
    assert [row["name"] for row in rows] == ["plain", "seldom", "packed"]


def test_a_failed_row_is_tried_again(tiny, tmp_path):
    out = tmp_path / "out.json"
    failed = {"name": "plain", "base": None, "error": "plain: no memory", "switch": {}}
    out.write_text(json.dumps({"ladder": [failed], "accuracies": []}), "utf-8")
    line = f"--recipe plain --steps 1 --repeats 1 --tokens {tiny} --out {out} --resume"
    (row,) = speed.main(line.split())
    assert "seconds" in row


def test_commands_are_kept_without_folders(monkeypatch):
    monkeypatch.setattr(
        "sys.argv", ["ladder", "--recipe", "4x batch", "--out", "/some/where/a.json"]
    )
    result = speed_record.record("what", torch.device("cpu"), []).as_dict()
    assert result["command"].endswith("benchmarks.ladder --recipe '4x batch' --out a.json")
    assert "/" not in result["where"]


def test_out_of_memory_is_a_sentence_and_the_ladder_goes_on(tiny, monkeypatch, capsys):
    step = Training.step

    def too_large(self, batch):
        if len(batch) > 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        return step(self, batch)

    monkeypatch.setattr(Training, "step", too_large)
    rows = speed.main(
        ["--recipe", "4x batch", "sdpa", "--steps=4", "--repeats=1", f"--tokens={tiny}"]
    )
    assert "error" in rows[0] and "seconds" in rows[1]
    told = capsys.readouterr()
    assert "out of memory with 16 samples a step" in told.out
    assert told.err.strip() == "speed: 1 of 2 recipes failed: 4x batch"
    assert speed.status(rows) == 1


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"max_length": 20}, ValueError, "has texts cut at 24 tokens, not at 20"),
        ({"samples": 25}, ValueError, "has 24 reviews in train, and this size needs 25"),
    ],
)
def test_a_tokens_file_of_another_size(tiny, monkeypatch, change, error, sentence):
    monkeypatch.setitem(SIZES, "cpu", size("cpu", **change))
    with pytest.raises(error, match=sentence):
        speed.main(f"--recipe plain --steps 1 --tokens {tiny}".split())


def test_no_tokens_file_and_half_a_data_folder(tiny, monkeypatch, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no tokens file gone\.npz"):
        speed.main(["--recipe", "plain", "--steps", "1", "--tokens", "gone.npz"])
    (tmp_path / "data" / "imdb").mkdir(parents=True)
    monkeypatch.setenv("RANKBOOK_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError, match="is half-present: movie_data"):
        speed.main(["--recipe", "plain", "--steps", "1"])
