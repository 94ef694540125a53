// Tiles to choose from: each has a picture from one sheet, a name, and a sentence.

let galleries = 0;

function render({ model, el }) {
  const id = `srlviz-tiles-${++galleries}`;
  const body = make('div', { class: 'srlviz-tiles', role: 'listbox', tabindex: 0, 'data-lm-suppress-shortcuts': 'true' });
  const none = make('div', { class: 'srlviz-tiles-none' });
  el.append(none, body);
  let active = -1, address = '';

  const tile = at => body.children[at];
  function picture(i) {
    const [wide, tall] = model.get('size'), columns = model.get('columns');
    const node = make('i', { class: 'picture', 'aria-hidden': 'true' });
    node.style.cssText = `width:${wide}px;height:${tall}px;` + (model.get('pictured')[i] < 0 ? '' : `background-image:url(${address});background-position:-${model.get('pictured')[i] % columns * wide}px -${Math.floor(model.get('pictured')[i] / columns) * tall}px`);
    return node;
  }
  function draw() {
    const [tiles, shown] = ['tiles', 'shown'].map(name => model.get(name));
    body.classList.toggle('sentences', model.get('sentences'));
    body.style.height = `${model.get('height')}px`;
    body.setAttribute('aria-label', `${model.get('label')}: arrow keys move, enter chooses`);
    none.hidden = shown.length > 0;
    none.textContent = model.get('empty');
    body.dataset.shown = shown.length;
    active = Math.min(active, shown.length - 1);
    body.replaceChildren(...shown.map((i, at) => make('div', { id: `${id}-${at}`, class: 'srlviz-tile', role: 'option', 'data-row': i, title: tiles[i][2] }, picture(i), make('b', {}, tiles[i][0]), make('small', {}, model.get('sentences') ? tiles[i][2] : tiles[i][1]))));
    mark();
  }
  function mark() {
    for (const [at, node] of [...body.children].entries()) {
      const on = +node.dataset.row === model.get('picked');
      node.setAttribute('aria-selected', on);
      node.classList.toggle('picked', on);
      node.classList.toggle('active', at === active);
    }
    active >= 0 ? body.setAttribute('aria-activedescendant', `${id}-${active}`) : body.removeAttribute('aria-activedescendant');
  }
  function choose(at) {
    if (!tile(at)) return;
    active = at;
    model.set('picked', +tile(at).dataset.row);
    model.save_changes();
    mark();
  }
  function move(at) {
    active = Math.max(0, Math.min(body.children.length - 1, at));
    tile(active)?.scrollIntoView({ block: 'nearest' });
    mark();
  }
  body.addEventListener('click', event => { const node = event.target.closest('.srlviz-tile'); if (node) choose([...body.children].indexOf(node)); });
  body.addEventListener('keydown', event => {
    if (!takesKey(event)) return;
    const place = at => ({ x: tile(at).offsetLeft, y: tile(at).offsetTop });
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(active); }
    else if (event.key === 'Home' || event.key === 'End') { event.preventDefault(); move(event.key === 'Home' ? 0 : body.children.length - 1); }
    else if (event.key === 'ArrowRight' || event.key === 'ArrowLeft') { event.preventDefault(); move(active + (event.key === 'ArrowRight' ? 1 : -1)); }
    else if (event.key in ARROWS && body.children.length) { event.preventDefault(); move(active < 0 ? 0 : towards(body.children.length, place, active, ARROWS[event.key])); }
  });
  const newSheet = () => {
    const view = model.get('pictures');
    if (address) URL.revokeObjectURL(address);
    address = view?.byteLength ? URL.createObjectURL(new Blob([view], { type: 'image/png' })) : '';
    draw();
  };
  /** Show the chosen tile; the page itself stays where it is. */
  const reveal = () => { const node = body.querySelector('.picked'); body.scrollTop = node ? Math.max(0, node.offsetTop - (body.clientHeight - node.offsetHeight) / 2) : 0; };
  const top = () => { active = -1; draw(); reveal(); };
  const unlisten = listen(model, { 'change:tiles': draw, 'change:shown': top, 'change:picked': mark, 'change:pictures': newSheet, 'change:height': draw, 'change:sentences': draw });
  newSheet();
  requestAnimationFrame(reveal);
  labelControls(el);
  return () => { unlisten(); if (address) URL.revokeObjectURL(address); };
}

export default { render };
