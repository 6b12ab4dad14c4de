"""What people do to lists with pandas.

Usage: pandas_lists.py create ROOT OUT
       pandas_lists.py diff A B OUT
       pandas_lists.py merge BASE OURS THEIRS OUT
       pandas_lists.py relabel LIST MAP OUT
       pandas_lists.py stats LIST
       pandas_lists.py split LIST OUT_DIRECTORY
"""

from __future__ import annotations

import os
import sys

import pandas as pd

COLUMNS = ["index", "label", "path"]


def read(path: str) -> pd.DataFrame:
    """Read a list of one label a line."""
    return pd.read_csv(path, sep="\t", names=COLUMNS, quoting=3)


def write(table: pd.DataFrame, path: str) -> None:
    """Write a list."""
    table[COLUMNS].to_csv(path, sep="\t", header=False, index=False, quoting=3)


def create(root: str, out: str) -> None:
    """List a folder, a class a directory."""
    paths = sorted(
        os.path.relpath(os.path.join(where, name), root)
        for where, _, names in os.walk(root)
        for name in names
        if name.lower().endswith((".jpg", ".jpeg", ".png"))
    )
    table = pd.DataFrame({"path": paths})
    table["label"] = table["path"].map(os.path.dirname).astype("category").cat.codes
    table["index"] = range(len(table))
    write(table.sample(frac=1, random_state=0), out)


def diff(first: str, second: str, out: str) -> None:
    """Write the rows that are in one list only, or have another label in the other."""
    both = read(first).merge(read(second), on="path", how="outer", indicator=True)
    changed = (both["_merge"] != "both") | (both["label_x"] != both["label_y"])
    both[changed].to_csv(out, sep="\t", index=False)


def merge(base: str, ours: str, theirs: str, out: str) -> None:
    """Take the label of the side that changed it; add and remove what either did."""
    tables = [read(path) for path in (base, ours, theirs)]
    table = tables[1].merge(tables[2], on="path", how="outer", suffixes=("_ours", "_theirs"))
    table = table.merge(tables[0], on="path", how="left")
    removed = table["label"].notna() & (table["label_ours"].isna() | table["label_theirs"].isna())
    table = table[~removed]
    use_theirs = table["label_ours"].isna() | (table["label_ours"] == table["label"])
    table["label"] = table["label_ours"].where(~use_theirs, table["label_theirs"])
    table["index"] = table["index_ours"].fillna(table["index_theirs"]).astype(int)
    write(table, out)


def relabel(path: str, changes: str, out: str) -> None:
    """Map labels, and number them without gaps."""
    table = read(path)
    new = pd.read_csv(changes, sep="\t", names=["old", "new"]).set_index("old")["new"]
    table["label"] = table["label"].astype(int).map(new).rank(method="dense").astype(int) - 1
    write(table, out)


def stats(path: str) -> None:
    """Count rows by class."""
    counts = read(path)["label"].value_counts().sort_index()
    print(counts.to_string())
    print(counts.sum(), len(counts), counts.idxmin(), counts.idxmax(), counts.max() / counts.min())


def split(path: str, out: str) -> None:
    """Split by class: eighty, ten and ten percent."""
    table = read(path).sample(frac=1, random_state=0)
    share = table.groupby("label").cumcount() / table.groupby("label")["path"].transform("size")
    for name, low, high in (("train", 0, 0.8), ("val", 0.8, 0.9), ("test", 0.9, 1)):
        write(table[(share >= low) & (share < high)], os.path.join(out, f"{name}.lst"))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
