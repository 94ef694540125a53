// One screen of rows over a shared axis: what an agent saw, what is true, what its memory says, what it plays. A press on
// a value of the memory asks the host for an edit; the host answers with the next scene. The host is a kernel or, in an
// offline page, mind.js. TwinExplorer draws its own blocks with the same code.

const SCOPE_KEYS = [
  ['← →', 'step before, step after'], ['↑ ↓', 'value above, value below'], ['Enter', 'let the memory say this value'], ['1 … 9', 'let it say the first, second, … value'],
  ['S', 'swap with the memory of a twin'], ['Backspace', 'undo the last edit'], ['R', 'remove all edits'], ['[ ]', 'shorter, longer push'], ['D', 'next kind of direction'],
  ['F', 'next hidden factor'], ['N', 'next episode'], ['A', 'a second agent beside it'], ['?', 'this list'],
];

/** The blocks of a scene of agents: titles, and bands of text or of probabilities over its rows. */
function blocksOf(scene) {
  const blocks = [];
  const heat = (name, labels, cells, more) => ({ kind: 'heat', name, labels, cells, ...more });
  const world = (line, name = '') => ({ title: name, bands: [
    { kind: 'text', name: 'saw', cells: line.saw },
    { kind: 'text', name: 'truth', cells: line.truth.map(v => v < 0 ? '' : scene.signs[v]) },
    ...(line.posterior ? [heat('can be known', scene.signs, line.posterior, { truth: line.truth })] : []),
  ] });
  const same = (a, b) => a.saw.length === b.saw.length && a.saw.every((text, t) => text === b.saw[t]);
  scene.panels.forEach((panel, k) => {
    const { original, edited } = panel;
    if (!k) blocks.push(world(original));
    else if (!same(original, scene.panels[0].original)) blocks.push(world(original, `what ${panel.name} saw`));
    const bands = (line, edits, before) => {
      const changed = before && line.chosen.map((action, t) => action !== before.chosen[t]);
      const found = [];
      if (line.belief) found.push(heat('memory says', scene.signs, line.belief, { truth: line.truth, press: k, edits }));
      if (line.policy) found.push(heat('plays', scene.action_signs, line.policy, { chosen: line.chosen, right: line.right, changed }));
      else found.push({ kind: 'text', name: 'plays', cells: line.chosen.map(String), changed });
      return found;
    };
    const total = line => `Return ${line.total.toFixed(2).replace('-', '−')}`;
    blocks.push({ title: panel.name, words: panel.cannot || `${total(original)}${edited ? '' : `. ${k || !scene.gone ? '' : `${scene.gone} `}Press a cell of “memory says”: the memory will say that, and the agent plays on.`}`, bands: bands(original, []) });
    if (edited) {
      const last = bands(edited, panel.edits, original);
      if (!same(original, edited)) last.unshift({ kind: 'text', name: 'saw', cells: edited.saw, changed: edited.saw.map((text, t) => text !== original.saw[t]) });
      blocks.push({ title: `${panel.name}, edited`, words: `${total(edited)}. ${panel.sentence} ${panel.control ?? ''}`, bands: last, edited: true });
    }
  });
  return blocks;
}

