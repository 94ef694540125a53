// The microscope in a notebook: the kernel makes the scenes.

function render({ model, el }) {
  const root = make('div', {});
  el.append(root);
  const host = {
    press: (panel, t, value, how = '') => model.send({ kind: 'press', panel, t, value, how }),
    undo: () => model.send({ kind: 'undo' }),
    reset: () => model.send({ kind: 'reset' }),
    set: (name, value) => model.send({ kind: 'set', name, value }),
  };
  const view = microscope(root, host), pictures = offerPictures(model, root), seen = reportSeen(model, root, view.paint);
  function draw() {
    const scene = model.get('scene');
    if (!scene.factors && !scene.blocks) return;
    view.draw(withImages(scene));
    pictures.changed();
  }
  /** Turn the frames of a scene into images, which draw themselves once they are decoded. */
  function withImages(scene) {
    for (const band of (scene.blocks ?? []).flatMap(block => block.bands)) {
      if (band.kind === 'images') band.cells = band.cells.map(source => typeof source === 'string' ? Object.assign(new Image(), { onload: view.paint, src: source }) : source);
    }
    return scene;
  }
  const unlisten = listen(model, { 'change:scene': draw, 'msg:custom': message => { if (message.kind === 'picture') pictures.render(message); } });
  seen.tell();
  labelControls(el);
  draw();
  return () => { unlisten(); view.end(); pictures.end(); seen.end(); };
}

export default { render };
