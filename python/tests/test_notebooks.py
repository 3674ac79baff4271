"""The notebooks, each run from its first cell to its last. Run with pytest."""

import pathlib
import shutil

import pytest

nbclient = pytest.importorskip("nbclient", reason="notebooks are run by nbclient and ipykernel")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

FOLDER = pathlib.Path(__file__).parents[1] / "notebooks"


def _outputs(notebook):
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize("name", ["where-does-my-memory-go", "would-another-allocator-help", "a-curve"])
def test_a_notebook_runs_and_shows_tables_and_a_plot(name, tmp_path):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert not _outputs(notebook), "a notebook is kept without outputs"
    # Replays keep their results beside the recording: it is a copy.
    folder = shutil.copytree(FOLDER, tmp_path / "python" / "notebooks")
    recording = pathlib.Path("traces", "sqlite.heaplab")
    kept = shutil.ignore_patterns("replay-*")
    shutil.copytree(FOLDER.parents[1] / recording, tmp_path / recording, ignore=kept)
    # A cell that fails raises here, with its traceback.
    nbclient.NotebookClient(notebook, timeout=400, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    shown = [kind for output in _outputs(notebook) for kind in output.get("data", {})]
    assert shown.count("image/png") == 1 and shown.count("text/html") >= 1, shown
    said = "".join(output.text for output in _outputs(notebook) if output.output_type == "stream" and output.name == "stdout")
    assert said.strip(), "the verdict is printed"


def test_each_notebook_is_tried():
    assert len(list(FOLDER.glob("*.ipynb"))) == 3
