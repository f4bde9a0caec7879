#!/usr/bin/env python3
"""The comment of each kernel of the library has the result of `pkc tpu`, as `// pkc tpu SIZES..: TIME on a CHIP, bound by the THING.`
Steps of a program need no line.

Kernels of many devices have no such line. `tests/tpu_lines.py --write` updates the figures of the lines and keeps their words.
"""
import json
import re
import shlex
import subprocess
import sys

from suite import PKC, ROOT, callable_kernels, check, finish

LINE = re.compile(r"^// pkc tpu ([^:]*(?::[^ ][^:]*)*): (?:(.+) on a (\w+)(?:, bound by the (.+))?)?\.$", re.M)
NOT_MODELLED = {"moe", "moe_backward"}  # earlier calls compute the numbers of rows of their products, so their steps have lines instead
UNITS = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))


def time_text(seconds):
    """To two digits below ten of a unit, else to whole ones: 2.2 ms, 19 ms, 185 us."""
    for unit, size in UNITS:
        if seconds >= 0.9995 * size or unit == "ns":
            value = seconds / size
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"


def said(path, words, chip):
    run = subprocess.run([PKC, "tpu", str(path), *shlex.split(words), "--chip", chip, "--json"], capture_output=True, text=True)
    if run.returncode:
        return None, run.stderr
    model = json.loads(run.stdout)
    bound = model.get("bound")
    if bound and not bound.startswith("the "):
        bound = "the " + bound
    return f"{time_text(model['seconds'])} on a {chip}" + (f", bound by {bound}" if bound else ""), ""


def main():
    for path in sorted((ROOT / "kernels").rglob("*.pk")):
        if path.parent.name == "collectives":
            continue
        name, text = path.relative_to(ROOT), path.read_text()
        lines = list(LINE.finditer(text))
        if not check(f"{name}: a line `// pkc tpu`", lines):
            continue
        named, kernels = {found for line in lines for found in re.findall(r"-k (\w+)", line[1])}, callable_kernels(text)
        for kernel in kernels if len(kernels) > 1 else []:
            own = path.stem == kernel and not all("-k" in line[1] for line in lines)
            check(f"{name}: a line `// pkc tpu` of {kernel}", kernel in named | NOT_MODELLED or own)
        for line in lines:
            words, chip = line[1], line[3] or "v5e"
            now, error = said(path, words, chip)
            stands = line[0] == f"// pkc tpu {words}: {now}."
            if "--write" in sys.argv and now:
                text = text.replace(line[0], f"// pkc tpu {words}: {now}.")
                path.write_text(text)
            else:
                check(f"{name}: `pkc tpu {words}`", stands, error or f"the comment does not say: {now}")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
