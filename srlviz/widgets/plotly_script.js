// plotly.js itself, gzipped, once for the page: the views wait for it.

function initialize({ model }) {
  hearLate(model);
  const page = shared(), code = model.get('code');
  if (page.taken || !code?.byteLength) return;
  page.taken = true;
  take(code, page);                             // not waited for: anywidget gives up a model that has not begun after two seconds
}

async function take(code, page) {
  try {
    const zipped = new Blob([code]).stream().pipeThrough(new DecompressionStream('gzip'));
    const module = { exports: {} };
    new Function('module', 'exports', 'define', await new Response(zipped).text())(module, module.exports, undefined);   // the CommonJS branch: clashes with no AMD loader, leaves no global
    page.givePlotly(module.exports.newPlot ? module.exports : globalThis.Plotly);
  } catch (problem) {
    page.failPlotly(problem);                  // a page that forbids new Function, say: the views tell it
  }
}

export default { initialize };
