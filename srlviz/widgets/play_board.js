// A picture to play on. The kernel sends the possible actions: boxes in the picture, buttons, sliders, keys.
// An action is sent as a value, with the number of its game; the kernel replies with the next picture.

const NAMES = { ArrowLeft: '←', ArrowRight: '→', ArrowUp: '↑', ArrowDown: '↓', ' ': 'space' };

function render({ model, el }) {
  const image = make('img', { draggable: 'false' });
  const ring = make('div', { class: 'srlviz-ring', 'aria-hidden': 'true' });
  const over = make('div', { class: 'srlviz-over' });
  const stage = make('div', { class: 'srlviz-board-stage' }, image, ring);
  const buttons = make('div', { class: 'srlviz-actions', role: 'group', 'aria-label': 'actions' });
  const hint = make('div', { class: 'srlviz-hint' });
  const root = make('div', { class: 'srlviz-board', tabindex: 0, role: 'application', 'data-lm-suppress-shortcuts': 'true' }, stage, over, buttons, hint);
  el.append(root);

  let at = -1, waiting = false, url = '', sliders = [];
  const targets = () => model.get('targets');
  const live = () => !model.get('over');

  function send(content) {
    waiting = true;
    model.send({ game: model.get('game'), ...content });
  }
  function act(action) { if (live()) send({ kind: 'act', action }); }

  // the picture, and where it can be clicked
  function draw() {
    waiting = false;
    const [width, height] = model.get('size'), next = URL.createObjectURL(new Blob([model.get('image')], { type: 'image/png' }));
    image.onload = () => { root.dataset.shown = model.get('shown'); URL.revokeObjectURL(next); };
    image.width = width; image.height = height;
    image.src = url = next;
    image.alt = model.get('label');
    over.textContent = model.get('over');
    over.hidden = live();
    place(at < targets().length && live() ? at : -1);
  }
  function place(k) {
    at = k;
    const target = targets()[k], [width, height] = model.get('size');
    ring.hidden = !target;
    stage.style.cursor = target ? 'pointer' : '';
    if (!target) return;
    const [x0, y0, x1, y1] = target.box, percent = (v, whole) => `${100*v/whole}%`;
    Object.assign(ring.style, { left: percent(x0, width), top: percent(y0, height), width: percent(x1 - x0, width), height: percent(y1 - y0, height) });
    stage.title = target.label;
  }
  function under(event) {
    const r = image.getBoundingClientRect(), [width, height] = model.get('size');
    const x = (event.clientX - r.left)*width/r.width, y = (event.clientY - r.top)*height/r.height;
    return targets().findLastIndex(({ box: [x0, y0, x1, y1] }) => x >= x0 && x < x1 && y >= y0 && y < y1);
  }
  /** The nearest target in a direction, those straight ahead first. */
  function step(dx, dy) {
    const centre = ({ box: [x0, y0, x1, y1] }) => [(x0 + x1)/2, (y0 + y1)/2], here = targets()[at];
    if (!here) return place(targets().length ? 0 : -1);
    const [cx, cy] = centre(here);
    let best = -1, smallest = Infinity;
    targets().forEach((target, k) => {
      const [x, y] = centre(target), ahead = (x - cx)*dx + (y - cy)*dy, aside = Math.abs((x - cx)*dy) + Math.abs((y - cy)*dx);
      if (ahead > 2 && ahead + 3*aside < smallest) { smallest = ahead + 3*aside; best = k; }
    });
    if (best >= 0) place(best);
  }

  // buttons and sliders
  function drawActions() {
    sliders = model.get('sliders').map(({ low, high, step, value, label }) => {
      const bar = make('input', { type: 'range', min: low, max: high, step, 'aria-label': label }), output = make('output');
      bar.value = value;
      const showValue = () => { output.textContent = (+bar.value).toFixed(2); };
      bar.addEventListener('input', showValue);
      showValue();
      return { bar, line: make('label', { class: 'srlviz-slide' }, label, bar, output) };
    });
    const apply = make('button', { type: 'button', title: 'step with the value of the slider', onclick: () => act(sliders.map(({ bar }) => +bar.value)) }, 'step', make('kbd', {}, 'Enter'));
    buttons.replaceChildren(...model.get('actions').map(({ label, key, action }) => make('button', { type: 'button', onclick: () => act(action), ...(key ? { 'aria-keyshortcuts': key } : {}) }, label, ...(key ? [make('kbd', {}, NAMES[key] ?? key)] : []))), ...sliders.map(s => s.line), ...(sliders.length ? [apply] : []));
    hint.textContent = model.get('hint');
  }

  stage.addEventListener('pointermove', event => { if (live()) place(under(event)); });
  stage.addEventListener('pointerleave', () => place(-1));
  stage.addEventListener('pointerdown', event => {
    root.focus({ preventScroll: true });
    if (event.button || !live()) return;
    event.preventDefault();
    const k = under(event);
    place(k);
    if (k >= 0) act(targets()[k].action);
  });
  root.addEventListener('keydown', event => {
    if (!takesKey(event)) return;
    const slider = event.target.type === 'range', button = event.target.tagName === 'BUTTON', key = event.key.length === 1 ? event.key.toLowerCase() : event.key, keys = model.get('keymap');
    const arrow = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    if (slider && arrow || button && ['Enter', ' '].includes(key)) return;                // it handles these itself
    const enter = key === 'Enter' || key === ' ';
    let what = null;
    if (key === 'Backspace') what = () => send({ kind: 'undo' });
    else if (!live()) what = key === 'Enter' ? () => send({ kind: 'new' }) : arrow ? () => {} : null;
    else if (key in keys) what = () => act(keys[key]);
    else if (arrow && targets().length) what = () => step(...arrow);
    else if (enter && targets()[at]) what = () => act(targets()[at].action);
    else if (enter && sliders.length) what = () => act(sliders.map(({ bar }) => +bar.value));
    if (!what) return;
    event.preventDefault();
    if (!(event.repeat && waiting)) what();                                              // a key that is held never runs ahead of the picture
  });

  /** After a click on "new game" focus the board, so that its keys work; a menu used by keyboard keeps the focus. */
  function begin() {
    const held = document.activeElement, whole = root.closest('.srlviz-play');
    if (held?.tagName === 'BUTTON' && whole?.contains(held)) root.focus({ preventScroll: true });
  }

  const refused = message => { if (message.kind === 'refused') waiting = false; };
  const name = () => { root.setAttribute('aria-label', model.get('title')); root.classList.toggle('drawn', model.get('drawn')); };
  const unlisten = listen(model, {
    'change:shown': draw, 'change:game': begin, 'change:title': name, 'change:drawn': name, 'msg:custom': refused,
    'change:actions': drawActions, 'change:sliders': drawActions, 'change:hint': drawActions,
  });
  name();
  labelControls(el);
  drawActions();
  draw();
  return unlisten;
}

export default { render };
