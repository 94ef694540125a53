// The picture of an explorer for a notebook that is opened without a kernel: a view renders it by plotly.js once the page is idle, and the kernel stores it.

const IDLE_MS = 3000, MAX_PICTURE = 400e3;      // ms without a change before a picture is offered; bytes of one

/** Render a figure as a PNG with a caption below. */
async function renderPicture(P, figure, words, width) {
  for (const scale of [1, .7, .5]) {
    const { data, layout } = JSON.parse(figure), wide = layout.width ?? width, tall = layout.height ?? 450;
    const image = new Image();
    image.src = await withoutContexts(() => P.toImage({ data, layout: { ...layout, width: wide, height: tall, paper_bgcolor: '#fff', plot_bgcolor: layout.plot_bgcolor ?? '#fff' } }, { format: 'png', width: wide, height: tall, scale }));
    await image.decode();
    const canvas = make('canvas', { width: image.width, height: image.height + Math.round(26 * scale) }), pen = canvas.getContext('2d');
    pen.fillStyle = '#fff';
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0);
    pen.fillStyle = '#5b6169';
    pen.font = `${12 * scale}px system-ui, sans-serif`;
    pen.fillText(words, 10 * scale, canvas.height - 9 * scale);
    const png = await new Promise(done => canvas.toBlob(done, 'image/png'));
    if (png.size < MAX_PICTURE || scale === .5) return { png: await png.arrayBuffer(), size: [wide, tall + 26] };
  }
}

/** Release the WebGL contexts of a figure that plotly.js draws only for a picture: it leaves them to the garbage collector, and a page that has too many loses its oldest ones, those of maps that are shown. */
async function withoutContexts(draw) {
  const canvases = new Set(), seen = new MutationObserver(changes => {
    for (const change of changes) for (const node of change.addedNodes) {
      const of = node.querySelectorAll?.('canvas') ?? [];
      for (const canvas of node.tagName === 'CANVAS' ? [node] : of) if (canvas.classList.contains('gl-canvas') && !canvas.closest('.srlviz-plot, .jp-OutputArea')) canvases.add(canvas);
    }
  });
  seen.observe(document.body, { childList: true, subtree: true });
  try {
    return await draw();
  } finally {
    seen.disconnect();
    for (const canvas of canvases) canvas.getContext('webgl')?.getExtension('WEBGL_lose_context')?.loseContext();
  }
}

/** Watch whether a view is seen, as `watchSeen`, and `tell` the kernel, which draws only what is seen. */
function reportSeen(model, root, shown) {
  const view = Math.random().toString(36), send = seen => model.send({ kind: 'seen', view, seen });
  const watch = watchSeen(root, () => { send(true); shown(); }, () => send(false));
  return { isSeen: watch.isSeen, tell: () => send(watch.isSeen()), end() { watch.end(); send(false); } };
}

/** Offer a picture when nothing has changed for a while, and render the pictures that the kernel asks for. */
function offerPictures(model, root) {
  let timer = 0, ended = false;
  const offer = () => { if (!ended && !document.hidden) model.send({ kind: 'still' }); };
  return {
    changed() { clearTimeout(timer); timer = setTimeout(() => requestIdleCallback(offer), IDLE_MS); },
    async render({ which, figure, words }) {
      const { png, size } = await renderPicture(await requestLibrary('plotly', model), figure, words, Math.min(1000, root.closest('.srlviz-explorer')?.clientWidth || 900));
      model.send({ kind: 'picture', which, size }, undefined, [png]);
    },
    end() { ended = true; clearTimeout(timer); },
  };
}
