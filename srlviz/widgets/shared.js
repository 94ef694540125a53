// Functions that the views of srlviz share. srlviz.widgets.base.script prepends this file to each view; there is no build step.

/** State shared by all views of a page, of any notebook and kernel. */
const shared = () => globalThis.__srlviz ??= {};

/** A library that the kernel sends once for a page: `ready`, a promise, and how to `give` it or `fail`. */
function library(name) {
  const libraries = shared().libraries ??= {};
  if (!libraries[name]) {
    const awaited = libraries[name] = {};
    awaited.ready = new Promise((give, fail) => Object.assign(awaited, { give, fail }));
  }
  return libraries[name];
}

/** Wait for a library; a page that has none after a while asks the kernel for it. */
function requestLibrary(name, model) {
  const timer = setTimeout(() => model.send({ kind: 'need', library: name }), 2500);
  return library(name).ready.then(loaded => { clearTimeout(timer); return loaded; });
}

const isDark = () => document.body.dataset.jpThemeLight === 'false';

/** Make an element: attributes, `class`, and listeners `onclick`; null leaves an attribute out. */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') node.className = value;
    else if (key.startsWith('on')) node.addEventListener(key.slice(2), value);
    else if (value !== null) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/** The numbers in a binary trait. */
const floats = view => view?.byteLength ? new Float32Array(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength)) : new Float32Array();

/** Whether a key is meant for the view. If so, stop the event: JupyterLab has shortcuts on the same keys. */
function takesKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.key === 'Tab' || event.key === 'Escape') return false;
  event.stopPropagation();
  return true;
}

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };      // steps in px: y grows downwards

/** The nearest of n places in the direction of an arrow, within 45 degrees of it; place i itself if there is none. */
function towards(n, place, i, [dx, dy]) {
  const from = place(i);
  let best = i, least = Infinity;
  for (let j = 0; j < n; j++) {
    const to = place(j), x = to.x - from.x, y = to.y - from.y, ahead = x * dx + y * dy, aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (ahead > .01 && aside <= ahead && ahead + aside < least) { least = ahead + aside; best = j; }
  }
  return best;
}

/** Send a step to the other views of a channel by an event of the page, without the kernel. */
const broadcast = (event, channel, t) => channel && globalThis.dispatchEvent(new CustomEvent(`srlviz-${event}`, { detail: { channel, t } }));

/** Make a function that passes on the last value that it is called with, at once or `every` ms after the one before. */
function paced(pass, every = 70) {
  let timer = 0, latest, passed = -every;
  const now = () => { timer = 0; passed = performance.now(); pass(latest); };
  return value => { latest = value; timer ||= setTimeout(now, Math.max(0, passed + every - performance.now())); };
}

/** Make a function that sets the trait `hovered` of a view: the step under the pointer, null for none. A change is sent at most every 70 ms. */
function hoverSender(model) {
  const send = paced(t => { model.set('hovered', t); model.save_changes(); });
  let at = null;
  return t => { if (t !== at) send(at = t); };
}

/** anywidget (0.11) gives up a model whose script has not loaded within two seconds, as on a slow machine or where a page restores many, and then drops all messages from the kernel. Patch its class, once for a page, and the models of each notebook that are older than the patch. */
async function patchModels(model) {
  const page = shared(), manager = model.widget_manager, managers = page.managers ??= new WeakSet();
  if (managers.has(manager)) return;
  managers.add(manager);
  const { prototype } = await manager.loadClass('AnyModel', 'anywidget', model.get('_model_module_version'));
  const handle = page.handleOfAnywidget ??= patchClass(prototype);
  for (const made of Object.values(manager._models ?? {})) made.then(older => { if (prototype.isPrototypeOf(older)) patchOlder(older, handle); }, () => {});
}

/** Let a model that is given up still receive messages, and a view whose kernel has gone send nothing, which would fail. Return anywidget's handler of messages. */
function patchClass(prototype) {
  const { _handle_comm_msg: handle, send } = prototype, { _handle_comm_msg: handleWithoutScript } = Object.getPrototypeOf(prototype);
  prototype._handle_comm_msg = async function (message) {
    try {
      return await handle.call(this, message);
    } catch (problem) {
      if (!problem?.message?.includes('Failed to initialize model')) throw problem;
      return handleWithoutScript.call(this, message);
    }
  };
  prototype.send = function (...message) { if (this.comm_live) return send.apply(this, message); };
  return handle;
}

/** Bind the handler of a model anew, since models bind it when they are made; if it has been given up, ask the kernel for the state that it has missed. */
function patchOlder(model, handle) {
  if (!model.comm) return;
  model.comm.on_msg(message => model._handle_comm_msg(message));
  handle.call(model, { content: { data: { method: 'none' } } }).catch(() => model.comm.send({ method: 'request_state' }));
}

