// The page: an editor, and tabs that show what each verb of pkc says of its text.
"use strict";

const at = id => document.getElementById(id);
const FILE = "kernel.pk";

// ---- the compiler, in a worker

function base64(text) {
  const raw = atob(text.trim()), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

const workerUrl = URL.createObjectURL(new Blob([at("worker").textContent], { type: "text/javascript" }));
let wantedSizes = {};
let worker, calls = new Map(), lastId = 0;

function startWorker() {
  worker = new Worker(workerUrl);
  worker.onmessage = ({ data }) => {
    const answer = calls.get(data.id);
    calls.delete(data.id);
    if (answer) answer(data.failure ? { status: -1, out: "", err: failureText(data), files: {} } : data);
  };
  const wasm = base64(at("wasm").textContent);
  worker.postMessage({ wasm }, [wasm.buffer]);
}

function failureText({ failure, err }) {
  const why = /memory|stack/i.test(failure) ? "the compiler ran out of memory" : "the compiler stopped";
  return [err, `${why}: ${failure}`].filter(Boolean).join("\n");
}

startWorker();

// Ends what runs. Its callers get no answer.
function stopWorker() {
  worker.terminate();
  calls.clear();
  startWorker();
}

function pkc(words, wanted = []) {
  const id = ++lastId;
  worker.postMessage({ id, words, wanted, files: { [FILE]: editor.getValue() } });
  return new Promise(answer => calls.set(id, answer));
}

// ---- the tabs: the words of each command, and where its answer is

const sizes = () => [...at("sizes").querySelectorAll("input")].filter(i => i.value.trim()).map(i => `${i.name}=${i.value.trim()}`);
const options = () => at("options").value.trim().match(/\S+/g) || [];
const kernel = () => (at("kernel").options.length > 1 ? ["-k", at("kernel").value] : []);
const target = () => [`--target=${at("target").value || "x86-64-v3"}`];

const TABS = [
  { name: "check", title: "Check", words: () => ["check", FILE, ...kernel(), ...sizes()], sized: true },
  { name: "explain", title: "Explain", words: () => ["explain", FILE, ...kernel(), ...sizes(), ...target()], sized: true, target: true },
  { name: "c", title: "C", words: () => [FILE, ...kernel(), ...target(), "--emit=c"], target: true },
  { name: "pallas", title: "Pallas", words: () => [FILE, ...kernel(), "--emit=pallas"] },
  { name: "tpu", title: "TPU", words: () => ["tpu", FILE, ...kernel(), ...sizes(), `--chip=${at("chip").value || "v5e"}`], sized: true, chip: true },
  {
    name: "report", title: "Timeline", sized: true, chip: true, report: "report.html",
    words: () => ["tpu", FILE, ...kernel(), ...sizes(), `--chip=${at("chip").value || "v5e"}`, "--html=report.html"],
  },
  { name: "prove", title: "Prove", words: () => ["prove", FILE, "--max-memory=268435456", ...kernel(), ...sizes()], sized: true },
  { name: "grad", title: "Gradient", words: () => ["grad", FILE, ...kernel()] },
];
let tab = TABS[0];

for (const t of TABS) {
  const button = document.createElement("button");
  Object.assign(button, { textContent: t.title, onclick: () => choose(t) });
  button.setAttribute("role", "tab");
  button.id = `tab-${t.name}`;
  at("tabs").append(button);
}

function select(t) {
  tab = t;
  for (const other of TABS) at(`tab-${other.name}`).setAttribute("aria-selected", other === t);
  at("chips").hidden = !t.chip;
  at("targets").hidden = !t.target;
  for (const input of at("sizes").querySelectorAll("label")) input.hidden = !t.sized;
}

function choose(t) {
  select(t);
  answer();
}

// ---- the answer

let asked = 0, timer, takenOptions = "";

function say(text, wrong = false) {
  at("state").textContent = text;
  at("state").classList.toggle("wrong", wrong);
}

// From the second second on, the time that a command has taken, and a way to end it.
function watchTime(title) {
  clearInterval(timer);
  const start = performance.now();
  timer = setInterval(() => {
    const seconds = (performance.now() - start) / 1000;
    if (seconds >= 1) at("stop").hidden = false;
    say(`${title}: ${seconds.toFixed(0)} s`);
  }, 1000);
  return start;
}

const STATUS = { 0: "done", 1: "an error in the text or in what was given", 2: "wrong options", 3: "a check failed", 4: "undecided", 5: "refuted" };

async function answer() {
  const mine = ++asked, t = tab;
  const start = watchTime(t.title);
  const done = await pkc([...t.words(), ...options()], t.report ? [t.report] : []);
  if (mine !== asked) return;
  clearInterval(timer);
  at("stop").hidden = true;
  say(`${t.title}: ${STATUS[done.status] || `status ${done.status}`}, ${Math.max(1, Math.round(performance.now() - start))} ms`, done.status !== 0);
  show(t, done);
  keepLink();
  listNames();
}

function show(t, done) {
  const page = t.report && done.files[t.report];
  at("report").hidden = !page;
  at("lines").hidden = Boolean(page);
  if (page) at("report").srcdoc = page;
  else at("lines").replaceChildren(...linked(done.out + done.err || "(no output)"));
  at("answer").dataset.answered = `${t.name} ${asked}`;
}

// Text with its places in the kernel as links to the editor's lines.
function linked(text) {
  return text.split(/(kernel\.pk:\d+(?::\d+)?)/).map(part => {
    const place = /^kernel\.pk:(\d+)(?::(\d+))?$/.exec(part);
    if (!place) return part;
    const link = document.createElement("a");
    link.textContent = part;
    link.onclick = () => {
      editor.setCursor(place[1] - 1, (place[2] || 1) - 1);
      editor.focus();
    };
    return link;
  });
}

at("stop").onclick = () => {
  asked++;
  clearInterval(timer);
  at("stop").hidden = true;
  say(`${tab.title}: stopped`, true);
  stopWorker();
};

// ---- the editor

CodeMirror.defineSimpleMode("pk", { ...MODE, meta: { lineComment: "//" } });

const editor = CodeMirror(at("text"), {
  mode: "pk", lineNumbers: true, matchBrackets: true, autoCloseBrackets: true, indentUnit: 2, tabSize: 2, gutters: ["CodeMirror-lint-markers", "CodeMirror-linenumbers"],
  extraKeys: { "Ctrl-S": () => format(), "Cmd-S": () => format(), Tab: cm => cm.replaceSelection("  "), "Ctrl-/": cm => cm.toggleComment() },
});

// Columns of pkc are bytes of UTF-8, counted from 1; the editor's are units of UTF-16, from 0.
function column(line, byte) {
  const bytes = new TextEncoder().encode(editor.getLine(line) || "");
  return new TextDecoder().decode(bytes.slice(0, byte - 1)).length;
}

async function diagnose(text, found) {
  dropStatics(text);
  setKernels(text);
  const { out, err } = await pkc([FILE, ...kernel(), "--emit=signature", "--diagnostics=json", ...statics()]);
  if (text !== editor.getValue()) return;
  found(
    err.split("\n").filter(line => line.startsWith("{")).map(JSON.parse).map(d => ({
      from: CodeMirror.Pos(d.line - 1, column(d.line - 1, d.column)),
      to: CodeMirror.Pos(d.line - 1, column(d.line - 1, Math.max(d.end_column, d.column + 1))),
      message: [d.message, ...d.notes.map(n => n.message || n)].join("\n"),
      severity: d.severity,
    })),
  );
  const signature = out.split("\n").find(line => line.startsWith("{"));
  if (signature) setSizes(JSON.parse(signature).sizes);
  answer();
}

// The statics among the options: they decide what the text means.
function statics() {
  const words = options();
  return words.flatMap((word, i) => (word === "-D" ? ["-D", words[i + 1] || ""] : /^-D./.test(word) ? [word] : []));
}

// ---- the kernels of the text and their sizes

function setKernels(text) {
  const found = [...text.replace(/\/\/.*/g, "").matchAll(/\b(kernel|program)\s+(\w+)\s*\(/g)].map(m => ({ kind: m[1], name: m[2] }));
  const chosen = at("kernel").value, first = found.find(k => k.kind === "program") || found[0];
  at("kernel").replaceChildren(...found.map(k => new Option(k.name)));
  if (first) at("kernel").value = found.some(k => k.name === chosen) ? chosen : first.name;
  at("kernels").hidden = found.length < 2;
}

function setSizes(sizes) {
  const old = new Map([...at("sizes").querySelectorAll("input")].map(i => [i.name, i.value]));
  at("sizes").replaceChildren(
    ...sizes.map(name => {
      const label = document.createElement("label"), input = document.createElement("input");
      Object.assign(input, { name, type: "text", inputMode: "numeric", value: old.get(name) || wantedSizes[name] || 17, onchange: answer });
      label.append(`${name} `, input);
      label.hidden = !tab.sized;
      return label;
    }),
  );
}

// The sizes and statics of a line `// prove: ..` or `// test: ..`: of the first with nothing else and sizes above 1.
function takeDirective(text) {
  const lines = [...text.matchAll(/^\/\/ (?:prove|test|check): (.*)$/gm)].map(m => m[1]);
  const line = lines.find(line => /^(?: ?(?:-D \w+=\S+|\w+=(?:[2-9]|\d\d+))(?= |$))+$/.test(line)) || "";
  wantedSizes = Object.fromEntries([...line.replace(/-D \S+/g, "").matchAll(/(\w+)=(\d+)/g)].map(m => [m[1], m[2]]));
  at("options").value = takenOptions = (line.match(/-D \S+/g) || []).join(" ");
}

// Forgets statics that came from an example when the text no longer has them.
function dropStatics(text) {
  const has = name => new RegExp(`\\b${name}\\b`).test(text);
  if (at("options").value === takenOptions && ![...takenOptions.matchAll(/-D (\w+)=/g)].every(m => has(m[1]))) at("options").value = "";
}

at("kernel").onchange = () => editor.performLint();
at("chip").onchange = at("target").onchange = answer;
at("options").onchange = () => editor.performLint();
at("fields").onsubmit = event => event.preventDefault();

// ---- the text: examples, the canonical layout, links

const EXAMPLES = JSON.parse(at("kernels-json").textContent);
at("example").append(...Object.keys(EXAMPLES).map(name => new Option(name)));
at("example").onchange = () => open(EXAMPLES[at("example").value]);

function open(text) {
  takeDirective(text);
  at("sizes").replaceChildren();
  editor.setValue(text);
  const first = text.split("\n").findIndex(line => !line.startsWith("//"));
  editor.scrollIntoView({ line: editor.lineCount() - 1, ch: 0 });
  editor.scrollIntoView({ line: Math.max(first, 0), ch: 0 });
}

async function format() {
  const { status, files } = await pkc(["fmt", FILE], [FILE]);
  if (status !== 0) return say("Format: the text has errors", true);
  const cursor = editor.getCursor();
  editor.setValue(files[FILE]);
  editor.setCursor(cursor);
}
at("format").onclick = format;

// The state in the link: JSON, compressed, in base64 for URLs.
async function piped(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

async function pack(state) {
  const bytes = await piped(new TextEncoder().encode(JSON.stringify(state)), new CompressionStream("deflate-raw"));
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

async function unpack(text) {
  const bytes = base64(text.replace(/-/g, "+").replace(/_/g, "/"));
  return JSON.parse(new TextDecoder().decode(await piped(bytes, new DecompressionStream("deflate-raw"))));
}

async function keepLink() {
  const sized = Object.fromEntries([...at("sizes").querySelectorAll("input")].map(i => [i.name, i.value]));
  const state = { text: editor.getValue(), sizes: sized, tab: tab.name, kernel: at("kernel").value, options: at("options").value, chip: at("chip").value, target: at("target").value };
  const packed = await pack(state);
  history.replaceState(null, "", `#${packed}`);
}

at("link").onclick = async () => {
  await keepLink();
  await navigator.clipboard.writeText(location.href).then(() => say("the link is copied"), () => say("the link is in the address bar"));
};

async function restore() {
  if (location.hash.length < 2) return false;
  try {
    const state = await unpack(location.hash.slice(1));
    at("example").selectedIndex = -1;
    wantedSizes = state.sizes || {};
    at("options").value = state.options || "";
    for (const id of ["chip", "target"]) if (state[id]) at(id).replaceChildren(new Option(state[id]));
    tab = TABS.find(t => t.name === state.tab) || tab;
    at("kernel").replaceChildren(new Option(state.kernel || ""));
    editor.setValue(String(state.text));
    return true;
  } catch {
    say("the link is damaged: it holds no text", true);
    return false;
  }
}

// ---- the start

// The choices of an element by the first words of lines; what is chosen, or the usual one, stays chosen.
function offer(id, text, usual) {
  const names = text.split("\n").map(line => line.split(" ")[0]).filter(name => /\d|generic/.test(name));
  const chosen = names.includes(at(id).value) ? at(id).value : usual;
  at(id).replaceChildren(...names.map(name => new Option(name, name, name === chosen, name === chosen)));
}

// After the first answer, which needs no lists.
let listed = false;
async function listNames() {
  if (listed) return;
  listed = true;
  const [chips, targets] = await Promise.all([pkc(["tpu", "--chips"]), pkc(["--targets"])]);
  offer("chip", chips.out, "v5e");
  offer("target", targets.out, "x86-64-v3");
}

async function start() {
  if (!(await restore())) {
    at("example").value = "softmax.pk";
    open(EXAMPLES["softmax.pk"]);
  }
  select(tab);
  // The first run of the linter is immediate, and asks for the first answer.
  editor.setOption("lint", { getAnnotations: diagnose, async: true, delay: 200 });
}

start();
