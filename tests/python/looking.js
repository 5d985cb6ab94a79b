// What hinders reading in the page that is open: told as one line a fault. All that folds is opened first.
(() => {
  const LEAST_PX = 12;
  const LEAST_CONTRAST = 4.5;
  const found = new Map();
  const told = (kind, element, more) => {
    const words = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    const name = element.tagName.toLowerCase() + [...(element.classList || [])].map((each) => "." + each).join("");
    const line = `${kind}: ${name} ${more}`;
    const before = found.get(line);
    found.set(line, { words: before ? before.words : words, times: (before ? before.times : 0) + 1 });
  };
  document.querySelectorAll("details").forEach((each) => (each.open = true));
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > wide + 1) {
    told("wide", document.body, `${document.documentElement.scrollWidth} of ${wide} px`);
  }
  const styles = new Map();
  const style = (element) => {
    if (!styles.has(element)) styles.set(element, getComputedStyle(element));
    return styles.get(element);
  };
  const up = function* (element) {
    for (let each = element; each && each !== document.documentElement; each = each.parentElement) yield each;
  };
  const hidden = (element) => {
    for (const each of up(element)) {
      const is = style(each);
      if (is.display === "none" || is.visibility === "hidden" || each.classList.contains("sr")) return true;
    }
    return false;
  };
  const SCROLLS = ["auto", "scroll"];
  const colour = (text) => {
    const parts = (text.match(/[\d.]+/g) || []).map(Number);
    return /^rgb/.test(text) ? { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 } : null;
  };
  const over = (upper, alpha, lower) => upper.map((value, at) => value * alpha + lower[at] * (1 - alpha));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const inside = (svg) => {
    // Words of a chart stand on what was drawn before them at their middle.
    return svg && [...svg.querySelectorAll("rect, path")].map((each) => ({ each, at: each.getBoundingClientRect() }));
  };
  const shapes = new Map();
  const ground = (element, box) => {
    const stack = [];
    const svg = element instanceof SVGElement ? element.ownerSVGElement : null;
    if (svg) {
      if (!shapes.has(svg)) shapes.set(svg, inside(svg));
      const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
      for (const { each, at } of shapes.get(svg)) {
        if (!(each.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
        if (each.tagName !== "rect" && !each.getAttribute("d")?.match(/z\s*$/i)) continue;
        if (at.left > x || at.right < x || at.top > y || at.bottom < y) continue;
        const fill = colour(style(each).fill);
        const alpha = fill && fill.alpha * Number(style(each).fillOpacity) * Number(style(each).opacity);
        if (fill && alpha > 0.05) stack.unshift({ rgb: fill.rgb, alpha });
      }
    }
    for (const each of up(svg || element)) {
      const fill = colour(style(each).backgroundColor);
      if (fill && fill.alpha > 0.05) stack.push(fill);
    }
    const root = colour(getComputedStyle(document.documentElement).backgroundColor);
    let below = root && root.alpha > 0.5 ? root.rgb : [255, 255, 255];
    for (const { rgb, alpha } of stack.reverse()) below = over(rgb, alpha, below);
    return below;
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const inCharts = new Map();
  for (let node; (node = walk.nextNode()); ) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("script, style, title, option") || hidden(element)) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width < 1 || box.height < 1 || parseFloat(style(element).fontSize) === 0) continue;
    const svg = element instanceof SVGElement ? element.ownerSVGElement : null;
    // What lies behind words, so that lines do not cross them, is read with the words before it.
    if (svg && style(element).stroke !== "none") continue;
    const scale = svg && element.getScreenCTM ? Math.hypot(element.getScreenCTM().a, element.getScreenCTM().b) : 1;
    const size = parseFloat(style(element).fontSize) * scale;
    if (size < LEAST_PX - 0.05) told("small", element, `${size.toFixed(1)} px`);
    const said = colour(svg ? style(element).fill : style(element).color);
    if (said) {
      const below = ground(element, box);
      const drawn = over(said.rgb, said.alpha * (svg ? Number(style(element).fillOpacity) : 1), below);
      const ratio = contrast(drawn, below);
      if (ratio < LEAST_CONTRAST - 0.005) told("faint", element, `${ratio.toFixed(1)} of rgb(${drawn.map(Math.round)}) on rgb(${below.map(Math.round)})`);
    }
    let framed = false;
    for (const each of up(element)) {
      if (SCROLLS.includes(style(each).overflowX)) { framed = true; break; }
      if (each === document.body || style(each).overflowX === "visible" || each instanceof SVGElement) continue;
      // A name that somebody made so long is folded, and whole where a pointer rests.
      const folds = style(each).webkitLineClamp !== "none" || style(each).textOverflow === "ellipsis";
      if (folds && each.closest("[title]")) { framed = true; break; }
      const frame = each.getBoundingClientRect();
      if (box.right > frame.right + 1.5 || box.left < frame.left - 1.5) {
        told("cut", each, `by ${Math.round(Math.max(box.right - frame.right, frame.left - box.left))} px`);
        framed = true;
      }
      if (box.bottom > frame.bottom + 3) told("cut below", each, `by ${Math.round(box.bottom - frame.bottom)} px`);
    }
    if (!framed && (box.right > wide + 1 || box.left < -1)) told("beyond", element, `${Math.round(box.left)}…${Math.round(box.right)} of ${wide} px`);
    if (svg) {
      if (!inCharts.has(svg)) inCharts.set(svg, []);
      inCharts.get(svg).push({ element, box });
      const frame = svg.getBoundingClientRect();
      if (box.right > frame.right + 1.5 || box.left < frame.left - 1.5 || box.bottom > frame.bottom + 1.5) told("out of its chart", element, "");
    }
  }
  const meet = (a, b, by) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > by && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > by;
  for (const words of inCharts.values()) {
    words.forEach(({ element, box }, at) => {
      for (const other of words.slice(at + 1)) {
        if (element !== other.element && meet(box, other.box, 3)) told("overlap", element, `with "${other.element.textContent.trim().slice(0, 30)}"`);
      }
    });
  }
  return [...found].map(([line, { words, times }]) => `${line} — "${words}"${times > 1 ? ` and ${times - 1} more` : ""}`);
})()
