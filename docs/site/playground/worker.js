// Runs commands of pkc, one at a time. This file follows pkc.js, which defines createPkc.
// in:  {wasm} once: the module's bytes, compressed by gzip
//      {id, words, files: {path: text}, wanted: [path]}
// out: {id, status, out, err, files: {path: text}}, or {id, failure, err} if the compiler did not end by itself

let compiled;

async function compile(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return WebAssembly.compileStreaming(new Response(stream, { headers: { "Content-Type": "application/wasm" } }));
}

const textOf = bytes => new TextDecoder().decode(new Uint8Array(bytes));

async function run({ id, words, files, wanted }) {
  const out = [], err = [];
  const module = await compiled;
  // A new instance for each command: the compiler's memory ends with its process.
  const pkc = await createPkc({
    stdout: byte => out.push(byte & 255), // with functions for bytes neither is a terminal
    stderr: byte => err.push(byte & 255),
    instantiateWasm(imports, ready) {
      WebAssembly.instantiate(module, imports).then(instance => ready(instance, module));
      return {};
    },
  });
  for (const [path, text] of Object.entries(files)) pkc.FS.writeFile(path, text);
  let status;
  try {
    status = pkc.callMain(words);
  } catch (error) {
    postMessage({ id, failure: String(error), err: textOf(err) });
    return;
  }
  const written = {};
  for (const path of wanted) if (pkc.FS.analyzePath(path).exists) written[path] = pkc.FS.readFile(path, { encoding: "utf8" });
  postMessage({ id, status, out: textOf(out), err: textOf(err), files: written });
}

let last = Promise.resolve();

onmessage = ({ data }) => {
  if (data.wasm) compiled = compile(data.wasm);
  else last = last.then(() => run(data)).catch(error => postMessage({ id: data.id, failure: String(error), err: "" }));
};
