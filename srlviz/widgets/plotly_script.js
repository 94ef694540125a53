// plotly.js itself, gzipped, once for the page: the views wait for it.

function initialize({ model }) {
  recoverLateModels(model);
  const page = shared(), code = model.get('code');
  if (page.loadsPlotly || !code?.byteLength) return;
  page.loadsPlotly = true;
  load(code, page);                             // without await: anywidget gives up a model that has not initialized after two seconds
}

async function load(code, page) {
  try {
    const zipped = new Blob([code]).stream().pipeThrough(new DecompressionStream('gzip'));
    const module = { exports: {} };
    new Function('module', 'exports', 'define', await new Response(zipped).text())(module, module.exports, undefined);   // the CommonJS branch: clashes with no AMD loader, leaves no global
    page.givePlotly(module.exports.newPlot ? module.exports : globalThis.Plotly);
  } catch (problem) {
    page.failPlotly(problem);                  // such as a page that forbids new Function; the views show it
  }
}

export default { initialize };
