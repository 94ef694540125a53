// Rows of numbers, one for each step, that come from the kernel in blocks; and the table that shows the row of a step. They stand before the text of each view that needs them.

const KEEP_BLOCKS = 48;

/** The rows of one model: `numbers` tells their id, how many there are, how wide they are, and how many make a block. */
class Numbers {
  constructor(model, arrived) { Object.assign(this, { model, arrived, blocks: new Map(), asked: new Set() }); }
  get told() { return this.model.get('numbers'); }
  reset() { this.blocks.clear(); this.asked.clear(); }
  /** The row of a step; null while its block is on its way. */
  row(t) {
    const { n, width, block } = this.told;
    if (!width || t < 0 || t >= n) return null;
    const k = Math.floor(t / block), held = this.blocks.get(k);
    if (!held) { this.ask(k); return null; }
    if (t % block > block * .75) this.ask(k + 1);
    return held.subarray((t % block) * width, (t % block + 1) * width);
  }
  ask(k) {
    const { id, n, block } = this.told;
    if (k * block >= n || this.blocks.has(k) || this.asked.has(k)) return;
    this.asked.add(k);
    this.model.send({ kind: 'rows', id, block: k });
  }
  receive({ kind, id, block }, buffers) {
    if (kind !== 'rows' || id !== this.told.id) return;
    this.asked.delete(block);
    this.blocks.set(block, floats(buffers[0]));
    for (const old of this.blocks.keys()) if (this.blocks.size > KEEP_BLOCKS) this.blocks.delete(old);
    this.arrived();
  }
}

/** The table of the factors of a step: `table` tells its rows, `picked` which of them is chosen. */
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
      const cell = make('td'), pick = make('button', { type: 'button', title: `show ${row.label || row.name} over time`, onclick: () => { this.model.set('picked', row.name); this.model.save_changes(); } }, row.name);
      const line = make('tr', { 'data-name': row.name }, make('td', {}, pick), cell);
      this.cells.push({ cell, line, pick, row });
      body.append(line);
    }
    if (rows.length) this.node.append(make('table', {}, body));
    this.mark();
  }
  mark() { for (const { line, pick, row } of this.cells) { const on = row.name === this.model.get('picked'); line.classList.toggle('picked', on); pick.setAttribute('aria-pressed', on); } }
  /** Show one row of numbers, and which of them changed since the one before; null while it is on its way. */
  draw(values, before) {
    this.cells.forEach(({ cell, row }, k) => {
      const text = values ? saidValue(values[k], row) : '…';
      if (cell.firstChild?.data !== text) cell.textContent = text;
      cell.classList.toggle('changed', !!values && !!before && values[k] !== before[k] && !(isNaN(values[k]) && isNaN(before[k])));
    });
  }
}

/** A number with its unit, or the name of a category; below zero is none of them. */
function saidValue(value, { names, unit }) {
  const word = names?.length ? names[value] ?? (value < 0 ? '–' : null) : null;
  const text = isNaN(value) ? '–' : word ?? (Number.isInteger(value) ? `${value}` : value.toPrecision(4));
  return text + (unit ? ` ${unit}` : '');
}

