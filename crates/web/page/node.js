// Questions of standard input, a line each, to the module that is the first argument; answers and what they took to standard output.
// More arguments are files that are kept by their paths.

const fs = require("node:fs"), path = require("node:path"), vm = require("node:vm");

vm.runInThisContext(`${fs.readFileSync(path.join(__dirname, "simulator.js"), "utf8")}; globalThis.openSimulator = openSimulator;`);
(async () => {
  const simulator = openSimulator(await WebAssembly.compile(fs.readFileSync(process.argv[2])));
  for (const file of process.argv.slice(3)) simulator.keep(file, fs.readFileSync(file));
  for (const line of fs.readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const begun = performance.now();
    let told;
    try { told = simulator.askText(line); } catch (error) { told = JSON.stringify({ error: { kind: error.kind ?? "thrown", words: error.message } }); }
    process.stdout.write(`${JSON.stringify({ ms: performance.now() - begun, bytes: simulator.bytes() }).slice(0, -1)},"told":${told}}\n`);
  }
})();
