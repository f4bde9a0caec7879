#!/usr/bin/env python3
"""The playground: the compiler in WebAssembly gives the same answers as the native one, and the page shows them in a browser.

`make playground` comes first. The compiler runs in Node; the page in a headless Chromium, driven by selenium (docs/site/requirements.txt).
"""
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from suite import BUILD, PKC, ROOT, check, finish

FOLDER = BUILD / "playground"
PACKAGES = BUILD / "site" / "env" / "lib"
RUNNER = """
const createPkc = require(process.argv[2]), fs = require("fs"), path = require("path");
(async () => {
  const module = await WebAssembly.compile(fs.readFileSync(process.argv[2].replace(/js$/, "wasm")));
  const answers = [];
  for (const [file, words] of JSON.parse(fs.readFileSync(0, "utf8"))) {
    const out = [];
    const pkc = await createPkc({
      stdout: byte => out.push(byte & 255), stderr: byte => out.push(byte & 255),
      instantiateWasm(imports, ready) { WebAssembly.instantiate(module, imports).then(instance => ready(instance, module)); return {}; },
    });
    pkc.FS.writeFile("kernel.pk", fs.readFileSync(file, "utf8"));
    answers.push([pkc.callMain(words), Buffer.from(out).toString("utf8")]);
  }
  console.log(JSON.stringify(answers));
})();
"""
TABS = [("explain", "vectors of 32 bytes"), ("c", "#include <pk/kernel.h>"), ("pallas", "pl.pallas_call"), ("tpu", "bound by"), ("prove", "proved"), ("grad", "softmax_backward")]
WRONG = "kernel k(x: f32[M, N]) -> (o: f32[M, N]) {\n  grid (i in cdiv(M, 8));\n  block x, o: [8, N] at (i, 0);\n  o[...] = exq(x[...]);\n}\n"
TWO = "kernel a(x: f32[K]) -> (o: f32[K]) {\n  o[...] = x[...];\n}\n\nkernel b(y: f32[L]) -> (p: f32[L]) {\n  p[...] = -y[...];\n}\n"
LONG = "kernel k(x: f32[M]) -> (o: f32[M]) {\n  grid (i in M);\n  block x, o: [1] at (i);\n  o[...] = x[...];\n}\n"


def commands():
    """Commands on the kernels of the library: C for two targets, Pallas, decisions, and, at the sizes of a test, the check and the TPU model."""
    for path in sorted((ROOT / "kernels").rglob("*.pk")):
        text = path.read_text(encoding="utf-8")
        for words in (["--emit=c", "--target=zen4"], ["--emit=c", "--target=aarch64"], ["--emit=pallas"], ["--emit=loops", "--target=x86-64-v3"]):
            yield path, ["kernel.pk", *words]
        yield path, ["explain", "kernel.pk", "--target=zen4"]
        found = re.search(r"^// (?:prove|test): ((?:(?:-k \w+|-D \w+=\S+|\w+=\d+) ?)+)$", text, re.M)
        if found:
            yield path, ["check", "kernel.pk", *found[1].split()]
            yield path, ["tpu", "kernel.pk", *found[1].split()]


