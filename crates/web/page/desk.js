// The worker that answers: Python with the package as it is, and a simulator for scenarios and closed forms. Runs are the other's.

const LOCK = JSON.parse(`@LOCK@`), ASSETS = {}, PAGE_URL = "https://page.invalid/";
const unpacked = async (name) => new Response(new Blob([ASSETS[name]]).stream().pipeThrough(new DecompressionStream("gzip")));
const TYPES = { wasm: "application/wasm", zip: "application/zip" };
// Nothing is fetched: what is asked for by name is in the page.
globalThis.fetch = async (url) => {
  const name = String(url).replace(PAGE_URL, ""), type = TYPES[name.split(".").pop()];
  return new Response((await unpacked(name)).body, { headers: { "Content-Type": type ?? "application/octet-stream" } });
};
// Pyodide asks so whether scripts can be loaded from elsewhere.
globalThis.importScripts = () => { throw new TypeError("nothing is loaded"); };
const imported = async (name) => import(URL.createObjectURL(new Blob([await (await unpacked(name)).arrayBuffer()], { type: "text/javascript" })));

const BEGIN = `
from wirespeed.errors import InputError
def begun(capture=None):
    """Begins a page; what is wrong with a capture is told."""
    global page
    try:
        page = browser.Page(capture)
    except InputError as e:
        return str(e)
`;
let python = null, drawing = null, simulator = null, module = null, replayed = null;
const kept = {};
const opened = () => {
  simulator = openSimulator(module);
  for (const [name, bytes] of Object.entries(kept)) simulator.keep(name, bytes);
};
const asked = (question) => {
  try { return simulator.askText(question); } catch (error) {
    simulator = null; // it has ended, and its profiles with it
    return JSON.stringify({ error: { kind: error.kind ?? "bug", words: error.message } });
  }
};
const begin = async (assets) => {
  Object.assign(ASSETS, assets);
  const compiled = WebAssembly.compileStreaming(fetch("simulator.wasm")).then((found) => {
    module = found;
    postMessage({ module });
    opened();
  });
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all([imported("pyodide.mjs"), imported("pyodide.asm.mjs")]);
  python = await loadPyodide({ indexURL: PAGE_URL, packageBaseUrl: PAGE_URL, createPyodideModule, lockFileContents: { info: LOCK, packages: {} } });
  await compiled;
  python.registerJsModule("wirespeed_page", { ask: asked, draw: drawn });
  python.unpackArchive(await (await unpacked("app.zip")).arrayBuffer(), "zip", { extractDir: "/app" });
  python.runPython("import sys; sys.path.insert(0, '/app'); import boot; from wirespeed.explore import browser");
  python.runPython(`${BEGIN}\nbegun()`);
  // Nobody draws before the first answer.
  drawing = imported("vega.min.js").then(() => Promise.all([imported("vega-lite.min.js"), imported("vega-interpreter.js")]));
};
const replay = (name, bytes) => {
  kept[name] = bytes;
  simulator.keep(name, bytes);
  // Python looks only whether it is there.
  python.FS.writeFile(name, "");
  const told = python.globals.get("begun")(name);
  if (told) return [{ error: told }];
  replayed = name;
  return [{}];
};
const answer = ({ what, question, found }) => {
  if (!simulator) {
    opened();
    python.globals.get("begun")(replayed ?? undefined);
  }
  if (what === "capture") return replay(JSON.parse(question).name, found);
  return JSON.parse(python.globals.get("page").ask(what, question, found));
};
let ready = null;
onmessage = async ({ data }) => {
  if (data.assets) {
    ready = begin(data.assets);
    ready.catch((error) => postMessage({ broken: `this browser cannot run the page: ${error.message}` }));
    return;
  }
  try {
    await ready;
    if (data.what === "form" || data.what === "ran") await drawing;
    postMessage({ id: data.id, told: answer(data) });
  } catch (error) { postMessage({ id: data.id, told: [{ error: String(error.message ?? error) }] }); }
};
