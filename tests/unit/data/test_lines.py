"""Every line exactly once: any file, any blocks, any number of readers, resumed anywhere."""

import copy
import io
import os
import pickle
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from rankbook.data import Reader, ShardedLines, collate_with_reader, samples_by_reader
from rankbook.data.blocks import COMPRESSED, blocks_per_reader, bounds, lines_from

SETTINGS = settings(
    deadline=None,
    database=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def expected(content: bytes) -> list[str]:
    """The lines of a file, by other means than ours."""
    *lines, last = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = [line + b"\n" for line in lines] + [last] * bool(last)
    if content and content == b"\xef\xbb\xbf":
        lines = [b""]  # a file of a byte order mark only has one line, with nothing on it
    ends = [line.removesuffix(b"\n").removesuffix(b"\r") for line in lines]
    return [line.decode("utf-8", "replace") for line in ends]


def readers(ranks: int, workers: int) -> list[Reader]:
    return [Reader(r, ranks, w, workers) for r, w in product(range(ranks), range(workers))]


def all_lines(lines: ShardedLines, ranks: int, workers: int) -> list[str]:
    return [line for reader in readers(ranks, workers) for line in lines.iterate(reader)]


# mostly ends of lines, and bytes that are no UTF-8: what random bytes would seldom have
PIECES = st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"bc ", b"\xe4\xb8\xad", b"\xff", b"\xe4"])
CONTENTS = st.one_of(st.lists(PIECES, max_size=60).map(b"".join), st.binary(max_size=60))


@SETTINGS
@given(
    content=CONTENTS,
    block_size=st.integers(1, 40),
    window=st.integers(1, 4),
    ranks=st.integers(1, 4),
    workers=st.integers(1, 3),
    epoch=st.integers(0, 2**40),
    shuffle=st.booleans(),
)
def test_every_line_once(tmp_path, content, block_size, window, ranks, workers, epoch, shuffle):
    assume(not content.startswith(tuple(COMPRESSED)))
    path = write(tmp_path / "lines.txt", content)
    lines = ShardedLines(path, shuffle=shuffle, block_size=block_size, window=window)
    lines.set_epoch(epoch)
    found = all_lines(lines, ranks, workers)
    if shuffle:
        assert Counter(found) == Counter(expected(content))
    else:
        assert found == expected(content)


@SETTINGS
@given(data=st.data(), block_size=st.integers(1, 30), window=st.integers(1, 4))
def test_resumed_anywhere(tmp_path, data, block_size, window):
    content = data.draw(CONTENTS)
    assume(not content.startswith(tuple(COMPRESSED)))
    path = write(tmp_path / "lines.txt", content)
    options = {"shuffle": data.draw(st.booleans()), "skip_blank": data.draw(st.booleans())}
    options |= {"block_size": block_size, "window": window}
    lines, reader = ShardedLines(path, **options), data.draw(st.sampled_from(readers(2, 2)))
    lines.set_epoch(3)
    whole = list(lines.iterate(reader))
    stop = data.draw(st.integers(0, len(whole)))
    iterator = lines.iterate(reader)
    assert [next(iterator) for _ in range(stop)] == whole[:stop]
    state = iterator.state_dict()
    other = ShardedLines(path, **options)
    resumed = other.iterate(reader)
    resumed.load_state_dict(state)
    assert list(resumed) == whole[stop:]
    assert other.epoch == 0, "the epoch of what comes next is the loop's to set"


