// Vega-Lite into SVG, in a worker that may compile no text: expressions are interpreted. `vega` and `vegaLite` come with the page.

const drawn = (text) => {
  const spec = vegaLite.compile(JSON.parse(text), { logger: vega.logger(vega.Error) }).spec;
  const view = new vega.View(vega.parse(spec, null, { ast: true }), { expr: vegaInterpreter.expressionInterpreter, renderer: "none", logLevel: vega.Error });
  // Data are in the spec: all of it is done when `run` returns.
  view.run();
  const { left, right, top, bottom } = view.padding(), [x, y] = view._origin;
  const picture = new vega.SVGStringRenderer(view.loader())
    .initialize(null, Math.floor(view._viewWidth + left + right), Math.floor(view._viewHeight + top + bottom), [x + left, y + top], 1)
    .background(view.background())
    .render(view.scenegraph().root).svg();
  view.finalize();
  return picture;
};
