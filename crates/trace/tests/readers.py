"""Reads a bundle with DuckDB and pandas, runs the SQL of docs/bundle-format.md, and prints what it finds as JSON."""

import json
import re
import sys

import duckdb
import pandas

bundle, document = sys.argv[1:]
db = duckdb.connect()
by_op = db.sql(f"SELECT op, count(*), sum(size) FROM '{bundle}/events.parquet' GROUP BY op ORDER BY op").fetchall()

frame = pandas.read_parquet(f"{bundle}/events.parquet")
in_pandas = frame.groupby("op")["size"].agg(["size", "sum"]).reset_index()

answers = []
for query in re.findall(r"```sql\n(.*?)```", open(document).read(), re.S):
    answers.append(db.sql(query.replace("app.heaplab", bundle)).fetchall())

tables = {}
for name in ["stacks", "frames", "modules", "processes", "threads", "arenas", "marks", "samples"]:
    rows = db.sql(f"SELECT count(*) FROM '{bundle}/{name}.parquet'").fetchall()[0][0]
    assert rows == len(pandas.read_parquet(f"{bundle}/{name}.parquet")), name
    tables[name] = rows

print(json.dumps({
    "duckdb": [[op, count, int(size or 0)] for op, count, size in by_op],
    "pandas": [[row["op"], int(row["size"]), int(row["sum"])] for _, row in in_pandas.iterrows()],
    "types": {column: str(kind) for column, kind in zip(frame.columns, frame.dtypes)},
    "answers": [[[str(value) for value in row] for row in rows] for rows in answers],
    "tables": tables,
}))
