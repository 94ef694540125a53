// The picture of an explorer for a notebook that is opened without a kernel: a view renders it by plotly.js once the page is idle, and the kernel stores it.

const IDLE_MS = 3000, MAX_PICTURE = 400e3, CAPTION = '12px system-ui, sans-serif';      // ms without a change before a picture is offered; bytes of one

/** Render a figure, or several in two columns, as a PNG with a caption below. */
async function renderPicture(P, json, words, width) {
  const figures = [JSON.parse(json)].flat(), columns = Math.min(2, figures.length), share = Math.floor(width / columns);
  for (const scale of [1, .7, .5]) {
    const parts = [];
    let wide = columns > 1 ? width : 0, tall = 0;
    for (const { data, layout } of figures) {
      const of = { width: layout.width ?? share, height: layout.height ?? 450 }, image = new Image();
      image.src = await withoutContexts(() => P.toImage({ data, layout: { ...layout, ...of, paper_bgcolor: '#fff', plot_bgcolor: layout.plot_bgcolor ?? '#fff' } }, { format: 'png', ...of, scale }));
      await image.decode();
      const fit = columns > 1 ? Math.min(1, share / of.width) : 1;
      parts.push({ image, wide: of.width * fit, tall: of.height * fit });
    }
    for (let i = 0; i < parts.length; i += columns) {
      const row = parts.slice(i, i + columns);
      row.forEach((part, k) => { Object.assign(part, { x: k * share, y: tall }); wide = Math.max(wide, part.x + part.wide); });
      tall += Math.max(...row.map(part => part.tall));
    }
    const lines = wrapped(words, wide - 20), height = tall + 10 + 16 * lines.length;
    const canvas = make('canvas', { width: Math.round(wide * scale), height: Math.round(height * scale) }), pen = canvas.getContext('2d');
    pen.scale(scale, scale);
    pen.fillStyle = '#fff';
    pen.fillRect(0, 0, wide, height);
    for (const { image, x, y, wide, tall } of parts) pen.drawImage(image, x, y, wide, tall);
    pen.fillStyle = '#5b6169';
    pen.font = CAPTION;
    lines.forEach((line, i) => pen.fillText(line, 10, tall + 17 + 16 * i));
    const png = await new Promise(done => canvas.toBlob(done, 'image/png'));
    if (png.size < MAX_PICTURE || scale === .5) return { png: await png.arrayBuffer(), size: [Math.round(wide), Math.round(height)] };
  }
}

/** Break a caption between words into lines of a width. */
function wrapped(words, wide) {
  const pen = make('canvas').getContext('2d'), lines = [''];
  pen.font = CAPTION;
  for (const word of words.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && pen.measureText(longer).width > wide) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
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

/** The explorer around a view that is in no other one. */
function outermost(view) {
  let found = null;
  for (let box = view; box; box = box.parentElement) if (box.classList.contains('srlviz-explorer')) found = box;
  return found;
}

/** Offer a picture when nothing has changed for a while, and render the pictures that the kernel asks for. */
function offerPictures(model, root) {
  let timer = 0, ended = false;
  const offer = () => { if (!ended && !document.hidden) model.send({ kind: 'still' }); };
  return {
    changed() { clearTimeout(timer); timer = setTimeout(() => requestIdleCallback(offer), IDLE_MS); },
    async render({ which, figure, words }) {
      const { png, size } = await renderPicture(await requestLibrary('plotly', model), figure, words, Math.min(1000, outermost(root)?.clientWidth || 900));
      model.send({ kind: 'picture', which, size }, undefined, [png]);
    },
    end() { ended = true; clearTimeout(timer); },
  };
}