def check_compiler():
    jobs = list(commands())
    with tempfile.TemporaryDirectory() as folder:
        runner = os.path.join(folder, "run.js")
        with open(runner, "w") as file:
            file.write(RUNNER)
        done = subprocess.run(["node", runner, FOLDER / "pkc.js"], input=json.dumps([[str(path), words] for path, words in jobs]), capture_output=True, text=True)
        if not check("the compiler runs in Node", done.returncode == 0, done.stderr[-500:]):
            return
        for (path, words), (status, said) in zip(jobs, json.loads(done.stdout)):
            shutil.copy(path, os.path.join(folder, "kernel.pk"))
            native = subprocess.run([PKC, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            check(f"{path.relative_to(ROOT)}: {' '.join(words)}", (status, said) == (native.returncode, native.stdout), said[:300])


class Browser:
    def __init__(self):
        from selenium import webdriver
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,900"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))

    def run(self, script):
        return self.driver.execute_script(script)

    def text(self, name):
        return self.run(f"return document.getElementById('{name}').textContent")

    def wait(self, what, seconds=60):
        """Waits until a script returns a true value, and returns it."""
        end = time.time() + seconds
        while time.time() < end:
            found = self.run(f"return {what}")
            if found:
                return found
            time.sleep(0.05)
        return None

    def press(self, name):
        self.run(f"document.getElementById('{name}').click()")

    def write(self, text):
        self.run(f"document.querySelector('.CodeMirror').CodeMirror.setValue({json.dumps(text)})")

    def answered(self, tab):
        return self.wait(f"(document.getElementById('answer').dataset.answered || '').startsWith('{tab} ')")

    def said(self, words):
        return self.wait(f"document.getElementById('lines').textContent.includes({json.dumps(words)})")


def check_page():
    browser = Browser()
    url = f"file://{(FOLDER / 'playground.html').resolve()}"
    start = time.time()
    browser.driver.get(url)
    check("an answer when the page opens", browser.answered("check") and browser.said("agrees with the reference"), browser.text("state"))
    print(f"the first answer after {time.time() - start:.2f} s")
    for tab, words in TABS:
        browser.press(f"tab-{tab}")
        check(f"tab {tab}", browser.answered(tab) and browser.said(words), browser.text("lines")[:300])
    browser.press("tab-report")
    check("the timeline is shown", browser.answered("report") and "<svg" in browser.run("return document.getElementById('report').srcdoc"))
    browser.press("tab-check")
    browser.write(WRONG)
    check("a message as typed", browser.wait("document.querySelector('.CodeMirror-lint-mark-error') && document.querySelector('.CodeMirror-lint-mark-error').textContent") == "exq")
    check("the answer says it too", browser.said("did you mean `exp`?"), browser.text("lines")[:300])
    browser.write(TWO)
    check("a choice of kernels", browser.wait("document.getElementById('kernel').options.length === 2 && !document.getElementById('kernels').hidden"))
    browser.run("const k = document.getElementById('kernel'); k.value = 'b'; k.onchange()")
    check("sizes of the kernel that is chosen", browser.wait("document.querySelector('#sizes input[name=L]') && !document.querySelector('#sizes input[name=K]')"))
    browser.write(WRONG.replace("exq", "exp").replace("  grid", "grid"))
    browser.wait("!document.querySelector('.CodeMirror-lint-mark-error')")
    browser.press("format")
    check("the canonical layout", browser.wait("document.querySelector('.CodeMirror').CodeMirror.getValue().includes('\\n  grid')"))
    browser.press("tab-c")
    browser.wait("document.getElementById('state').textContent.startsWith('C: done')")
    link = browser.wait("location.hash.length > 20 && location.href")
    browser.driver.get("about:blank")
    browser.driver.get(link)
    check("a link restores the tab", browser.answered("c") and browser.said("pk_status k("), browser.text("lines")[:300])
    check("and the text", "exp(x[...])" in browser.run("return document.querySelector('.CodeMirror').CodeMirror.getValue()"))
    browser.driver.get("about:blank")
    browser.driver.get(url + "#damaged")
    check("a damaged link opens the page", browser.answered("check"), browser.text("state"))
    browser.write(LONG)
    browser.wait("document.querySelector('#sizes input[name=M]')")
    browser.run("const m = document.querySelector('#sizes input[name=M]'); m.value = 50000000; m.onchange()")
    check("a long command can be stopped", browser.wait("!document.getElementById('stop').hidden"))
    browser.press("stop")
    check("which is said", "stopped" in browser.text("state"), browser.text("state"))
    browser.run("const m = document.querySelector('#sizes input[name=M]'); m.value = 9; m.onchange()")
    check("and the next one runs", browser.said("no findings in 9 grid steps"), browser.text("lines")[:300])
    errors = [entry["message"] for entry in browser.driver.get_log("browser") if entry["level"] == "SEVERE"]
    check("no errors of the page", not errors, errors)
    browser.driver.quit()


def main():
    if not (FOLDER / "playground.html").exists():
        print("SKIPPED playground: make playground has not been run (it needs emcc and libjs-codemirror)")
        return finish()
    size = (FOLDER / "playground.html").stat().st_size
    check("the page has less than 3 MB", size < 3e6, size)
    if shutil.which("node"):
        check_compiler()
    else:
        print("SKIPPED playground, its compiler: no node here")
    sys.path += map(str, PACKAGES.glob("python*/site-packages"))
    if importlib.util.find_spec("selenium") and shutil.which("chromedriver"):
        check_page()
    else:
        print("SKIPPED playground, its page: needs chromium-driver, and selenium from make site")
    return finish()


if __name__ == "__main__":
    sys.exit(main())
