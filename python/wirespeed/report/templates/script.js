for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  const source = document.getElementById(button.dataset.copy);
  button.addEventListener("click", async () => {
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    // A page from a file may lack the clipboard: then the older command copies the selection.
    try { await navigator.clipboard.writeText(source.textContent); } catch { document.execCommand("copy"); }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
}
addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });
