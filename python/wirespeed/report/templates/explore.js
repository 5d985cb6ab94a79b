{% include "script.js" %}

const PAGE = [...crypto.getRandomValues(new Uint32Array(4))].map((n) => n.toString(36)).join("");
const SIDES = ["a", "b"];
// A hand that rests this long wants to know more than closed forms say.
const RESTS_MS = 200, TELLS_MS = 700;
const $ = (id) => document.getElementById(id);
const GONE = "The server does not answer: was it stopped? Start `wirespeed explore` again, and put the part of this address from # on behind its own.";
let state = { scenario: "", a: {}, b: null }, controls = {};
let turn = 0, asking = false, pending = null, resting = 0, telling = 0, stream = null, own = "";

const address = () => {
  const said = new URLSearchParams();
  said.set("scenario", state.scenario);
  for (const side of SIDES) for (const [name, value] of Object.entries(state[side] ?? {})) said.set(`${side}.${name}`, value);
  if (state.b) said.set("two", "1");
  return `#${said}`;
};
const read = () => {
  const said = new URLSearchParams(location.hash.slice(1));
  const found = { scenario: said.get("scenario") || $("scenario").dataset.given, a: {}, b: null };
  // A setting of the second machine asks for it, whether or not the address says so by itself.
  if (said.has("two") || [...said.keys()].some((key) => key.startsWith("b."))) found.b = {};
  for (const [key, value] of said) {
    const at = key.indexOf("."), side = key.slice(0, at);
    if (at > 0 && found[side]) found[side][key.slice(at + 1)] = value;
  }
  return found;
};
// The browser edition has no server, and sends elsewhere.
const send = globalThis.wirespeedSend ?? ((what, question, signal) => fetch(what, {
  method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question), signal,
}));
const post = (what, more, signal) => send(what, { ...state, page: PAGE, turn, ...more }, signal);
const fill = (id, html) => { const part = $(id); part.innerHTML = html; part.removeAttribute("aria-busy"); liven(part); };
const tell = (words) => { clearTimeout(telling); telling = setTimeout(() => { $("told").textContent = words; }, TELLS_MS); };
const stage = (side, words, done, total) => {
  $(`${side}-stage`).textContent = words;
  const bar = $(`${side}-progress`);
  bar.hidden = done === undefined;
  if (total) bar.value = done / total; else bar.removeAttribute("value");
};
const shown = () => SIDES.filter((side) => state[side]);

// Controls -------------------------------------------------------------------------------------------------------
const each = (side) => [...$(`${side}-controls`).querySelectorAll(".control")];
const field = (control) => control.querySelector("input, select");
const show = (control, value) => {
  const { kind } = control.dataset, input = field(control);
  const values = JSON.parse(control.dataset.values), words = JSON.parse(control.dataset.words);
  control.classList.toggle("moved", Boolean(value));
  if (kind === "switch") input.checked = value === "on";
  else if (kind === "choice") input.value = values.includes(value) ? value : "";
  else {
    let at = values.indexOf(value);
    if (at < 0) { // between two positions: the nearest
      const far = values.map((v) => (v === "" ? Infinity : Math.abs(Number(v) - Number(value))));
      at = far.some(Number.isFinite) ? far.indexOf(Math.min(...far.filter((x) => !Number.isNaN(x)))) : Number(control.dataset.own);
    }
    input.value = at;
    const said = values.includes(value) ? words[at] : value;
    control.querySelector("output").textContent = said;
    input.setAttribute("aria-valuetext", said);
  }
};
const moved = (control) => {
  const { side, name, kind } = control.dataset, input = field(control);
  const value = kind === "switch" ? (input.checked ? "on" : "") : kind === "choice" ? input.value : JSON.parse(control.dataset.values)[input.value];
  if (value) state[side][name] = value; else delete state[side][name];
  show(control, value);
  ask({ side, moved: name });
};
const unfold = (control) => { const folded = control.closest("details"); if (folded) folded.open = true; };
const place = (side) => {
  for (const control of each(side)) {
    const value = state[side]?.[control.dataset.name] ?? "";
    show(control, value);
    if (value) unfold(control);
  }
};
const blame = (side, control, words) => {
  const at = control && each(side).find((one) => one.dataset.name === control);
  if (!at) return complain(`${state.b ? `${side.toUpperCase()}: ` : ""}${words}`);
  const fault = at.querySelector(".fault");
  unfold(at);
  fault.textContent = words;
  fault.hidden = false;
  field(at).setAttribute("aria-invalid", "true");
};
const complain = (words) => { const fault = $("fault"); fault.hidden = false; fault.textContent = fault.textContent ? `${fault.textContent}\n${words}` : words; };
const forgive = () => {
  $("fault").hidden = true;
  $("fault").textContent = "";
  for (const fault of document.querySelectorAll(".control .fault:not([hidden])")) {
    fault.hidden = true;
    field(fault.parentElement).removeAttribute("aria-invalid");
  }
};
const refuse = (answer) => {
  forgive();
  if (answer.error) complain(answer.error);
  for (const [side, [words, control]] of Object.entries(answer.faults ?? {})) blame(side, control, words);
  for (const side of shown()) { $(`${side}-says`).textContent = "Refused: nothing is run."; stage(side, ""); $(`${side}-verdict`).setAttribute("aria-busy", "true"); }
  tell(answer.error ?? Object.values(answer.faults).map(([words]) => words).join(" "));
};