@SETTINGS
@given(
    size=st.integers(0, 10**13),
    count=st.integers(1, 2000),
    block_size=st.integers(1, 2**20),
    window=st.integers(1, 64),
)
def test_blocks_cover_the_file(size, count, block_size, window):
    per_reader = blocks_per_reader(size, count, block_size, window)
    blocks = per_reader * count
    assert bounds(0, blocks, size)[0] == 0 and bounds(blocks - 1, blocks, size)[1] == size
    for block in {0, blocks // 3, blocks - 1}:
        start, end = bounds(block, blocks, size)
        assert 0 <= end - start <= block_size
        assert end == bounds(block + 1, blocks, size)[0]


class CountingFile(io.BytesIO):
    """Counts the bytes that are read from it."""

    read_bytes = 0

    def readline(self, *limit):
        return self._counted(super().readline(*limit))

    def read(self, *limit):
        return self._counted(super().read(*limit))

    def _counted(self, found):
        self.read_bytes += len(found)
        return found


def test_no_more_is_read_than_a_block_and_the_rest_of_its_last_line():
    line = b"x" * 99 + b"\n"
    file = CountingFile(line * 10_000)
    found = lines_from(file, 950_050, 960_050)
    assert [start for start, _ in found] == list(range(950_100, 960_050, 100))
    assert file.read_bytes == 10_051  # the byte before the block, and 50 behind it


def test_a_line_over_many_blocks_is_read_to_its_end_once():
    file = CountingFile(b"short\n" + b"x" * 3_000_000 + b"\nlast")
    cuts = [bounds(block, 300, 3_000_011) for block in range(300)]
    found = [line for start, end in cuts for line in lines_from(file, start, end)]
    assert [(start, len(line)) for start, line in found] == [(0, 5), (6, 3_000_000), (3_000_007, 4)]
    assert file.read_bytes < 2.1 * 3_000_011


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one", ["one"]),
        (b"one\n", ["one"]),
        (b"one\r\ntwo\rhalf\r\n\r\n", ["one", "two\rhalf", ""]),
        (b"a\n\n \nb", ["a", "", " ", "b"]),
        (b"\xef\xbb\xbffirst\nsecond\n", ["first", "second"]),
        ("中文\n\u2028\x85\n".encode(), ["中文", "\u2028\x85"]),  # str.splitlines would cut these
        (b"x" * 2_000_000 + b"\ny\n", ["x" * 2_000_000, "y"]),
        (b"\xff\xfe\n", ["\ufffd\ufffd"]),
    ],
    ids=["empty", "blank", "no newline", "one", "crlf", "blanks", "bom", "unicode", "long", "bad"],
)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("ranks", "workers"), [(1, 1), (2, 2), (3, 1), (16, 10)])
def test_files_of_all_kinds(tmp_path, content, lines, shuffle, ranks, workers):
    made = ShardedLines(write(tmp_path / "lines.txt", content), shuffle=shuffle)
    found = all_lines(made, ranks, workers)
    assert (Counter(found) == Counter(lines)) if shuffle else (found == lines)


def test_blank_lines_can_be_skipped(tmp_path):
    path = write(tmp_path / "lines.txt", b"a\n\n \t\r\nb\n\n")
    assert list(ShardedLines(path)) == ["a", "", " \t", "b", ""]
    assert list(ShardedLines(path, skip_blank=True)) == ["a", "b"]


def numbers(path: Path, count: int = 3000) -> Path:
    """A file of the numbers, one a line."""
    return write(path, b"".join(b"%d\n" % i for i in range(count)))


def test_shuffled_by_seed_and_epoch(tmp_path):
    path = numbers(tmp_path / "lines.txt")

    def order(seed: int, epoch: int, rank: int = 0) -> list[int]:
        lines = ShardedLines(path, shuffle=True, seed=seed, block_size=500, window=4)
        lines.set_epoch(epoch)
        return [int(line) for line in lines.iterate(Reader(rank, 2))]

    assert order(0, 0) == order(0, 0)
    orders = [order(0, 0), order(0, 1), order(1, 0), order(1, 1), order(0, 0, rank=1)]
    assert all(a != b for i, a in enumerate(orders) for b in orders[:i])
    assert set(orders[0]) != set(orders[1]), "a reader gets other lines in the next epoch"
    mixed = order(0, 0)
    neighbours = sum(abs(a - b) == 1 for a, b in pairwise(mixed))
    assert neighbours < len(mixed) / 50
    # lines that follow each other come from a window of blocks that lie anywhere in the file
    assert max(mixed[:100]) - min(mixed[:100]) > 1000


def test_a_small_file_is_shuffled_between_readers(tmp_path):
    """One block a reader would leave its first half together in every epoch."""
    path = numbers(tmp_path / "lines.txt", 60_000)
    lines = ShardedLines(path, shuffle=True)
    mine = [int(line) for line in lines.iterate(Reader(0, 2))]
    assert 10_000 < sum(number < 30_000 for number in mine) < 20_000


def test_shares_are_equal_in_bytes(tmp_path):
    content = b"".join(b"%05d\n" % i for i in range(16_000))
    lines = ShardedLines(write(tmp_path / "lines.txt", content), shuffle=True, block_size=1000)
    counts = [len(list(lines.iterate(reader))) for reader in readers(16, 10)]
    assert sum(counts) == 16_000 and set(counts) == {100}


def test_an_iterator_keeps_its_epoch_and_its_end(tmp_path):
    lines = ShardedLines(numbers(tmp_path / "lines.txt", 50), shuffle=True)
    whole, iterator = list(lines), iter(lines)
    first = next(iterator)
    lines.set_epoch(7)
    assert [first, *iterator] == whole
    assert list(iterator) == [] and list(lines) != whole


