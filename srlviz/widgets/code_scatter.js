// A map of points, drawn by regl-scatterplot (vendor/regl_scatterplot.js), which comes once for a page. All maps of a page draw on one WebGL context and copy the result to a canvas of their own, so that a page may have many.
// What moves without the points stands over them: ring, names, lasso, card. Pointer and keys are handled here, for the plots of regl-scatterplot draw all points again when the pointer moves.

const REACH = 12, CLICK = 4, AROUND = 40;      // px from the pointer to a point that it means; px that the pointer may move during a click; px around a point that a key selects
const SIDES = [[4, 0], [4, .5], [3, .5], [5, .25], [6, 0], [3, 0], [8, 0]];      // marks of tags: polygons, sides and turn

/** The renderer that all maps of the page share, with one WebGL context, as large as the largest map. If its context is lost, the maps begin anew with another. */
function sharedRenderer(R, width, height) {
  const page = shared();
  if (!page.renderer || page.renderer.isDestroyed) {
    const canvas = make('canvas', { width: 1, height: 1 });
    let made = null;
    try { made = R.createRenderer({ canvas }); } catch { /* there is no context */ }
    if (!made) throw new Error('there is no WebGL');
    if (!made.isSupported) throw new Error('it cannot draw on float textures');
    page.renderer = made;
    canvas.addEventListener('webglcontextlost', () => {
      if (page.renderer !== made) return;
      page.renderer = null;
      page.lostContexts = (page.lostContexts ?? 0) + 1;
      globalThis.dispatchEvent(new Event('srlviz-context-lost'));
    });
  }
  const { canvas } = page.renderer, ratio = devicePixelRatio, needed = [width * ratio, height * ratio].map(Math.ceil);
  if (needed[0] > canvas.width || needed[1] > canvas.height) {
    page.renderer.resize(Math.max(needed[0], canvas.width) / ratio, Math.max(needed[1], canvas.height) / ratio);
    page.renderer.refresh();
  }
  return page.renderer;
}

/** The numbers of a binary trait, as an array of a type. */
const numbers = (view, Type) => view?.byteLength ? new Type(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength)) : new Type();

/** Round numbers between two others, about five. */
function roundNumbers(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find(k => k * power >= rough) * power;
  const first = Math.ceil(low / step), found = [];
  for (let i = 0; i < 20 && (first + i) * step <= high; i++) found.push(+((first + i) * step).toPrecision(12));      // far from 0, first + 1 may be first
  return found;
}

/** A shape of SVG. */
function shape(tag, attributes = {}) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

/** The corners of a mark of a tag. */
function corners(k) {
  const [n, turn] = SIDES[k % SIDES.length];
  return [...Array(n).keys()].map(i => (i + turn) * 2 * Math.PI / n - Math.PI / 2).map(a => `${(5.5 * Math.cos(a)).toFixed(1)},${(5.5 * Math.sin(a)).toFixed(1)}`).join(' ');
}