/** Draw scenes into an element. The host has press(panel, t, value, kind), undo(), reset() and set(name, value). */
function microscope(element, host) {
  const RIGHT = 14, ORANGE = '#E0661A', GREEN = '#009E73';
  let scene = null, blocks = [], places = [], value = 0, panel = 0, hovered = null, cell = 18;
  const gutter = () => scene?.gutter ?? 118;      // px left of the cells
  const option = (v, words, chosen, why = '') => { const o = make('option', { value: v, title: why }, words); o.selected = v === chosen; o.disabled = why !== ''; return o; };
  const choose = (words, name) => { const select = make('select', { 'aria-label': words, onchange: () => host.set(name, select.value) }); return { select, line: make('label', {}, words, select) }; };
  const factor = choose('Hidden factor', 'factor'), kind = choose('Direction', 'kind'), agent = choose('Agent', 'agent'), second = choose('beside', 'second');
  const slider = make('input', { type: 'range', min: 0, max: 2, step: .1, 'aria-label': 'length of the push', oninput: () => { output.textContent = `× ${(+slider.value).toFixed(1)}`; host.set('length', +slider.value); } }), output = make('output');
  const press = (words, key, act, title) => make('button', { type: 'button', onclick: act, title: `${title} (${key})`, 'aria-keyshortcuts': key }, words);
  /** Disable a control, with the reason as its title; '' enables it. */
  function turnOff(node, why = '') {
    node.dataset.title ??= node.title;
    node.disabled = why !== '';
    node.title = why || node.dataset.title;
  }
  const swap = press('Swap with a twin', 'S', () => edit(value, 'twin'), 'put the memory of another history in, in which the factor has this value');
  const undo = press('Undo', 'Backspace', () => host.undo(), 'undo the last edit'), reset = press('Remove edits', 'R', () => host.reset(), 'remove all edits');
  const next = press('Next episode', 'N', () => host.set('episode', scene.episode + 1), 'play another episode'), help = press('?', '?', () => keys.open ? keys.close() : keys.showModal(), 'keys');
  const keys = make('dialog', { class: 'srlviz-keys', 'aria-label': 'keys' }, make('div', {}, make('h2', {}, 'Keys'), make('button', { type: 'button', onclick: () => keys.close() }, 'close')), make('dl', {}, ...SCOPE_KEYS.flatMap(([key, words]) => [make('dt', {}, key), make('dd', {}, words)])));
  const head = make('div', { class: 'srlviz-scope-head' }), readable = make('div', { class: 'srlviz-scope-words' });
  const controls = make('div', { class: 'srlviz-scope-controls' }, agent.line, second.line, factor.line, kind.line, make('label', {}, 'Length', slider, output), swap, undo, reset, next, help);
  const canvas = make('canvas', { tabindex: 0, role: 'application', 'aria-label': 'rows of an episode; arrows move, Enter edits the memory', 'data-lm-suppress-shortcuts': 'true' });
  const tip = make('div', { class: 'srlviz-scope-tip', hidden: '' }), said = make('div', { class: 'srlviz-said', 'aria-live': 'polite' }), foot = make('div', { class: 'srlviz-scope-words' });
  const stage = make('div', { class: 'srlviz-scope-stage' }, canvas, tip), root = make('div', { class: 'srlviz-scope' }, head, controls, readable, stage, foot, said, keys);
  element.append(root);
  for (const node of controls.querySelectorAll('select, input, button')) node.dataset.lmSuppressShortcuts = 'true';

  const nRows = () => Math.max(1, ...blocks.flatMap(b => b.bands.map(band => band.cells.length)));
  const pressed = () => places.filter(p => p.band.press !== undefined && p.band.press === panel);
  function edit(v, how) {
    if (scene.blocks) return;
    const { cannot } = scene.panels[panel];
    if (cannot) { tell(cannot); return; }
    host.press(panel, scene.t, v, how);
  }
  const tell = words => { said.textContent = words; };

  // the picture
  function colours() {
    const style = getComputedStyle(root), read = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
    return { ink: style.color, muted: read('--scope-muted', '#5b6169'), low: read('--scope-low', '#eef2f6').match(/\w\w/g).map(h => parseInt(h, 16)), high: read('--scope-high', '#0a5a9c').match(/\w\w/g).map(h => parseInt(h, 16)), here: read('--scope-here', 'rgba(224,102,26,.13)'), orange: read('--scope-orange', '#C2530F') };
  }
  const colourOf = (words, c) => words === '♥' || words === '♦' ? '#D22F4B' : c.ink;
  const mix = ({ low, high }, p) => `rgb(${low.map((a, i) => Math.round(a + (high[i] - a) * p)).join()})`;
  const lineHeight = band => band.kind === 'text' ? 20 : band.kind === 'images' ? Math.round((cell - 1) * (band.aspect ?? 1)) : Math.max(7, Math.min((scene.panels ?? scene.blocks).length > 2 || scene.panels?.length > 1 ? 12 : 15, 120 / band.labels.length));
  const bandHeight = band => band.kind === 'heat' ? lineHeight(band) * band.labels.length : lineHeight(band);
  function layOut() {
    const width = Math.max(420, stage.clientWidth || 900), n = nRows(), g = canvas.getContext('2d'), ratio = globalThis.devicePixelRatio || 1;
    g.setTransform(1, 0, 0, 1, 0, 0);
    cell = Math.min(scene.cell ?? 34, (width - gutter() - RIGHT) / n);
    let y = 4;
    places = [];
    for (const block of blocks) {
      block.top = y;
      g.font = '600 13px system-ui, sans-serif';
      const from = block.title ? Math.max(gutter(), 12 + g.measureText(block.title).width) : gutter();
      g.font = '13px system-ui, sans-serif';
      block.lines = wrapped(g, block.words ?? '', width - from - 6).map((words, k) => ({ words, x: from, y: y + 11 + 17 * k }));
      if (block.title || block.words) y += 5 + 17 * Math.max(1, block.lines.length);
      for (const band of block.bands) { places.push({ band, block, y, height: bandHeight(band) }); y += bandHeight(band) + 7; }
      y += 5;
    }
    const height = y + 20;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
    }
    return { width, height, ratio, n };
  }
  function paint() {
    if (!scene) return;
    const { width, height, ratio, n } = layOut(), g = canvas.getContext('2d'), c = colours(), font = (size, weight = '') => { g.font = `${weight} ${size}px system-ui, "Segoe UI Symbol", "DejaVu Sans", sans-serif`; };
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.textBaseline = 'middle';
    const x = t => gutter() + t * cell, text = (words, at, y, align = 'left', colour = c.ink) => { g.textAlign = align; g.fillStyle = colour; g.fillText(words, at, y); };
    g.fillStyle = c.here;
    g.fillRect(x(scene.t), 0, cell, height - 18);
    for (const block of blocks) {
      if (!block.title && !block.words) continue;
      font(13, '600');
      text(block.title, 4, block.top + 11, 'left', block.edited ? c.orange : c.ink);
      font(13);
      for (const line of block.lines) text(line.words, line.x, line.y, 'left', block.edited ? c.ink : c.muted);
    }
    for (const { band, y } of places) {
      const h = lineHeight(band);
      font(12);
      text(fit(g, band.name, scene.gutter ? 84 : gutter() - (band.labels ? 26 : 8)), 4, band.labels ? y + 7 : y + h / 2, 'left', c.muted);
      if (band.kind === 'text') {
        font(Math.min(14, cell - 1));
        band.cells.forEach((words, t) => {
          if (band.changed?.[t]) { g.fillStyle = c.here; g.fillRect(x(t), y, cell, h); }
          if (cell >= 10) text(fit(g, String(words), cell - 1), x(t) + cell / 2, y + h / 2, 'center', band.changed?.[t] ? c.orange : colourOf(words, c));
        });
        continue;
      }
      if (band.kind === 'images') { band.cells.forEach((image, t) => { if (image.complete && image.naturalWidth) { g.imageSmoothingEnabled = !(band.pixelated && image.naturalWidth < cell * ratio); g.drawImage(image, x(t) + .5, y, cell - 1, h); } }); continue; }
      font(Math.min(12, h));
      band.labels.forEach((label, v) => { if (h >= 9 || v % 2 === 0) text(fit(g, label, gutter() - 60), gutter() - 6, y + h * (v + .5), 'right', colourOf(label, c)); });
      band.cells.forEach((column, t) => {
        if (!column) return;
        column.forEach((p, v) => { g.fillStyle = mix(c, p); g.fillRect(x(t) + .5, y + v * h + .5, cell - 1, h - 1); });
        const at = v => [x(t) + cell / 2, y + (v + .5) * h], truth = band.truth?.[t];
        if (truth >= 0) { g.strokeStyle = c.ink; g.lineWidth = 1.2; g.strokeRect(x(t) + 1, y + truth * h + 1, cell - 2, h - 2); }
        if (band.chosen) {
          const [cx, cy] = at(band.chosen[t]), r = Math.max(2, Math.min(4.2, h / 2 - 1.5, cell / 2 - 1.5)), right = band.right?.[t];
          g.beginPath(); g.lineWidth = 1.8; g.strokeStyle = '#fff'; g.fillStyle = right > 0 ? GREEN : right < 0 ? '#B3261E' : '#7b8288';
          if (right < 0) { g.strokeStyle = '#fff'; g.lineWidth = 4; cross(g, cx, cy, r); g.strokeStyle = '#B3261E'; g.lineWidth = 2; g.beginPath(); cross(g, cx, cy, r); } else { g.arc(cx, cy, r, 0, 7); g.fill(); g.stroke(); }
          if (band.changed?.[t]) { g.strokeStyle = ORANGE; g.lineWidth = 2.5; g.strokeRect(x(t), y - 1.5, cell, band.labels.length * h + 3); }
        }
      });
      for (const { t, value: v } of band.edits ?? []) { g.strokeStyle = ORANGE; g.lineWidth = 2.5; g.strokeRect(x(t), y + v * h - .5, cell, h + 1); g.fillStyle = ORANGE; g.beginPath(); g.moveTo(x(t) + cell / 2 - 5, y - 7); g.lineTo(x(t) + cell / 2 + 5, y - 7); g.lineTo(x(t) + cell / 2, y - 1); g.fill(); }
      if (band.press === panel && document.activeElement === canvas) { g.strokeStyle = c.ink; g.lineWidth = 1; g.setLineDash([3, 2]); g.strokeRect(x(scene.t) - 1, y + value * h - 1, cell + 2, h + 2); g.setLineDash([]); }
    }
    font(11);
    const every = [1, 2, 5, 10, 20, 50, 100].find(k => k * cell >= 26) ?? 200, names = scene.columns;
    for (let t = 0; t < n; t += names ? 1 : every) text(names ? fit(g, names[t], cell - 2) : String(t), x(t) + cell / 2, height - 9, 'center', c.muted);
    text(scene.axis ?? 'step', 4, height - 9, 'left', c.muted);
    root.dataset.shown = scene.shown ?? '';
  }
  function wrapped(g, words, width) {
    const lines = [];
    let line = '';
    for (const word of words.split(' ')) {
      if (line && g.measureText(`${line} ${word}`).width > width) { lines.push(line); line = word; } else line = line ? `${line} ${word}` : word;
    }
    return line ? [...lines, line] : lines;
  }
  function cross(g, cx, cy, r) { g.moveTo(cx - r, cy - r); g.lineTo(cx + r, cy + r); g.moveTo(cx - r, cy + r); g.lineTo(cx + r, cy - r); g.stroke(); }
  function fit(g, words, width) {
    if (g.measureText(words).width <= width) return words;
    let n = words.length;
    while (n > 1 && g.measureText(`${words.slice(0, n)}…`).width > width) n--;
    return n > 1 ? `${words.slice(0, n)}…` : words.slice(0, 1);
  }

  // what stands under the pointer, in words
  function under(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top, t = Math.floor((px - gutter()) / cell);
    const place = places.find(p => py >= p.y && py < p.y + p.height);
    if (t < 0 || t >= nRows()) return null;
    const v = place?.band.kind === 'heat' ? Math.max(0, Math.min(place.band.labels.length - 1, Math.floor((py - place.y) / lineHeight(place.band)))) : -1;
    return { t, v, place, px, py };
  }
  const percent = p => p > .995 && p < 1 ? '> 99%' : `${Math.round(100 * p)}%`;
  function wordsOf({ t, v, place }) {
    if (!place) return '';
    const { band } = place, column = band.cells[t], where = scene.columns ? `${scene.axis} ${scene.columns[t]}` : `step ${t}`;
    if (band.tips) return `${where}. ${band.name}: ${band.tips[t]}`;
    if (band.kind !== 'heat' || !column) return `${where}. ${band.name}: ${column ?? 'nothing'}`;
    const best = column.map((p, k) => [p, k]).sort((a, b) => b[0] - a[0]).slice(0, 2).map(([p, k]) => `${band.labels[k]} ${percent(p)}`).join(', ');
    const truth = band.truth?.[t] >= 0 ? `; in truth ${band.labels[band.truth[t]]}` : '', right = band.chosen ? `; plays ${band.labels[band.chosen[t]]}${{ 1: ', right', '-1': ', wrong' }[band.right?.[t]] ?? ''}${band.changed?.[t] ? ', changed by the edit' : ''}` : '';
    const hint = band.press !== undefined && v >= 0 && t < band.cells.length - 1 ? `. Press: let it say ${band.labels[v]}` : '';
    return `${where}. ${place.block.title ? `${place.block.title}: ` : ''}${band.name} ${best}${truth}${right}${hint}`;
  }
  canvas.addEventListener('pointermove', event => {
    if (event.buttons && canvas.hasPointerCapture(event.pointerId)) { const t = Math.floor((event.clientX - canvas.getBoundingClientRect().left - gutter()) / cell); if (t !== scene.t) moveTo(t); return; }
    const at = under(event), words = at ? wordsOf(at) : '';
    canvas.style.cursor = at?.place?.band.press !== undefined ? 'pointer' : at ? 'col-resize' : '';
    tip.hidden = !words;
    if (!words) return;
    tip.textContent = words;
    tip.style.left = `${Math.min(at.px + 14, canvas.clientWidth - 270)}px`;
    tip.style.top = `${at.py + 16}px`;
  });
  canvas.addEventListener('pointerleave', () => { tip.hidden = true; });
  canvas.addEventListener('pointerdown', event => {
    const at = under(event);
    if (!at) return;
    tip.hidden = true;
    if (at.place?.band.press !== undefined && at.v >= 0) { panel = at.place.band.press; value = at.v; moveTo(at.t, true); edit(at.v); } else { canvas.setPointerCapture(event.pointerId); moveTo(at.t); }
  });
  function moveTo(t, quiet = false) {
    scene.t = Math.max(0, Math.min(nRows() - 1, t));
    host.set('t', scene.t);
    paint();
    const [place] = pressed();
    if (!quiet) tell(place ? wordsOf({ t: scene.t, v: value, place }) : `step ${scene.t}`);
  }
  canvas.addEventListener('focus', paint);
  canvas.addEventListener('blur', paint);
  function cycle(select, name) {
    const options = [...select.options].filter(o => !o.disabled || o.selected), at = options.findIndex(o => o.selected);
    if (options.length > 1) host.set(name, options[(at + 1) % options.length].value);
  }
  canvas.addEventListener('keydown', event => {
    if (!scene || !takesKey(event)) return;
    const count = pressed()[0]?.band.labels.length ?? 1, key = event.key.length === 1 ? event.key.toLowerCase() : event.key, [dx, dy] = ARROWS[key] ?? [0, 0];
    const act = {
      Enter: () => edit(value), ' ': () => edit(value), s: () => edit(value, 'twin'), Backspace: host.undo, r: host.reset, d: () => cycle(kind.select, 'kind'), f: () => cycle(factor.select, 'factor'),
      n: () => next.disabled ? tell(next.title) : next.click(), a: () => cycle(second.select, 'second'), '?': () => keys.showModal(), '[': () => host.set('length', Math.max(0, +(scene.length - .1).toFixed(1))), ']': () => host.set('length', Math.min(2, +(scene.length + .1).toFixed(1))),
      Home: () => moveTo(0), End: () => moveTo(nRows() - 1),
    }[key];
    if (dx) moveTo(scene.t + dx);
    else if (dy) { value = (value + dy + count) % count; moveTo(scene.t); } else if (/^[1-9]$/.test(key)) { if (+key <= count) { value = +key - 1; edit(value); } } else if (act) act(); else return;
    event.preventDefault();
  });

  // controls
  function fill(select, values, chosen, words = v => v, off = {}) {
    const now = JSON.stringify(values.map(v => [v, words(v), off[v]]));
    if (select.dataset.options !== now) { select.replaceChildren(...values.map(v => option(v, words(v), chosen, off[v]))); select.dataset.options = now; }
    select.value = chosen;
    select.disabled = values.length < 2;
  }
  function draw(newScene) {
    scene = newScene;
    blocks = scene.blocks ?? blocksOf(scene);
    const agents = scene.agents ?? [], labels = Object.fromEntries((scene.factors ?? []).map(f => [f.name, f.label + (f.readable === false ? ' (not read)' : '')]));
    head.textContent = scene.title ?? '';
    fill(factor.select, Object.keys(labels), scene.factor, v => labels[v]);
    const off = scene.off ?? {};
    fill(kind.select, scene.kinds ?? [], scene.kind, v => v, off);
    fill(agent.select, agents, scene.agent);
    fill(second.select, ['', ...agents.filter(name => name !== scene.agent)], scene.second ?? '', v => v || 'no other');
    agent.line.hidden = second.line.hidden = agents.length < 2;
    for (const [line, name, words] of [[agent.line, 'agent', 'Agent'], [factor.line, 'factor', 'Hidden factor']]) line.firstChild.textContent = scene.roles?.[name] ?? words;
    next.textContent = scene.roles?.next ?? 'Next episode';
    kind.line.hidden = swap.hidden = slider.parentElement.hidden = !scene.kinds;
    next.hidden = scene.episode === undefined;
    turnOff(swap, off.twin);
    turnOff(next, off.episode);
    turnOff(slider, off.length);
    slider.value = scene.length ?? 1;
    output.textContent = `× ${(+slider.value).toFixed(1)}`;
    undo.disabled = reset.disabled = !(scene.panels ?? []).some(p => p.edited);
    undo.hidden = reset.hidden = !scene.panels;
    readable.textContent = scene.words ?? '';
    foot.textContent = scene.note ?? '';
    value = Math.min(value, (scene.values?.length ?? 1) - 1);
    panel = Math.min(panel, (scene.panels?.length ?? 1) - 1);
    paint();
    const changed = (scene.panels ?? []).filter(p => p.edited);
    tell(changed.map(p => `${changed.length > 1 ? `${p.name}: ` : ''}${p.sentence} ${p.control ?? ''}`.trim()).join(' ') || scene.gone || '');
  }
  const sizes = new ResizeObserver(() => paint());
  sizes.observe(stage);
  return { draw, paint, end: () => sizes.disconnect() };
}