def test_workers_that_stay_hear_of_the_epoch(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    lines = ShardedLines(numbers(tmp_path / "lines.txt", 100), shuffle=True)
    options = {"batch_size": 4, "num_workers": 2, "persistent_workers": True}
    loader = DataLoader(lines, collate_fn=collate_with_reader, **options)
    for epoch in (0, 3):
        lines.set_epoch(epoch)
        wanted = {str(r): list(lines.iterate(r)) for r in readers(2, 2) if r.rank == 1}
        assert samples_by_reader(loader) == wanted


def test_workers_of_a_copy_hear_of_the_epoch(tmp_path):
    lines = copy.deepcopy(ShardedLines(numbers(tmp_path / "lines.txt", 100), shuffle=True))
    loader = DataLoader(lines, batch_size=None, num_workers=1, persistent_workers=True)
    orders = []
    for epoch in range(2):
        lines.set_epoch(epoch)
        orders.append(list(loader))
    assert orders[0] != orders[1] == list(lines)


def test_the_rank_goes_along_to_a_spawned_worker(tmp_path, monkeypatch):
    lines = ShardedLines(numbers(tmp_path / "lines.txt", 10))
    assert pickle.loads(pickle.dumps(lines)).rank is None  # not known yet: asked for later
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    sent, mine = pickle.loads(pickle.dumps(lines)), list(lines)
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert list(sent) == mine != list(lines)


def test_ranks_can_be_left_to_somebody_else(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    path = numbers(tmp_path / "lines.txt", 10)
    assert len(list(ShardedLines(path))) == 5
    assert len(list(ShardedLines(path, rank=0, world_size=1))) == 10


def test_bad_bytes_are_named(tmp_path):
    content = b"\xef\xbb\xbf" + b"good\n" * 100 + b"caf\xe9 au lait\n" + b"good\n" * 100
    path = write(tmp_path / "lines.txt", content)
    lines = ShardedLines(path, errors="strict", block_size=64)
    sentence = r"lines\.txt: byte 506 is not UTF-8 \(0xe9, invalid continuation byte\); convert"
    with pytest.raises(ValueError, match=sentence):
        list(lines)
    assert "caf\ufffd au lait" in list(ShardedLines(path))
    write(path, b"\xef\xbb\xbf\xe9\n")
    with pytest.raises(ValueError, match=r"byte 3 is not UTF-8"):
        list(ShardedLines(path, errors="strict"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"errors": "ignore"}, "errors='ignore': it has to be"),
        ({"block_size": 0}, "block_size=0, window=16: both have to be 1 or more"),
        ({"window": 0}, "window=0: both have to be 1 or more"),
        ({"rank": 1}, "rank and world_size go together"),
        ({"rank": 2, "world_size": 2}, "rank 2 of 2: it has to be from 0 to 1"),
    ],
)
def test_wrong_options(tmp_path, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        ShardedLines(write(tmp_path / "lines.txt", b"a\n"), **options)


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*absent"):
        ShardedLines(tmp_path / "absent")
    with pytest.raises(IsADirectoryError, match="is a folder; give the path of one text file"):
        ShardedLines(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is no regular file"):
        ShardedLines(tmp_path / "pipe")
    for name, magic in (("gzip", b"\x1f\x8b\x08\x00"), ("zstd", b"\x28\xb5\x2f\xfd")):
        with pytest.raises(ValueError, match=rf"is compressed \({name}\); unpack it"):
            ShardedLines(write(tmp_path / name, magic + b"more"))
    path = write(tmp_path / "secret", b"a\n")

    def refuse(*_):
        raise PermissionError  # root may read everything: a mode of 0 would not do

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError, match="secret may not be read by this user"):
        ShardedLines(path)


@pytest.mark.parametrize("change", [b"one more\n", b""])
def test_a_file_that_changes_while_it_is_read(tmp_path, change):
    path = numbers(tmp_path / "lines.txt", 100)
    lines = ShardedLines(path, block_size=50)
    iterator = iter(lines)
    next(iterator)
    path.write_bytes(path.read_bytes() + change if change else b"0\n" * 10)
    with pytest.raises(RuntimeError, match=r"lines\.txt has changed since .* it had 290 bytes"):
        list(iterator)


def test_a_state_fits_one_reader_of_one_file(tmp_path):
    path = numbers(tmp_path / "lines.txt", 100)
    state = ShardedLines(path).iterate(Reader(0, 2)).state_dict()
    with pytest.raises(ValueError, match="saved with reader 0, and here it is 1; each reader"):
        ShardedLines(path).iterate(Reader(1, 2)).load_state_dict(state)
    with pytest.raises(ValueError, match="saved with readers 2, and here it is 4"):
        ShardedLines(path).iterate(Reader(0, 4)).load_state_dict(state)
    with pytest.raises(ValueError, match="saved with shuffle False, and here it is True"):
        ShardedLines(path, shuffle=True).iterate(Reader(0, 2)).load_state_dict(state)
    numbers(path, 99)
    with pytest.raises(ValueError, match="saved with size 290, and here it is 287"):
        ShardedLines(path).iterate(Reader(0, 2)).load_state_dict(state)
