"""`windvane matrix`: judgements a person can read, and exit codes a script can."""

import io
import json
import urllib.error
import urllib.request

import pytest

from ctl import cli, matrix, matrix_rows
from wire import matrix_drivers as drivers
from wire import matrix_kubernetes as kubernetes

DAY = ["--date", "2026-12-01"]
DRIVER = {
    "compatibility": "ok",
    "reasons": ["r"],
    "version": "595.91.07",
    "cuda_version": "13.2",
    "architectures": ["Hopper"],
}


def run(capsys, *words):
    """Exit code, lines of stdout, stderr."""
    code = cli.main(["matrix", *words])
    told = capsys.readouterr()
    return code, told.out.splitlines(), told.err


def refusal(status, body):
    return urllib.error.HTTPError("u", status, "what the status says", {}, io.BytesIO(body))


@pytest.fixture
def api(monkeypatch):
    """A processor's JSON API that answers what the test puts into `answer`."""
    asked = []

    class Api:
        answer: object = b""

        @staticmethod
        def urls():
            return asked

    def urlopen(url, timeout):
        asked.append(url)
        assert timeout
        if isinstance(Api.answer, Exception):
            raise Api.answer
        body = Api.answer if isinstance(Api.answer, bytes) else json.dumps(Api.answer).encode()
        return io.BytesIO(body)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    return Api


@pytest.mark.parametrize(
    ("words", "code", "state"),
    [
        (["--driver", "580.95.05", "--gpu", "Hopper"], 0, "ok"),
        (["--driver", "580.95.05", "--gpu", "9.0"], 0, "ok"),
        (["--driver", "580.95.05", "--gpu", "NVIDIA H100 80GB HBM3"], 0, "ok"),
        (["--driver", "580.95.05", "--gpu", "Rubin"], 1, "unknown"),
        (["--driver", "580.95.05"], 1, "unknown"),
        (["--driver", "newest", "--gpu", "Hopper"], 1, "unknown"),
        (["--driver", "550.54.15", "--gpu", "Hopper"], 3, "old"),
        (["--driver", "595.91.07", "--gpu", "Tesla P100-PCIE-16GB"], 4, "unsupported"),
        (["--kubeedge", "1.23", "--kubernetes", "1.31"], 0, "ok"),
        (["--kubeedge", "1.23", "--kubernetes", "1.20"], 4, "unsupported"),
        (["--operator", "26.3.1", "--kubernetes", "1.33"], 0, "ok"),
    ],
)
def test_one_judgement_and_its_exit_code(capsys, words, code, state):
    """0 ok, 1 unknown, 3 old, 4 unsupported; unknown is never 0."""
    done, lines, _ = run(capsys, "check", *DAY, *words)

    assert done == code
    assert state in lines[0].split()


def test_several_judgements_are_aligned_and_the_gravest_counts(capsys):
    """A line for each, its word in one column, further reasons below."""
    driver = ["--driver", "580.95.05", "--gpu", "Hopper", "--cuda", "13.1"]
    edge = ["--kubeedge", "1.23", "--kubernetes", "1.29"]
    code, lines, _ = run(capsys, "check", *DAY, *driver, *edge)
    column = lines[0].index(" ok ") + 1

    assert code == matrix.EXIT_CODES["old"]
    assert [line[column:].split()[0] for line in lines if line[column] != " "] == [
        "ok",
        "unknown",
        "old",
    ]
    assert lines[1].strip() == "branch 580 drives Hopper"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "say what to check"),
        (["--gpu", "Hopper"], "--driver or --node"),
        (["--cuda", "12.4"], "--driver or --node"),
        (["--kubeedge", "1.23"], "--kubernetes"),
        (["--kubernetes", "1.31"], "--kubeedge or --operator"),
        (["--driver", "580.95.05", "--date", "tomorrow"], "2026-12-01"),
        (["--node", "edge-01", "--driver", "580.95.05"], "leave out"),
        (["--node", "edge-01", "--api", "file:///etc"], "http://"),
    ],
)
def test_a_question_that_makes_no_sense_is_one_line(capsys, words, told):
    """What to write instead, and exit code 1."""
    code, lines, problem = run(capsys, "check", *words)

    assert (code, lines) == (1, [])
    assert told in problem


