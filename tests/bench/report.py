#!/usr/bin/env python3
"""The results of bench.py as lines, Markdown tables and an SVG chart. As a program: report.py RESULTS.json [-o FILE.md] [--svg FILE.svg]"""

import argparse
import json
import math
from html import escape
from pathlib import Path

LARGE = 32 << 20  # bytes: exceeds the private caches of any core
CLIFF = 1.25  # an odd size is marked if its cost per unit of work exceeds that of its round neighbour by this ratio


# ---- Derived figures of one case.


def best_peer(case):
    """The name of the fastest peer, or None if none was measured."""
    return min(case.get("ratios", {}), key=lambda name: case["ratios"][name]["ratio"], default=None)


def time_of(case, name):
    return case["times"][name][case["clock"]]


def title(case):
    return case["name"] + (f" on {case['threads']} threads" if case["threads"] > 1 else "")


def verified(case):
    return "error" not in case and all(check["ok"] for check in case["checks"].values())


def bound(bounds):
    return max(bounds["arithmetic"], bounds["memory"])


def roof(case):
    """(share of the roofline, which roof)"""
    which = "arithmetic" if case["bound"]["arithmetic"] >= case["bound"]["memory"] else "memory"
    return case["bound"][which] / time_of(case, "ours")["best"], which


def slowdown(case):
    """Time per unit of work relative to the round neighbour; work is the least possible time on the machine."""
    return bound(case["round_bound"]) / bound(case["bound"]) / case["round"]["ratio"]


def clear(found):
    """Whether a ratio differs significantly from 1: the middle half of the rounds lies on one side of 1, and it does not round to 1."""
    return found["clear"] and f"{found['ratio']:.2f}" != "1.00"


def goal_met(case):
    """The remark on a case, or None."""
    name = best_peer(case)
    if name is None or case["goal"] is None:
        return None
    found = case["ratios"][name]
    return found["ratio"] >= case["goal"] or (case["goal"] <= 1 and not clear(found))


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def counted(results):
    return [
        case for case in results["cases"] if case["counted"] and case["goal"] is not None and best_peer(case) and verified(case)
    ]


def mean_ratio(results):
    return geometric_mean([case["ratios"][best_peer(case)]["ratio"] for case in counted(results)])


# ---- Text.


def milliseconds(value):
    return f"{value * 1e3:.3g} us" if value < 1 else f"{value:.3g} ms" if value < 1000 else f"{value / 1e3:.3g} s"


def timing(figures):
    return f"{milliseconds(figures['best'])} ({milliseconds(figures['median'])}, {figures['spread']:.0%})"


def ratio_text(found):
    if not clear(found):
        return "~1.0"
    return f"{found['ratio']:.2f}" if found["ratio"] < 10 else f"{found['ratio']:.0f}"


def range_text(found):
    digits = 2 if found["high"] < 10 else 0
    return f"{found['low']:.{digits}f} .. {found['high']:.{digits}f}"


def remarks(case):
    name = best_peer(case)
    if name and case["ratios"][name]["ratio"] < 1 and clear(case["ratios"][name]):
        yield f"**slower than {name}**"
    if goal_met(case) is False:
        yield "below the goal"
    for peer, check in case["checks"].items():
        if not check["ok"]:
            yield f"**differs from {peer} by {check['max_difference']:.3g}, {check['of_allowed']:.3g} times what is allowed**"
    if not case["checks"]:
        yield "not verified: no peer"
    for peer, why in case["failed"].items():
        yield f"{peer} left out: {why}"
    if case["clock"] == "cpu":
        yield f"CPU time: wall is {case['disagreement']:.2g} times that"
    if not case["counted"] and case["goal"] and case["dtype"] in ("bf16", "i8"):
        yield "not counted: matrix engine"


def line(case):
    """One line for each case, while the table grows."""
    if "error" in case:
        return f"{case['name']:<42} FAILED: {case['error']}"
    name = best_peer(case)
    text = f"{title(case):<42} ours {timing(time_of(case, 'ours')):<26}"
    if name:
        found = case["ratios"][name]
        text += f" {name:<8} {timing(time_of(case, name)):<26} ratio {ratio_text(found):<5} [{range_text(found)}]"
    text += f" {case['alone']['ratio']:.2f} x one thread" if "alone" in case else ""
    text += f" goal {case['goal']:g}" if case["goal"] else ""
    text += f" {slowdown(case):.2f} x round size" if case.get("round") else ""
    return f"{text} {speed(case)}; {'; '.join(remarks(case))}".rstrip("; ").replace("**", "")


