"""The reports of `pkc check` for faults between devices: the kind of the finding, its line, its device and the partner that it names.

    tests/mesh_reports.py [--list] [KERNEL ..]

A fault is a change of a right kernel of tests/cases/mesh/topologies.pk: a ring, a torus, a cube, a star, a line, an exchange of all
with all, a tree and rounds between barriers. tests/mesh_faults.py plants changes of a few forms in the library's kernels; those here are written by hand.
--list prints the first finding of each fault. Ends with "N passed, N failed".
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from suite import PKC, ROOT, check, finish

SOURCE = ROOT / "tests/cases/mesh/topologies.pk"
SIZES = {"ring": "M=12", "torus": "M=12 N=3", "cube": "M=16", "star": "M=10", "line": "N=3", "shuffle": "N=3", "tree": "M=5", "rounds": "M=9"}

# What is planted, {old text: new text}, and the report: its kind, the text at its place, its device, and a device that its message
# or a note names ("": it names no other).
Fault = collections.namedtuple("Fault", "kernel what changes kind place device partner")

FAULTS = [
    Fault("ring", "without a barrier", {"barrier();": ""}, "not-begun", "pass.start()", "(d=0)", "(d=1)"),
    Fault("ring", "without credits",
          {"when i > 0 { wait(free[(i + 1) % 2]); }": "",
           "when i + 2 < D { signal(free[i % 2], device = (d = left)); }": ""},
          "race", "slot[0, :]", "(d=1)", "(d=0)"),
    Fault("ring", "credits that nothing waits for", {"when i > 0 { wait(free[(i + 1) % 2]); }": ""}, "race", "slot[0, :]", "(d=1)", "(d=0)"),
    Fault("ring", "credits before the copy is complete",
          {"pass.wait();": "",
           "when i + 2 < D { signal(free[i % 2], device = (d = left)); }": "when i + 2 < D { signal(free[i % 2], device = (d = left)); } pass.wait();"},
          "race", "pass.start()", "(d=2)", "(d=3)"),
    Fault("ring", "credits to the wrong neighbour", {"device = (d = left)": "device = (d = right)"}, "race", "slot[0, :]", "(d=2)", "(d=1)"),
    Fault("ring", "the source changes while it is sent", {"pass.wait();": "pass.wait_recv();"}, "race", "pass.start()", "(d=3)", "(d=0)"),
    Fault("ring", "read before it has arrived", {"pass.wait();": "pass.wait_send();"}, "race", "slot[(i + 1) % 2, :]", "(d=0)", "(d=3)"),
    Fault("ring", "a credit too many", {"i + 2 < D": "i + 1 < D"}, "semaphore", "free", "(d=0)", ""),
    Fault("ring", "device 2 does not send",
          {"pass.start();\n    pass.wait();": "when device(d) != 2 { pass.start(); pass.wait_send(); } pass.wait_recv();"},
          "deadlock", "pass.wait_recv()", "(d=3)", "(d=2)"),
    Fault("ring", "a wait for two credits",
          {"wait(free[(i + 1) % 2]);": "wait(free[(i + 1) % 2], 2);"},
          "deadlock", "wait(free[(i + 1) % 2], 2)", "(d=0)", "(d=1)"),
    Fault("ring", "a slot that was returned is read", {"slot[(i + 1) % 2, :];": "slot[i % 2, :];"}, "race", "pass.start()", "(d=3)", "(d=0)"),
    Fault("torus", "without a barrier", {"barrier();": ""}, "not-begun", "across.start()", "(dx=0, dy=0)", "(dx=1, dy=0)"),
    Fault("torus", "two neighbours write one slot", {"near[2], send": "near[1], send"}, "race", "ahead.start()", "(dx=0, dy=1)", "(dx=0, dy=2)"),
    Fault("torus", "one copy is not waited for", {"ahead.wait();": ""}, "race", "near[1, :, :] + near[2, :, :]", "(dx=0, dy=2)", "(dx=0, dy=1)"),
    Fault("torus", "one row does not send",
          {"behind.start();": "when device(dy) != 1 { behind.start(); }",
           "behind.wait();": "when device(dy) != 1 { behind.wait_send(); } behind.wait_recv();"},
          "deadlock", "behind.wait_recv()", "(dx=0, dy=0)", "(dx=1, dy=0)"),
    Fault("torus", "a neighbour past the end",
          {"let next = (device(dy) + 1) % 3;": "let next = device(dy) + 1;"},
          "no-device", "ahead.start()", "(dx=1, dy=2)", ""),
    Fault("torus", "sent twice", {"across.start();": "across.start(); across.start();"}, "race", "across.start()", "(dx=1, dy=2)", "(dx=0, dy=2)"),
    Fault("torus", "a part of the rows",
          {"across.start();": "remote_copy(x[0:1, :] -> near[0, 0:1, :], send = sent[0], recv = arrived[0], device = (dx = 1 - device(dx))).start();"},
          "deadlock", "across.wait()", "(dx=0, dy=0)", "(dx=0, dy=1)"),
    Fault("torus", "met with one neighbour only",
          {"barrier();": "signal(met, device = (dx = 1 - device(dx))); wait(met);",
           "arrived: sem dma[3];": "arrived: sem dma[3], met: sem barrier;"},
          "not-begun", "ahead.start()", "(dx=1, dy=0)", "(dx=1, dy=1)"),
    Fault("torus", "two semaphores exchanged",
          {"ahead.wait();": "ahead.wait_send(); async_copy(x[...] -> near[1], arrived[2]).wait();",
           "behind.wait();": "behind.wait_send(); let s = near[1, :, :]; async_copy(x[...] -> near[1], arrived[1]).wait();"},
          "race", "near[1, :, :]", "(dx=0, dy=2)", "(dx=0, dy=1)"),
    Fault("cube", "without a barrier", {"barrier();": ""}, "not-begun", "pass.start()", "(d=0)", "(d=1)"),
    Fault("cube", "the next device for the pair's", {"me ^ dist": "(me + dist) % D"}, "race", "pass.start()", "(d=1)", "(d=2)"),
    Fault("cube", "one semaphore for all rounds", {"recv = arrived[t]": "recv = arrived[0]"}, "race", "pass.start()", "(d=3)", "(d=2)"),
    Fault("cube", "its own part is not waited for", {"own.wait();": ""}, "race", "pass.start()", "(d=7)", ""),
    Fault("cube", "device 7 has another order of rounds",
          {"let dist = 1 << t;": "let dist = 1 << (t + me / 7) % LOG;",
           "arrived[t]": "arrived[(t + me / 7) % LOG]"},
          "race", "pass.start()", "(d=6)", "(d=7)"),
    Fault("cube", "device 7 leaves out a round", {"for t in 0..LOG {": "for t in 0..LOG - me / 7 {"}, "deadlock", "pass.wait()", "(d=3)", ""),
    Fault("cube", "not waited for at the source", {"pass.wait();": "pass.wait_recv();"}, "never-waited", "pass.start()", "(d=0)", ""),
    Fault("cube", "half of what it has",
          {"dist * (M / D))] -> o[ds(have * (M / D), dist * (M / D))]": "M / D)] -> o[ds(have * (M / D), M / D)]"},
          "never-written", "o: f32[M]) {", "(d=0)", ""),
    Fault("star", "without a barrier", {"barrier();": ""}, "not-begun", "give.start()", "(d=1)", "(d=0)"),
    Fault("star", "the last part is not waited for",
          {"for i in 0..D { async_copy(x[...] -> all[i]": "for i in 0..D - 1 { async_copy(x[...] -> all[i]"},
          "race", "all[...], axis", "(d=0)", "(d=4)"),
    Fault("star", "all parts in one place", {"-> all[me], send": "-> all[0], send"}, "race", "give.start()", "(d=0)", "(d=4)"),
    Fault("star", "no answer to the last device",
          {"for i in 0..D { remote_copy": "for i in 0..D - 1 { remote_copy",
           "for i in 0..D { async_copy(total": "for i in 0..D - 1 { async_copy(total"},
          "deadlock", "async_copy(total[...] -> got[...], back).wait()", "(d=4)", ""),
    Fault("star", "the sum changes while it is sent",
          {"for i in 0..D { async_copy(total": "total[...] = 0; for i in 0..D { async_copy(total"},
          "race", "total[...]", "(d=0)", ""),
    Fault("star", "device 3 gives nothing",
          {"give.start();\n  give.wait_send();": "when me != 3 { give.start(); give.wait_send(); }"},
          "deadlock", "async_copy(x[...] -> all[i], arrived[i]).wait()", "(d=0)", "(d=3)"),
    Fault("star", "answers to the next device", {"device = (d = i)": "device = (d = i + 1)"}, "no-device", "remote_copy", "(d=0)", ""),
    Fault("star", "an answer is not waited for",
          {"for i in 0..D { async_copy(total": "for i in 0..D - 1 { async_copy(total"},
          "semaphore", "sent", "(d=0)", ""),
    Fault("star", "a wait for two answers",
          {"  async_copy(total[...] -> got[...], back).wait();": "  async_copy(total[...] -> got[...], back).wait(); async_copy(total[...] -> got[...], back).wait();"},
          "deadlock", "async_copy(total[...] -> got[...], back).wait()", "(d=0)", "(d=1)"),
    Fault("line", "without credits",
          {"when i >= 2 { wait(free[slot]); }": "",
           "when i + 2 < P { signal(free[slot], device = (s = me - 1)); }": ""},
          "race", "pass.start()", "(s=0)", "(s=1)"),
    Fault("line", "a credit for each row", {"when i + 2 < P { signal": "when true { signal"}, "semaphore", "free", "(s=0)", ""),
    Fault("line", "too few credits", {"i + 2 < P": "i + 3 < P"}, "deadlock", "wait(free[slot])", "(s=0)", "(s=1)"),
    Fault("line", "credits to itself", {"device = (s = me - 1)": "device = (s = me)"}, "deadlock", "wait(free[slot])", "(s=0)", "(s=1)"),
    Fault("line", "a credit before the row is read",
          {"out[...] = inbox[slot, :] * 2;": "",
           "when i + 2 < P { signal(free[slot], device = (s = me - 1)); }": "when i + 2 < P { signal(free[slot], device = (s = me - 1)); } out[...] = inbox[slot, :] * 2;"},
          "race", "pass.start()", "(s=0)", "(s=1)"),
    Fault("line", "the next row in a buffer that is sent", {"pass.wait_send();": ""}, "race", "out[...]", "(s=0)", "(s=1)"),
    Fault("line", "past the next stage", {"device = (s = me + 1)": "device = (s = me + 2)"}, "deadlock", "async_copy(out[...] -> inbox[slot]", "(s=1)", "(s=0)"),
    Fault("line", "the semaphore of the other slot", {"recv = arrived[slot]": "recv = arrived[1 - slot]"}, "race", "inbox[slot, :] * 2", "(s=1)", "(s=0)"),
    Fault("line", "a part of the row",
          {"remote_copy(out[...] -> inbox[slot],": "remote_copy(out[0:1] -> inbox[slot, 0:1],"},
          "deadlock", "async_copy(out[...] -> inbox[slot]", "(s=1)", "(s=0)"),
    Fault("shuffle", "counts of another formula", {"(2 * j + me) % 3": "(j + 2 * me) % 3"}, "deadlock", "async_copy", "(d=0)", "(d=1)"),
    Fault("shuffle", "arrivals are not waited for",
          {"for r in 0..(2 * j + me) % 3 { async_copy(x[0, j, r] -> o[0, j, r], arrived[j]).wait(); }": ""},
          "never-waited", "remote_copy", "(d=1)", "(d=0)"),
    Fault("shuffle", "cleared after the barrier",
          {"zero[...] = 0;": "barrier(); zero[...] = 0;",
           "  barrier();\n  for j": "  for j"},
          "race", "clear.start()", "(d=1)", "(d=0)"),
    Fault("shuffle", "all at the place of the target", {"-> o[0, me, r], send": "-> o[0, j, r], send"}, "race", "remote_copy", "(d=0)", "(d=1)"),
    Fault("shuffle", "the semaphore of the target", {"recv = arrived[me]": "recv = arrived[j]"}, "deadlock", "async_copy", "(d=0)", "(d=1)"),
    Fault("tree", "without a barrier", {"barrier();": ""}, "not-begun", "first.start()", "(dx=0, dy=0, dz=0)", "(dx=1, dy=0, dz=0)"),
    Fault("tree", "passed on before it has arrived",
          {"when device(dx) == 1 { first.wait_recv(); }": ""},
          "race", "second.start()", "(dx=1, dy=0, dz=0)", "(dx=0, dy=0, dz=0)"),
    Fault("tree", "both send along the first axis",
          {"when device(dx) == 0 {\n      first.start();": "when device(dx) >= 0 {\n      first.start();"},
          "race", "first.start()", "(dx=1, dy=0, dz=0)", "(dx=0, dy=0, dz=0)"),
    Fault("tree", "one plane does not send",
          {"third.start();\n    third.wait_send();": "when device(dy) == 0 { third.start(); third.wait_send(); }"},
          "deadlock", "third.wait_recv()", "(dx=0, dy=1, dz=1)", "(dx=1, dy=1, dz=1)"),
    Fault("tree", "to the first plane", {"device = (dz = 1)": "device = (dz = 0)"}, "race", "b[...]", "(dx=0, dy=0, dz=0)", ""),
    Fault("tree", "the last copy is read too early",
          {"when device(dz) == 1 { third.wait_recv(); }\n  o[...] = b[...];": "o[...] = b[...]; when device(dz) == 1 { third.wait_recv(); }"},
          "race", "b[...]", "(dx=0, dy=0, dz=1)", "(dx=0, dy=0, dz=0)"),
    Fault("rounds", "a barrier only at the start", {"barrier();": "when i == 0 { barrier(); }"}, "race", "pass.start()", "(d=0)", "(d=2)"),
    Fault("rounds", "a device leaves out a barrier",
          {"barrier();": "when i < 2 || device(d) != 1 { barrier(); }"},
          "race", "pass.start()", "(d=1)", "(d=0)"),
    Fault("rounds", "read after the next copies may begin",
          {"barrier();": "barrier(); o[...] = o[...] + b[...];",
           "  o[...] = o[...] + b[...];\n}": "}",
           "when i == 0 { o[...] = 0; }": "when i == 0 { o[...] = 0; b[...] = 0; }"},
          "race", "b[...]", "(d=2)", "(d=1)"),
    Fault("rounds", "not waited for", {"pass.wait();": "pass.wait_send();"}, "race", "b[...]", "(d=2)", ""),
]


def planted(text, fault):
    """The text of the kernel with the fault."""
    start = text.index(f"\nkernel {fault.kernel}(") + 1
    kernel = text[start:text.index("\nreference ", start)]
    changed = kernel
    for old, new in fault.changes.items():
        assert changed.count(old) == 1, f"{fault.kernel}: {changed.count(old)} times in the text: {old}"
        changed = changed.replace(old, new)
    return changed + "\n"


def findings(path, kernel):
    done = subprocess.run([PKC, "check", str(path), "-k", kernel, *SIZES[kernel].split(), "--json"], stdout=subprocess.PIPE, text=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def name(device):
    """A device as messages write it."""
    return "(%s)" % ", ".join("%s=%d" % item for item in device.items()) if device else ""


def partners(found):
    """The devices, other than its own, that the message and the notes of a finding name."""
    said = [found["message"], *(note["message"] for note in found["notes"])]
    named = {one for text in said for one in re.findall(r"\(\w+=[^()]*\)", text)} | {name(note.get("device")) for note in found["notes"]}
    return named - {"", name(found.get("device"))}


def check_fault(text, fault, path, listed):
    changed = planted(text, fault)
    path.write_text(changed, encoding="utf-8")
    found = findings(path, fault.kernel)
    what = f"{fault.kernel}, {fault.what}"
    if not check(what, found, "pkc check finds nothing"):
        return
    first = found[0]
    line = changed.splitlines()[first["line"] - 1][first["column"] - 1:]
    if listed:
        print(f"{what}\n    {first['kind']} {name(first.get('device'))} {sorted(partners(first))} {line}\n        {first['message']}")
        for note in first["notes"]:
            print(f"        note {name(note.get('device'))} {note['line']}: {note['message']}")
    check(f"{what}: the kind", first["kind"] == fault.kind, first["kind"])
    check(f"{what}: the place", line.startswith(fault.place), line)
    check(f"{what}: the device", name(first.get("device")) == fault.device, name(first.get("device")))
    check(f"{what}: the partner", fault.partner in partners(first) if fault.partner else not partners(first), sorted(partners(first)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernels", nargs="*", metavar="KERNEL")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    text = SOURCE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for fault in FAULTS:
            if not args.kernels or fault.kernel in args.kernels:
                check_fault(text, fault, pathlib.Path(folder) / "planted.pk", args.list)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