def test_a_node_is_judged_by_what_the_processor_knows(capsys, api):
    """Name and cluster become the page's address; CUDA is judged on the node's driver."""
    api.answer = {"verdict": {"driver": DRIVER}}
    asked = ["--node", "edge-01", "--cluster", "plant 7", "--cuda", "13.2"]
    code, lines, _ = run(capsys, "check", *DAY, *asked)

    assert code == 0
    assert lines[0].startswith("edge-01: driver 595.91.07 on Hopper")
    assert lines[-1].split()[:6] == ["CUDA", "13.2", "on", "driver", "595.91.07", "ok"]
    assert api.urls() == ["http://127.0.0.1:6066/api/nodes/edge-01?cluster=plant+7"]


def test_a_processor_that_says_another_word_is_told_of(capsys, api):
    """Its matrix may be older than this command's: both words stand."""
    api.answer = {"verdict": {"driver": DRIVER}}
    code, lines, _ = run(capsys, "check", "--node", "edge-01", "--date", "2027-04-01")

    assert code == matrix.EXIT_CODES["old"]
    assert lines[-1].startswith("the processor says ok")


def test_a_node_that_did_not_tell_its_driver_is_unknown(capsys, api):
    """Nothing a node says is obeyed by the terminal."""
    api.answer = {"verdict": {"driver": {**DRIVER, "version": None, "compatibility": "unknown"}}}
    assert run(capsys, "check", "--node", "edge-01")[0] == 1

    api.answer = {"verdict": {"driver": {**DRIVER, "version": "\x1b[2J", "architectures": [None]}}}
    code, lines, _ = run(capsys, "check", "--node", "edge-01")
    assert code == 1
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"verdict": {"driver": None}}, "no NVIDIA GPU"),
        ({"verdict": {}}, "no NVIDIA GPU"),
        ({"verdict": {"driver": {"compatibility": "fine"}}}, "does not answer as"),
        ({"verdict": None}, "does not answer as"),
        ([], "does not answer as"),
        (b"<html>", "cannot be read"),
        (urllib.error.URLError("refused"), "cannot be read"),
        (
            urllib.error.HTTPError(
                "u", 404, "Not Found", {}, io.BytesIO(b'{"error": "no verdict"}')
            ),
            "404 no verdict",
        ),
        (urllib.error.HTTPError("u", 502, "Bad Gateway", {}, io.BytesIO(b"<html>")), "502 Bad"),
    ],
)
def test_a_processor_that_cannot_be_asked_is_one_line(capsys, api, answer, told):
    """Away, wrong address, unknown node, another program: exit code 1 and the reason."""
    api.answer = answer
    code, lines, problem = run(capsys, "check", "--node", "edge-01")

    assert (code, lines) == (1, [])
    assert told in problem
    assert len(problem.splitlines()) == 1


def test_show_prints_every_row_with_source_and_date(capsys):
    """All tables by default; unconfirmed words are marked."""
    code, lines, _ = run(capsys, "show")
    text = "\n".join(lines)

    assert code == 0
    for row in drivers.BRANCHES.values():
        line = next(one for one in lines if one.startswith(f"{row.branch} "))
        assert line.split()[-2:] == [",".join(row.sources), row.date]
        assert ("?" in line) == (row.designation is not None and not row.designation_confirmed)
    for told in (*drivers.SOURCES.values(), *drivers.NOTES.values(), drivers.ARCHITECTURES_FROM):
        assert told in text
    for row in (*kubernetes.KUBEEDGE.values(), *kubernetes.OPERATORS.values()):
        assert row.source in text


@pytest.mark.parametrize("table", matrix_rows.TABLES)
def test_show_one_table(capsys, table):
    """And no other; nothing is left ragged at the end of a line."""
    code, lines, _ = run(capsys, "show", table)

    assert code == 0
    assert [one for one in lines if one.startswith("== ")] == [f"== {table} =="]
    assert all(one == one.rstrip() for one in lines)


def test_help_tells_the_exit_codes(capsys):
    """A script's author need not read the code."""
    with pytest.raises(SystemExit) as done:
        cli.main(["matrix", "check", "--help"])

    assert done.value.code == 0
    assert "0 ok, 3 old, 4 unsupported, 1 unknown" in capsys.readouterr().out
