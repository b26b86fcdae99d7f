#!/usr/bin/env python3
"""Makes the Parquet and Arrow files of this folder, and NAME.jsonl with what a reader must find in NAME (rows.jsonl
where there is none). Needs pyarrow 26.0.1, polars, pandas, fastparquet and datasets; the files
are committed."""

import datetime
import decimal
import json
import pathlib
import shutil

import datasets
import fastparquet
import pandas
import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
ROWS = [
    {"text": "Gewinn stieg – 利益 🚀 \"zitiert\"\n\\", "label": 1, "score": 0.1, "good": True, "tags": ["a", None],
     "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello\t\u0001"}]},
    {"text": None, "label": None, "score": None, "good": None, "tags": None, "messages": None},
    {"text": "", "label": -9223372036854775808, "score": 3.0, "good": False, "tags": [],
     "messages": [{"role": "user", "content": None}]},
    {"text": "x" * 3000, "label": 9223372036854775807, "score": 1e300, "good": True, "tags": ["b"], "messages": []},
]
TURN = pa.struct([("role", pa.string()), ("content", pa.string())])
SCHEMA = pa.schema([("text", pa.string()), ("label", pa.int64()), ("score", pa.float64()), ("good", pa.bool_()),
                    ("tags", pa.list_(pa.string())), ("messages", pa.list_(TURN))])


def expect(name, rows):
    """Tables of ROWS share one file."""
    name = "rows" if rows is ROWS else name
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    (HERE / f"{name}.jsonl").write_text("".join(line + "\n" for line in lines))


def parquet(name, table, rows, **options):
    pq.write_table(table, HERE / name, **options)
    expect(name, rows)


def stream(name, table, rows, new=pa.ipc.new_stream, **options):
    with new(HERE / name, table.schema, **options) as writer:
        writer.write_table(table, max_chunksize=3)
    expect(name, rows)


def types():
    """The rarer types, a column each."""
    day, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 5)
    columns = {
        "dictionary": (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        "large": (pa.array(["x", "y", None], pa.large_string()), ["x", "y", None]),
        "bytes": (pa.array([b"text", b"text", b"\xc3\xa4"], pa.binary()), ["text", "text", "ä"]),
        "small": (pa.array([1, 255, None], pa.uint8()), [1, 255, None]),
        "unsigned": (pa.array([0, 18446744073709551615, 1], pa.uint64()), [0, 18446744073709551615, 1]),
        "single": (pa.array([0.5, 0.25, None], pa.float32()), [0.5, 0.25, None]),
        "not_finite": (pa.array([float("nan"), float("inf"), 1.0]), [None, None, 1.0]),
        "price": (pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("-7.2")], pa.decimal128(9, 1)),
                  [1.5, None, -7.2]),
        "day": (pa.array([day, None, day]), ["2024-02-29", None, "2024-02-29"]),
        "moment": (pa.array([moment, None, moment], pa.timestamp("ms")), ["2024-02-29 12:30:05.000", None, "2024-02-29 12:30:05.000"]),
        "map": (pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())), [{"k": 1}, {}, None]),
        "fixed": (pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)), [[1, 2], None, [3, 4]]),
        "nested": (pa.array([{"a": {"b": [[1], []]}}, None, {"a": None}]), [{"a": {"b": [[1], []]}}, None, {"a": None}]),
        "none": (pa.nulls(3), [None] * 3),
    }
    table = pa.table({name: array for name, (array, _) in columns.items()})
    return table, [{name: values[i] for name, (_, values) in columns.items()} for i in range(3)]


def main():
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
        parquet(f"{codec}.parquet", table, ROWS, compression=codec, row_group_size=2)
    parquet("pages_v2.parquet", table, ROWS, data_page_version="2.0", data_page_size=100, use_dictionary=False)
    rare, rows = types()
    parquet("types.parquet", rare, rows)
    stream("types.arrow", rare, rows)
    stream("stream.arrow", table, ROWS)
    stream("file.arrow", table, ROWS, new=pa.ipc.new_file, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    pa.feather.write_feather(table, HERE / "lz4.feather", compression="lz4")
    expect("lz4.feather", ROWS)
    polars.DataFrame({"text": ["ein langer Text, den polars als Sicht speichert", None], "n": [1, 2]}).write_ipc(
        HERE / "polars_views.arrow", compat_level=polars.CompatLevel.newest())
    expect("polars_views.arrow", [{"text": "ein langer Text, den polars als Sicht speichert", "n": 1}, {"text": None, "n": 2}])
    fastparquet.write(HERE / "fastparquet.parquet", pandas.DataFrame({"text": ["a", "b"], "label": ["good", "bad"]}))
    expect("fastparquet.parquet", [{"text": "a", "label": "good"}, {"text": "b", "label": "bad"}])
    images = pa.table({"image": pa.array([b"\x89PNG\x00", b"\xff\xd8"]), "text": ["a", "b"]})
    parquet("images.parquet", images, [{"text": "a"}, {"text": "b"}])
    lines = (HERE / "../../../data/examples/reports.txt").read_text().splitlines()[:62]
    reports = [dict(zip(("sentence", "label"), map(str.strip, line.rsplit("@", 1)))) for line in lines]
    parquet("reports.parquet", pa.Table.from_pylist(reports), reports)
    saved()
    class_label()


def class_label():
    """A column of classes that the library datasets names."""
    features = datasets.Features({"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])})
    rows = [{"text": f"text {i}", "label": i % 2} for i in range(6)]
    reviews = datasets.Dataset.from_list(rows, features=features)
    reviews.to_parquet(HERE / "class_label.parquet")
    expect("class_label.parquet", rows)
    pa.feather.write_feather(reviews.data.table, HERE / "class_label.arrow", compression="uncompressed")


def saved():
    """What `save_to_disk` of the library datasets leaves: a stream and its descriptions."""
    folder = HERE / "saved"
    shutil.rmtree(folder, ignore_errors=True)
    split = lambda name: datasets.Dataset.from_list([{"text": f"{name} {i}", "label": i % 2} for i in range(4)])
    datasets.DatasetDict({"train": split("train"), "validation": split("validation")}).save_to_disk(folder)


if __name__ == "__main__":
    main()