/** Mark the widgets of a kernel that is shut down or replaced as disconnected, as ipywidgets does for one that restarts. Once for a kernel. */
function markShutDown({ widget_manager: manager }) {
  const kernels = shared().kernels ??= new WeakSet(), kernel = manager?.kernel;
  if (!kernel?.disposed || kernels.has(kernel)) return;
  kernels.add(kernel);
  kernel.disposed.connect(() => manager.disconnect());
}

/** Watch whether a view is seen: it is not in a hidden tab. `isSeen()` tells, and `shown()` is called when it is seen again, `hidden()` when it is not. A view that does not stand in the page yet counts as seen. */
function watchSeen(node, shown, hidden = () => {}) {
  let was = true;
  function isSeen() {
    const is = !node.isConnected || node.checkVisibility();
    if (!is && was) requestAnimationFrame(look);      // hidden and shown again within a frame, its size never changed
    if (is !== was) { was = is; (is ? shown : hidden)(); }
    return is;
  }
  const look = () => { isSeen(); }, sizes = new ResizeObserver(look);
  sizes.observe(node);
  return { isSeen, end: () => sizes.disconnect() };
}

/** Run heavy work of several views one after another, and let the page handle events in between. */
function runInTurn(work) {
  const page = shared(), turn = (page.turn ?? Promise.resolve()).then(() => new Promise(next => setTimeout(next))).then(work);
  page.turn = turn.catch(() => {});
  return turn;
}

/** Listen to events of a model; return a function that stops listening. */
function listen(model, on) {
  patchModels(model);
  markShutDown(model);
  for (const [event, handler] of Object.entries(on)) model.on(event, handler);
  return () => { for (const [event, handler] of Object.entries(on)) model.off(event, handler); };
}

/** Label the controls that ipywidgets leaves unlabelled, for screen readers: menus, play buttons, handles of ranges. */
function labelControls(el, tries = 40) {
  let root = el.closest('.srlviz-explorer');
  for (let outer = root; outer; outer = outer.parentElement?.closest('.srlviz-explorer')) root = outer;      // one explorer may stand in another
  if (!root && tries) setTimeout(() => labelControls(el, tries - 1), 150);      // a view is made before it stands in the page
  if (!root || 'named' in root.dataset) return;
  root.dataset.named = '';
  const labelOf = node => node.closest('.jupyter-widgets')?.querySelector('.widget-label')?.textContent || node.closest('[title]')?.title || '';
  const name = (node, text) => { if (text && !node.getAttribute('aria-label')) node.setAttribute('aria-label', text); };
  const labelAll = () => {
    for (const node of root.querySelectorAll(':is(select, input, button, .noUi-handle):not([data-lm-suppress-shortcuts])')) node.dataset.lmSuppressShortcuts = 'true';      // or JupyterLab takes arrows and Enter for its cells
    for (const node of root.querySelectorAll('.widget-dropdown select, .widget-text input, input[type=number]')) if (![...node.labels ?? []].some(label => label.textContent.trim())) name(node, labelOf(node) || 'choose');
    for (const play of root.querySelectorAll('.widget-play')) [...play.querySelectorAll('button')].forEach((button, k) => name(button, button.title || ['play', 'stop', 'again and again'][k]));
    for (const slider of root.querySelectorAll('.widget-slider')) {
      const handles = [...slider.querySelectorAll('.noUi-handle')];
      handles.forEach((handle, k) => name(handle, `${labelOf(slider) || 'range'}${handles.length > 1 ? [': lowest', ': highest'][k] : ''}`));
    }
  };
  let soon = 0;
  new MutationObserver(() => { cancelAnimationFrame(soon); soon = requestAnimationFrame(labelAll); }).observe(root, { childList: true, subtree: true });
  labelAll();
}


/** Redo the layout of the explorers in a cell; lists stay scrolled as they are. */
function redoLayout(cell) {
  for (const root of cell.querySelectorAll('.srlviz-explorer, .srlviz-plot, .srlviz-rows')) {
    if (root.parentElement.closest('.srlviz-explorer')) continue;      // the explorer around it is laid out
    const scrolled = [...root.querySelectorAll('div')].filter(node => node.scrollTop || node.scrollLeft).map(node => [node, node.scrollTop, node.scrollLeft]);
    const { display } = root.style;
    root.style.display = 'none';
    root.offsetHeight;      // reading it makes the browser drop the layout
    root.style.display = display;
    for (const [node, top, left] of scrolled) node.scrollTo(left, top);
  }
}

