// A view of any plotly figure. The figure is one synced trait, `fig_json`; of a small change only the traces that changed are sent, as a message.
// A line at `cursor` is drawn over the plot, not in it: it may follow sixty frames a second. With `scrub` the pointer moves it.
// A step under the pointer, here (`hovered`) or in a linked view (`preview`), has a light line, and the cursor stays.
// Views of one `channel` exchange steps by events of the page, so a line follows a player, and a player the pointer, without the kernel.

const figures = shared().figures ??= new Map();      // key of a view -> what it shows: its number, and the JSON of each trace and of the layout

/** Split the JSON of a figure into its number and the JSON of each trace and of the layout. */
function splitFigure(text) {
  const { seq = 0, data, layout } = JSON.parse(text);
  return { seq, data: data.map(trace => JSON.stringify(trace)), layout: JSON.stringify(layout) };
}

/** Whether two parsed figures differ in the shapes of their layout at most. */
function onlyShapesDiffer(before, now) {
  if (before.dark !== now.dark || before.data.length !== now.data.length || now.data.some((trace, k) => trace !== before.data[k])) return false;
  const rest = ({ text }) => JSON.stringify({ ...JSON.parse(text), shapes: null });      // plotly adds ranges to the objects that it was given
  return rest(before.layout) === rest(now.layout);
}

/** A value of a point as JSON can hold it: a row of a typed array is a list. */
const plain = value => ArrayBuffer.isView(value) ? [...value] : value ?? null;

