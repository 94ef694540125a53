// The tabs of a pane. Choosing one, by pointer or keyboard, sets `value`; the kernel may set it too.

function render({ model, el }) {
  const root = make('div', { class: 'srlviz-tabs', 'data-lm-suppress-shortcuts': 'true' });
  const list = make('div', { role: 'tablist' }), keys = make('button', { type: 'button', class: 'srlviz-keys-button', title: 'keys of this widget (?)', onclick: () => { let top = el; for (let outer = el; outer; outer = outer.parentElement?.closest('.srlviz-explorer')) top = outer; toggleKeys(top); } }, '? keys');
  root.append(list, keys);
  el.append(root);

  const choose = name => { model.set('value', name); model.save_changes(); };
  function draw() {
    const held = list.contains(document.activeElement);
    list.setAttribute('aria-label', model.get('label'));
    keys.hidden = !model.get('with_keys');
    list.replaceChildren(...model.get('names').map(name => make('button', { type: 'button', role: 'tab', onclick: () => choose(name) }, name)));
    mark();
    if (held) current()?.focus({ preventScroll: true });
  }
  const current = () => list.querySelector('[aria-selected=true]');
  function mark() {
    for (const tab of list.children) {
      const chosen = tab.textContent === model.get('value');
      tab.setAttribute('aria-selected', chosen);
      tab.tabIndex = chosen ? 0 : -1;
    }
  }
  list.addEventListener('keydown', event => {
    const tabs = [...list.children], i = tabs.indexOf(event.target), to = { ArrowLeft: i - 1, ArrowRight: i + 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined || !tabs.length) return;
    event.preventDefault();
    event.stopPropagation();
    const tab = tabs[(to + tabs.length) % tabs.length];
    choose(tab.textContent);
    tab.focus({ preventScroll: true });
  });

  const unlisten = listen(model, { 'change:names': draw, 'change:value': mark, 'change:with_keys': draw });
  draw();
  labelControls(el);
  return unlisten;
}

export default { render };
