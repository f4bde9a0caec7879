"""Results that are kept in docs/performance/, one file for each processor model, and their comparison with a new run.

Times, ratios and goals apply to one model only, so a run is compared only with results of the same model.
"""

import datetime
import json
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "performance"
CHANGED = 1.1  # changes of times by more than this are reported


def slug(processor):
    return re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-") or "unknown"


def path_of(processor, folder=FOLDER):
    return folder / f"{slug(processor)}.json"


def read(processor, folder=FOLDER):
    """The kept results of this model, or None."""
    try:
        kept = json.loads(path_of(processor, folder).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return kept if kept["processor"] == processor else None


def commit():
    try:
        done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    except OSError:
        return None
    return done.stdout.strip() or None


def age(date, today):
    days = (today - datetime.date.fromisoformat(date)).days
    return "today" if days <= 0 else "a day ago" if days == 1 else f"{days} days ago"


def provenance(processor, kept, today):
    """The age of the goals for this machine, as a line."""
    if kept is None:
        return f"no results of {processor} are kept: the goals were set on other machines, and hold here as wishes only (--keep keeps this run)"
    dates = sorted(row["date"] for row in kept["cases"].values())
    if not dates:
        return f"results of {processor} are kept, but of no case"
    span = age(dates[0], today) if dates[0] == dates[-1] else f"{age(dates[0], today)} to {age(dates[-1], today)}"
    return f"goals were last held against {processor} {span} ({len(dates)} cases)"


def row_of(case, best, peer, found, today, revision):
    """`found`: the ratio to the peer and whether it differs significantly from 1, or None without a peer."""
    return {
        "ms": best,
        "peer": peer,
        "ratio": found["ratio"] if found else None,
        "clear": bool(found and found["clear"]),
        "counted": bool(found and case["counted"] and case["goal"] is not None),
        "goal": case["goal"],
        "date": today.isoformat(),
        "commit": revision,
    }


def keep(processor, rows, folder=FOLDER):
    """Replaces the rows of measured cases and keeps the others."""
    kept = read(processor, folder) or {"processor": processor, "cases": {}}
    kept["cases"].update(rows)
    folder.mkdir(parents=True, exist_ok=True)
    path_of(processor, folder).write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def changes(kept, rows):
    """Lines for cases that are slower or faster than the kept result of the same processor, and for new goals."""
    lines = []
    for name, row in rows.items():
        old = kept["cases"].get(name) if kept else None
        if not old:
            continue
        since = f"since {old['date']} ({old['commit']})"
        if row["ms"] > old["ms"] * CHANGED:
            lines.append(f"{name}: {row['ms'] / old['ms']:.2f} times as long as kept, {since}")
        elif old["ms"] > row["ms"] * CHANGED:
            lines.append(f"{name}: {old['ms'] / row['ms']:.2f} times as fast as kept, {since}")
        if row["goal"] != old["goal"]:
            lines.append(f"{name}: the goal was {old['goal']}, is {row['goal']}, {since}")
    return lines