def summary(results):
    cases = counted(results)
    lines = []
    if cases:
        met = sum(bool(goal_met(case)) for case in cases)
        lines.append(
            f"geometric mean {mean_ratio(results):.2f} over {len(cases)} case{'s' if len(cases) > 1 else ''}, {met} at the goal"
        )
    wrong = [case["name"] for case in results["cases"] if not verified(case)]
    if wrong:
        lines.append("WRONG or failed: " + ", ".join(wrong))
    missing = results["machine"]["missing"]
    if missing:
        lines.append("peers not there: " + ", ".join(missing))
    return "\n".join(lines)


# ---- Markdown.


def table(header, rows):
    out = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(out + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"


def speed(case):
    """With the share of the roof; the bandwidth of several cores is not known."""
    share, which = roof(case)
    best = time_of(case, "ours")["best"]
    figure = f"{case['flops'] / best * 1e-6:.3g} GFLOP/s" if which == "arithmetic" else f"{case['bytes'] / best * 1e-6:.3g} GB/s"
    return figure if which == "memory" and case["threads"] > 1 else f"{figure}, {share:.0%}"


def goal_row(case):
    goal = f"{case['goal']:g}" if case["goal"] else ""
    if "error" in case:
        return [case["name"], "", "", "", "", goal, "", *([""] if case["threads"] > 1 else []), f"**failed: {case['error']}**"]
    name = best_peer(case)
    ours = timing(time_of(case, "ours"))
    peer = f"{name} {timing(time_of(case, name))}" if name else ""
    found = case["ratios"][name] if name else None
    ratio, spread = (f"**{ratio_text(found)}**", range_text(found)) if name else ("", "")
    alone = [f"{case['alone']['ratio']:.2f}"] if "alone" in case else []
    return [case["name"], ours, peer, ratio, spread, goal, speed(case), *alone, "; ".join(remarks(case))]


def peers_row(case, names):
    ratios = case.get("ratios", {})
    return [case["name"], *(ratio_text(ratios[name]) if name in ratios else "" for name in names)]


def odd_row(case):
    if "error" in case:
        return [case["name"], "", "", "", "", f"**failed: {case['error']}**"]
    slow, name = slowdown(case), best_peer(case)
    peer = f"{name} {ratio_text(case['ratios'][name])}" if name else ""
    sizes = " ".join(f"{key}={value}" for key, value in {**case["round_sizes"], **(case.get("round_statics") or {})}.items())
    slow_text = f"**{slow:.2f}**" if slow > CLIFF else f"{slow:.2f}"
    return [case["name"], timing(time_of(case, "ours")), sizes, slow_text, peer, "; ".join(remarks(case))]


def middle(values):
    return sorted(values)[len(values) // 2]


def about(results):
    machine = results["machine"]
    measured = [case for case in results["cases"] if "bound" in case]
    peers = ", ".join(f"{name} {version}" for name, version in machine["peers"].items()) or "none"
    engine = ""
    if machine["matrix_engine"]:
        engine = ", with a matrix engine (AMX) that pk does not use: bf16 and i8 are shown, not counted"
    elif machine.get("no_amx"):
        engine = ", peers kept from its matrix engine (AMX)"
    rates = {name: [case["rates"][name] for case in measured] for name in ("f32", "bf16", "i8")}
    rate = ", ".join(
        f"{name} {middle(values):.0f} ({min(values):.0f} to {max(values):.0f})" for name, values in rates.items() if any(values)
    )
    large = [case["bound"]["gbytes"] for case in measured if case["bytes"] > LARGE]
    memory = f"{middle(large):.0f} ({min(large):.0f} to {max(large):.0f})" if large else "not measured"
    threads = f", every contender on {machine['threads']} threads" if machine["threads"] > 1 else ""
    return (
        f"- Machine: {machine['processor']}, {machine['cores']} cores{engine}; {machine['system']}; {machine['compiler']}. "
        f"Load {min(machine['load']):.1f} to {max(machine['load']):.1f} while it ran: others may have been using it.\n"
        f"- One core, median of the cases and range. Multiply-adds in registers, 1e9 operations a second: {rate or 'not measured'}. "
        f"Memory beyond {LARGE >> 20} MiB, GB/s: {memory}.\n"
        f"- Peers: {peers}. Not there: {', '.join(machine['missing']) or 'none'}.\n"
        f"- {machine['seconds']:g} s of rounds a case{threads}.\n"
    )


def markdown(results):
    cases = results["cases"]
    goals = [case for case in cases if not case["round_sizes"]]
    odd = [case for case in cases if case["round_sizes"]]
    names = [name for name in results["machine"]["peers"] if any(name in case.get("ratios", {}) for case in goals)]
    parts = [about(results), "\n" + summary(results).replace("\n", "\n\n") + "\n"]
    if goals:
        alone = ["times one thread"] if results["machine"]["threads"] > 1 else []
        header = ["case", "ours: best (median, spread)", "best peer", "ratio", "of the rounds", "goal", "speed, of the roof", *alone, ""]
        parts.append("\n" + table(header, map(goal_row, goals)))
    if len(names) > 1:
        parts.append(
            "\nEvery peer's time divided by ours:\n\n" + table(["case", *names], (peers_row(case, names) for case in goals))
        )
    if odd:
        header = ["odd size", "ours: best (median, spread)", "round neighbour", "time per unit of work", "best peer", ""]
        parts.append("\n" + table(header, map(odd_row, odd)))
    return "".join(parts)


# ---- The chart: a bar from 1 to the ratio on a logarithmic axis, a tick at the goal.

LEFT, WIDTH, ROW, TOP, RIGHT = 300, 480, 20, 46, 150
LEAST, MOST = 0.125, 8.0
WON, LOST, EVEN = "#2a7f4f", "#b5382a", "#8a8a8a"


def across(ratio):
    share = math.log(min(max(ratio, LEAST), MOST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + WIDTH * share


def bar(case, y):
    name = best_peer(case)
    found = case["ratios"][name]
    colour = EVEN if not clear(found) else WON if found["ratio"] >= 1 else LOST
    start, end = sorted((across(1), across(found["ratio"])))
    solid = "" if case["counted"] else ' fill-opacity="0.45"'
    yield f'<text x="{LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(case["name"])}</text>'
    yield f'<rect x="{start:.1f}" y="{y + 3}" width="{max(end - start, 1):.1f}" height="{ROW - 7}" fill="{colour}"{solid}/>'
    if case["goal"]:
        x = across(case["goal"])
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1}" y2="{y + ROW - 2}" stroke="#000" stroke-width="2"/>'
    yield f'<text x="{LEFT + WIDTH + 8}" y="{y + 13}">{ratio_text(found)} against {escape(name)}</text>'


def chart(results):
    cases = [case for case in results["cases"] if not case["round_sizes"] and best_peer(case)]
    height = TOP + ROW * len(cases) + 12
    total = LEFT + WIDTH + RIGHT
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" width="{total}" height="{height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{total}" height="{height}" fill="#fff"/>',
        '<text x="8" y="16">Best peer\'s time divided by ours: right of 1 we are faster. Ticks: goals. Pale: not counted.</text>',
    ]
    mark = LEAST
    while mark <= MOST:
        x = across(mark)
        out.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height - 8}" stroke="{"#444" if mark == 1 else "#ddd"}"/>'
        )
        out.append(f'<text x="{x:.1f}" y="{TOP - 8}" text-anchor="middle" fill="#444">{mark:g}</text>')
        mark *= 2
    for number, case in enumerate(cases):
        out.extend(bar(case, TOP + ROW * number))
    return "\n".join([*out, "</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("-o", dest="output", type=Path, help="write the tables here instead of to standard output")
    parser.add_argument("--svg", type=Path, help="write the chart here")
    options = parser.parse_args()
    results = json.loads(options.results.read_text())
    if options.svg:
        options.svg.write_text(chart(results))
    if options.output:
        options.output.write_text(markdown(results))
    else:
        print(markdown(results), end="")


if __name__ == "__main__":
    main()
