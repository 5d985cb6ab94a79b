// The page's desk in Node, with the page's Python: node node_desk.mjs MODULE PYODIDE APP
// Questions of standard input, a line each; answers to standard output, with the bytes of the simulator's memory. A line's `file`
// is a path, whose bytes come with the question.

import fs from "node:fs";
import path from "node:path";
import vm from "node:vm";
import { fileURLToPath, pathToFileURL } from "node:url";

// Node would show the line of Pyodide, which has a million letters.
process.on("uncaughtException", (error) => { console.error(error.message); process.exit(1); });
const [module, pyodide, app] = process.argv.slice(2).map((each) => path.resolve(each));
// Before the desk, which lets nothing be loaded.
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: `${pyodide}/` });
const text = (name) => fs.readFileSync(path.join(path.dirname(fileURLToPath(import.meta.url)), name), "utf8");
const given = `
const drawn = () => "<svg></svg>";
globalThis.desk = {
  begin: (compiled, loaded, app) => { module = compiled; opened(null); settled(loaded, app); },
  answer,
  bytes: () => simulator?.bytes() ?? 0,
};`;
vm.runInThisContext([text("simulator.js"), text("desk.js").replace("@LOCK@", "{}"), given].join("\n"));
const { desk } = globalThis;
// Pyodide knows arrays, not what Node makes of them.
const bytes = (file) => new Uint8Array(fs.readFileSync(file));
desk.begin(await WebAssembly.compile(fs.readFileSync(module)), python, bytes(app));
for (const line of fs.readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { what, question, file } = JSON.parse(line);
  let told;
  try { told = desk.answer({ what, question: JSON.stringify(question), found: file && bytes(file) }); } catch (error) {
    told = [{ error: String(error.message ?? error) }];
  }
  process.stdout.write(`${JSON.stringify({ told, bytes: desk.bytes() })}\n`);
}
