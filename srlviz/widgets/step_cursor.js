// Mark the current step of a player on the plots next to it: a line on plots over time, a dot on a path. A click or drag on a plot moves the player.
// A step under the pointer, here (`hovered`) or in a linked view (`preview`), is marked lightly.
// Player and plots exchange steps by events of the page, as in plot_view.js, without the kernel.

function render({ model, el }) {
  el.style.display = 'none';
  let t = 0, xy = floats(), root = null, held = null, over = null;
  const nodes = [], lights = [];
  const kinds = () => model.get('kinds'), rate = () => model.get('rate');
  const dots = () => kinds().filter(kind => kind === 'dot').length, T = () => dots() ? xy.length / 2 / dots() : model.get('n');
  const whole = () => root ??= el.closest(`.${model.get('within')}`);
  /** The box with player and plots, or in a Workbench the halves of it. */
  function boxes() {
    const half = [...whole()?.classList ?? []].find(name => name.startsWith('srlviz-half-'));
    return half ? [...root.closest('.srlviz-workbench').querySelectorAll(`.${half}`)] : whole() ? [root] : [];
  }
  const plots = () => boxes().flatMap(box => [...box.querySelectorAll('.srlviz-plot')]).slice(0, kinds().length);
  const layout = plot => { const l = plot.querySelector('.js-plotly-plot')?._fullLayout; return l?.xaxis?._length && l; };

  function place() {
    for (const box of boxes()) if (!watched.has(box)) watch(box);
    placeMarks(nodes, t, 'step');
    placeLights();
  }
  const placeLights = () => placeMarks(lights, over ?? model.get('preview'), 'preview');
  /** Mark a step on each plot; `name` is that of the data attribute that tells it. */
  function placeMarks(marks, t, name) {
    plots().forEach((plot, k) => {
      const l = layout(plot), line = kinds()[k] === 'line', at = (k * T() + t) * 2;      // dots come before lines
      const node = marks[k] ??= document.createElement('div');
      if (node.parentNode !== plot) { node.className = `${line ? 'srlviz-line' : 'srlviz-dot'} ${marks === lights ? 'light' : ''}`; plot.append(node); }
      const isStep = (t ?? null) !== null && t >= 0 && t < T();
      const x = l && isStep ? l.xaxis.c2p(line ? t / rate() : xy[at]) : NaN, y = l && !line ? l.yaxis.c2p(xy[at + 1]) : 0;
      node.hidden = !(x >= -1 && x <= l.xaxis._length + 1 && y >= -1 && (line || y <= l.yaxis._length + 1));
      plot.dataset[name] = node.hidden ? '' : t;
      if (node.hidden) return;
      node.style.left = `${l.xaxis._offset + x}px`;
      node.style.top = `${line ? l._size.t : l.yaxis._offset + y}px`;
      if (line) node.style.height = `${l._size.h}px`;
    });
  }

  const watched = new WeakSet(), followed = new WeakSet();
  const redrawn = new MutationObserver(changes => { if (changes.some(c => c.target.classList.contains('srlviz-plot'))) { follow(); place(); } });
  const resized = new ResizeObserver(() => requestAnimationFrame(place));
  function follow() {
    for (const plot of plots()) {
      const l = layout(plot), div = plot.querySelector('.js-plotly-plot');
      if (l && !followed.has(div)) { followed.add(div); div.on('plotly_afterplot', place); }
    }
  }
  function watch(box) {
    watched.add(box);
    follow();
    redrawn.observe(box, { subtree: true, attributes: true, attributeFilter: ['data-drawn'] });
    for (const plot of [box, ...plots()]) resized.observe(plot);
  }

  const onStep = ({ detail }) => { if (detail.channel === model.get('channel')) { t = detail.t; place(); } };
  /** The step of a plot under the pointer, null for none. */
  function stepAt([plot, k], event) {
    const l = layout(plot);
    if (!l || !T()) return null;
    const px = event.clientX - plot.querySelector('.js-plotly-plot').getBoundingClientRect().left - l.xaxis._offset;
    const x = l.xaxis.p2c(Math.max(0, Math.min(l.xaxis._length, px)));
    let best = 0, near = Infinity;
    if (kinds()[k] === 'line') best = Math.max(0, Math.min(T() - 1, Math.round(x * rate())));
    else for (let i = 0; i < T(); i++) { const d = Math.abs(xy[(k * T() + i) * 2] - x); if (d < near) { near = d; best = i; } }
    return best;
  }
  function seek(event) {
    const step = stepAt(held, event);
    if (step !== null) broadcast('seek', model.get('channel'), step);
  }
  const sendHover = hoverSender(model);
  function hover(event) {
    const found = find(event), step = found && stepAt(found, event);
    if (step === over) return;
    over = step;
    placeLights();
    sendHover(step);
  }
  function inside(plot, event) {
    const l = layout(plot), box = plot.querySelector('.js-plotly-plot')?.getBoundingClientRect();
    return l && event.clientX > box.left + l._size.l - 6 && event.clientX < box.left + l._size.l + l._size.w + 6 && event.clientY > box.top + l._size.t - 4 && event.clientY < box.top + l._size.t + l._size.h + 4;
  }
  function find(event) {
    const plot = boxes().some(box => box.contains(event.target)) && event.target.closest('.srlviz-plot'), k = plot ? plots().indexOf(plot) : -1;
    return k >= 0 && inside(plot, event) ? [plot, k] : null;
  }
  const down = event => { if (event.button || !(held = find(event))) return; held[0].setPointerCapture(event.pointerId); seek(event); event.preventDefault(); event.stopPropagation(); };
  const move = event => held ? seek(event) : hover(event);
  const up = () => { held = null; };
  const mouse = event => { if (find(event)) event.stopPropagation(); };                // else plotly starts a drag of its own
  const on = [['pointerdown', down], ['pointermove', move], ['pointerup', up], ['pointercancel', up], ['mousedown', mouse]];
  for (const [event, handler] of on) document.addEventListener(event, handler, true);
  globalThis.addEventListener('srlviz-step', onStep);
  const read = () => { xy = floats(model.get('xy')); place(); };
  const unlisten = listen(model, { 'change:xy': read, 'change:rate': read, 'change:n': read, 'change:preview': placeLights });
  read();
  requestAnimationFrame(() => { place(); broadcast('where', model.get('channel')); });
  return () => {
    for (const [event, handler] of on) document.removeEventListener(event, handler, true);
    globalThis.removeEventListener('srlviz-step', onStep);
    redrawn.disconnect();
    resized.disconnect();
    unlisten();
    for (const node of [...nodes, ...lights]) node?.remove();
  };
}

export default { render };
