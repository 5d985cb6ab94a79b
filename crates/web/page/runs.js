// The worker that runs: a simulator alone, which the page ends where a run is no longer wanted.

const EVERY_MS = 80;
let simulator = null, last = 0, phase = "load";
const ears = {
  begins: () => { phase = "load"; },
  heard: (done, total, isWarmUp) => {
    const now = performance.now();
    if (now - last < EVERY_MS) return;
    last = now;
    phase = isWarmUp ? "warm-up" : "run";
    postMessage({ progress: { phase, done, total } });
  },
};
onmessage = ({ data }) => {
  if (data.module) {
    simulator = openSimulator(data.module, ears);
    for (const [name, bytes] of Object.entries(data.files)) simulator.keep(name, bytes);
    return;
  }
  const begun = performance.now();
  try { postMessage({ found: simulator.ask(data.question), seconds: (performance.now() - begun) / 1000 }); } catch (error) {
    postMessage({ error: error.message, kind: error.kind ?? "bug" });
  }
};
