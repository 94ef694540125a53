// Play frames in the browser. The kernel sends them in chunks, each a lossless picture of some dozens of frames; the visible one comes first.
// Marks and the table next to the frame are also drawn here, from compact arrays, so playing needs no kernel.

const KEEP_DECODED = 96e6, KEEP_ENCODED = 192e6, MAX_REQUESTS = 2;     // bytes, bytes, requests
const SETTLED_MS = 150;
const AHEAD = 6, AT_REST = 1, MAX_AHEAD = 24;                          // seconds fetched ahead while playing; chunks at rest, and at most
const ICONS = {
  first: 'M6 5h2v14H6zM19 5v14L9 12z', back: 'M16 5v14L6 12z', play: 'M7 4v16l13-8z', pause: 'M6 5h4v14H6zM14 5h4v14h-4z',
  next: 'M8 5v14l10-7z', last: 'M16 5h2v14h-2zM5 5v14l10-7z',
};
function icon(name) {
  const drawn = (tag, attributes, ...children) => {
    const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const path = drawn('path', { fill: 'currentColor', d: ICONS[name] });
  return drawn('svg', { viewBox: '0 0 24 24', width: 16, height: 16, 'aria-hidden': 'true' }, path);
}

/** The chunks of one source: requests them, and keeps them encoded, the last few also decoded. */
class Chunks {
  constructor(model, arrived) {
    Object.assign(this, { model, arrived, source: model.get('source'), encoded: new Map(), decoded: new Map(), requested: new Set(), single: null, asked: null, wanted: null, bytes: 0, largest: 0, centre: 0 });
    const { width, height, chunk } = this.source;
    this.room = Math.max(2, Math.floor(KEEP_DECODED / (width * height * 4 * chunk)));
    this.count = Math.ceil(this.source.n / chunk);
  }
  /** Request a single frame, as while a slider is dragged; of those wanted before it arrives, only the last is requested. */
  requestFrame(t) {
    this.wanted = t;
    if (this.asked !== null || this.single?.t === t) return;
    this.asked = t;
    this.model.send({ kind: 'frame', id: this.source.id, t });
  }
  async receiveFrame({ t }, [bytes]) {
    const picture = await createImageBitmap(new Blob([bytes]), { colorSpaceConversion: 'none', premultiplyAlpha: 'none' });
    this.single?.picture.close();
    this.single = { t, picture };
    this.asked = null;
    this.arrived();
    if (this.wanted !== t) this.requestFrame(this.wanted);
  }
  async receive(message, buffers) {
    if (message.id !== this.source.id) return;
    if (message.kind === 'frame') return this.receiveFrame(message, buffers);
    if (message.kind !== 'chunk') return;
    this.requested.delete(message.chunk);
    if (!this.encoded.has(message.chunk)) this.bytes += buffers[0].byteLength;
    this.encoded.set(message.chunk, new Blob([buffers[0]]));
    this.largest = Math.max(this.largest, buffers[0].byteLength);
    this.evict();
    this.arrived(message.chunk);
  }
  /** Over the limit, remove the chunks farthest from the visible one; that one and the next stay. */
  evict() {
    const far = chunk => (chunk - this.centre + this.count) % this.count;
    for (const chunk of [...this.encoded.keys()].sort((a, b) => far(b) - far(a))) {
      if (this.bytes <= KEEP_ENCODED || far(chunk) <= 1) return;
      this.bytes -= this.encoded.get(chunk).size;
      this.encoded.delete(chunk);
    }
  }
  has(chunk) { return this.encoded.has(chunk) || this.requested.has(chunk); }
  /** Request missing chunks: the visible one, and `ahead` after it. */
  request(centre, ahead = this.count) {
    this.centre = centre;
    if (!this.source.n || !this.source.width) return;
    for (let k = 0; k <= ahead && k < this.count && this.requested.size < MAX_REQUESTS; k++) {
      const chunk = (centre + k) % this.count;
      if (this.encoded.has(chunk) || this.requested.has(chunk)) continue;
      if (k > 1 && this.bytes + this.largest * (this.requested.size + 1) > KEEP_ENCODED) return;     // only what will stay is fetched ahead
      this.requested.add(chunk);
      this.model.send({ kind: 'need', id: this.source.id, chunk });
    }
  }
  /** The decoded picture of a chunk, or null until it is decoded, when `arrived` is called again. */
  picture(chunk) {
    const held = this.decoded.get(chunk);
    if (held) { this.decoded.delete(chunk); this.decoded.set(chunk, held); }     // the last used stands last
    if (held || !this.encoded.has(chunk)) return held instanceof Promise ? null : held ?? null;
    this.decoded.set(chunk, createImageBitmap(this.encoded.get(chunk), { colorSpaceConversion: 'none', premultiplyAlpha: 'none' }).then(bitmap => { this.decoded.set(chunk, bitmap); this.arrived(chunk); }));
    for (const [old, picture] of this.decoded) {
      if (this.decoded.size <= this.room) break;
      this.decoded.delete(old);
      picture.close?.();
    }
    return null;
  }
  close() { for (const picture of this.decoded.values()) picture.close?.(); }
}

function render({ model, el }) {
  const frame = make('canvas', { role: 'img' }), over = make('canvas', { 'aria-hidden': 'true' });
  const glance = make('img', { alt: '' }), glanceBox = make('div', { class: 'srlviz-glance', 'aria-hidden': 'true', hidden: '' }, glance, make('span'));
  const stage = make('div', { class: 'srlviz-stage' }, frame, over, glanceBox);
  const button = (name, label, press) => make('button', { type: 'button', title: label, 'aria-label': label, 'data-do': name, onclick: press });
  const bar = make('input', { type: 'range', min: 0, step: 1, 'aria-label': 'step t' });
  const box = make('input', { type: 'number', min: 0, step: 1, 'aria-label': 'go to step t' });
  const total = make('span', { class: 'srlviz-total' });
  const speed = make('select', { 'aria-label': 'speed', title: 'speed' });
  for (const s of [.125, .25, .5, 1, 2, 4, 8]) speed.append(make('option', { value: s }, { .125: '⅛×', .25: '¼×', .5: '½×' }[s] ?? `${s}×`));
  const buttons = {
    first: button('first', 'first step (Home)', () => go(0)), back: button('back', 'one step back (left arrow)', () => go(shown - 1)),
    play: button('play', 'play (space)', () => toggle()), next: button('next', 'one step on (right arrow)', () => go(shown + 1)), last: button('last', 'last step (End)', () => go(n() - 1)),
  };
  for (const [name, node] of Object.entries(buttons)) node.append(icon(name));
  const controls = make('div', { class: 'srlviz-controls' }, make('div', { class: 'srlviz-scrub' }, bar, make('span', { class: 'srlviz-step' }, 't ', box, total)), ...Object.values(buttons), speed);
  const check = make('input', { type: 'checkbox' });
  const legend = make('div', { class: 'srlviz-legend' });
  const table = new FactorTable(model);
  const note = make('div', { class: 'srlviz-note' });
  const screen = make('div', { class: 'srlviz-screen' }, stage, legend);
  const root = make('div', { class: 'srlviz-player', tabindex: 0, role: 'group', 'data-lm-suppress-shortcuts': 'true' }, make('div', { class: 'srlviz-top' }, screen, table.node), controls, note);
  el.append(root);

  const ink = frame.getContext('2d'), pen = over.getContext('2d');
  let chunks = null, shown = 0, playing = false, request = 0, since = 0, from = 0, reported = 0, missing = false, muted = false, pending = 0;
  const numbers = new Numbers(model, () => { drawMarks(); drawTable(); });
  const n = () => model.get('source').n, filmed = () => model.get('source').width > 0;
  const clamp = t => Math.max(0, Math.min(n() - 1, Math.round(t) || 0));

  // views of one channel follow each other by events of the page
  const channel = () => model.get('channel');
  const announce = () => broadcast('step', channel(), shown);
  const onSeek = ({ detail }) => { if (channel() && detail.channel === channel()) detail.t === undefined ? announce() : go(detail.t); };
  globalThis.addEventListener('srlviz-seek', onSeek);
  globalThis.addEventListener('srlviz-where', onSeek);

  /** Set a step with the number of the last seek received from the kernel, which ignores steps sent before it. */
  const put = t => model.set({ value: t, seeks_seen: model.get('seeks') });

  /** Send a step even if it seems known: an older one may still be on its way to the kernel. Not while a message of the kernel is handled, for what is set then is not sent. */
  function resend(t) {
    muted = true;
    model.set('value', -1);
    put(t);
    muted = false;
    model.save_changes();
    show(t);
  }
  /** Show a step that the kernel knows. */
  function show(t) {
    if (t === shown) return;
    shown = clamp(t);
    restart();
    draw();
    requestChunks();
  }

  function resendSoon(t) { clearTimeout(pending); pending = setTimeout(() => resend(t)); }

  function newSource(changed) {
    chunks?.close();
    chunks = new Chunks(model, chunk => { if (missing) draw(); if (chunk !== undefined) requestChunks(); });
    const { width, height, n: count, label } = model.get('source');
    screen.hidden = !filmed();
    frame.width = width; frame.height = height;
    frame.setAttribute('aria-label', `frame of ${label || 'the episode'}`);
    root.setAttribute('aria-label', `${label || 'frames'}: space plays, arrow keys step, page up and down step by ten, home and end jump`);
    bar.max = box.max = Math.max(count - 1, 0);
    total.textContent = ` / ${Math.max(count - 1, 0)}`;
    resize();
    shown = clamp(changed ? model.get('source').start : model.get('value'));      // while playing, a `value` from the kernel may be lost; `start` is not
    if (changed) resendSoon(shown);
    restart();
    draw();
    requestChunks();
  }
  function resize() {
    const { width, height } = model.get('source'), zoom = model.get('zoom'), sharp = globalThis.devicePixelRatio || 1;
    frame.style.imageRendering = glance.style.imageRendering = zoom < 1 ? 'auto' : '';                  // lines of a picture that shrinks would be lost
    for (const canvas of [frame, over]) { canvas.style.width = `${width * zoom}px`; canvas.style.height = `${height * zoom}px`; }
    over.width = width * zoom * sharp; over.height = height * zoom * sharp;
    pen.setTransform(sharp, 0, 0, sharp, 0, 0);
    controls.style.width = filmed() ? `${Math.max(width * zoom, 260)}px` : '100%';
    legend.style.maxWidth = `${Math.max(width * zoom, 240)}px`;
    table.node.style.maxHeight = `${Math.max(height * zoom, 120)}px`;
  }
  const ahead = () => playing ? Math.min(MAX_AHEAD, Math.ceil(AHEAD * model.get('fps') * model.get('speed') / chunks.source.chunk)) : AT_REST;
  const seen = watchSeen(root, () => { resize(); draw(); requestChunks(); });
  let settled = 0;
  /** Request the chunks from here on; after a jump to one that is not there, first the frame alone, and the chunk once the jumps have ended. */
  function requestChunks() {
    if (!n() || !seen.isSeen()) return;
    const at = Math.floor(shown / chunks.source.chunk), request = () => chunks.request(at, ahead());
    clearTimeout(settled);
    if (playing || !filmed() || chunks.has(at) || !chunks.encoded.size) return request();
    chunks.requestFrame(shown);
    settled = setTimeout(request, SETTLED_MS);
  }

  // one frame, its marks, its row of the table
  function draw() {
    if (seen.isSeen()) drawFrame();
    announce();
  }
  function drawFrame() {
    const { chunk, columns, width, height } = chunks.source;
    const picture = n() && filmed() ? chunks.picture(Math.floor(shown / chunk)) : null;
    const single = !picture && filmed() ? chunks.single : null;
    if (single) {
      ink.drawImage(single.picture, 0, 0);
      root.dataset.frame = single.t;
    }
    missing = !picture && filmed() && single?.t !== shown;
    if (!filmed()) root.dataset.frame = shown;
    root.classList.toggle('waiting', missing);
    if (picture) {
      const k = shown % chunk;
      ink.drawImage(picture, (k % columns) * width, Math.floor(k / columns) * height, width, height, 0, 0, width, height);
      root.dataset.frame = shown;
      root.dataset.drawn = (+root.dataset.drawn || 0) + 1;
      if (k > chunk / 2 && playing) chunks.picture(Math.floor(shown / chunk) + 1);        // decode the next one before it is due
    }
    drawMarks();
    drawTable();
    bar.value = shown;
    bar.setAttribute('aria-valuetext', `step ${shown} of ${n() - 1}`);
    if (document.activeElement !== box && box.getRootNode().activeElement !== box) box.value = shown;
  }
  function drawMarks() {
    const { names, colors } = model.get('marks'), zoom = model.get('zoom'), xy = names?.length ? numbers.row(shown) : null;
    const W = over.clientWidth || over.width, H = over.clientHeight || over.height;
    pen.clearRect(0, 0, over.width, over.height);
    if (!xy || !model.get('show_marks') || missing) return;
    for (let k = 0; k < names.length; k++) {
      const x = (xy[2 * k] + .5) * zoom, y = (xy[2 * k + 1] + .5) * zoom;
      if (isNaN(x) && isNaN(y)) continue;
      for (const [colour, wide] of [['rgba(0,0,0,.75)', 4.5], [colors[k], 2]]) {
        pen.strokeStyle = colour; pen.lineWidth = wide;
        pen.beginPath();
        if (isNaN(x)) { pen.moveTo(0, y); pen.lineTo(W, y); }
        else if (isNaN(y)) { pen.moveTo(x, 0); pen.lineTo(x, H); }
        else pen.arc(x, y, 9, 0, 2 * Math.PI);
        pen.stroke();
      }
    }
  }
  function newMarks() {
    const { names, labels, colors, lines } = model.get('marks');
    legend.replaceChildren();
    legend.hidden = !names?.length;
    if (!names?.length) return draw();
    legend.append(make('label', {}, check, ' marks'));
    names.forEach((name, k) => {
      const sign = make('span', { class: `srlviz-sign ${lines?.[k] ?? ''}` });
      sign.style.color = colors[k];
      legend.append(make('span', { class: 'srlviz-key', title: lines?.[k] ? `${name}: only one axis is known` : name }, sign, labels[k]));
    });
    draw();
  }
  function newTable() { table.build(); draw(); }
  function drawTable() {
    if (!table.cells.length) return;
    const first = 2 * (model.get('marks').names?.length ?? 0), part = row => row?.subarray(first) ?? null;
    table.draw(part(numbers.row(shown)), shown ? part(numbers.row(shown - 1)) : null);
  }

  /** Show the frame of a step under the pointer of a linked view, in place of the current one; without a buffer, none. */
  let glanceUrl = '';
  function showGlance(t, buffer) {
    URL.revokeObjectURL(glanceUrl);
    glanceBox.hidden = !buffer;
    root.dataset.preview = buffer ? t : '';
    if (!buffer) return;
    glanceUrl = URL.createObjectURL(new Blob([buffer], { type: 'image/png' }));
    glance.src = glanceUrl;
    glanceBox.lastChild.textContent = `under the pointer: t ${t}`;
  }

  // moving
  function report(now) { const t = performance.now(); if (now || t - reported > 100) { reported = t; model.save_changes(); } }
  function set(t, now) { shown = clamp(t); put(shown); draw(); requestChunks(); report(now); }
  function go(t) { set(t, true); restart(); }
  function restart() { since = performance.now(); from = shown; }
  function tick(now) {
    if (!playing) return;
    request = requestAnimationFrame(tick);
    if (missing) { restart(); return; }                    // wait for the chunk, then go on from here
    const t = from + Math.floor((now - since) / 1000 * model.get('fps') * model.get('speed'));
    if (t >= n() - 1) { set(n() - 1, true); stop(); }
    else if (t > shown) set(t, false);
  }
  function start() {
    if (playing || n() < 2) return;
    playing = true;
    if (shown >= n() - 1) set(0, true);
    restart();
    request = requestAnimationFrame(tick);
    flag();
    requestChunks();
  }
  function stop() { if (!playing) return; playing = false; cancelAnimationFrame(request); flag(); }
  function flag() {
    buttons.play.replaceChildren(icon(playing ? 'pause' : 'play'));
    const label = playing ? 'pause (space)' : 'play (space)';
    buttons.play.title = label; buttons.play.setAttribute('aria-label', label);
    root.dataset.playing = playing;
    model.set('playing', playing);
    model.save_changes();
  }
  const toggle = () => playing ? stop() : start();

  bar.addEventListener('input', () => go(+bar.value));
  box.addEventListener('change', () => { go(+box.value); box.value = shown; });
  check.addEventListener('change', () => { model.set('show_marks', check.checked); model.save_changes(); });
  speed.addEventListener('change', () => { model.set('speed', +speed.value); model.save_changes(); restart(); });
  stage.addEventListener('pointerdown', () => root.focus({ preventScroll: true }));
  root.addEventListener('keydown', event => {
    if (!takesKey(event)) return;
    if (event.target === box || event.target === speed) return;
    if (event.key === ' ' && ['BUTTON', 'INPUT'].includes(event.target.tagName) && event.target !== bar) return;      // a button or box handles space itself
    if (event.target === table.node && ['PageUp', 'PageDown', 'Home', 'End'].includes(event.key)) return;                    // the table scrolls
    const to = { ArrowLeft: shown - 1, ArrowRight: shown + 1, PageUp: shown - 10, PageDown: shown + 10, Home: 0, End: n() - 1 }[event.key];
    if (to !== undefined) { event.preventDefault(); go(to); }
    else if (event.key === ' ') { event.preventDefault(); toggle(); }
  });

  const on = {
    'msg:custom': (message, buffers) => { if (message.kind === 'preview') { if (message.t === model.get('preview')) showGlance(message.t, buffers[0]); } else if (message.kind === 'seek') { stop(); show(message.t); resendSoon(shown); } else { chunks.receive(message, buffers); numbers.receive(message, buffers); } },
    'change:source': () => { stop(); newSource(true); },
    'change:value': () => { if (!muted) show(model.get('value')); },
    'change:playing': () => { if (model.get('playing') !== playing) toggle(); },
    'change:preview': () => { if (model.get('preview') === null) showGlance(null); },
    'change:zoom': () => { resize(); draw(); },
    'change:marks': newMarks, 'change:table': newTable, 'change:picked': () => table.mark(), 'change:numbers': () => { numbers.reset(); drawMarks(); drawTable(); },
    'change:show_marks': () => { check.checked = model.get('show_marks'); drawMarks(); },
    'change:speed': () => { speed.value = model.get('speed'); restart(); }, 'change:fps': restart,
    'change:note': () => { note.textContent = model.get('note'); note.hidden = !model.get('note'); },
  };
  const unlisten = listen(model, on);
  newSource();
  newTable();
  newMarks();
  for (const event of ['change:show_marks', 'change:speed', 'change:note', 'change:playing']) on[event]();
  return () => {
    playing = false;
    cancelAnimationFrame(request);
    clearTimeout(pending);
    URL.revokeObjectURL(glanceUrl);
    clearTimeout(settled);
    unlisten();
    globalThis.removeEventListener('srlviz-seek', onSeek);
    globalThis.removeEventListener('srlviz-where', onSeek);
    seen.end();
    chunks.close();
  };
}

export default { render };
