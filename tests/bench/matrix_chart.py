"""The heat map of bench-matrix: a row for an operation and an axis, a column for a dtype and a size."""

import math
from html import escape

import forms

CELL, HIGH, LEFT, TOP = 9, 11, 190, 60
# The upper ratio of each colour; the last colour is for all greater ratios.
SCALE = [(0.2, "#67001f"), (0.4, "#b2182b"), (0.67, "#d6604d"), (0.9, "#f4a582"), (1.1, "#f7f7f7"), (1.5, "#d1e5f0"), (2.5, "#92c5de"), (5, "#4393c3"), (math.inf, "#2166ac")]
NO_PEER = "#dddddd"


def colour(found):
    return NO_PEER if found is None else next(c for limit, c in SCALE if found < limit)


def chart(rows, ratio):
    sizes = [*forms.SIZES, "short"]
    dtypes = [*forms.DTYPES, "u32"]
    lines, places = {}, {}
    for key, row in rows.items():
        if "error" in row:
            continue
        name, dtype, axis, size = key.rsplit("/", 3)
        line = lines.setdefault((name, axis), len(lines))
        column = dtypes.index(dtype) * (len(sizes) + 1) + sizes.index(size)
        places.setdefault(colour(ratio(row)), []).append(f"M{LEFT + column * CELL} {TOP + line * HIGH}h{CELL}v{HIGH}h-{CELL}z")
    width, height = LEFT + len(dtypes) * (len(sizes) + 1) * CELL + 10, TOP + len(lines) * HIGH + 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="sans-serif" font-size="9">',
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           f'<text x="8" y="14" font-size="12">Best peer\'s time over ours. Columns of a dtype: {escape(", ".join(sizes))}</text>']
    for n, (limit, fill) in enumerate([*SCALE, (None, NO_PEER)]):
        label = "no peer" if limit is None else f"from {SCALE[-2][0]:g}" if limit == math.inf else f"below {limit:g}"
        out.append(f'<rect x="{8 + n * 80}" y="22" width="12" height="10" fill="{fill}" stroke="#999"/><text x="{24 + n * 80}" y="31">{label}</text>')
    for n, dtype in enumerate(dtypes):
        out.append(f'<text x="{LEFT + n * (len(sizes) + 1) * CELL}" y="{TOP - 6}">{dtype}</text>')
    for (name, axis), line in lines.items():
        label = name if axis == "all" else f"{name}, {axis}"
        out.append(f'<text x="{LEFT - 6}" y="{TOP + line * HIGH + 9}" text-anchor="end">{escape(label)}</text>')
    out += [f'<path fill="{fill}" stroke="#fff" stroke-width="0.5" d="{"".join(parts)}"/>' for fill, parts in places.items()]
    return "\n".join([*out, "</svg>"]) + "\n"
