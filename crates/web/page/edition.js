// The browser edition: in place of a server, two workers of the page.

const EDITION = (() => {
  const text = (name) => document.getElementById(name).textContent;
  const bytes = (base64) => {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
    const raw = atob(base64), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  };
  const worker = (...names) => new Worker(URL.createObjectURL(new Blob(names.map((name) => text(`worker-${name}`)), { type: "text/javascript" })));
  const assets = {};
  for (const block of document.querySelectorAll("script[id^=asset-]")) {
    assets[block.id.slice("asset-".length)] = bytes(block.textContent);
    block.remove();
  }
  const desk = worker("simulator.js", "charts.js", "desk.js"), waiting = new Map(), files = {};
  let questions = 0, gotModule;
  const module = new Promise((resolve) => { gotModule = resolve; });
  desk.onmessage = ({ data }) => {
    if (data.module) { gotModule(data.module); return; }
    if (data.broken) { for (const resolve of waiting.values()) resolve([{ error: data.broken }]); waiting.clear(); return; }
    waiting.get(data.id)?.(data.told);
    waiting.delete(data.id);
  };
  desk.postMessage({ assets }, Object.values(assets).map((each) => each.buffer));
  const ask = (what, question, found) => new Promise((resolve) => {
    questions += 1;
    waiting.set(questions, resolve);
    desk.postMessage({ id: questions, what, question: JSON.stringify(question), found });
  });

  // One simulator runs; where a run is not wanted any more it is ended, and another one begins anew.
  let runner = null, isBusy = false;
  const opened = async () => {
    if (!runner) {
      runner = worker("simulator.js", "runs.js");
      runner.postMessage({ module: await module, files });
    }
    return runner;
  };
  const busy = (now) => { isBusy = now; document.getElementById("stop").hidden = !now; };
  const end = () => { runner?.terminate(); runner = null; busy(false); };
  const run = async (question, tell, signal) => {
    if (isBusy) end();
    const now = await opened();
    busy(true);
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => { if (runner === now && isBusy) end(); reject(signal.reason); }, { once: true });
      now.onmessage = ({ data }) => {
        if (data.progress) { tell(data.progress); return; }
        busy(false);
        if (data.error) { if (data.kind !== "input") end(); reject(new Error(data.error)); } else resolve(data);
      };
      now.postMessage({ question });
    });
  };
  async function* refined(question, signal) {
    let isFormed = false;
    for (const kind of ["short", "long"]) {
      const [wanted] = await ask("wanted", { ...question, kind });
      signal.throwIfAborted();
      if (!wanted.question) { yield wanted; return; }
      // Where no simulator is warm yet a run takes seconds: what is told first has the cores for itself.
      if (!isFormed && !runner) { isFormed = true; for (const told of await ask("form", question)) yield told; signal.throwIfAborted(); }
      const news = [];
      let wake = () => {};
      const tell = ({ phase, done, total }) => { news.push({ progress: { words: wanted.phases[phase], done, total } }); wake(); };
      tell({ phase: "load" });
      let done = null;
      const running = run(wanted.question, tell, signal).then((ran) => { done = { ran }; wake(); }, (error) => { done = { error }; wake(); });
      if (!isFormed) { isFormed = true; for (const told of await ask("form", question)) yield told; }
      while (!done) {
        while (news.length) yield news.shift();
        if (!done) await new Promise((resolve) => { wake = resolve; });
      }
      await running;
      signal.throwIfAborted();
      if (done.error) { yield { error: done.error.message }; return; }
      for (const told of await ask("ran", { ...question, kind, seconds: done.ran.seconds }, JSON.stringify(done.ran.found))) yield told;
    }
  }
  const MOST_BYTES = 1 << 29;
  const capture = async (file) => {
    forgive();
    if (file.size > MOST_BYTES) { complain(`${file.name}: has ${Math.ceil(file.size / 2 ** 20)} MiB; a page takes ${MOST_BYTES / 2 ** 20} MiB, the command \`wirespeed run --capture\` any`); return; }
    const data = new Uint8Array(await file.arrayBuffer()), name = file.name;
    const [told] = await ask("capture", { name }, data);
    if (told.error) { complain(told.error); return; }
    end(); // its simulator has the capture before
    for (const other of Object.keys(files)) delete files[other];
    files[name] = data;
    scene();
  };
  document.getElementById("capture").addEventListener("change", (event) => { const [file] = event.target.files; if (file) capture(file); });
  document.getElementById("stop").addEventListener("click", () => {
    stream?.abort();
    end();
    for (const side of shown()) stage(side, "Stopped; any control goes on.");
  });
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); const [file] = event.dataTransfer.files; if (file) capture(file); });
  return {
    // As `fetch` answers the page of a server: one answer, or a stream of lines.
    async send(what, question, signal) {
      if (what !== "refine") return { json: async () => (await ask(what, question))[0] };
      const pieces = refined(question, signal);
      return { body: new ReadableStream({
        async pull(stream) {
          try {
            const { value, done } = await pieces.next();
            if (done) stream.close(); else stream.enqueue(new TextEncoder().encode(`${JSON.stringify(value)}\n`));
          } catch (error) { stream.error(error); }
        },
      }) };
    },
  };
})();
globalThis.wirespeedSend = EDITION.send;
