// A view of any plotly figure. The figure is one synced trait, `fig_json`; of a small change only the traces that changed are sent, as a message.
// A line at `cursor` is drawn over the plot, not in it: it may follow sixty frames a second. With `scrub` the pointer moves it.
// Views of one `channel` exchange steps by events of the page, so a line follows a player, and a player the pointer, without the kernel.

const IDLE_MS = 3000, MAX_PICTURE = 400e3;      // ms without a change before a picture is offered; bytes of one
const figures = shared().figures ??= new Map();      // key of a view -> what it shows: its number, and the JSON of each trace and of the layout

/** plotly.js comes with PlotlyScript; a page that has none after a while asks for it. */
function requestPlotly(model) {
  const timer = setTimeout(() => model.send({ kind: 'need plotly.js' }), 2500);
  return shared().plotly.then(plotly => { clearTimeout(timer); return plotly; });
}

/** Split the JSON of a figure into its number and the JSON of each trace and of the layout. */
function splitFigure(text) {
  const { seq = 0, data, layout } = JSON.parse(text);
  return { seq, data: data.map(trace => JSON.stringify(trace)), layout: JSON.stringify(layout) };
}

/** Render a figure as a PNG with a caption below, for a notebook that is opened without a kernel. */
async function renderPicture(P, figure, words, width) {
  for (const scale of [1, .7, .5]) {
    const { data, layout } = JSON.parse(figure), wide = layout.width ?? width, tall = layout.height ?? 450;
    const image = new Image();
    image.src = await P.toImage({ data, layout: { ...layout, width: wide, height: tall, paper_bgcolor: '#fff', plot_bgcolor: layout.plot_bgcolor ?? '#fff' } }, { format: 'png', width: wide, height: tall, scale });
    await image.decode();
    const canvas = make('canvas', { width: image.width, height: image.height + Math.round(26 * scale) }), pen = canvas.getContext('2d');
    pen.fillStyle = '#fff';
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0);
    pen.fillStyle = '#5b6169';
    pen.font = `${12 * scale}px system-ui, sans-serif`;
    pen.fillText(words, 10 * scale, canvas.height - 9 * scale);
    const png = await new Promise(done => canvas.toBlob(done, 'image/png'));
    if (png.size < MAX_PICTURE || scale === .5) return { png: await png.arrayBuffer(), size: [wide, tall + 26] };
  }
}

/** A value of a point as JSON can hold it: a row of a typed array is a list. */
const plain = value => ArrayBuffer.isView(value) ? [...value] : value ?? null;

const isDark = () => document.body.dataset.jpThemeLight === 'false';

