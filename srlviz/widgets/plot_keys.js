// Keys of a plot: arrows go to the points and cells that the pointer finds, their hover text is shown and announced, and Enter presses them.

/** The points and cells of a plot that can be hovered: curve, number ([row, column] of a cell), place in units of the axes, subplot, middle and size in px. */
function hoverable(div) {
  const { _fullData: traces = [], _fullLayout: layout, calcdata } = div, found = [];
  const axis = id => layout[`${id[0]}axis${id.slice(1)}`];
  traces.forEach((trace, curve) => {
    if (trace.visible !== true || trace.hoverinfo === 'skip' || !trace.xaxis || !trace.yaxis) return;
    const [x, y] = [axis(trace.xaxis), axis(trace.yaxis)], subplot = trace.xaxis + trace.yaxis;
    const add = (number, xval, yval, wide = 16, tall = 16) => {
      const [px, py] = [x.c2p(xval), y.c2p(yval)];
      if (px >= 0 && px <= x._length && py >= 0 && py <= y._length) found.push({ curve, number, xval, yval, subplot, isLine: /lines/.test(trace.mode), x: x._offset + px, y: y._offset + py, wide, tall });
    };
    if (trace.type === 'heatmap') {
      const { x: xs, y: ys, z } = calcdata[curve][0], middle = (edges, k) => (edges[k] + edges[k + 1]) / 2;
      const size = (a, edges, k) => Math.abs(a.c2p(edges[k + 1]) - a.c2p(edges[k]));
      z.forEach((row, i) => row.forEach((value, j) => { if (Number.isFinite(value)) add([i, j], middle(xs, j), middle(ys, i), size(x, xs, j), size(y, ys, i)); }));
    } else {
      const n = Math.min(trace.x?.length ?? 0, trace.y?.length ?? 0);
      for (let i = 0; i < n; i++) add(i, x.d2c(trace.x[i]), y.d2c(trace.y[i]));
    }
  });
  return found;
}

/** Let keys go through a plot; `press` is called with the points of an event of plotly, and `step` returns the x at which they start, or null. */
function plotKeys(P, root, div, press, step) {
  const mark = make('div', { class: 'srlviz-here', hidden: '' }), said = make('div', { class: 'srlviz-said', role: 'status' });
  root.append(mark, said);
  let points = null, at = null;      // points of the current drawing, found when they are needed; where the keys are

  const find = () => points ??= hoverable(div);
  const current = () => find().findIndex(p => p.curve === at?.curve && `${p.number}` === `${at.number}`);
  /** Show a point as the pointer would, and announce its text. */
  function show(point) {
    at = point;
    const { curve: curveNumber, number: pointNumber, xval, yval } = at, isKnown = div.calcdata[curveNumber][pointNumber];      // plotly finds cells, and points of WebGL, by their place
    P.Fx.hover(div, [isKnown ? { curveNumber, pointNumber } : { curveNumber, xval, yval }], at.subplot);
    Object.assign(mark.style, { left: `${at.x}px`, top: `${at.y}px`, width: `${at.wide}px`, height: `${at.tall}px` });
    mark.hidden = false;
    onceFound(announce);
    scrollIntoPlot();
  }
  const isFound = () => !mark.hidden && div._hoverdata?.[0]?.curveNumber === at.curve && `${div._hoverdata[0].pointNumber}` === `${at.number}`;
  /** Act once plotly has found the point that the keys are at: it looks for one at most every 50 ms. */
  function onceFound(act) {
    if (isFound()) act();
    else setTimeout(() => { if (isFound()) act(); }, 60);
  }
  function announce() {
    const lines = [...div.querySelectorAll('.hoverlayer .hovertext')].map(text => [...text.querySelectorAll('tspan.line')].map(line => line.textContent).join(', ') || text.textContent);
    said.textContent = lines.join('; ');
  }
  function scrollIntoPlot() {
    if (at.x < root.scrollLeft || at.x > root.scrollLeft + root.clientWidth) root.scrollLeft = at.x - root.clientWidth / 2;
  }
  function leave() {
    if (mark.hidden) return;
    mark.hidden = true;
    if (step() !== null) at = null;      // start at the current step again
    P.Fx.unhover(div);
  }
  /** The point that an arrow leads to, or [0, 0] the current one: the next one of a line, else the nearest in that direction. */
  function next(arrow) {
    const k = current();
    if (k < 0) return step() === null ? points[0] : points.find(p => p.xval >= step()) ?? points[0];
    const neighbour = points[k + arrow[0]];
    if (at.isLine && arrow[0]) return neighbour?.curve === at.curve ? neighbour : at;
    return points[towards(points.length, i => points[i], k, arrow)];
  }
  function onKey(event) {
    const arrow = ARROWS[event.key];
    if (event.target !== root || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape' && !mark.hidden) leave();
    else if (arrow && find().length) show(next(mark.hidden ? [0, 0] : arrow));
    else if ((event.key === 'Enter' || event.key === ' ') && at && !mark.hidden && find().length) {
      show(next([0, 0]));
      onceFound(() => press(div._hoverdata));
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
  root.addEventListener('keydown', onKey);
  root.addEventListener('blur', leave);
  return {
    /** The plot was drawn again: what the keys were at may stand elsewhere. */
    drawn() {
      points = null;
      const inUse = find().length > 0;
      root.tabIndex = inUse || root.scrollWidth > root.clientWidth ? 0 : -1;      // what scrolls is reached by keys, too
      root.setAttribute('role', inUse ? 'application' : 'img');
      if (!mark.hidden) current() < 0 ? leave() : show(points[current()]);
    },
  };
}
