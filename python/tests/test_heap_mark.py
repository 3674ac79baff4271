"""The pytest plugin, tried on tests whose memory is known. Run with pytest."""

import importlib.metadata
import os
import subprocess
import sys

import pytest

TESTS = """
import os
import pytest

@pytest.fixture
def table():
    return [bytearray(10_000) for _ in range(3000)]

@pytest.mark.heap("allocations('test_mistaken') < 10", peak="25MB")
def test_small(table):
    assert len(bytearray(20_000_000)) and os.environ["HEAPLAB_PYTEST"]

@pytest.mark.heap(peak="25MB")
@pytest.mark.heap("peak < 1GB", "requested('test_large') < 50kB")
def test_large():
    load = lambda: bytearray(60_000_000)
    assert load()

@pytest.mark.heap("peek < 1MB")
def test_mistyped():
    pass

@pytest.mark.heap(peek="1MB")
def test_unknown_word():
    pass

@pytest.mark.heap(peak="1GB")
def test_wrong():
    assert 1 == 2

@pytest.mark.heap(peak="1GB")
def test_skipped():
    pytest.skip("not today")

@pytest.mark.xfail(reason="known to be large")
@pytest.mark.heap(peak="1MB")
def test_expected():
    assert bytearray(60_000_000)

@pytest.mark.skipif(True, reason="never here")
@pytest.mark.heap(peak="1MB")
def test_skipped_by_mark():
    assert False

def test_not_marked():
    assert "HEAPLAB_PYTEST" not in os.environ
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marked")
    (folder / "test_it.py").write_text(TESTS)
    # A marked test records a whole pytest: modules are compiled once for all, others' plugins stay out.
    left_out = ("HEAPLAB_PYTEST", "PYTHONDONTWRITEBYTECODE")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment["PYTHONPYCACHEPREFIX"] = os.fspath(folder / "compiled")
    others = [plugin.name for plugin in importlib.metadata.entry_points(group="pytest11") if plugin.name != "heaplab"]
    environment["PYTEST_ADDOPTS"] = " ".join(f"-p no:{name}" for name in others)
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", "--color=no", folder]
    if not importlib.metadata.entry_points(group="pytest11", name="heaplab"):
        command += ["-p", "heaplab.pytest_plugin"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True).stdout


def test_tests_within_their_bounds_pass(said):
    assert "PASSED test_it.py::test_small" in said, said
    assert "PASSED test_it.py::test_not_marked" in said, said


def test_tests_beyond_their_bounds_fail_with_who_has_most(said):
    assert "FAILED test_it.py::test_large" in said, said
    words = " ".join(said.split())
    assert 'FAILED peak - live("test") < 25MB' in words and "most of it: test_large.<locals>.<lambda> 57.2 MiB" in words, said
    assert "< test_large.<locals>.<lambda> test_it.py:" in words, said
    assert "FAILED requested('test_large') < 50kB" in words and "holds peak < 1GB" in words, said


def test_what_cannot_be_checked_fails_and_says_why(said):
    assert "FAILED test_it.py::test_mistyped" in said and "peek" in said, said
    assert "FAILED test_it.py::test_unknown_word" in said and "takes assertions and peak" in said, said
    assert "FAILED test_it.py::test_wrong" in said and "assert 1 == 2" in said, said
    assert "During handling" not in said, said
    assert "4 failed, 2 passed, 2 skipped, 1 xfailed, 1 warning" in said, said


def test_a_function_that_no_stack_has_is_a_warning(said):
    assert "PASSED test_it.py::test_small" in said, said
    # The message's lines break where the recording's path lets them.
    assert 'no stack has a function called "test_mistaken"' in " ".join(said.split()), said


def test_marks_of_pytest_hold(said):
    assert "XFAIL test_it.py::test_expected" in said
    assert "never here" in said and "heaplab: next" not in said
    assert "test_skipped_by_mark" not in "".join(line for line in said.splitlines() if line.startswith(("FAILED", "PASSED")))