function render({ model, el }) {
  const canvas = make('canvas', { 'aria-hidden': 'true' }), back = shape('svg', { 'aria-hidden': 'true' }), front = shape('svg', { 'aria-hidden': 'true' });
  const ring = make('div', { class: 'srlviz-ring', hidden: '' }), cursor = make('div', { class: 'srlviz-ring cursor', hidden: '' }), light = make('div', { class: 'srlviz-ring light', hidden: '' }), names = make('div', { 'aria-hidden': 'true' });
  const card = make('div', { class: 'srlviz-card', hidden: '', 'aria-hidden': 'true' }), hint = make('div', { class: 'srlviz-scatter-hint', hidden: '' }, 'press the map first, or hold Ctrl, to zoom with the wheel');
  const said = make('div', { class: 'srlviz-said', role: 'status' });
  const act = (label, words, go) => make('button', { type: 'button', title: words, 'aria-label': words, onclick: go, onpointerdown: event => event.stopPropagation() }, label);
  const buttons = make('div', { class: 'srlviz-scatter-buttons' }, act('+', 'zoom in', () => zoom(1.5)), act('−', 'zoom out', () => zoom(1 / 1.5)), act('⌂', 'show all points', () => home()));
  const stage = make('div', { class: 'srlviz-scatter-stage', tabindex: 0, role: 'application', 'aria-roledescription': 'map of points', 'data-lm-suppress-shortcuts': 'true' }, back, canvas, front, names, light, ring, cursor);
  const head = make('div', { class: 'srlviz-scatter-head' }), foot = make('div', { class: 'srlviz-scatter-foot' }), xTitle = make('div', { class: 'srlviz-scatter-x' }), yTitle = make('div', { class: 'srlviz-scatter-y' });
  const body = make('div', { class: 'srlviz-scatter-body' }, yTitle, stage, xTitle);
  const root = make('div', { class: 'srlviz-scatter' }, head, body, foot, said);
  stage.append(buttons, hint, card);
  el.append(root);

  const pictures = offerPictures(model, root);
  let R = null, plot = null, ended = false, work = Promise.resolve(), release = () => {};
  let xy = new Float32Array(), ids = new Int32Array(), colour = new Uint16Array(), normal = null;
  let box = { x: 0, y: 0, half: 1, wide: 1, tall: 1 };      // middle and half size of the points
  let view = { zoom: 1, x: 0, y: 0 }, isHome = true;         // in halves of the height of the stage
  let size = { width: 0, height: 0 }, lines = [];

  // --- the points

  /** Where the points are, and the same in [-1, 1] for the plot. */
  function readPoints() {
    xy = numbers(model.get('points'), Float32Array);
    ids = numbers(model.get('ids'), Int32Array);
    const n = xy.length / 2, low = [Infinity, Infinity], high = [-Infinity, -Infinity];
    for (let i = 0; i < 2 * n; i++) {
      low[i % 2] = Math.min(low[i % 2], xy[i]);
      high[i % 2] = Math.max(high[i % 2], xy[i]);
    }
    const [wide, tall] = [high[0] - low[0], high[1] - low[1]].map(v => (v > 0 ? v : 0));
    const half = Math.max(wide, tall) / 2 || 1;
    box = { x: n ? (low[0] + high[0]) / 2 : 0, y: n ? (low[1] + high[1]) / 2 : 0, half, wide: wide / half / 2, tall: tall / half / 2 };
    normal = { x: new Float32Array(n), y: new Float32Array(n) };
    for (let i = 0; i < n; i++) {
      normal.x[i] = (xy[2 * i] - box.x) / half;
      normal.y[i] = (xy[2 * i + 1] - box.y) / half;
    }
  }
  const inks = () => model.get('inks')[isDark() ? 'dark' : 'light'] ?? {};
  const shades = () => (model.get('look').colours ?? []).map(c => inks()[c] ?? c);
  function chosen() {
    const bits = numbers(model.get('chosen'), Uint8Array), rows = [];
    for (let i = 0; i < xy.length / 2; i++) if (bits[i >> 3] & 1 << (i & 7)) rows.push(i);
    return rows;
  }
  function setLook() {
    const colours = shades();
    return plot.set({
      pointColor: colours, pointColorActive: colours, colorBy: 'valueZ', backgroundColor: isDark() ? '#111111' : '#ffffff',
      pointSize: model.get('look').size ?? 4, pointSizeSelected: 0, pointOutlineWidth: 1, opacityBy: 'density', opacityByDensityFill: .9,
      opacityInactiveScale: faded(),
    });
  }
  const faded = () => (xy.length > 4000 ? .08 : .2);
  /** Draw the points: all of them, or only the colours or the selection. Changes are handled one after another. */
  const update = what => { work = work.then(() => runInTurn(() => redraw(what))).catch(fail); return work; };
  async function redraw(what) {
    if (ended || !R || !xy.length) return;
    if (!plot) what = 'points';
    if (!size.width) return;      // drawn when it has a size, that is, when it is seen
    if (!plot) plot = R.createScatterplot({ canvas, renderer: sharedRenderer(R, size.width, size.height), deselectOnEscape: false, deselectOnDblClick: false, lassoInitiator: false, lassoOnLongPress: false });
    if (what !== 'chosen') {
      colour = numbers(model.get('colour'), Uint16Array);
      if (colour.length !== xy.length / 2) return;      // its colours are on their way
      await setLook();
      const known = what === 'colour' ? plot.get('spatialIndex') : undefined;
      await unlessDropped(plot.draw({ ...normal, z: colour }, { zDataType: 'categorical', spatialIndex: known }));
      if (ended || !plot) return;
    }
    const rows = chosen();
    canvas.style.opacity = numbers(model.get('chosen'), Uint8Array).length && !rows.length ? faded() : 1;      // of an empty selection every point fades
    if (rows.length) plot.select(rows, { preventEvent: true });
    else plot.deselect({ preventEvent: true });
    show();
    await unlessDropped(new Promise(done => plot.subscribe('draw', done, 1)));
    if (ended || !plot) return;
    root.dataset.drawn = (+root.dataset.drawn || 0) + 1;
    root.dataset.chosen = rows.length;
    pictures.changed();
  }
  /** A plot that lost its context never finishes. */
  const unlessDropped = drawn => Promise.race([drawn, new Promise(done => { release = done; })]);
  function fail(problem) {
    if (ended) return;
    dropPlot();
    root.dataset.drawn = (+root.dataset.drawn || 0) + 1;
    model.set('problem', `${problem.message ?? problem}`.slice(0, 200));
    model.save_changes();
  }
  function dropPlot() {
    try { plot?.destroy(); } catch { /* its context is gone */ }
    plot = null;
    release();
  }

  // --- the view

  /** px = ox + k x, py = oy - k y of a point of the map */
  function scale() {
    const half = size.height / 2, k = view.zoom * half / box.half;
    return { k, ox: size.width / 2 + view.x * half - box.x * k, oy: half - view.y * half + box.y * k };
  }
  function home() {
    const zoom = .92 * Math.min(size.width / size.height / (box.wide || 1e-3), 1 / (box.tall || 1e-3), 1e3);
    view = { zoom, x: 0, y: 0 };
    isHome = true;
    show();
  }
  /** Zoom about a point of the stage, its middle if none is given. */
  function zoom(by, px = size.width / 2, py = size.height / 2) {
    const half = size.height / 2, x = (px - size.width / 2) / half, y = (half - py) / half, to = Math.min(1e4, Math.max(.05, view.zoom * by)), k = to / view.zoom;
    view = { zoom: to, x: x - (x - view.x) * k, y: y - (y - view.y) * k };
    isHome = false;
    show();
  }
  function pan(dx, dy) {
    view = { ...view, x: view.x + dx / (size.height / 2), y: view.y - dy / (size.height / 2) };
    isHome = false;
    show();
  }
  /** Move points, and what stands over them, to the current view. */
  function show() {
    plot?.view(new Float32Array([view.zoom, 0, 0, 0, 0, view.zoom, 0, 0, 0, 0, 1, 0, view.x, view.y, 0, 1]), { preventEvent: true });
    place();
  }
  function put(node, xy) {
    node.hidden = xy.length !== 2;
    if (node.hidden) return;
    const { k, ox, oy } = scale();
    node.style.left = `${ox + k * xy[0]}px`;
    node.style.top = `${oy - k * xy[1]}px`;
  }
  function placeLight() {
    put(light, model.get('preview'));
    root.dataset.preview = model.get('preview').join();
  }
  function place() {
    const { k, ox, oy } = scale(), at = ([x, y]) => [ox + k * x, oy - k * y];
    for (const [node, x, y] of lines) {
      const [px, py] = at([x, y]);
      if (node.parentNode === names) { node.style.left = `${px}px`; node.style.top = `${py}px`; } else node.setAttribute('transform', `translate(${px.toFixed(1)} ${py.toFixed(1)})`);
    }
    put(ring, model.get('ring'));
    placeLight();
    put(cursor, point < 0 ? [] : [xy[2 * point], xy[2 * point + 1]]);
    root.dataset.ring = model.get('ring').join();
    root.dataset.view = [k, ox, oy].join();
    drawGrid(k, ox, oy);
  }
  function drawGrid(k, ox, oy) {
    back.replaceChildren();
    if (!model.get('look').ticks || !(k > 0) || !size.width) return;
    for (const x of roundNumbers(-ox / k, (size.width - ox) / k)) {
      const px = Math.round(ox + k * x) + .5, text = shape('text', { x: px + 3, y: size.height - 4 });
      text.textContent = x;
      back.append(shape('line', { class: 'grid', x1: px, x2: px, y1: 0, y2: size.height }), text);
    }
    for (const y of roundNumbers((oy - size.height) / k, oy / k)) {
      const py = Math.round(oy - k * y) + .5, text = shape('text', { x: 4, y: py - 3 });
      text.textContent = py > 14 && py < size.height - 14 ? y : '';  // above the edge it would be cut, in the corner meet that of x
      back.append(shape('line', { class: 'grid', y1: py, y2: py, x1: 0, x2: size.width }), text);
    }
  }
  /** Names and marks of tags, and the neighbours of the pressed point. */
  function drawMarks() {
    lines = [];
    front.replaceChildren();
    names.replaceChildren();
    model.get('tags').forEach(({ text, at, marks }, k) => {
      for (const [x, y] of marks) lines.push([front.appendChild(shape('polygon', { class: 'mark', points: corners(k) })), x, y]);
      const name = make('div', { class: 'srlviz-scatter-name' }, text);
      names.append(name);
      lines.push([name, ...at]);
    });
    for (const [x, y] of model.get('near')) lines.push([front.appendChild(shape('circle', { class: 'near', r: 7 })), x, y]);
    root.dataset.near = model.get('near').length;
    place();
  }
  function drawWords() {
    const { title = '', note = '', axes = ['', ''], legend = [], bar = null } = model.get('look'), colours = shades();
    head.replaceChildren(...(title ? [make('b', {}, title)] : []), note);
    xTitle.textContent = axes[0];
    yTitle.textContent = axes[1];
    foot.replaceChildren();
    if (bar) foot.append(make('span', {}, bar.title), make('span', {}, bar.low, make('i', { class: 'bar', style: `background: linear-gradient(to right, ${colours.slice(0, bar.n).join()})` }), bar.high));
    for (const [k, name] of legend) foot.append(make('span', {}, make('i', { style: `background: ${colours[k]}` }), name));
    root.style.height = model.get('height') ? `${model.get('height')}px` : '100%';
    stage.setAttribute('aria-label', model.get('label'));
    stage.dataset.mode = model.get('mode');
  }

  // --- the pointer

  const inStage = event => { const r = stage.getBoundingClientRect(); return [event.clientX - r.left - stage.clientLeft, event.clientY - r.top - stage.clientTop]; };
  /** The drawn point nearest to a place, -1 if none is within reach. */
  function nearest(px, py, reach = REACH) {
    const { k, ox, oy } = scale();
    let best = -1, least = reach * reach;
    for (let i = 0, n = xy.length / 2; i < n; i++) {
      const dx = ox + k * xy[2 * i] - px, dy = oy - k * xy[2 * i + 1] - py, far = dx * dx + dy * dy;
      if (far < least) { least = far; best = i; }
    }
    return best;
  }
  const step = i => [ids[3 * i], ids[3 * i + 1], ids[3 * i + 2]];
  function send(name, value) {
    model.set(name, { ...value, n: (model.get(name).n || 0) + 1 });
    model.save_changes();
  }
  const open = i => send('clicked', { i, data: step(i) });
  const region = (x, y, add) => send('region', { x, y, add });
  let drag = null;      // where the button went down, and the lasso
  stage.addEventListener('pointerdown', event => {
    if (event.button) return;
    const [x, y] = inStage(event);
    drag = { from: [x, y], last: [x, y], lasso: null, moved: false, add: event.shiftKey };
    stage.setPointerCapture(event.pointerId);
    stage.focus({ preventScroll: true });
    event.preventDefault();
  });
  stage.addEventListener('pointermove', event => {
    const [x, y] = inStage(event);
    if (!drag) return overAt(x, y);
    if (!drag.moved && Math.hypot(x - drag.from[0], y - drag.from[1]) < CLICK) return;
    if (!drag.moved) { drag.moved = true; leave(); stage.classList.add('moving'); }
    if (model.get('mode') === 'pan') {
      pan(x - drag.last[0], y - drag.last[1]);
    } else {
      drag.lasso ??= { node: front.appendChild(shape('polygon', { class: 'lasso' })), corners: [drag.from] };
      drag.lasso.corners.push([x, y]);
      drag.lasso.node.setAttribute('points', drag.lasso.corners.map(c => c.join()).join(' '));
    }
    drag.last = [x, y];
  });
  function endDrag(event) {
    const ended = drag;
    drag = null;
    stage.classList.remove('moving');
    if (!ended) return;
    ended.lasso?.node.remove();
    if (event.type === 'pointercancel') return;
    if (ended.lasso) {
      const { k, ox, oy } = scale();
      region(ended.lasso.corners.map(([px]) => (px - ox) / k), ended.lasso.corners.map(([, py]) => (oy - py) / k), ended.add);
    } else if (!ended.moved) {
      const i = nearest(...ended.from);
      if (i >= 0) open(i);
    }
  }
  stage.addEventListener('pointerup', endDrag);
  stage.addEventListener('pointercancel', endDrag);
  stage.addEventListener('pointerleave', () => { if (!drag) leave(); });
  stage.addEventListener('dblclick', () => (model.get('mode') === 'pan' ? home() : region([], [], false)));
  let hintTimer = 0;
  stage.addEventListener('wheel', event => {
    if (!event.ctrlKey && !stage.matches(':focus')) {      // the page scrolls
      hint.hidden = false;
      clearTimeout(hintTimer);
      hintTimer = setTimeout(() => { hint.hidden = true; }, 1200);
      return;
    }
    event.preventDefault();
    leave();
    zoom(Math.exp(-event.deltaY * (event.deltaMode ? .05 : .002)), ...inStage(event));
  }, { passive: false });

  // --- the card of the point under the pointer, or of the one that the keys are at

  let over = null, shownUrl = '', point = -1;
  function overAt(x, y) {
    const i = nearest(x, y);
    if (i < 0) return leave();
    if (i === over?.i) return;
    point = -1;
    ask(i, x, y);
  }
  /** Send the point to the kernel, which replies with a card; or that there is none any longer. */
  const sendOver = paced(() => {
    if (ended || over?.n || !over && !model.get('hovered').data) return;
    send('hovered', over ? { i: over.i, data: step(over.i) } : {});
    if (over) over.n = model.get('hovered').n;
  });
  function ask(i, x, y) {
    over = { i, at: [x, y] };
    sendOver();
  }
  function leave() {
    if (over) { over = null; sendOver(); }
    card.hidden = true;
    if (point >= 0) { point = -1; place(); }
  }
  async function showCard({ n, words }, buffers) {
    if (!over || n !== over.n) return;
    URL.revokeObjectURL(shownUrl);
    const parts = [make('div', {}, ...words.map((line, k) => make('div', k ? {} : { class: 'srlviz-card-head' }, line)))];
    if (buffers?.length) {
      shownUrl = URL.createObjectURL(new Blob([buffers[0]], { type: 'image/png' }));
      const image = make('img', { src: shownUrl, alt: '' });
      parts.unshift(image);
      await image.decode().catch(() => {});
      if (!over || n !== over.n) return;
    }
    card.replaceChildren(...parts);
    card.hidden = false;
    for (const image of card.querySelectorAll('img')) image.style.imageRendering = image.naturalHeight > image.clientHeight ? 'auto' : '';   // as in the player
    if (point >= 0) said.textContent = words.join(', ');
    const [x, y] = over.at, { offsetWidth: wide, offsetHeight: tall } = card;
    card.style.left = `${x + 14 + wide < size.width ? x + 14 : Math.max(0, x - 14 - wide)}px`;
    card.style.top = `${Math.max(0, Math.min(size.height - tall, y - tall / 2))}px`;
    root.dataset.card = n;
  }

  // --- keys

  /** The drawn point of a row; the current step if none is given. */
  function current() {
    if (point >= 0) return point;
    const [x, y] = model.get('ring'), { k, ox, oy } = scale();
    return x === undefined ? nearest(size.width / 2, size.height / 2, Infinity) : nearest(ox + k * x, oy - k * y, Infinity);
  }
  /** The next drawn point of the same episode; of whole episodes, the next episode. */
  function along(i, by) {
    for (let j = i + by; j >= 0 && j < ids.length / 3; j += by) if (ids[3 * j + 1] === ids[3 * i + 1] || ids[3 * i + 2] < 0) return j;
    return i;
  }
  function goTo(i) {
    if (i < 0) return;
    point = i;
    const { k, ox, oy } = scale(), px = ox + k * xy[2 * i], py = oy - k * xy[2 * i + 1];
    if (px < 0 || py < 0 || px > size.width || py > size.height) pan(size.width / 2 - px, size.height / 2 - py);
    place();
    const { k: k2, ox: x2, oy: y2 } = scale();
    ask(i, x2 + k2 * xy[2 * i], y2 - k2 * xy[2 * i + 1]);
  }
  /** Select the points around one, as a lasso would. */
  function selectAround(i, add) {
    const reach = AROUND / scale().k, turns = [...Array(24).keys()].map(a => a * Math.PI / 12);
    region(turns.map(a => xy[2 * i] + reach * Math.cos(a)), turns.map(a => xy[2 * i + 1] + reach * Math.sin(a)), add);
  }
  /** Where keys zoom: at their point, or in the middle. */
  function middle() {
    if (point < 0) return [];
    const { k, ox, oy } = scale();
    return [ox + k * xy[2 * point], oy - k * xy[2 * point + 1]];
  }
  stage.addEventListener('keydown', event => {
    if (event.target !== stage || !xy.length) return;
    const { key, shiftKey } = event, arrow = ARROWS[key];
    if (key === 'Escape') {
      if (point < 0 && card.hidden && !numbers(model.get('chosen'), Uint8Array).length) return;      // nothing to clear: JupyterLab may have it
      leave();
      region([], [], false);
    } else if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    } else if (arrow && (shiftKey || !arrow[0])) {
      goTo(towards(xy.length / 2, i => ({ x: xy[2 * i], y: -xy[2 * i + 1] }), current(), arrow));
    } else if (arrow) {
      goTo(point < 0 ? current() : along(point, arrow[0]));
    } else if (key === 'Enter' || key === ' ') {
      open(current());
    } else if (key === 's' || key === 'S') {
      selectAround(current(), shiftKey);
    } else if (key === '+' || key === '=') {
      zoom(1.3, ...middle());
    } else if (key === '-' || key === '_') {
      zoom(1 / 1.3, ...middle());
    } else if (key === '0' || key === 'Home') {
      home();
    } else if (key === 'l' || key === 'p') {
      model.set('mode', key === 'p' || model.get('mode') === 'lasso' ? 'pan' : 'lasso');
      model.save_changes();
      said.textContent = model.get('mode') === 'pan' ? 'dragging moves the map' : 'dragging selects points';
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    if ('+=-_0Home'.includes(key)) { if (point >= 0) goTo(point); else leave(); }
  });
  stage.addEventListener('blur', () => leave());

  // --- changes

  const changes = new Set();
  let soon = false;
  /** Traits that change together are handled together. */
  function note(what) {
    changes.add(what);
    if (soon) return;
    soon = true;
    queueMicrotask(() => {
      soon = false;
      const now = new Set(changes);
      changes.clear();
      if (now.has('points')) { readPoints(); if (isHome || !plot) home(); }
      if (now.has('look') || now.has('points')) drawWords();
      for (const what of ['points', 'colour', 'chosen']) if (now.has(what)) { update(what); break; }
    });
  }
  function resized() {
    const { clientWidth: width, clientHeight: height } = stage;
    if (!width || !height || (width === size.width && height === size.height)) return;
    const first = !size.width;
    size = { width, height };
    if (R && plot) {
      try { sharedRenderer(R, width, height); } catch (problem) { return fail(problem); }
    }
    if (first || isHome) home();
    else show();
    if (!plot) update('points');
  }
  function lostContext() { dropPlot(); update('points'); }
  const resize = new ResizeObserver(resized), theme = new MutationObserver(() => { drawWords(); update('colour'); });
  resize.observe(stage);
  theme.observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light'] });
  globalThis.addEventListener('srlviz-context-lost', lostContext);
  const onMessage = (message, buffers) => { if (message.kind === 'card') showCard(message, buffers); else if (message.kind === 'picture') pictures.render(message); };
  const unlisten = listen(model, {
    'change:points': () => note('points'), 'change:ids': () => note('points'), 'change:colour': () => note('colour'), 'change:chosen': () => note('chosen'),
    'change:look': () => { note('look'); note('colour'); }, 'change:label': drawWords, 'change:mode': drawWords, 'change:height': drawWords,
    'change:ring': place, 'change:preview': placeLight, 'change:near': drawMarks, 'change:tags': drawMarks, 'msg:custom': onMessage,
  });
  readPoints();
  drawWords();
  drawMarks();
  const seen = reportSeen(model, root, () => {});
  requestLibrary('scatterplot', model).then(loaded => { R = loaded; seen.tell(); return update('points'); }).then(() => { root.dataset.drawn ||= '0'; }).catch(fail);
  labelControls(el);
  return () => {
    ended = true;
    clearTimeout(hintTimer);
    URL.revokeObjectURL(shownUrl);
    pictures.end();
    resize.disconnect();
    seen.end();
    theme.disconnect();
    unlisten();
    globalThis.removeEventListener('srlviz-context-lost', lostContext);
    dropPlot();
  };
}

export default { render };
