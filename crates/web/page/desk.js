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
from wirespeed.explore import answers, browser
def begun(capture=None):
    """Begins a page; why there is none is told."""
    global page
    try:
        page = browser.Page(capture)
    except InputError as e:
        return str(e)
    except Exception as e:
        return answers.bug(e)["error"]
`;
// `capture` is the file that is replayed: its name and bytes.
let python = null, drawing = null, simulator = null, module = null, capture = null;
const opened = (file) => {
  const made = openSimulator(module);
  if (file) made.keep(file.name, file.bytes);
  simulator = made; // only now: one without its file answers wrongly
};
const asked = (question) => {
  try { return simulator.askText(question); } catch (error) {
    simulator = null; // it has ended, and its profiles with it
    return JSON.stringify({ error: { kind: error.kind ?? "bug", words: error.message } });
  }
};
// Python has the package, and begins a page.
const settled = (loaded, app) => {
  python = loaded;
  python.registerJsModule("wirespeed_page", { ask: asked, draw: drawn });
  python.unpackArchive(app, "zip", { extractDir: "/app" });
  python.runPython("import sys; sys.path.insert(0, '/app'); import boot");
  const told = python.runPython(`${BEGIN}\nbegun()`);
  if (told) throw new Error(told);
};
const begin = async (assets) => {
  Object.assign(ASSETS, assets);
  const compiled = WebAssembly.compileStreaming(fetch("simulator.wasm")).then((found) => {
    module = found;
    postMessage({ module });
    opened(null);
  });
  const [{ loadPyodide }, { default: createPyodideModule }] = await Promise.all([imported("pyodide.mjs"), imported("pyodide.asm.mjs")]);
  const loaded = await loadPyodide({ indexURL: PAGE_URL, packageBaseUrl: PAGE_URL, createPyodideModule, lockFileContents: { info: LOCK, packages: {} } });
  await compiled;
  settled(loaded, await (await unpacked("app.zip")).arrayBuffer());
  // Nobody draws before the first answer.
  drawing = imported("vega.min.js").then(() => Promise.all([imported("vega-lite.min.js"), imported("vega-interpreter.js")]));
};
// Simulator and page anew: what a page knows of profiles is of its own simulator. Why there are none is told.
const anew = (file) => {
  simulator = null; // captures are large: the old one goes first
  opened(file);
  const told = python.globals.get("begun")(file?.name);
  if (told) simulator = null;
  return told;
};
// A simulator knows a file by its name, and keeps what it has made of it: each capture has its own.
const replay = (file) => {
  python.FS.writeFile(file.name, ""); // Python looks only whether it is there
  const told = anew(file);
  if (told) return [{ error: told }];
  capture = file;
  return [{}];
};
const answer = ({ what, question, found }) => {
  if (what === "capture") return replay({ name: JSON.parse(question).name, bytes: found });
  const told = simulator ? undefined : anew(capture);
  if (told) return [{ error: told }];
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