function render({ model, el }) {
  const root = make('div', { class: 'srlviz-plot', role: 'img', 'data-lm-suppress-shortcuts': 'true' }), div = make('div'), cursor = make('div', { class: 'srlviz-cursor', hidden: '' }), light = make('div', { class: 'srlviz-cursor light', hidden: '' });
  div.textContent = 'waiting for the kernel to send the plot…';
  root.append(div, light, cursor);
  el.append(root);

  const key = model.get('key');
  let P = null, keys = null, ended = false, moving = false, at = model.get('cursor');
  const pictures = offerPictures(model, root);
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
    isStale = !seen.isSeen();
    if (isStale) return;      // drawn once it is seen
    const before = { ...parsed, maxHeight }, { data, layout } = objects();
    maxHeight = allowedHeight();
    if (layout.height > maxHeight) layout.height = Math.max(120, Math.floor(maxHeight));      // the place of the plot, such as a pane, has a style with less height
    div.style.height = layout.height ? `${layout.height}px` : '';       // or plotly, once its box is resized, takes the height from a box that has none
    if (Object.is(before.maxHeight, maxHeight) && onlyShapesDiffer(before, parsed)) await P.relayout(div, { shapes: layout.shapes ?? [] });
    else await P.react(div, data, layout, { responsive: true, displaylogo: false, ...model.get('config') });
    if (!root.dataset.drawn) listenToPlot();
    root.dataset.drawn = (+root.dataset.drawn || 0) + 1;
    placeCursor();
    listenToHeads();
    keys?.drawn();
    pictures.changed();
  }
  let isStale = false, maxHeight = NaN;
  const seen = reportSeen(model, root, () => { if (isStale) runInTurn(draw); });
  const allowedHeight = () => parseFloat(getComputedStyle(root).maxHeight);      // NaN for none
  const redraw = () => { readFigure(); draw(); };
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
  function receive(message) {
    if (message.kind === 'picture') {
      pictures.render(message);
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
  function placeLine(line, t) {
    const x = axis(), size = div._fullLayout?._size, px = (t ?? null) === null || !x ? NaN : x.c2p(t);
    line.hidden = !(px >= 0 && px <= x?._length);
    if (line.hidden) return;
    line.style.left = `${x._offset + px}px`;
    line.style.top = `${size.t}px`;
    line.style.height = `${size.h}px`;
  }
  function placeCursor() {
    placeLine(cursor, at);
    placeLight();
    if (!cursor.hidden) root.dataset.cursor = at;
  }
  function placeLight() {
    const t = over ?? model.get('preview');
    placeLine(light, t);
    root.dataset.preview = light.hidden ? '' : t;
  }

  /** The step at a position along the x axis. */
  function stepOf(position) {
    const [first, last] = axis().range;
    return Math.max(Math.ceil(first), Math.min(Math.floor(last), Math.round(position)));
  }
  /** The step under the pointer. */
  function stepAt(event) {
    const x = axis();
    return stepOf(x.p2c(Math.max(0, Math.min(x._length, event.clientX - div.getBoundingClientRect().left - x._offset))));
  }
  let over = null;      // the step under the pointer, null for none
  const sendHover = hoverSender(model);
  function hover(t) {
    if (t === over) return;
    over = t;
    placeLight();
    sendHover(t);
  }
  const scrubTo = event => axis() && seek(stepAt(event));
  function seek(position) {
    const t = stepOf(position);
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
  const move = event => { if (moving) scrubTo(event); else if (model.get('scrub')) hover(inside(event) && axis() ? stepAt(event) : null); };
  const up = () => { moving = false; };
  root.addEventListener('pointerdown', down, true);
  root.addEventListener('pointermove', move);
  root.addEventListener('pointerup', up);
  root.addEventListener('pointercancel', up);
  root.addEventListener('pointerleave', () => hover(null));
  root.addEventListener('mousedown', event => { if (model.get('scrub') && inside(event)) event.stopPropagation(); }, true);    // else plotly starts a drag of its own

  const name = () => root.setAttribute('aria-label', model.get('label') || 'plot');
  const theme = new MutationObserver(() => { model.set('dark', isDark()); model.save_changes(); runInTurn(draw); });
  theme.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light'] });
  const resize = new ResizeObserver(() => { if (!P || !div._fullLayout || !root.clientWidth) return; const fit = () => P.Plots.resize(div); Promise.resolve(Object.is(allowedHeight(), maxHeight) ? fit() : runInTurn(draw).then(fit)).then(placeCursor, () => {}); });

  let clickSent = true;
  function sendClick([p]) {
    clickSent = true;
    model.set('clicked', { curve: p.curveNumber, i: p.pointNumber ?? p.pointIndex ?? null, x: p.x ?? null, y: p.y ?? null, z: p.z ?? null, data: plain(p.customdata), n: (model.get('clicked').n || 0) + 1 });
    model.save_changes();
  }
  /** Let the names of the columns of a map be pressed, if its figure says so: a press sends the data of the first cell of the column. */
  function listenToHeads() {
    if (!div._fullLayout?.meta?.has_heads) return;
    const edges = div.calcdata[0]?.[0]?.x ?? [], cells = div.data[0].customdata ?? [];
    for (const head of div.querySelectorAll('.xtick text')) {
      const column = edges.findIndex((edge, k) => edge <= head.__data__.x && head.__data__.x < edges[k + 1]);
      if (column < 0) continue;      // a number on the axis of another plot
      const press = () => {
        const data = cells.map(row => row[column]).find(cell => cell?.some(part => part !== '')) ?? null;
        model.set('clicked', { head: true, data: plain(data), n: (model.get('clicked').n || 0) + 1 });
        model.save_changes();
      };
      for (const [name, value] of Object.entries({ role: 'button', tabindex: '0', 'data-head': String(column) })) if (head.getAttribute(name) !== value) head.setAttribute(name, value);
      head.onclick = press;
      head.onkeydown = event => { if (event.key === 'Enter' || event.key === ' ') { press(); event.preventDefault(); event.stopPropagation(); } };
    }
  }
  /** Send clicks and selections; plotly makes its events available once it has drawn. */
  function listenToPlot() {
    div.on('plotly_click', event => sendClick(event.points));
    // plotly looks for the point under the pointer at most every 50 ms, and forgets it if it looks while the button is down: a short press just after a move would be lost. It looks once more after the press.
    div.addEventListener('mousedown', () => { clickSent = false; }, true);
    div.addEventListener('click', event => { if (!clickSent && event.target.classList.contains('drag')) setTimeout(() => { if (!clickSent && !ended && div._hoverdata?.length) sendClick(div._hoverdata); }, 80); });
    if (model.get('regions')) div.on('plotly_deselect', () => sendRegion(null));
    div.on('plotly_selected', event => {
      if (model.get('regions')) { if (event?.lassoPoints ?? event?.range) sendRegion(event); return; }      // without either, an outline was removed by redrawing
      const [x, y] = ['x', 'y'].map(axis => Object.entries(event?.range ?? {}).find(([name]) => name.startsWith(axis))?.[1].slice().sort((a, b) => a - b));
      model.set('selected', event?.points?.map(p => p.pointNumber) ?? []);
      if (x && y) model.set('box', [x[0], y[0], x[1], y[1]]);
      model.save_changes();
    });
    div.on('plotly_relayout', placeCursor);
  }

  requestLibrary('plotly', model).then(async plotly => {
    await runInTurn(() => {
      if (ended) return;
      P = plotly;
      div.textContent = '';
      keys = plotKeys(P, root, div, points => (model.get('scrub') ? seek(points[0].x) : sendClick(points)), () => at);
      return draw();
    });
    if (ended) return;
    broadcast('where', channel());
    model.send({ kind: 'drawn', seq: figures.get(key).seq });
    seen.tell();
    if (model.get('dark') !== isDark()) { model.set('dark', isDark()); model.save_changes(); }
    resize.observe(el);
  }).catch(error => { if (!ended) div.textContent = `no plot: ${error.message}`; });

  const unlisten = listen(model, { 'change:fig_json': redraw, 'change:cursor': onCursor, 'change:preview': placeLight, 'change:label': name, 'msg:custom': receive });
  readFigure();
  figures.get(key).views++;
  name();
  labelControls(el);
  return () => {
    ended = true;
    if (--figures.get(key).views < 1) figures.delete(key);      // a later view requests the figure from the kernel
    pictures.end();
    theme.disconnect();
    resize.disconnect();
    seen.end();
    unlisten();
    globalThis.removeEventListener('srlviz-step', onStep);
    if (P) P.purge(div);
  };
}

export default { render };
