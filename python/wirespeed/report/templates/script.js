// What a part of a page does: copy what is typed, and open cells of an icicle. Parts that come later are given to it, too.
const copied = async (button, source) => {
  const range = document.createRange();
  range.selectNodeContents(source);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  // A page from a file may lack the clipboard: then the older command copies the selection.
  try { await navigator.clipboard.writeText(source.textContent); } catch { document.execCommand("copy"); }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
};
const icicle = (cells, says) => {
  // Words that do not fit into a cell are not begun: what it is says a pointer or the keyboard.
  const fit = () => {
    for (const cell of cells) cell.classList.remove("narrow");
    const cut = cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1 || cell.scrollHeight > cell.clientHeight + 1);
    for (const cell of cut) cell.classList.add("narrow");
  };
  const place = (cell) => [Number(cell.dataset.left), Number(cell.dataset.width)];
  const open = (chosen) => {
    const [from, wide] = place(chosen);
    for (const cell of cells) {
      const [left, width] = place(cell);
      // What the chosen one divides lies across the page; what lies beside it is gone.
      const above = Number(cell.dataset.row) <= Number(chosen.dataset.row) && left <= from + 1e-6 && left + width >= from + wide - 1e-6;
      const begin = above ? 0 : (left - from) / wide, share = above ? 1 : width / wide;
      cell.hidden = begin < -1e-4 || begin + share > 1 + 1e-4;
      cell.style.left = `${begin * 100}%`;
      cell.style.width = `${share * 100}%`;
    }
    fit();
  };
  for (const cell of cells) {
    cell.addEventListener("click", () => open(cell));
    for (const event of ["pointerenter", "focus"]) cell.addEventListener(event, () => { says.textContent = cell.title; });
  }
  open(cells[0]);
  // Also where it is shown only later, or the page gets narrower.
  new ResizeObserver(fit).observe(cells[0].parentElement);
};
const liven = (part) => {
  for (const button of part.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copied(button, document.getElementById(button.dataset.copy)));
  }
  for (const each of part.querySelectorAll(".icicle")) icicle([...each.querySelectorAll(".cell")], each.parentElement.querySelector(".says"));
};
liven(document);
addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });
