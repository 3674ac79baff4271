"""A curve: what space a garbage-collected program needs for what time, as a table of points."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Optional, Sequence, Union

from . import _binary
from ._recording import _pyarrow, _said

if TYPE_CHECKING:
    import pyarrow


def curve(
    command: Sequence[Union[str, os.PathLike]],
    vary: str,
    *,
    compare: Optional[Sequence[str]] = None,
    reps: Optional[int] = None,
    time: Optional[str] = None,
    default: bool = False,
) -> pyarrow.Table:
    """Runs a command under each setting of `vary` (`NAME=20..320x6`), in blocks, as `heaplab curve`
    does (docs/curve.md). One row a setting: `variant`, `setting`, `time_s` with `time_low_s` and
    `time_high_s`, `space_bytes` with `space_low_bytes` and `space_high_bytes`, `cycles`
    (collections; null where the runtime does not tell), `runs`, `dominated_by` (the setting that
    needs less of both), `failure`. Measures of a setting that failed are null.

    `compare` has two values to set beside each setting, `time` is `wall` or `cpu`, `default` runs
    the command without the setting as well. The schema's metadata has `verdict` with its cautions."""
    pa = _pyarrow()
    asked = ["--vary", vary, *(["--compare", ",".join(compare)] if compare else [])]
    asked += ["--reps", str(reps)] if reps else []
    asked += ["--time", time] if time else []
    asked += [] if default else ["--no-default"]
    result = _binary.run_json("curve", "--json", *asked, "--", *map(os.fspath, command))
    schema = pa.schema(
        [("variant", pa.string()), ("setting", pa.string())]
        + [(name, pa.float64()) for name in ("time_s", "time_low_s", "time_high_s", "space_bytes", "space_low_bytes", "space_high_bytes", "cycles")]
        + [("runs", pa.uint64()), ("dominated_by", pa.string()), ("failure", pa.string())]
    )
    rows = [_row(variant["name"], point) for variant in result["variants"] for point in variant["points"]]
    return _said(pa.Table.from_pylist(rows, schema), [*result["verdict"], *result["cautions"]])


def _row(variant, point):
    time, space = point["time_s"] or {}, point["space_bytes"] or {}
    return {
        "variant": variant, "setting": point["setting"],
        "time_s": time.get("value"), "time_low_s": time.get("low"), "time_high_s": time.get("high"),
        "space_bytes": space.get("value"), "space_low_bytes": space.get("low"), "space_high_bytes": space.get("high"),
        "cycles": (point["medians"] or {}).get("cycles"), "runs": point["runs"],
        "dominated_by": point["dominated_by"], "failure": point["failure"],
    }
