// A long list of rows to choose from: only visible ones are in the page. A row has texts, numbers, tags, or a small line over time.

const ROW_HEIGHT = 28;                                        // pixels of a row; the style sheet says the same
const MORE_WIDTH = 38;                                        // pixels kept for '+2'

const COLUMN_WIDTH = /^(minmax\([\w., %-]+\)|[\w.%-]+)$/;         // of a column: a length, or a range of lengths
const valueText = (value, digits = 4) => value === null || value === undefined || value === '' ? '–' : typeof value === 'number' ? (Number.isInteger(value) ? `${value}` : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en') : `${+value.toPrecision(digits)}`) : `${value}`;

let lists = 0;

function render({ model, el }) {
  const id = `srlviz-rows-${++lists}`;
  const head = make('div', { class: 'srlviz-rows-head' });
  const body = make('div', { class: 'srlviz-rows-body', role: 'listbox', tabindex: 0, 'data-lm-suppress-shortcuts': 'true' });
  const room = make('div', { class: 'srlviz-rows-room', role: 'presentation' });
  const none = make('div', { class: 'srlviz-rows-none' });
  body.append(room);
  const root = make('div', { class: 'srlviz-rows' }, head, none, body);
  el.append(root);

  let order = [], sparks = new Uint8Array(), active = -1, sort = [-1, 1];

  function arrange() {
    const rows = model.get('rows'), [k, way] = sort;
    order = [...model.get('shown')];
    if (k >= 0) {
      const key = i => { const v = rows[i][k]; return Array.isArray(v) ? v.length : v; };
      const isMissing = v => v === null || v === undefined || v === '';
      order.sort((i, j) => { const a = key(i), b = key(j); return isMissing(a) || isMissing(b) ? isMissing(a) - isMissing(b) : (a < b ? -1 : a > b ? 1 : 0) * way || i - j; });
    }
    active = Math.max(-1, Math.min(active, order.length - 1));
    room.style.height = `${order.length * ROW_HEIGHT}px`;
    none.hidden = order.length > 0;
    none.textContent = model.get('empty');
    root.dataset.shown = order.length;
    drawHead();
    draw();
  }
  function drawHead() {
    const columns = model.get('columns');
    root.style.setProperty('--columns', columns.map(c => c.width && COLUMN_WIDTH.test(c.width) ? c.width : '1fr').join(' '));
    head.hidden = !model.get('header');
    head.replaceChildren(...columns.map((c, k) => {
      const way = sort[0] === k ? sort[1] : 0;
      return c.kind === 'spark' ? make('span', {}, c.label) : make('button', { type: 'button', class: c.kind === 'number' ? 'number' : '', 'aria-label': `sort by ${c.label}${way ? (way > 0 ? ', now rising' : ', now falling') : ''}`, title: c.title || `sort by ${c.label}`, onclick: () => { sort = way > 0 ? [k, -1] : way < 0 ? [-1, 1] : [k, 1]; arrange(); } }, c.label + (way ? (way > 0 ? ' ▲' : ' ▼') : ''));
    }));
  }
  function cell(value, column, i) {
    if (column.kind === 'spark') return make('span', { class: 'spark' }, spark(i));
    if (column.kind === 'tags') return make('span', { class: 'tags', title: (value ?? []).join(', ') }, ...(value ?? []).map(v => make('span', { class: 'tag' }, v)));
    if (column.kind === 'outcome') return make('span', {}, make('span', { class: 'badge', 'data-outcome': value[0] }, value[1]));
    return make('span', { class: column.kind === 'number' ? 'number' : '', title: column.kind === 'number' ? null : valueText(value) }, column.kind === 'text' && value === '' ? '' : valueText(value));
  }
  function spark(i) {
    const points = model.get('points'), at = i * points * 2, wide = 110, tall = 20;
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg'), path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
    svg.setAttribute('viewBox', `0 0 ${wide} ${tall}`); svg.setAttribute('aria-hidden', 'true'); svg.setAttribute('preserveAspectRatio', 'none');
    const y = v => (tall - 2 - v / 254 * (tall - 4)).toFixed(1), x = k => (k * wide / (points - 1)).toFixed(1);
    const up = [], back = [];
    for (let k = 0; k < points; k++) if (sparks[at + 2 * k] !== 255) { up.push(`${x(k)} ${y(sparks[at + 2 * k + 1])}`); back.push(`${x(k)} ${y(sparks[at + 2 * k])}`); }
    if (up.length) path.setAttribute('d', `M${up.join('L')}L${back.reverse().join('L')}Z`);
    svg.append(path);
    return svg;
  }
  // Replace the tags that do not fit their cell by their number; the tooltip lists all.
  function foldTags() {
    const cells = [...room.querySelectorAll('.tags')].map(cell => ({ cell, wide: cell.clientWidth, ends: [...cell.children].map(t => t.offsetLeft + t.offsetWidth - cell.offsetLeft) }));
    for (const { cell, wide, ends } of cells) {
      if (!wide || !ends.length || ends.at(-1) <= wide) continue;
      const fit = Math.max(1, ends.filter(end => end <= wide - MORE_WIDTH).length), left = ends.length - fit;
      [...cell.children].slice(fit).forEach(t => t.remove());
      if (left) cell.append(make('span', { class: 'tag more' }, `+${left}`));
    }
  }
  function draw() {
    const rows = model.get('rows'), columns = model.get('columns'), picked = new Set(model.get('picked')), titles = model.get('titles');
    const from = Math.max(0, Math.floor(body.scrollTop / ROW_HEIGHT) - 3), to = Math.min(order.length, Math.ceil((body.scrollTop + (body.clientHeight || model.get('height'))) / ROW_HEIGHT) + 3);
    const nodes = [];
    for (let at = from; at < to; at++) {
      const i = order[at], on = picked.has(i);
      const line = make('div', { id: `${id}-${at}`, class: `srlviz-item${on ? ' picked' : ''}${at === active ? ' active' : ''}`, role: 'option', 'aria-selected': on, 'aria-setsize': order.length, 'aria-posinset': at + 1, 'data-row': i, title: titles[i] ?? null }, ...columns.map((c, k) => cell(rows[i][k], c, i)));
      line.style.top = `${at * ROW_HEIGHT}px`;
      nodes.push(line);
    }
    room.replaceChildren(...nodes);
    foldTags();
    active >= from && active < to ? body.setAttribute('aria-activedescendant', `${id}-${active}`) : body.removeAttribute('aria-activedescendant');
    root.dataset.picked = [...picked].join(' ');
  }
  function choose(at) {
    if (at < 0 || at >= order.length) return;
    const i = order[at], picked = model.get('picked');
    active = at;
    model.set('picked', !model.get('multiple') ? [i] : picked.includes(i) ? picked.filter(k => k !== i) : [...picked, i]);
    model.save_changes();
    draw();
  }
  function move(at) {
    active = Math.max(0, Math.min(order.length - 1, at));
    if (active * ROW_HEIGHT < body.scrollTop) body.scrollTop = active * ROW_HEIGHT;
    if ((active + 1) * ROW_HEIGHT > body.scrollTop + body.clientHeight) body.scrollTop = (active + 1) * ROW_HEIGHT - body.clientHeight;
    draw();
  }
  body.addEventListener('scroll', draw);
  body.addEventListener('click', event => { const line = event.target.closest('.srlviz-item'); if (line) choose(order.indexOf(+line.dataset.row)); });
  body.addEventListener('keydown', event => {
    if (!takesKey(event)) return;
    const page = Math.max(1, Math.floor(body.clientHeight / ROW_HEIGHT) - 1);
    const to = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: order.length - 1 }[event.key];
    if (to !== undefined) { event.preventDefault(); move(to); }
    else if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(active); }
  });

  const newSparks = () => { const view = model.get('sparks'); sparks = view?.byteLength ? new Uint8Array(view.buffer, view.byteOffset, view.byteLength) : new Uint8Array(); draw(); };
  const newLook = () => {
    body.style.height = `${model.get('height')}px`;
    body.setAttribute('aria-label', `${model.get('label')}: arrow keys move, enter chooses`);
    body.setAttribute('aria-multiselectable', model.get('multiple'));
    arrange();
  };
  const top = () => { body.scrollTop = 0; active = -1; arrange(); };
  const on = { 'change:rows': arrange, 'change:columns': () => { sort = [-1, 1]; arrange(); }, 'change:shown': top, 'change:picked': draw, 'change:titles': draw, 'change:sparks': newSparks, 'change:height': newLook, 'change:label': newLook, 'change:empty': arrange };
  const unlisten = listen(model, on), size = new ResizeObserver(draw);
  size.observe(body);
  newSparks();
  newLook();
  labelControls(el);
  return () => { size.disconnect(); unlisten(); };
}

export default { render };
