"""Tracebacks of ranks: the reader's frames stay whole, libraries' take a line each."""

from IPython.core.ultratb import FormattedTB

from rankbook.live.failure.frames import shorten


def frames_of(code: str) -> list[str]:
    """IPython's frames for an error in `code`, without the head, this file's and the last line."""
    handler = FormattedTB(mode="Context", theme_name="linux")
    try:
        exec(compile(code, "mine.py", "exec"), {})
    except Exception as error:
        here = error.__traceback__
        return handler.structured_traceback(type(error), error, here.tb_next)[2:-1]
    raise AssertionError("no error")


def test_a_library_takes_a_line_a_frame_and_shows_what_raised():
    mine, *rest = shorten(frames_of("import json\njson.loads('{')"))
    assert "mine.py" in mine
    assert [line.split(":")[0] for line in rest[:2]] == ["json/__init__.py", "json/decoder.py"]
    assert rest[0].endswith(", in loads")
    assert "scan_once" in rest[-1] and "-->" not in rest[-1]


def test_many_frames_in_a_row_are_folded():
    path = "/x/lib/python3/site-packages/torch/a.py"
    frames = [f"File {path}:{n}, in f{n}(x)\n--> {n} call(x)\n" for n in range(20)]
    assert shorten(["Cell In[1], line 2\n", *frames]) == [
        "Cell In[1], line 2\n",
        *(f"torch/a.py:{n}, in f{n}" for n in (0, 1)),
        "... 15 more ...",
        *(f"torch/a.py:{n}, in f{n}" for n in (17, 18, 19)),
        "    call(x)",
    ]


def test_frames_of_the_readers_own_files_stay_whole(tmp_path, monkeypatch):
    (tmp_path / "helper_of_reader.py").write_text("def run(call):\n    return call()\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = "import helper_of_reader, json\nhelper_of_reader.run(lambda: json.loads('{'))"
    shown = shorten(frames_of(code))
    whole = [frame for frame in shown if "helper_of_reader.py" in frame]
    assert len(whole) == 1 and len(whole[0].splitlines()) >= 3


def test_what_is_no_frame_is_kept():
    lines = ["\nThe above exception was the direct cause of the following exception:\n"]
    assert shorten(lines) == lines
    assert shorten([]) == []


def test_the_books_own_library_is_one_too():
    code = (
        "from rankbook.parallel.pipeline import PipelinePlan\nPipelinePlan('nonesuch', 2, 2, 1, 2)"
    )
    mine, *rest = shorten(frames_of(code))
    assert "mine.py" in mine
    assert any(line.startswith("rankbook/parallel/pipeline/plan.py:") for line in rest)
