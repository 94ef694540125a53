// A view of any plotly figure. The figure is one synced trait, `fig_json`; plotly.js itself comes from the kernel once a page, on demand, so no request leaves the machine.
// A line at `cursor` is drawn over the plot, not in it: it may follow sixty frames a second. With `scrub` the pointer moves it.
// Views of one `channel` tell each other the step by events of the page, so that a line follows a player, and a player a pointer, with no kernel between.

function loadPlotly(model) {
  if (globalThis.__srlviz_plotly) return globalThis.__srlviz_plotly;
  return globalThis.__srlviz_plotly = new Promise(resolve => {                     // a busy kernel sends it when it is free: there is no time limit
    const receive = async (message, buffers) => {
      if (message.kind !== 'plotly.js') return;
      model.off('msg:custom', receive);
      const zipped = new Blob([buffers[0]]).stream().pipeThrough(new DecompressionStream('gzip'));
      const module = { exports: {} };
      new Function('module', 'exports', 'define', await new Response(zipped).text())(module, module.exports, undefined);   // the CommonJS branch: clashes with no AMD loader, leaves no global
      resolve(module.exports.newPlot ? module.exports : globalThis.Plotly);
    };
    model.on('msg:custom', receive);
    model.send({ kind: 'need plotly.js' });
  });
}

const isDark = () => document.body.dataset.jpThemeLight === 'false';

function render({ model, el }) {
  const root = document.createElement('div');
  root.className = 'srlviz-plot';
  root.setAttribute('role', 'img');
  const div = document.createElement('div');
  const cursor = document.createElement('div');
  cursor.className = 'srlviz-cursor';
  cursor.hidden = true;
  div.textContent = 'waiting for the kernel to send the plot…';
  root.append(div, cursor);
  el.append(root);

  let P = null, ended = false, moving = false, at = model.get('cursor');

  async function draw() {
    if (!P || ended) return;
    let text = model.get('fig_json');
    for (const [neutral, colour] of Object.entries(model.get('inks')[isDark() ? 'dark' : 'light'] ?? {})) text = text.replaceAll(neutral, colour);
    const { data, layout } = JSON.parse(text);
    div.style.height = layout.height ? `${layout.height}px` : '';       // or plotly, once its box is resized, takes the height from a box that has none
    await P.react(div, data, layout, { responsive: true, displaylogo: false, ...model.get('config') });
    root.dataset.drawn = (+root.dataset.drawn || 0) + 1;
    placeCursor();
  }

  const axis = () => div._fullLayout?.xaxis;
  function placeCursor() {
    const x = axis(), size = div._fullLayout?._size, px = at === null || !x ? NaN : x.c2p(at);
    cursor.hidden = !(px >= 0 && px <= x?._length);
    if (cursor.hidden) return;
    cursor.style.left = `${x._offset + px}px`;
    cursor.style.top = `${size.t}px`;
    cursor.style.height = `${size.h}px`;
    root.dataset.cursor = at;
  }

  function scrubTo(event) {
    const x = axis();
    if (!x) return;
    const px = Math.max(0, Math.min(x._length, event.clientX - div.getBoundingClientRect().left - x._offset));
    const [first, last] = x.range;
    const t = Math.max(Math.ceil(first), Math.min(Math.floor(last), Math.round(x.p2c(px))));
    if (t === at) return;
    at = t;
    placeCursor();
    if (channel()) globalThis.dispatchEvent(new CustomEvent('srlviz-seek', { detail: { channel: channel(), t } }));
    else { model.set('cursor', t); model.save_changes(); }
  }
  const channel = () => model.get('channel');
  const heard = ({ detail }) => { if (detail.channel === channel() && channel() && detail.t !== at) { at = detail.t; placeCursor(); } };
  const told = () => { at = model.get('cursor'); placeCursor(); };
  globalThis.addEventListener('srlviz-step', heard);
  const inside = event => { const box = div.getBoundingClientRect(), size = div._fullLayout?._size; return size && event.clientY > box.top + size.t - 4 && event.clientY < box.top + size.t + size.h + 4 && event.clientX > box.left + size.l - 8 && event.clientX < box.left + size.l + size.w + 8; };
  const down = event => { if (!model.get('scrub') || event.button || !inside(event)) return; moving = true; root.setPointerCapture(event.pointerId); scrubTo(event); event.preventDefault(); event.stopPropagation(); };
  const move = event => { if (moving) scrubTo(event); };
  const up = () => { moving = false; };
  root.addEventListener('pointerdown', down, true);
  root.addEventListener('pointermove', move);
  root.addEventListener('pointerup', up);
  root.addEventListener('pointercancel', up);
  root.addEventListener('mousedown', event => { if (model.get('scrub') && inside(event)) event.stopPropagation(); }, true);    // else plotly starts a drag of its own

  const name = () => root.setAttribute('aria-label', model.get('label') || 'plot');
  const theme = new MutationObserver(() => { model.set('dark', isDark()); model.save_changes(); draw(); });
  theme.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light'] });
  const resize = new ResizeObserver(() => { if (P && div._fullLayout && root.clientWidth) Promise.resolve(P.Plots.resize(div)).then(placeCursor, () => {}); });

  loadPlotly(model).then(async plotly => {
    if (ended) return;
    P = plotly;
    div.textContent = '';
    await draw();
    if (ended) return;
    if (channel()) globalThis.dispatchEvent(new CustomEvent('srlviz-where', { detail: { channel: channel() } }));
    let taken = true;
    const take = ([p]) => {
      taken = true;
      model.set('clicked', { curve: p.curveNumber, i: p.pointNumber ?? p.pointIndex ?? null, x: p.x ?? null, y: p.y ?? null, z: p.z ?? null, data: p.customdata ?? null, n: (model.get('clicked').n || 0) + 1 });
      model.save_changes();
    };
    div.on('plotly_click', event => take(event.points));
    // plotly looks for the point under the pointer at most every 50 ms, and forgets it if it looks while the button is down: a short press just after a move would be lost. It looks once more after the press.
    div.addEventListener('mousedown', () => { taken = false; }, true);
    div.addEventListener('click', event => { if (!taken && event.target.classList.contains('drag')) setTimeout(() => { if (!taken && !ended && div._hoverdata?.length) take(div._hoverdata); }, 80); });
    div.on('plotly_selected', event => {
      const [x, y] = ['x', 'y'].map(axis => Object.entries(event?.range ?? {}).find(([name]) => name.startsWith(axis))?.[1].slice().sort((a, b) => a - b));
      model.set('selected', event?.points?.map(p => p.pointNumber) ?? []);
      if (x && y) model.set('box', [x[0], y[0], x[1], y[1]]);
      model.save_changes();
    });
    div.on('plotly_relayout', placeCursor);
    if (model.get('dark') !== isDark()) { model.set('dark', isDark()); model.save_changes(); }
    resize.observe(el);
  }).catch(error => { if (!ended) div.textContent = `no plot: ${error.message}`; });

  model.on('change:fig_json', draw);
  model.on('change:cursor', told);
  model.on('change:label', name);
  name();
  return () => {
    ended = true;
    theme.disconnect();
    resize.disconnect();
    model.off('change:fig_json', draw);
    model.off('change:cursor', told);
    globalThis.removeEventListener('srlviz-step', heard);
    model.off('change:label', name);
    if (P) P.purge(div);
  };
}

export default { render };
