// Rows of numbers, one per step, which the kernel sends in blocks, and the table that shows the row of a step. Prepended to each view that needs them.

const KEEP_BLOCKS = 48;

/** The rows of one model: `numbers` has their id, their number n, their width, and the number of rows in a block. */
class Numbers {
  constructor(model, arrived) { Object.assign(this, { model, arrived, blocks: new Map(), requested: new Set() }); }
  get info() { return this.model.get('numbers'); }
  reset() { this.blocks.clear(); this.requested.clear(); }
  /** The row of a step; null until its block arrives. */
  row(t) {
    const { n, width, block } = this.info;
    if (!width || t < 0 || t >= n) return null;
    const k = Math.floor(t / block), rows = this.blocks.get(k);
    if (!rows) { this.request(k); return null; }
    if (t % block > block * .75) this.request(k + 1);
    return rows.subarray((t % block) * width, (t % block + 1) * width);
  }
  request(k) {
    const { id, n, block } = this.info;
    if (k * block >= n || this.blocks.has(k) || this.requested.has(k)) return;
    this.requested.add(k);
    this.model.send({ kind: 'rows', id, block: k });
  }
  receive({ kind, id, block }, buffers) {
    if (kind !== 'rows' || id !== this.info.id) return;
    this.requested.delete(block);
    this.blocks.set(block, floats(buffers[0]));
    for (const old of this.blocks.keys()) if (this.blocks.size > KEEP_BLOCKS) this.blocks.delete(old);
    this.arrived();
  }
}

/** The table of the factors of a step: `table` has its rows, `picked` the name of the chosen one. */
class FactorTable {
  constructor(model) {
    this.model = model;
    this.cells = [];
    this.node = make('div', { class: 'srlviz-table', tabindex: 0, role: 'region', 'aria-label': 'factors of this step' });
  }
  build() {
    const rows = this.model.get('table'), body = make('tbody');
    this.cells = [];
    this.node.replaceChildren();
    this.node.hidden = !rows.length;
    let group = null;
    for (const row of rows) {
      if (row.group !== group) { group = row.group; if (group) body.append(make('tr', {}, make('th', { colspan: 2, scope: 'colgroup' }, row.group))); }
      const cell = make('td'), pick = make('button', { type: 'button', title: `show ${row.label || row.name} over time`, onclick: () => { this.model.set('picked', row.name); this.model.save_changes(); } }, ...breakable(row.words || row.name));
      const line = make('tr', { 'data-name': row.name }, make('td', {}, pick), cell);
      this.cells.push({ cell, line, pick, row });
      body.append(line);
    }
    if (rows.length) this.node.append(make('table', {}, body));
    this.mark();
  }
  mark() { for (const { line, pick, row } of this.cells) { const on = row.name === this.model.get('picked'); line.classList.toggle('picked', on); pick.setAttribute('aria-pressed', on); } }
  /** Show one row of numbers, and mark those that differ from the previous row; null until it arrives. */
  draw(values, before) {
    this.cells.forEach(({ cell, row }, k) => {
      const text = values ? valueText(values[k], row) : '…';
      if (cell.firstChild?.data !== text) cell.textContent = text;
      cell.classList.toggle('changed', !!values && !!before && values[k] !== before[k] && !(isNaN(values[k]) && isNaN(before[k])));
    });
  }
}

/** The parts of a name, which may be broken after an underscore or a slash. */
const breakable = name => name.split(/(?<=[_/])/).flatMap((part, k) => k ? [document.createElement('wbr'), part] : [part]);

/** A number with its unit and `digits` decimals (four digits without them), or the name of a category; a dash below zero. */
function valueText(value, { names, unit, digits }) {
  const word = names?.length ? names[value] ?? (value < 0 ? '–' : null) : null;
  const number = Number.isFinite(digits) ? value.toFixed(digits).replace(/^-(0(\.0*)?)$/, '$1') : Number.isInteger(value) ? `${value}` : value.toPrecision(4);
  const text = isNaN(value) ? '–' : word ?? number;
  return text + (unit ? ` ${unit}` : '');
}

