// Table of the factors of a step, next to the player of the same channel.

function render({ model, el }) {
  const table = new FactorTable(model), root = make('div', { class: 'srlviz-numbers' }, table.node);
  el.append(root);
  let t = 0;
  const draw = () => { table.draw(numbers.row(t), t ? numbers.row(t - 1) : null); root.dataset.step = t; };
  const numbers = new Numbers(model, draw);
  const onStep = ({ detail }) => { if (detail.channel === model.get('channel') && detail.t !== t) { t = detail.t; draw(); } };
  const look = () => { table.node.style.maxHeight = `${model.get('height')}px`; table.node.setAttribute('aria-label', model.get('label')); };
  const build = () => { table.build(); draw(); };
  const unlisten = listen(model, {
    'msg:custom': (message, buffers) => numbers.receive(message, buffers),
    'change:numbers': () => { numbers.reset(); draw(); },
    'change:table': build, 'change:picked': () => table.mark(), 'change:height': look, 'change:label': look,
  });
  globalThis.addEventListener('srlviz-step', onStep);
  look();
  build();
  broadcast('where', model.get('channel'));
  return () => { unlisten(); globalThis.removeEventListener('srlviz-step', onStep); };
}

export default { render };
