"""`@pytest.mark.heap`: what a test may need of memory.

The test runs in a recorded process of its own (`heaplab record --python -- python -m pytest NODEID`),
and assertions of `heaplab check` (docs/gates.md) are checked of the recording:

    @pytest.mark.heap(peak="50MB")
    @pytest.mark.heap("leaked('parse') == 0", "allocations('parse') < 1e5")

Assertions are of the whole process, pytest included; a function's name says whose memory is meant
(`peak('parse')` is what of that was live at the peak of the process, which pytest may make).
`peak="50MB"` takes off what was live when the test began, with its fixtures: `peak - live("test") <
50MB`. Where pytest needed more before the test than the test itself, that counts: `peak` never
passes a test that needs more than it says.
"""

import os
import re
import sys
import tempfile

import pytest

from . import _binary

# Set in the recorded process: the test that runs there.
_RECORDED = "HEAPLAB_PYTEST"


def pytest_configure(config):
    config.addinivalue_line("markers", "heap(*assertions, peak=None): what the test may need of memory (heaplab check)")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    """A marked test is not run here: a recorded process runs it, its fixtures too."""
    if item.get_closest_marker("heap") is None or _RECORDED in os.environ:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    call = pytest.CallInfo.from_call(lambda: _run_or_fail(item), when="call")
    report = item.ihook.pytest_runtest_makereport(item=item, call=call)
    item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """The moment from which on the test's own memory counts."""
    if os.environ.get(_RECORDED) == pyfuncitem.nodeid and not _binary.mark("test"):
        raise _binary.Error("the recorded process has no recorder: is heaplab_mark hidden by another library?")


def _assertions(item):
    found = []
    for marker in item.iter_markers("heap"):
        unknown = set(marker.kwargs) - {"peak"}
        if unknown or not (marker.args or marker.kwargs):
            raise pytest.UsageError(f"pytest.mark.heap takes assertions and peak, such as peak='50MB'; not {sorted(unknown) or 'nothing'}")
        found += marker.args
        if "peak" in marker.kwargs:
            found.append(f'peak - live("test") < {marker.kwargs["peak"]}')
    return found


def _run_or_fail(item):
    # The marks skip, skipif and xfail: pytest looks at them in the phase that does not run here.
    marks = item.config.pluginmanager.get_plugin("skipping")
    if marks is not None:
        marks.pytest_runtest_setup(item=item)
    try:
        _run_recorded(item)
    except (_binary.Error, pytest.UsageError) as error:
        raise pytest.fail.Exception(f"not checked: {error}", pytrace=False) from None


def _run_recorded(item):
    assertions = _assertions(item)
    with tempfile.TemporaryDirectory(prefix="heaplab-") as folder:
        settings = ["-c", os.fspath(item.config.inipath)] if item.config.inipath else []
        command = [sys.executable, "-m", "pytest", "-q", "--rootdir", item.config.rootpath, *settings]
        command += ["-p", "no:cacheprovider"]
        if item.config.pluginmanager.get_name(sys.modules[__name__]) == __name__:
            command += ["-p", __name__]  # not by the wheel's entry point, but by -p, as here
        said = os.path.join(folder, "said")
        with open(said, "w+") as file:
            recording = _binary.record(
                [*command, item.nodeid], os.path.join(folder, "test.heaplab"), python=True,
                cwd=item.config.rootpath, env={**os.environ, _RECORDED: item.nodeid}, stdout=file, stderr=file)
            file.seek(0)
            # The recording that heaplab advises to look at is deleted.
            text = "".join(line for line in file if not line.startswith("heaplab: next: "))
        if recording.status != 0:
            pytest.fail(f"the test failed in its recorded process:\n{text}", pytrace=False)
        if re.search(r"^\d+ skipped", text, re.MULTILINE):
            pytest.skip("in its recorded process")
        failed = recording.check(*assertions)
        if failed:
            pytest.fail(failed, pytrace=False)
