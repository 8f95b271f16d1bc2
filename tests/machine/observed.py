# SPDX-License-Identifier: BSD-3-Clause
"""What tests/machine/observed asks of traces and tables.

    observed.py table FILE NAME NUMBER...     the table has each name with that number behind it
    observed.py trace FILE [NAME NUMBER...]   valid, begins and ends nest; so many begins of a name
    observed.py open FILE                     the same, but what has begun need not have ended
    observed.py merged MERGED FILE...         has the events of all files
    observed.py waits TABLE FILE              as many waits in the trace as in the table
"""
import collections
import json
import re
import sys


def fail(text):
    sys.exit("not so: " + text)


def table_of(path):
    """Every line of a table: its name and its numbers. A name may be there twice: the sum."""
    rows = collections.defaultdict(lambda: [0, 0, 0])
    with open(path) as f:
        for line in f:
            found = re.match(r"\s+(\S.*?)\s{2,}(\d+)(?:\s+([\d.]+))?(?:\s+([\d.]+))?$", line)
            if found:
                row = rows[found.group(1)]
                for i in range(3):
                    row[i] += float(found.group(i + 2) or 0)
    return rows


def check_table(path, wanted):
    rows = table_of(path)
    for name, number in zip(wanted[::2], wanted[1::2]):
        if name not in rows or rows[name][0] != int(number):
            fail(f"{path}: {name} is {rows.get(name)}, not {number}")


def load(path):
    with open(path) as f:
        events = json.load(f)
    if not isinstance(events, list):
        fail(f"{path} is no array")
    return events


def check_trace(path, wanted, complete):
    begun = collections.defaultdict(list)
    last = collections.defaultdict(float)
    counts = collections.Counter()
    for event in load(path):
        if event["ph"] == "M":
            continue
        thread = (event["pid"], event["tid"])
        if event["ph"] in "BE":
            if event["ts"] < last[thread]:
                fail(f"{path}: time goes backwards at {event}")
            last[thread] = event["ts"]
        if event["ph"] == "B":
            begun[thread].append(event["name"])
            counts[event["name"]] += 1
            if event["cat"] == "rma" and ("bytes" not in event["args"]
                                          or "target" not in event["args"]):
                fail(f"{path}: no bytes or target in {event}")
            if event["cat"] != "wait" and "window" not in event["args"]:
                fail(f"{path}: no window in {event}")
        elif event["ph"] == "E":
            if not begun[thread]:
                fail(f"{path}: an end without a begin: {event}")
            begun[thread].pop()
    if complete and any(begun.values()):
        fail(f"{path}: begun and never ended: {dict(begun)}")
    for name, number in zip(wanted[::2], wanted[1::2]):
        if counts[name] != int(number):
            fail(f"{path}: {counts[name]} of {name}, not {number}")
    return counts


def check_merged(merged, files):
    parts = sum((load(path) for path in files), [])
    if sorted(map(json.dumps, load(merged))) != sorted(map(json.dumps, parts)):
        fail(f"{merged} has other events than its parts")
    spans = []
    for path in files:
        times = [event["ts"] for event in load(path) if "ts" in event]
        spans.append((min(times), max(times)))
    if max(first for first, _ in spans) > min(last for _, last in spans):
        fail(f"ranks that ran together have times apart: {spans}")


def check_waits(table, trace):
    begins = sum(1 for event in load(trace)
                 if event["ph"] == "B" and event["cat"] == "wait")
    rows = table_of(table)
    kinds = ("lock", "sync", "fence", "copy", "other")
    text = open(table).read().partition("waits for")[2].partition("\n  fences")[0]
    counted = sum(int(n) for name, n in re.findall(r"^ {4}(\w+) +(\d+)", text, re.M)
                  if name in kinds)
    if begins != counted:
        fail(f"{begins} waits in {trace}, {counted} in {table}: {dict(rows)}")


what, args = sys.argv[1], sys.argv[2:]
if what == "table":
    check_table(args[0], args[1:])
elif what == "trace":
    check_trace(args[0], args[1:], True)
elif what == "open":
    check_trace(args[0], args[1:], False)
elif what == "merged":
    check_merged(args[0], args[1:])
elif what == "waits":
    check_waits(args[0], args[1])
else:
    sys.exit(__doc__)