/** JupyterLab skips the layout of cells outside of the view (`content-visibility: auto`), and Chromium keeps nodes that were added there meanwhile at the size 0 x 0. Once for a page: lay out the explorers of a cell that comes into view. */
function redoLayoutWhenSeen() {
  const page = shared();
  if (page.redoesLayoutWhenSeen) return;
  page.redoesLayoutWhenSeen = true;
  document.addEventListener('contentvisibilityautostatechange', event => { if (!event.skipped) redoLayout(event.target); }, true);
}
redoLayoutWhenSeen();

/** Keys of the parts of an explorer: the parts, a heading, and [keys, what they do]. */
const KEYS = [
  ['.srlviz-player', 'Film or steps', [['space', 'play or pause'], ['← →', 'previous, next step'], ['page up, down', 'ten steps back, ahead'], ['home, end', 'first, last step']]],
  ['.srlviz-bars', 'Histograms of factors', [['tab', 'next factor'], ['← →', 'previous, next bar'], ['space, enter', 'filter by the bar, or no longer'], ['shift + space', 'filter by all bars from the last one to this one'], ['delete', 'remove the filter of the factor']]],
  ['.srlviz-picker', 'Row of frames', [['← →', 'previous, next frame'], ['space, enter', 'open the frame']]],
  ['.srlviz-rows', 'List', [['↑ ↓', 'previous, next row'], ['page up, down', 'a page back, ahead'], ['home, end', 'first, last row'], ['space, enter', 'open the row']]],
  ['.srlviz-board', 'Game', [['keys of the board', 'act, as listed below the board']]],
  ['.srlviz-tabs', 'Tabs', [['← →', 'previous, next tab']]],
  ['.srlviz-scatter', 'Map of codes', [['← →', 'previous, next step of the episode'], ['↑ ↓, shift + arrows', 'nearest point in that direction'], ['space, enter', 'open the point'], ['s', 'select the points around it; with shift, add them'], ['+ − 0', 'zoom in, out, show all points'], ['l', 'dragging selects points, or moves the map'], ['escape', 'select nothing'], ['pointer', 'press a point to open it; drag to select points, with shift to add']]],
  ['.srlviz-plot[role=application]', 'Plots and heat maps', [['arrows', 'next cell or point in that direction'], ['space, enter', 'press it; in a plot over time, move the step there'], ['escape', 'leave it'], ['pointer', 'press a cell or point; over time, press or drag to move the step']]],
  ['*', 'Everywhere', [['tab', 'next control'], ['?', 'show or hide these keys'], ['escape', 'close them']]],
];

/** Show the keys of the parts of an explorer, or close the list. */
function toggleKeys(root) {
  const open = document.querySelector('dialog.srlviz-keys');
  if (open) return open.close();
  const isSeen = node => node.getClientRects().length > 0;
  const groups = KEYS.filter(([parts]) => parts === '*' || [...root.querySelectorAll(parts)].some(isSeen)).map(([, heading, keys]) =>
    make('section', {}, make('h3', {}, heading), make('dl', {}, ...keys.flatMap(([key, does]) => [make('dt', {}, key), make('dd', {}, does)]))));
  const close = make('button', { type: 'button', onclick: () => dialog.close() }, 'close');
  const dialog = make('dialog', { class: 'srlviz-keys', 'aria-label': 'Keys', 'data-lm-suppress-shortcuts': 'true' }, make('div', {}, make('h2', {}, 'Keys'), close), make('div', { class: 'srlviz-keys-groups' }, ...groups));
  const focused = document.activeElement;
  dialog.addEventListener('close', () => { dialog.remove(); focused?.focus?.({ preventScroll: true }); });
  dialog.addEventListener('keydown', event => event.stopPropagation());
  dialog.addEventListener('click', event => { if (event.target === dialog) dialog.close(); });      // outside of the list
  root.append(dialog);
  dialog.showModal();
}

/** Once for a page: "?" shows the keys of the explorer that has the focus, or else lies under the pointer. */
function listKeysOnDemand() {
  const page = shared();
  if (page.listsKeys) return;
  page.listsKeys = true;
  document.addEventListener('keydown', event => {
    if (event.key !== '?' || event.ctrlKey || event.metaKey || event.altKey) return;
    const open = document.querySelector('dialog.srlviz-keys'), isTyping = event.target.closest?.('input:not([type=range], [type=checkbox]), textarea, [contenteditable=true], .cm-editor');
    let root = event.target.closest?.('.srlviz-explorer') ?? document.querySelector('.srlviz-explorer:hover');
    if (!open && (isTyping || !root)) return;
    for (let outer = root; outer; outer = outer.parentElement?.closest('.srlviz-explorer')) root = outer;
    event.preventDefault();
    event.stopPropagation();
    toggleKeys(root);
  }, true);
}
listKeysOnDemand();
