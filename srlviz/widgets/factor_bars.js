// Small histograms of factors. A bar is a button: choosing it, by pointer or keyboard, sets `pressed`. Pale is how often a bin occurs, dark how often in what is selected.

function render({ model, el }) {
  const root = make('div', { class: 'srlviz-bars', role: 'group', 'data-lm-suppress-shortcuts': 'true' });
  el.append(root);
  let n = 0, shape = '';

  function press(name, bins, extend) {
    model.set('pressed', { name, bins, extend, n: ++n });
    model.save_changes();
  }
  function build(rows) {
    root.replaceChildren(...rows.map(row => {
      const bars = row.words.map((word, k) => make('button', { type: 'button', tabindex: k ? -1 : 0, onclick: event => press(row.name, [k], event.shiftKey) }, make('span', { class: 'all' }), make('span', { class: 'some' })));
      const clear = make('button', { type: 'button', class: 'clear', title: `remove the filter of ${row.label}`, 'aria-label': `remove the filter of ${row.label}`, onclick: () => press(row.name, [], false) }, '×');
      const head = make('div', { class: 'head' }, make('span', { class: 'name', title: row.label }, row.label), clear);
      const ends = make('div', { class: 'ends', 'aria-hidden': 'true' }, make('span', {}, row.ends[0]), make('span', {}, row.ends[1]));
      return make('section', { role: 'group', 'aria-label': `histogram of ${row.label}` }, head, make('div', { class: 'plot' }, ...bars), ends);
    }));
  }
  function draw() {
    const rows = model.get('rows'), now = JSON.stringify(rows.map(row => [row.name, row.label, row.words]));
    if (now !== shape) { shape = now; build(rows); }
    root.setAttribute('aria-label', model.get('label'));
    rows.forEach((row, i) => {
      const section = root.children[i], highest = Math.max(1, ...row.all), chosen = new Set(row.chosen);
      section.querySelector('.clear').hidden = !chosen.size;
      section.classList.toggle('filtered', chosen.size > 0);
      section.querySelectorAll('.plot button').forEach((bar, k) => {
        const of = `${row.words[k]}: ${row.some[k].toLocaleString('en')} of ${row.all[k].toLocaleString('en')} steps`;
        bar.title = of;
        bar.setAttribute('aria-label', `${row.label} ${of}`);
        bar.setAttribute('aria-pressed', chosen.has(k));
        const tall = count => count ? `max(2px, ${(100 * count / highest).toFixed(1)}%)` : '0';
        bar.children[0].style.height = tall(row.all[k]);
        bar.children[1].style.height = tall(row.some[k]);
      });
    });
    root.dataset.drawn = (+root.dataset.drawn || 0) + 1;
  }
  root.addEventListener('keydown', event => {
    const plot = event.target.closest('.plot');
    if (!plot) return;
    const bars = [...plot.children], i = bars.indexOf(event.target), to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: bars.length - 1 }[event.key];
    if (['Delete', 'Backspace'].includes(event.key)) press(model.get('rows')[[...root.children].indexOf(plot.parentElement)].name, [], false);
    else if (to === undefined) return;
    else {
      const bar = bars[Math.max(0, Math.min(bars.length - 1, to))];
      for (const other of bars) other.tabIndex = other === bar ? 0 : -1;
      bar.focus({ preventScroll: true });
    }
    event.preventDefault();
    event.stopPropagation();
  });

  const unlisten = listen(model, { 'change:rows': draw, 'change:label': draw });
  draw();
  labelControls(el);
  return unlisten;
}

export default { render };
