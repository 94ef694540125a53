// A row of small frames with a caption each. Choosing one, by pointer or keyboard, sets `picked`; the kernel may set it too.

function render({ model, el }) {
  const root = document.createElement('div');
  root.className = 'srlviz-picker';
  root.setAttribute('role', 'group');
  root.dataset.lmSuppressShortcuts = 'true';
  el.append(root);

  function draw() {
    const images = model.get('images'), captions = model.get('captions'), zoom = model.get('zoom');
    const held = [...root.querySelectorAll('button')].indexOf(root.getRootNode().activeElement);
    root.setAttribute('aria-label', model.get('label'));
    root.replaceChildren(...images.map((bytes, i) => {
      const button = document.createElement('button'), image = new Image(), text = document.createElement('span');
      const url = URL.createObjectURL(new Blob([bytes], { type: 'image/png' }));
      image.onload = () => { image.style.width = `${image.naturalWidth * zoom}px`; image.style.imageRendering = zoom < 1 ? 'auto' : ''; URL.revokeObjectURL(url); };
      image.src = url;
      image.alt = '';
      text.textContent = captions[i] ?? '';
      button.type = 'button';
      button.append(image, text);
      button.onclick = () => { model.set('picked', i); model.set('picks', model.get('picks') + 1); model.save_changes(); };
      return button;
    }));
    root.querySelectorAll('button')[held]?.focus({ preventScroll: true });             // other frames take the place of those that stood here: the keys stay here too
    pick();
  }
  function write() { const captions = model.get('captions'); root.querySelectorAll('span').forEach((span, i) => { span.textContent = captions[i] ?? ''; }); }
  const pick = () => root.querySelectorAll('button').forEach((button, i) => button.setAttribute('aria-pressed', i === model.get('picked')));
  root.addEventListener('keydown', event => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], buttons = [...root.querySelectorAll('button')];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    buttons[buttons.indexOf(event.target) + step]?.focus();
  });

  const unlisten = listen(model, { 'change:images': draw, 'change:captions': write, 'change:label': draw, 'change:picked': pick });
  draw();
  return unlisten;
}

export default { render };