// Answers --------------------------------------------------------------------------------------------------------
const take = (answer) => {
  if (answer.error || answer.faults) return refuse(answer);
  forgive();
  for (const [side, told] of Object.entries(answer.sides)) {
    if (told.verdict !== undefined) fill(`${side}-verdict`, told.verdict);
    if (told.pictures !== undefined) fill(`${side}-pictures`, told.pictures);
    if (told.command !== undefined) $(`${side}-command`).textContent = told.command;
    if (told.says !== undefined) $(`${side}-says`).textContent = told.says;
    if (told.stage !== undefined) stage(side, told.stage);
  }
  if (answer.difference !== undefined) fill("differs", answer.difference);
  if (answer.told) tell(answer.told);
};
const ask = async (move = {}) => {
  turn += 1;
  stream?.abort();
  clearTimeout(resting);
  pending = move;
  if (asking) return; // the last of the moves meanwhile is asked next
  asking = true;
  try {
    while (pending) {
      const now = pending, at = turn, begun = performance.now();
      pending = null;
      let answer;
      try { answer = await (await post("answer", now)).json(); } catch { answer = { error: GONE }; }
      if (at !== turn) { if (!answer.error && !answer.faults) take(answer); continue; }
      for (const side of shown()) $(`${side}-pictures`).setAttribute("aria-busy", "true");
      take(answer);
      document.documentElement.dataset.firstMs = (performance.now() - begun).toFixed(1);
      if (!answer.error && !answer.faults) resting = setTimeout(() => refine(now, at, begun), RESTS_MS);
    }
  } finally { asking = false; }
  // Once for many moves: browsers refuse an address that changes too often.
  history.replaceState(null, "", own = address());
};
const refine = async (move, at, begun) => {
  stream = new AbortController();
  try {
    const answer = await post("refine", move, stream.signal);
    const lines = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await lines.read();
      if (done || at !== turn) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      for (const part of parts) {
        const told = JSON.parse(part);
        if (told.progress) for (const side of shown()) stage(side, told.progress.words, told.progress.done, told.progress.total);
        else take(told);
        if (told.kind) document.documentElement.dataset[`${told.kind}Ms`] = (performance.now() - begun).toFixed(0);
      }
    }
  } catch (e) {
    if (e.name !== "AbortError" && at === turn) complain(GONE);
  }
};

// Scenes ---------------------------------------------------------------------------------------------------------
const two = () => {
  $("side-b").hidden = $("difference").hidden = !state.b;
  $("sides").classList.toggle("two", Boolean(state.b));
  $("two").setAttribute("aria-pressed", String(Boolean(state.b)));
};
const scene = async () => {
  stream?.abort();
  forgive();
  $("scenario").value = state.scenario;
  let found;
  try { found = await (await post("scene")).json(); } catch { found = { error: GONE }; }
  if (found.error) {
    complain(found.error);
    tell(found.error);
    for (const side of shown()) { $(`${side}-says`).textContent = ""; stage(side, ""); }
    return;
  }
  $("title").textContent = found.title;
  for (const side of SIDES) { fill(`${side}-controls`, found.controls[side]); place(side); }
  two();
  ask();
};
for (const side of SIDES) {
  // A slider says `input` while it is dragged; selects and switches do, too.
  $(`${side}-controls`).addEventListener("input", (event) => moved(event.target.closest(".control")));
  $(`${side}-controls`).addEventListener("submit", (event) => event.preventDefault());
}
for (const button of document.querySelectorAll(".reset")) button.addEventListener("click", () => { state[button.dataset.side] = {}; place(button.dataset.side); ask(); });
$("two").addEventListener("click", () => { state.b = state.b ? null : { ...state.a }; two(); place("b"); fill("differs", ""); ask(); });
$("scenario").addEventListener("change", (event) => { state = { scenario: event.target.value, a: {}, b: state.b && {} }; scene(); });
addEventListener("hashchange", () => { if (location.hash !== own) { state = read(); scene(); } });
state = read();
scene();
