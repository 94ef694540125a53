// Keys of a plot: arrows go to the points and cells that the pointer finds, their hover text is shown and announced, and Enter presses them.

/** The points and cells of a plot that can be hovered: curve, number ([row, column] of a cell), subplot, middle and size in px. */
function hoverable(div) {
  const { _fullData: traces = [], _fullLayout: layout, calcdata } = div, found = [];
  const axis = id => layout[`${id[0]}axis${id.slice(1)}`];
  traces.forEach((trace, curve) => {
    if (trace.visible !== true || trace.hoverinfo === 'skip' || !trace.xaxis || !trace.yaxis || !axis(trace.xaxis)) return;
    const [x, y] = [axis(trace.xaxis), axis(trace.yaxis)], subplot = trace.xaxis + trace.yaxis;
    const add = (number, px, py, wide = 16, tall = 16) => {
      if (px >= 0 && px <= x._length && py >= 0 && py <= y._length) found.push({ curve, number, subplot, isLine: /lines/.test(trace.mode), x: x._offset + px, y: y._offset + py, wide, tall });
    };
    if (trace.type === 'heatmap') {
      const { x: xs, y: ys, z } = calcdata[curve][0];      // edges of cells
      z.forEach((row, i) => row.forEach((value, j) => {
        const [left, right, top, bottom] = [x.c2p(xs[j]), x.c2p(xs[j + 1]), y.c2p(ys[i]), y.c2p(ys[i + 1])];
        if (Number.isFinite(value)) add([i, j], (left + right) / 2, (top + bottom) / 2, Math.abs(right - left), Math.abs(bottom - top));
      }));
    } else {
      const n = Math.min(trace.x?.length ?? 0, trace.y?.length ?? 0);
      for (let i = 0; i < n; i++) add(i, x.c2p(x.d2c(trace.x[i])), y.c2p(y.d2c(trace.y[i])));
    }
  });
  return found;
}

/** Let keys go through a plot; `press` is called with the points of an event of plotly. */
function plotKeys(P, root, div, press) {
  const mark = make('div', { class: 'srlviz-here', hidden: '' }), said = make('div', { class: 'srlviz-said', role: 'status' });
  root.append(mark, said);
  let points = null, at = null;      // points of the current drawing, found when they are needed; where the keys are

  const find = () => points ??= hoverable(div);
  /** Show a point as the pointer would, and announce its text. */
  function show(point) {
    at = point;
    P.Fx.hover(div, [{ curveNumber: at.curve, pointNumber: at.number }], at.subplot);
    const lines = [...div.querySelectorAll('.hoverlayer .hovertext')].map(text => [...text.querySelectorAll('tspan.line')].map(line => line.textContent).join(', ') || text.textContent);
    said.textContent = lines.join('; ');
    Object.assign(mark.style, { left: `${at.x}px`, top: `${at.y}px`, width: `${at.wide}px`, height: `${at.tall}px` });
    mark.hidden = false;
    scrollIntoPlot();
  }
  function scrollIntoPlot() {
    if (at.x < root.scrollLeft || at.x > root.scrollLeft + root.clientWidth) root.scrollLeft = at.x - root.clientWidth / 2;
  }
  function leave() {
    if (mark.hidden) return;
    mark.hidden = true;
    P.Fx.unhover(div);
  }
  /** The point that an arrow leads to: the next one of a line, else the nearest in that direction. */
  function next(step) {
    const k = find().findIndex(p => p.curve === at?.curve && `${p.number}` === `${at.number}`);
    if (k < 0) return points[0];
    const neighbour = points[k + step[0]];
    if (at.isLine && step[0]) return neighbour?.curve === at.curve ? neighbour : at;
    return points[towards(points.length, i => points[i], k, step)];
  }
  function onKey(event) {
    const step = ARROWS[event.key];
    if (event.target !== root || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape' && !mark.hidden) leave();
    else if (step && find().length) show(mark.hidden && at ? next([0, 0]) : next(step));
    else if ((event.key === 'Enter' || event.key === ' ') && at && !mark.hidden && find().length) {
      show(next([0, 0]));
      press(div._hoverdata);
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
      root.tabIndex = inUse ? 0 : -1;
      root.setAttribute('role', inUse ? 'application' : 'img');
      if (!mark.hidden) { const point = next([0, 0]); if (point) show(point); else leave(); }
    },
  };
}
