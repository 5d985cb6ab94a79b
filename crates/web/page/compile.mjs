// Compiles the Python of zip files ahead, for the Python of Pyodide: node compile.mjs PYODIDE FROM TO [FROM TO]...
// A page that compiles what it imports takes seconds more to begin.

import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [pyodide, ...files] = process.argv.slice(2).map((each) => path.resolve(each));
const { loadPyodide } = await import(pathToFileURL(path.join(pyodide, "pyodide.mjs")));
const python = await loadPyodide({ indexURL: `${pyodide}/` });
for (let i = 0; i < files.length; i += 2) {
  python.FS.writeFile("/from.zip", fs.readFileSync(files[i]));
  python.runPython(`
import importlib.util, zipfile
from importlib._bootstrap_external import _code_to_hash_pyc

with zipfile.ZipFile("/from.zip") as given, zipfile.ZipFile("/to.zip", "w") as made:
    for name in sorted(given.namelist()):
        if name.endswith("/"):
            continue
        data = given.read(name)
        if name.endswith(".py"):
            # Without its documentation, which nobody reads there, and never judged against its source, which is not there.
            code = compile(data, name, "exec", dont_inherit=True, optimize=2)
            data, name = bytes(_code_to_hash_pyc(code, importlib.util.source_hash(data), checked=False)), name + "c"
        made.writestr(zipfile.ZipInfo(name), data)
`);
  fs.writeFileSync(files[i + 1], python.FS.readFile("/to.zip"));
}
