// The simulator's module: questions in, answers out, as JSON. Used in workers of the page, and by tests in Node.

const NO_MEMORY = "this scenario takes more memory than a page has (4 GiB at most): fewer flows, prefixes or packets take less";

class RefusedError extends Error {
  constructor(kind, words) { super(words); this.kind = kind; }
}

// `ears` are functions: `begins(words)`, `heard(done, total, isWarmUp)`.
const openSimulator = (module, ears = {}) => {
  let failed = "", exported = null;
  const text = (at, length) => new TextDecoder().decode(new Uint8Array(exported.memory.buffer, at, length));
  const page = {
    heard: (done, total, warming) => ears.heard?.(done, total, warming === 1),
    begins: (at, length) => ears.begins?.(text(at, length)),
    failed: (at, length) => { failed = text(at, length); },
  };
  exported = new WebAssembly.Instance(module, { page }).exports;
  const desk = exported.wirespeed_open();
  // Memory may move while it is allocated: it is looked at afterwards.
  const lent = (bytes, use) => {
    const at = exported.wirespeed_alloc(bytes.length);
    new Uint8Array(exported.memory.buffer, at, bytes.length).set(bytes);
    try { return use(at, bytes.length); } finally { if (!failed) exported.wirespeed_free(at, bytes.length); }
  };
  const guarded = (work) => {
    try { return work(); } catch (error) {
      if (error instanceof RefusedError) throw error;
      if (/capacity overflow|memory allocation/.test(failed)) throw new RefusedError("memory", NO_MEMORY);
      if (failed) throw new RefusedError("bug", `this is a bug; please report it with what was chosen: ${failed}`);
      // A module that is refused memory ends without a word.
      if (error instanceof WebAssembly.RuntimeError) throw new RefusedError("memory", NO_MEMORY);
      throw error;
    }
  };
  const ask = (question) => guarded(() => {
    const at = lent(new TextEncoder().encode(question), (from, length) => exported.wirespeed_ask(desk, from, length)) >>> 0;
    const length = new DataView(exported.memory.buffer).getUint32(at, true), told = text(at + 4, length);
    exported.wirespeed_free(at, length + 4);
    return told;
  });
  return {
    // The answer's JSON as it came.
    askText: ask,
    ask(question) {
      const { ok, error } = JSON.parse(ask(JSON.stringify(question)));
      if (error) throw new RefusedError(error.kind, error.words);
      return ok;
    },
    keep(name, bytes) {
      guarded(() => lent(new TextEncoder().encode(name), (at, length) => lent(bytes, (from, size) => exported.wirespeed_keep(at, length, from, size))));
    },
    bytes: () => exported.memory.buffer.byteLength,
  };
};