function render({ model, el }) {
  const root = make('div', { class: 'srlviz-plot', role: model.get('regions') ? 'group' : 'img' }), div = make('div'), cursor = make('div', { class: 'srlviz-cursor', hidden: '' });
  const card = make('div', { class: 'srlviz-card', hidden: '', 'aria-hidden': 'true' });
  div.textContent = 'waiting for the kernel to send the plot…';
  const ring = make('div', { class: 'srlviz-ring', hidden: '', 'aria-hidden': 'true' });
  root.append(div, cursor, ring, card);
  el.append(root);

  const key = model.get('key');
  let P = null, ended = false, moving = false, at = model.get('cursor'), idleTimer = 0;
  let parsed = { dark: null, data: [], layout: null };      // text and object of each part, in the inks of the page

  function readFigure() {
    const sent = splitFigure(model.get('fig_json')), known = figures.get(key);
    if (!known || sent.seq >= known.seq) figures.set(key, { ...sent, views: known?.views ?? 0 });
  }
  /** Parse the figure; unchanged parts keep their objects, so that plotly leaves them alone. */
  function objects() {
    const dark = isDark(), inks = Object.entries(model.get('inks')[dark ? 'dark' : 'light'] ?? {}), same = parsed.dark === dark;
    const read = (text, old) => {
      if (same && old?.text === text) return old;
      let inked = text;
      for (const [neutral, colour] of inks) inked = inked.replaceAll(neutral, colour);
      return { text, made: JSON.parse(inked) };
    };
    const { data, layout } = figures.get(key);
    parsed = { dark, data: data.map((text, k) => read(text, parsed.data[k])), layout: read(layout, parsed.layout) };
    return { data: parsed.data.map(part => part.made), layout: { ...parsed.layout.made } };      // a copy: when a box is resized, plotly deletes the height from the layout that it was given
  }
  async function draw() {
    if (!P || ended) return;
    const { data, layout } = objects();
    maxHeight = allowedHeight();
    if (layout.height > maxHeight) layout.height = Math.max(120, Math.floor(maxHeight));      // the place of the plot, such as a pane, has a style with less height
    div.style.height = layout.height ? `${layout.height}px` : '';       // or plotly, once its box is resized, takes the height from a box that has none
    await P.react(div, data, layout, { responsive: true, displaylogo: false, ...model.get('config') });
    root.dataset.drawn = (+root.dataset.drawn || 0) + 1;
    placeCursor();
    clearTimeout(idleTimer);
    idleTimer = setTimeout(() => requestIdleCallback(() => { if (!ended && !document.hidden) model.send({ kind: 'still' }); }), IDLE_MS);
  }
  let maxHeight = NaN;
  const allowedHeight = () => parseFloat(getComputedStyle(root).maxHeight);      // NaN for none
  const redraw = () => { readFigure(); draw(); };
  // Send the point under the pointer to the kernel, at most every 50 ms; it replies with a card.
  let over = null, hovers = 0, hoverTimer = 0;
  function hover({ points: [p], event }) {
    const box = root.getBoundingClientRect();
    over = { curve: p.curveNumber, i: p.pointNumber ?? null, data: plain(p.customdata), at: [event.clientX - box.left, event.clientY - box.top] };
    if (!hoverTimer) hoverTimer = setTimeout(sendHover, 50);
  }
  function sendHover() {
    hoverTimer = 0;
    if (!over || ended) return;
    const { curve, i, data } = over;
    over.n = ++hovers;
    model.set('hovered', { curve, i, data, n: hovers });
    model.save_changes();
  }
  function unhover() { over = null; card.hidden = true; }
  let shownUrl = '';
  async function showCard({ n, words }, buffers) {
    if (!over || n !== over.n) return;
    URL.revokeObjectURL(shownUrl);
    const lines = words.map((line, k) => make('div', k ? {} : { class: 'srlviz-card-head' }, line)), parts = [make('div', {}, ...lines)];
    if (buffers?.length) {
      shownUrl = URL.createObjectURL(new Blob([buffers[0]], { type: 'image/png' }));
      const image = make('img', { src: shownUrl, alt: '' });
      parts.unshift(image);
      await image.decode().catch(() => {});
      if (!over || n !== over.n) return;
    }
    card.replaceChildren(...parts);
    card.hidden = false;
    const [x, y] = over.at, { offsetWidth: wide, offsetHeight: tall } = card;
    card.style.left = `${x + 14 + wide < root.clientWidth ? x + 14 : Math.max(0, x - 14 - wide)}px`;
    card.style.top = `${Math.max(0, Math.min(root.clientHeight - tall, y - tall / 2))}px`;
    root.dataset.card = n;
  }
  /** Set the region inside a lasso or box, in units of the axes; empty after a double click. */
  let shifted = false;
  function sendRegion(event) {
    const key = letter => Object.keys(event?.range ?? {}).find(name => name.startsWith(letter));
    const box = event?.range && [event.range[key('x')], event.range[key('y')]];
    const x = event?.lassoPoints?.x ?? (box ? [box[0][0], box[0][1], box[0][1], box[0][0]] : []);
    const y = event?.lassoPoints?.y ?? (box ? [box[1][0], box[1][0], box[1][1], box[1][1]] : []);
    model.set('region', { x: [...x], y: [...y], add: shifted, n: (model.get('region').n || 0) + 1 });
    model.save_changes();
  }
  async function receive(message, buffers) {
    if (message.kind === 'card') {
      showCard(message, buffers);
    } else if (message.kind === 'picture') {
      const { png, size } = await renderPicture(P, message.figure, message.words, Math.min(1000, root.closest('.srlviz-explorer')?.clientWidth || 900));
      model.send({ kind: 'picture', which: message.which, size }, undefined, [png]);
    } else if (message.kind === 'whole') {
      figures.set(key, { ...splitFigure(message.figure), views: figures.get(key).views });
      draw();
    } else if (message.kind === 'changed') {
      const known = figures.get(key);
      if (message.seq <= known.seq) return draw();                      // another view of the same figure has it already
      if (message.seq !== known.seq + 1) return model.send({ kind: 'whole' });
      known.seq = message.seq;
      for (const [k, text] of Object.entries(message.traces)) known.data[k] = text;
      if (message.layout) known.layout = message.layout;
      draw();
    }
  }

  const axis = () => div._fullLayout?.xaxis;
  /** Move the ring, which lies over the plot as the cursor does, so many points need not be redrawn. */
  function placeRing() {
    const [x, y] = model.get('ring'), layout = div._fullLayout, at = [['xaxis', x], ['yaxis', y]].map(([axis, v]) => v === undefined ? NaN : layout?.[axis]?.c2p?.(v));
    ring.hidden = !at.every((px, k) => px >= 0 && px <= layout[['xaxis', 'yaxis'][k]]._length);
    if (ring.hidden) return;
    ring.style.left = `${layout.xaxis._offset + at[0]}px`;
    ring.style.top = `${layout.yaxis._offset + at[1]}px`;
    root.dataset.ring = `${x},${y}`;
  }
  function placeCursor() {
    placeRing();
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
    if (channel()) broadcast('seek', channel(), t);
    else { model.set('cursor', t); model.save_changes(); }
  }
  const channel = () => model.get('channel');
  const onStep = ({ detail }) => { if (detail.channel === channel() && channel() && detail.t !== at) { at = detail.t; placeCursor(); } };
  const onCursor = () => { at = model.get('cursor'); placeCursor(); };
  globalThis.addEventListener('srlviz-step', onStep);
  const inside = event => { const box = div.getBoundingClientRect(), size = div._fullLayout?._size; return size && event.clientY > box.top + size.t - 4 && event.clientY < box.top + size.t + size.h + 4 && event.clientX > box.left + size.l - 8 && event.clientX < box.left + size.l + size.w + 8; };
  const down = event => { shifted = event.shiftKey; if (!model.get('scrub') || event.button || !inside(event)) return; moving = true; root.setPointerCapture(event.pointerId); scrubTo(event); event.preventDefault(); event.stopPropagation(); };
  const move = event => { if (moving) scrubTo(event); };
  const up = () => { moving = false; };
  root.addEventListener('pointerdown', down, true);
  root.addEventListener('pointermove', move);
  root.addEventListener('pointerup', up);
  root.addEventListener('pointercancel', up);
  root.addEventListener('mousedown', event => { if (model.get('scrub') && inside(event)) event.stopPropagation(); }, true);    // else plotly starts a drag of its own

  const name = () => root.setAttribute('aria-label', model.get('label') || 'plot');
  const theme = new MutationObserver(() => { model.set('dark', isDark()); model.save_changes(); runInTurn(draw); });
  theme.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light'] });
  const resize = new ResizeObserver(() => { if (!P || !div._fullLayout || !root.clientWidth) return; const fit = () => P.Plots.resize(div); Promise.resolve(Object.is(allowedHeight(), maxHeight) ? fit() : runInTurn(draw).then(fit)).then(placeCursor, () => {}); });

  requestPlotly(model).then(async plotly => {
    await runInTurn(() => {
      if (ended) return;
      P = plotly;
      div.textContent = '';
      return draw();
    });
    if (ended) return;
    broadcast('where', channel());
    model.send({ kind: 'drawn', seq: figures.get(key).seq });
    let clickSent = true;
    const sendClick = ([p]) => {
      clickSent = true;
      model.set('clicked', { curve: p.curveNumber, i: p.pointNumber ?? p.pointIndex ?? null, x: p.x ?? null, y: p.y ?? null, z: p.z ?? null, data: plain(p.customdata), n: (model.get('clicked').n || 0) + 1 });
      model.save_changes();
    };
    div.on('plotly_click', event => sendClick(event.points));
    // plotly looks for the point under the pointer at most every 50 ms, and forgets it if it looks while the button is down: a short press just after a move would be lost. It looks once more after the press.
    div.addEventListener('mousedown', () => { clickSent = false; }, true);
    div.addEventListener('click', event => { if (!clickSent && event.target.classList.contains('drag')) setTimeout(() => { if (!clickSent && !ended && div._hoverdata?.length) sendClick(div._hoverdata); }, 80); });
    if (model.get('hovers')) { div.on('plotly_hover', hover); div.on('plotly_unhover', unhover); }
    if (model.get('regions')) div.on('plotly_deselect', () => sendRegion(null));
    div.on('plotly_selected', event => {
      if (model.get('regions')) { if (event?.lassoPoints ?? event?.range) sendRegion(event); return; }      // without either, an outline was removed by redrawing
      const [x, y] = ['x', 'y'].map(axis => Object.entries(event?.range ?? {}).find(([name]) => name.startsWith(axis))?.[1].slice().sort((a, b) => a - b));
      model.set('selected', event?.points?.map(p => p.pointNumber) ?? []);
      if (x && y) model.set('box', [x[0], y[0], x[1], y[1]]);
      model.save_changes();
    });
    div.on('plotly_relayout', placeCursor);
    div.on('plotly_relayouting', placeRing);
    if (model.get('dark') !== isDark()) { model.set('dark', isDark()); model.save_changes(); }
    resize.observe(el);
  }).catch(error => { if (!ended) div.textContent = `no plot: ${error.message}`; });

  const unlisten = listen(model, { 'change:fig_json': redraw, 'change:cursor': onCursor, 'change:ring': placeRing, 'change:label': name, 'msg:custom': receive });
  readFigure();
  figures.get(key).views++;
  name();
  labelControls(el);
  return () => {
    ended = true;
    if (--figures.get(key).views < 1) figures.delete(key);      // a later view requests the figure from the kernel
    clearTimeout(idleTimer);
    clearTimeout(hoverTimer);
    URL.revokeObjectURL(shownUrl);
    theme.disconnect();
    resize.disconnect();
    unlisten();
    globalThis.removeEventListener('srlviz-step', onStep);
    if (P) P.purge(div);
  };
}

export default { render };
