// A library that the kernel sends once, gzipped, for all views of the page: they wait for it (`library(name).ready`).

function initialize({ model }) {
  patchModels(model);
  const awaited = library(model.get('name')), code = model.get('code');
  if (awaited.loads || !code?.byteLength) return;
  awaited.loads = true;
  load(code, model.get('is_module'), awaited);                          // without await: anywidget gives up a model that has not initialized after two seconds
}

async function load(code, isModule, awaited) {
  try {
    const text = await new Response(new Blob([code]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
    awaited.give(isModule ? await asModule(text) : asCommonJS(text));
  } catch (problem) {
    awaited.fail(problem);                      // such as a page that forbids new Function; the views show it
  }
}

async function asModule(text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/javascript' }));
  try {
    return await import(url);
  } finally {
    URL.revokeObjectURL(url);
  }
}

/** The CommonJS branch of plotly.js: it clashes with no AMD loader, and leaves no global. */
function asCommonJS(text) {
  const module = { exports: {} };
  new Function('module', 'exports', 'define', text)(module, module.exports, undefined);
  return module.exports.newPlot ? module.exports : globalThis.Plotly;
}

export default { initialize };
