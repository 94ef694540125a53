// The belief microscope without a kernel: an agent, its memory, its probes and the rules of three tasks, in the page.
// srlviz.widgets.agents.mind_page writes the data. Scenes and words are those of srlviz.widgets.agents.microscope, steps
// those of srlviz.evaluate.memories.edits; tests/test_mind_page.py compares all of it with Python.

/** The numbers that Python wrote as base64 of little-endian float32. */
function decoded(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}
const float32 = text => new Float32Array(decoded(text).buffer);
/** The rows of a matrix that was written row by row. */
const rowsOf = (numbers, n) => Array.from({ length: n }, (_, i) => numbers.subarray(i * numbers.length / n, (i + 1) * numbers.length / n));
const range = n => Array.from({ length: n }, (_, i) => i);
const argmax = x => x.reduce((best, v, i) => v > x[best] ? i : best, 0);
const dot = (x, y) => x.reduce((sum, v, i) => sum + v * y[i], 0);

// ---- networks: weights are named as in PyTorch

/** W x + b; W (b.length, x.length) row by row. */
function linear(W, b, x) {
  const y = new Float64Array(b.length), n = x.length;
  for (let i = 0, k = 0; i < y.length; i++) {
    let sum = b[i];
    for (let j = 0; j < n; j++) sum += W[k++] * x[j];
    y[i] = sum;
  }
  return y;
}
const leaky = x => x.map(v => v > 0 ? v : .01 * v);
const sigmoid = v => 1 / (1 + Math.exp(-v));
function softmax(x) {
  const most = Math.max(...x), e = Array.from(x, v => Math.exp(v - most)), sum = e.reduce((a, b) => a + b, 0);
  return e.map(v => v / sum);
}
function layerNorm(x) {
  const mean = x.reduce((sum, v) => sum + v, 0) / x.length, centred = x.map(v => v - mean), scale = 1 / Math.sqrt(dot(centred, centred) / x.length + 1e-5);
  return centred.map(v => v * scale);
}

/** One step of a memory: (weights, input, state) -> [output, state]; a state is one array, LSTM's h and then c. */
const MEMORIES = {
  GRU(w, x, h) {
    const n = h.length, a = linear(w['layer.weight_ih_l0'], w['layer.bias_ih_l0'], x), b = linear(w['layer.weight_hh_l0'], w['layer.bias_hh_l0'], h);
    const y = Float64Array.from(h, (old, i) => {
      const r = sigmoid(a[i] + b[i]), z = sigmoid(a[n + i] + b[n + i]), now = Math.tanh(a[2 * n + i] + r * b[2 * n + i]);
      return now + z * (old - now);
    });
    return [y, y];
  },
  LSTM(w, x, state) {
    const n = state.length / 2, after = new Float64Array(2 * n);
    const a = linear(w['layer.weight_ih_l0'], w['layer.bias_ih_l0'], x), b = linear(w['layer.weight_hh_l0'], w['layer.bias_hh_l0'], state.subarray(0, n));
    for (let i = 0; i < n; i++) {
      const [input, forget, cell, output] = [0, 1, 2, 3].map(k => a[k * n + i] + b[k * n + i]);
      const c = sigmoid(forget) * state[n + i] + sigmoid(input) * Math.tanh(cell);
      after[i] = sigmoid(output) * Math.tanh(c);
      after[n + i] = c;
    }
    return [after.subarray(0, n), after];
  },
  Elman(w, x, h) {
    const a = linear(w['layer.weight_ih_l0'], w['layer.bias_ih_l0'], x), b = linear(w['layer.weight_hh_l0'], w['layer.bias_hh_l0'], h);
    const y = a.map((v, i) => Math.tanh(v + b[i]));
    return [y, y];
  },
  IndRNN(w, x, state, { max_steps }) {  // two layers of units that read the input and only their own previous output
    const n = state.length / 2, limit = 2 ** (1 / max_steps), after = new Float64Array(2 * n);
    for (const layer of [0, 1]) {
      const a = linear(w[`layers.${layer}.weight`], w[`layers.${layer}.bias`], x);
      x = a.map((v, i) => Math.max(0, v + Math.max(-limit, Math.min(limit, w.recurrent[layer * n + i])) * state[layer * n + i]));
      after.set(x, layer * n);
    }
    return [x, after];
  },
  MLP(w, x, state) {
    const hidden = leaky(linear(w['layers.0.weight'], w['layers.0.bias'], x));
    return [leaky(linear(w['layers.2.weight'], w['layers.2.bias'], hidden)), state];
  },
};

/** The actor-critic without its critic. */
class Network {
  constructor({ memory, config, weights, scale, n_codes, reads }) {
    Object.assign(this, { step_memory: MEMORIES[memory], config, scale, n_codes, reads, own: {}, w: {} });
    for (const [name, text] of Object.entries(weights)) {
      if (name.startsWith('memory.')) this.own[name.slice(7)] = float32(text); else this.w[name] = float32(text);
    }
  }

  /** Read one flat observation: { logits, memory }. */
  step(observation, memory) {
    const { w, scale } = this;
    let x = this.reads.map(column => observation[column]);
    if (scale) x = x.map((v, i) => Math.max(-10, Math.min(10, (v - scale.mean[i]) / scale.std[i])));
    x = leaky(linear(w['inward.2.weight'], w['inward.2.bias'], layerNorm(linear(w['inward.0.weight'], w['inward.0.bias'], x))));
    let [y, after] = this.step_memory(this.own, x, memory, this.config);
    for (let k = 0; `policy.${k}.weight` in w; k += 2) y = linear(w[`policy.${k}.weight`], w[`policy.${k}.bias`], k ? leaky(y) : y);
    return { logits: y, memory: Float32Array.from(after) };
  }
}

// ---- probes

/** The component of a change along a direction. */
function along(direction, change) {
  const share = dot(direction, change) / (dot(direction, direction) || 1);
  return direction.map(v => v * share);
}
const minus = (x, y) => Float64Array.from(x, (v, i) => v - y[i]);
const times = (x, y) => x.map((v, i) => v * y[i]);

/** What is read of a factor from a memory, and the steps towards other values; see Reading and Directions in Python. */
class Probe {
  constructor(reading, values) {
    const n = values.length, matrix = (text, rows) => rowsOf(float32(text), rows);
    Object.assign(this, reading, { values, mean: float32(reading.mean), std: float32(reading.std), weights: matrix(reading.weights, reading.is_number ? 1 : n) });
    this.basis = reading.n_basis ? matrix(reading.basis, reading.n_basis) : [];
    this.donors = reading.n_basis ? matrix(reading.donors, n).map(row => rowsOf(row, row.length / reading.n_basis)) : [];
    if (reading.is_number) this.slope = float32(reading.slope);
    else Object.assign(this, { means: matrix(reading.means, n), lda: matrix(reading.lda, n) });
  }

  /** The probe's outputs: of a number its prediction, else a score of each value. */
  outputs(memory) {
    const x = minus(memory, this.mean).map((v, i) => v / this.std[i]);
    return this.weights.map((row, k) => dot(x, row) + this.bias[k]);
  }

  probabilities(memory) {
    const outputs = this.outputs(memory);
    return softmax(this.is_number ? this.values.map(v => -.5 * ((v - outputs[0]) / this.spread) ** 2) : outputs);
  }

  /** The mean memory of a value; of a number, a line. */
  meanOf(value, place) {
    return this.is_number ? Float64Array.from(this.slope, (v, i) => this.mean[i] + (value - this.centre) * v) : this.means[place];
  }

  /** What an edit adds to a memory; see Reading.step. */
  step(kind, memory, place, seed) {
    const value = this.values[place], outputs = this.outputs(memory), own = this.is_number ? -1 : argmax(outputs);
    const target = this.meanOf(value, place), towards = () => this.is_number ? Float64Array.from(this.weights[0]) : minus(this.weights[place], this.weights[own]);
    const between = minus(target, this.meanOf(outputs[0], own));
    switch (kind) {
      case 'class means': return between;
      case 'raw probe': return along(towards().map((v, i) => v / this.std[i]), minus(target, memory));
      case 'standardised probe': return times(along(towards(), minus(target, memory).map((v, i) => v / this.std[i])), this.std);
      case 'LDA': return along(minus(this.lda[place], this.lda[own]), minus(target, memory));
      case 'subspace swap': {
        const donor = this.donors[place][seed % this.donors[place].length], change = this.basis.map((row, k) => donor[k] - dot(row, memory));
        return Float64Array.from(memory, (_, i) => this.basis.reduce((sum, row, k) => sum + row[i] * change[k], 0));
      }
      case 'random': {
        const noise = gaussian(memory.length, seed), size = Math.sqrt(dot(between, between) / dot(noise, noise));
        return noise.map(v => v * size);
      }
    }
    throw Error(`unknown kind of edit ${kind}`);
  }
}

/** Normal numbers of a seed, by Mulberry32 and Box and Muller. */
function gaussian(n, seed) {
  let state = seed + 1;
  const uniform = () => {
    state = state + 0x6D2B79F5 | 0;
    let x = Math.imul(state ^ state >>> 15, 1 | state);
    x = x + Math.imul(x ^ x >>> 7, 61 | x) ^ x;
    return ((x ^ x >>> 14) >>> 0) / 4294967296;
  };
  return Float64Array.from({ length: n }, () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform()));
}

// ---- rules: what a task does, as srlviz.envs.pomdp has it. A state is never changed: a step returns the next one.

const oneHot = (n, i) => Array.from({ length: n }, (_, k) => +(k === i));
const columnOf = factor => +factor.split('_').at(-1);

/** What every agent reads: the observation and the previous action, one-hot, and two marks of the first row. */
const flatObservation = (rules, s) => [...oneHot(rules.nObs, s.obs), ...rules.actionSizes.flatMap((n, j) => oneHot(n, s.action[j])), +(s.t > 0), +(s.t === 0)];

/** The probability of each value if the number is known; see `_posterior` in Python. */
const knownNumber = (x, values) => softmax(values.map(v => -((v - x) ** 2) / 1e-6));
const knownValue = (x, values) => values.map(v => +(v === x));

/** Swap positions of a list, in a copy. */
function swapped(list, pairs) {
  const copy = [...list];
  for (const [a, b] of pairs) [copy[a], copy[b]] = [copy[b], copy[a]];
  return copy;
}

/** The tasks whose answer is the suit of an earlier card; the hidden state is the deck. */
class Cards {
  constructor({ decks, k }) {
    Object.assign(this, { k, suit: 13 * decks, nObs: 4, actionSizes: [4], maxSteps: 52 * decks - 1 });
  }

  start(deck) { return { t: 0, hidden: deck, obs: deck[0], action: [0], reward: 0, ended: '' }; }

  step({ t, hidden: deck }, action) {
    t++;
    return { t, hidden: deck, obs: deck[t], action, reward: this.reward(deck, t, action[0]), ended: t === deck.length - 1 ? 'terminated' : '' };
  }

  saw(s) { return '♠♦♣♥'[s.obs]; }

  /** A factor after the cards 0 to t, which is all that is needed: they are the truth, and they were seen. */
  after(cards, t, factor) {
    if (factor === 'answer') return this.answer(cards, t);
    const column = columnOf(factor);
    if (factor.startsWith('ago_')) return t >= column ? cards[t - column] : -1;
    return this.suit - cards.slice(0, t + 1).filter(card => card === column).length;
  }

  value(s, factor) { return this.after(s.hidden, s.t, factor); }

  posterior(states, factor, values) {
    const seen = states.map(s => s.obs), known = factor.startsWith('remaining_') ? knownNumber : knownValue;
    return seen.map((_, t) => known(this.after(seen, t, factor), values));
  }

  /** A deck in which a card, or the number of cards left, has another value in row t; the same if there is none. */
  withValue(deck, factor, value, t) {
    const position = this.positionOf(factor, t);
    if (position !== undefined) {
      const other = deck.lastIndexOf(value);
      return position < 0 || deck[position] === value || other <= t ? deck : swapped(deck, [[position, other]]);
    }
    const suit = columnOf(factor), [first, until] = this.early(t), cards = range(deck.length);
    const more = value - cards.filter(i => i > t && deck[i] === suit).length, n = Math.abs(more);
    const here = cards.filter(i => i >= first && i < until && (deck[i] === suit) === more > 0);
    const there = cards.filter(i => i > t && (deck[i] === suit) !== more > 0);
    if (!Number.isInteger(n) || !n || here.length < n || there.length < n) return deck;
    return swapped(deck, here.slice(-n).map((a, i) => [a, there.slice(-n)[i]]));
  }

  sameHidden() { return true; }
}

class RepeatPrevious extends Cards {
  reward(deck, t, action) { return t < this.k ? 0 : (action === deck[t - this.k] ? 1 : -1) / (deck.length - this.k); }
  answer(cards, t) { return this.after(cards, t, `ago_${this.k - 1}`); }
  isSettable(factor) { return factor !== 'answer'; }
  positionOf(factor, t) { return factor.startsWith('ago_') ? t - columnOf(factor) : undefined; }
  early(t) { return [0, t + 1 - this.k]; }

  /** The row of the action that a factor decides, or -1. */
  due(s, factor) {
    const ago = factor === 'answer' ? this.k - 1 : factor.startsWith('ago_') ? columnOf(factor) : Infinity, row = s.t + this.k - 1 - ago;
    return s.t >= ago && row < this.maxSteps ? row : -1;
  }
}

class RepeatFirst extends Cards {
  reward(deck, t, action) { return (action === deck[0] ? 1 : -1) / (deck.length - 1); }
  answer(cards) { return cards[0]; }
  isSettable() { return true; }
  positionOf(factor) { return factor === 'answer' ? 0 : undefined; }
  early(t) { return [1, t]; }
  due(s, factor) { return factor === 'answer' && s.ended !== 'terminated' ? s.t : -1; }
}

/** The hidden state is the board, row by row: 0 clear, 1 mine, 2 open. */
class MineSweeper {
  constructor({ size, mines }) {
    Object.assign(this, { size, mines, clear: size ** 2 - mines, nObs: Math.min(mines, 9) + 1, actionSizes: [size, size], maxSteps: size ** 2 - mines, memo: new Map() });
    const place = i => [Math.floor(i / size), i % size];
    this.near = range(size ** 2).map(a => range(size ** 2).map(b => Math.max(...place(a).map((x, k) => Math.abs(x - place(b)[k]))) <= 1));
  }

  tile([row, column]) { return row * this.size + column; }

  start(board) {
    const around = this.near.map(near => near.filter((is, i) => is && board[i] === 1).length);
    return { t: 0, hidden: board, around, left: this.clear, obs: 0, action: [0, 0], reward: 0, ended: '' };
  }

  step({ t, hidden, around, left }, action) {
    const tile = this.tile(action), was = hidden[tile];
    let reward = -.5 / (this.clear - 2);
    if (was === 1) reward = -.5 - 1 / this.clear;
    if (was === 0) {
      reward = 1 / this.clear;
      hidden = hidden.with(tile, 2);
      left--;
    }
    const ended = was === 1 || left === 0 ? 'terminated' : t + 1 === this.clear ? 'truncated' : '';
    return { t: t + 1, hidden, around, left, obs: around[tile], action, reward, ended };
  }

  saw(s) { return String(s.obs); }

  value(s, factor) {
    if (factor === 'left') return s.left;
    return +(s.hidden[columnOf(factor)] === (factor.startsWith('mines_') ? 1 : 2));
  }

  posterior(states, factor, values) {
    if (factor === 'left') return states.map(s => knownNumber(s.left, values));
    if (factor.startsWith('opened_')) return states.map(s => knownValue(this.value(s, factor), values));
    const opened = [];  // pairs of a tile and the number of mines on and around it
    return states.map(s => {
      const tile = this.tile(s.action);
      if (s.t && !opened.some(([other]) => other === tile)) opened.push([tile, s.obs]);
      const key = opened.join(';');
      if (!this.memo.has(key)) this.memo.set(key, this.probabilities(opened));
      const p = this.memo.get(key)[columnOf(factor)];
      return values.map(v => v === 1 ? p : v === 0 ? 1 - p : 0);
    });
  }

  /** The probability of a mine on each tile, if all boards with these sums are equally likely; see `mine_probabilities`. */
  probabilities(opened) {
    const sums = [this.near.map(() => true), ...opened.map(([tile]) => this.near[tile])], counts = [this.mines, ...opened.map(([, n]) => n)];
    const isOpen = new Set(opened.map(([tile]) => tile)), groups = new Map();  // tiles that belong to the same sums
    for (const tile of range(this.size ** 2).filter(i => !isOpen.has(i))) {
      const key = sums.map(sum => +sum[tile]).join('');
      groups.set(key, [...groups.get(key) ?? [], tile]);
    }
    const list = [...groups].map(([key, tiles]) => ({ member: [...key].map(Number), tiles, moves: [] }));
    let states = [{ lacks: counts, ways: 1, rest: 0 }];
    list.forEach((group, g) => {
      const room = counts.map((_, i) => list.slice(g + 1).reduce((sum, later) => sum + later.member[i] * later.tiles.length, 0)), after = new Map();
      for (const from of states) {
        for (let x = 0, choices = 1; x <= group.tiles.length; choices *= (group.tiles.length - x) / (x + 1), x++) {
          const lacks = from.lacks.map((n, i) => n - x * group.member[i]), key = lacks.join();
          if (lacks.some((n, i) => n < 0 || n > room[i])) continue;
          if (!after.has(key)) after.set(key, { lacks, ways: 0, rest: 0 });
          const to = after.get(key);
          to.ways += from.ways * choices;
          group.moves.push({ from, to, x, choices });
        }
      }
      states = [...after.values()];
    });
    for (const state of states) state.rest = 1;
    const found = this.near.map(() => 0);
    for (const { moves, tiles } of list.reverse()) {
      let boards = 0, mines = 0;
      for (const { from, to, x, choices } of moves) {
        const n = choices * to.rest;
        from.rest += n;
        boards += from.ways * n;
        mines += from.ways * n * x;
      }
      for (const tile of tiles) found[tile] = mines / boards / tiles.length;
    }
    return found;
  }

  isSettable(factor) { return factor.startsWith('mines_'); }

  /** A mine moves between a tile and one that was not opened, with as few opened neighbours as possible. */
  withValue(board, factor, value, t, actions) {
    const tile = columnOf(factor), tried = new Set(actions.slice(0, t).map(action => this.tile(action)));
    const free = range(board.length).filter(i => board[i] !== board[tile] && !tried.has(i)), opened = i => [...tried].filter(j => this.near[j][i]).length;
    if (!free.length || value === board[tile] || ![0, 1].includes(value) || value === 1 && tried.has(tile)) return board;
    return swapped(board, [[tile, free.reduce((best, i) => opened(i) < opened(best) ? i : best)]]);
  }

  due() { return -1; }
  sameHidden(a, b) { return String(a.hidden) === String(b.hidden); }
}

const RULES = { RepeatPrevious, RepeatFirst, MineSweeper };

// ---- play

/** An agent that plays by the rules, with a memory that can be edited; see EditedPlay in Python. */
class Mind {
  constructor(agent, data, rules) {
    Object.assign(this, { name: agent.name, agent, data, rules, network: new Network(agent), probes: {}, played: new Map(), lines: new Map() });
  }

  probe(factor) {
    const reading = this.agent.readings[factor];
    if (!reading.weights) return null;
    return this.probes[factor] ??= new Probe(reading, this.data.factors.find(f => f.name === factor).values);
  }

  /** The greedy action of each column. */
  chosen(logits) {
    let start = 0;
    return this.rules.actionSizes.map(n => argmax(logits.subarray(start, start += n)));
  }

  /** The number of an action, and the probability of each. */
  number(action) { return action.reduce((number, a, i) => number * this.rules.actionSizes[i] + a, 0); }

  policy(logits) {
    let start = 0, found = [1];
    for (const n of this.rules.actionSizes) {
      const part = softmax(logits.subarray(start, start += n));
      found = found.flatMap(p => part.map(q => p * q));
    }
    return found;
  }

  /** Play an episode: { rows: [{ state, memory, logits, action }], end }; `seed` names it. */
  play(seed) {
    if (!this.played.has(seed)) {
      const start = this.rules.start(this.data.episodes.find(episode => episode.seed === seed).hidden);
      this.played.set(seed, this.run([], start, new Float32Array(this.network.n_codes), []));
    }
    return this.played.get(seed);
  }

  /** Play an episode again with edits; up to the first of them it is the same. */
  playOn(original, changes) {
    const first = Math.min(...changes.map(change => change.t)), rows = original.rows.slice(0, first);
    return this.run(rows, original.rows[first].state, first ? rows[first - 1].memory : new Float32Array(this.network.n_codes), changes, original);
  }

  run(rows, state, memory, changes, original) {
    rows = [...rows];
    while (!state.ended) {
      const read = this.network.step(flatObservation(this.rules, state), memory), action = this.chosen(read.logits);
      memory = read.memory;
      for (const change of changes.filter(c => c.t === state.t)) {
        const step = this.step(original, change, memory);
        memory = Float64Array.from(memory, (v, i) => v + change.length * step[i]);
      }
      memory = Float32Array.from(memory);
      rows.push({ state, before: read.memory, memory, logits: read.logits, action });
      state = this.rules.step(state, action);
    }
    return { rows, end: state };
  }

  step(original, change, memory) {
    if (change.kind === 'twin') return minus(change.twin ??= this.twin(original, change), memory);
    return this.probe(change.factor).step(change.kind, memory, change.place, change.t);
  }

  /** The memory after row t of another history, in which the factor has the value. */
  twin({ rows }, { t, factor, place }) {
    const { rules } = this, probe = this.probe(factor), row = t + probe.leads, value = probe.values[place], actions = rows.map(r => r.action), { hidden } = rows[0].state;
    if (!rules.isSettable(factor)) throw Error(`the task cannot set ${factor}, so there is no twin`);
    const other = rules.withValue(hidden, factor, value, row, actions);
    let there = rules.start(other);
    for (let k = 0; k < row && !there.ended; k++) there = rules.step(there, actions[k]);
    if (there.ended || rules.value(there, factor) !== value) throw Error(`no history has ${factor} = ${+value.toFixed(2)} at step ${row} with the same actions`);
    const replay = given => {
      let state = rules.start(other), memory = new Float32Array(this.network.n_codes);
      for (let k = 0; ; k++) {
        const read = this.network.step(flatObservation(rules, state), memory);
        memory = read.memory;
        if (k === t) return { state, memory };
        state = rules.step(state, given ? actions[k] : this.chosen(read.logits));
        if (state.ended) return null;
      }
    };
    const kept = replay(true), own = replay(false);  // the agent acts itself where that leads to the same hidden state
    return own && rules.sameHidden(own.state, kept.state) ? own.memory : kept.memory;
  }

  /** Raise an error for what cannot be done. */
  check(seed, change) {
    const original = this.play(seed), probe = this.probe(change.factor), last = original.rows.length - 2;
    if (!probe) throw Error(this.agent.readings[change.factor].cannot);
    if (!probe.readable) throw Error(this.agent.readings[change.factor].cannot);
    if (last < 0) throw Error(`no edit: ${ONE_STEP}`);
    if (change.t === -1 && this.leads(change.factor)) throw Error('no edit at step 0: what decides its action is not remembered yet');
    if (change.t < 0 || change.t > last) throw Error(`no edit after step ${change.t}: the steps with a later action are 0 to ${last}`);
    const why = this.agent.readings[change.factor].off[change.kind];
    if (why) throw Error(`${why}: choose another direction`);
    if (change.kind === 'twin') change.twin = this.twin(original, change);
  }

  /** One line of a scene. */
  timeline({ rows, end }, factor) {
    const { rules } = this, { values, is_number } = this.data.factors.find(f => f.name === factor), probe = this.probe(factor), states = rows.map(row => row.state);
    const nearest = x => argmax(values.map(v => -Math.abs(v - x)));
    const place = x => x < 0 || !is_number && !values.includes(x) ? -1 : nearest(x);
    const read = row => row ? probe.probabilities(row.memory) : null, rewards = [...states.slice(1), end].map(s => s.reward);
    return {
      saw: states.map(s => rules.saw(s)),
      truth: states.map(s => place(rules.value(s, factor))),
      posterior: rules.posterior(states, factor, values),
      belief: probe && rows.map((row, t) => read(probe.leads ? rows[t - 1] : row)),
      policy: rows.map(row => this.policy(row.logits)),
      chosen: rows.map(row => this.number(row.action)),
      right: rewards.map(Math.sign),
      total: rewards.reduce((sum, r) => sum + r, 0),
      ended: end.ended,
    };
  }

  leads(factor) { return this.agent.readings[factor].leads; }

  /** What a scene has of this agent. */
  panel(seed, factor, changes) {
    const original = this.play(seed), key = `${seed},${factor}`;
    if (!this.lines.has(key)) this.lines.set(key, this.timeline(original, factor));
    const before = this.lines.get(key);
    if (!changes.length) return { original: before, edited: null, sentence: '', control: '' };
    const edited = this.playOn(original, changes), after = this.timeline(edited, factor);
    return { original: before, edited: after, sentence: this.sentence(original, edited, before, after, changes), control: this.control(original, changes) };
  }

  /** How many later actions random pushes change that are as long as the edits; see `control_sentence` in Python. */
  control(original, changes) {
    if (changes.every(c => c.kind === 'random')) return '';
    const size = step => Math.sqrt(dot(step, step));
    const pushes = changes.map(change => {
      const memory = original.rows[change.t].before, push = { ...change, kind: 'random', length: 1 }, unit = size(this.step(original, push, memory));
      return { ...push, length: unit ? change.length * size(this.step(original, change, memory)) / unit : 0 };
    });
    const numbers = ({ rows }) => rows.map(row => this.number(row.action)), before = numbers(original), after = numbers(this.playOn(original, pushes));
    const later = range(Math.min(before.length, after.length)).slice(Math.min(...changes.map(c => c.t)) + 1), n = later.filter(t => before[t] !== after[t]).length;
    return `${changes.length === 1 ? 'A random push as long changes' : 'Random pushes as long change'} ${n} of ${later.length}.`;
  }

  editWords({ t, factor, place, kind, length }) {
    const { label, signs } = this.data.factors.find(f => f.name === factor), how = length === 1 ? '' : `, length ${length}`;
    return `${label} is ${signs[place]} at step ${t + this.leads(factor)} (${kind}${how})`;
  }

  /** What the edits did; see `edit_sentence` in Python. */
  sentence(original, edited, before, after, changes) {
    const signs = this.data.action_signs, first = Math.min(...changes.map(c => c.t)), rows = [before.chosen.length, after.chosen.length], n = Math.min(...rows);
    const later = range(n).slice(first + 1), changed = later.filter(t => before.chosen[t] !== after.chosen[t]);
    let words = `${changed.length} of ${later.length} later actions changed`;
    if (changed.length) words += ` (${changed.slice(0, 3).map(t => `step ${t}: ${signs[before.chosen[t]]} → ${signs[after.chosen[t]]}`).join('; ')}${changed.length > 3 ? '; …' : ''})`;
    if (rows[0] !== rows[1]) words += `, and the episode ends after ${rows[1]} steps instead of ${rows[0]}`;
    const same = changes.filter(({ t }) => t < rows[1]).map(({ t, factor, place }) => {
      const where = changes.length > 1 ? ` at step ${t + this.leads(factor)}` : '';
      if (argmax(this.probe(factor).probabilities(edited.rows[t].before)) === place) return `It said so before${where}.`;
      const after = this.probe(factor).probabilities(edited.rows[t].memory), best = argmax(after);
      return `Its probe now reads ${this.data.factors.find(f => f.name === factor).signs[best]} (${Math.round(100 * after[best])}%)${where}.`;
    });
    const due = changes.map(change => {
      const row = change.t + this.leads(change.factor), t = this.rules.due(original.rows[row].state, change.factor);
      if (t <= change.t || t >= rows[1]) return '';
      const answer = this.probe(change.factor).values[change.place], played = after.chosen[t];
      return `This value decides the action at step ${t}: ${played === answer ? `it is ${signs[answer]}, as the memory says${before.chosen[t] === played ? ', and was before' : ''}` : `it should now be ${signs[answer]}, and is ${signs[played]}`}.`;
    });
    return [`Edit: ${changes.map(change => this.editWords(change)).join(' and ')}. ${words}.`, ...same, ...due].filter(Boolean).join(' ');
  }
}

const ONE_STEP = 'the episode ends with its first action, so that no later one can change; choose another episode';

/** An agent whose memory or task the page does not compute: every edit of one episode and one factor, as Python saw it. */
class RecordedMind {
  constructor(agent, data) {
    Object.assign(this, { name: agent.name, agent, data, recorded: agent.recorded });
  }

  leads() { return this.recorded.leads; }

  check(seed, change) {
    const { recorded } = this;
    if (recorded.cannot) throw Error(recorded.cannot);
    if (change.kind !== recorded.kind || change.length !== 1) throw Error(`this page has recorded edits only of ${this.name}: by ${recorded.kind}, of length 1`);
    if (!(`${change.t},${change.place}` in recorded.edits)) throw Error(`this page has no recorded edit of ${this.name} in this row`);
  }

  /** Probabilities in steps of 1/255, n in a row; the rows of a line are those of the original up to its `first`. */
  line(stored, original) {
    const bytes = (text, n) => text === null ? null : range(decoded(text).length / n).map(t => Array.from(decoded(text).subarray(t * n, t * n + n), v => v / 255));
    const before = key => original && original[key] ? original[key].slice(0, stored.first) : [], joined = (key, n) => stored[key] === null ? null : [...before(key), ...bytes(stored[key], n)];
    const belief = joined('belief', this.data.factors.find(f => f.name === this.recorded.factor).values.length);
    if (belief && this.recorded.leads) belief[0] = null;
    const line = { policy: joined('policy', this.data.actions.length), belief };
    for (const key of ['saw', 'truth', 'chosen', 'right']) line[key] = [...before(key), ...stored[key]];
    return { ...line, total: stored.total, posterior: stored.posterior ?? (original && line.saw.join() === original.saw.join() ? original.posterior : null) };
  }

  panel(seed, factor, changes) {
    const original = this.original ??= this.line(this.recorded.original), last = changes.at(-1), stored = last && this.recorded.edits[`${last.t},${last.place}`];
    return { original, edited: stored ? this.line(stored, original) : null, sentence: stored?.sentence ?? '' };
  }

  editWords() { return ''; }
}

const NO_EDIT = 'No edit is left: the agent plays as it did.';
const ONLY_RECORDED = {  // what the page does not compute
  task: 'this page does not have the rules of the task', memory: 'this page does not compute this kind of memory', network: 'this page does not compute this kind of network',
};

/** The page's host: what is chosen, and the scene of it; see BeliefMicroscope in Python. */
class Engine {
  constructor(data) {
    const rules = data.rules ? new RULES[data.rules](data.parameters) : null;
    Object.assign(this, { data, minds: data.agents.map(agent => agent.recorded ? new RecordedMind(agent, data) : new Mind(agent, data, rules)) });
    Object.assign(this, { agent: this.minds[0].name, second: data.second, kind: 'class means', length: 1, t: data.t, changes: [], gone: '' });
    const isLong = ({ seed }) => this.minds[0].recorded || this.minds[0].play(seed).rows.length > data.t + 1;
    this.seed = (data.episodes.find(isLong) ?? data.episodes[0]).seed;
    this.factor = data.factor || (this.entries().find(f => f.readable)?.name ?? this.entries()[0].name);
  }

  get shown() { return [this.agent, ...this.second ? [this.second] : []]; }
  mind(name) { return this.minds.find(mind => mind.name === name); }
  changesOf(name) { return this.changes.filter(change => change.agent === name); }
  /** What is recorded of the shown agents, if they do not all play in the page. */
  recorded() { return this.shown.map(name => this.mind(name).recorded).find(Boolean); }

  /** The factors that can be chosen. */
  entries() {
    const recorded = this.recorded();
    return this.data.factors.filter(f => !recorded || f.name === recorded.factor).map(({ name, label }) => {
      return { name, label, readable: this.mind(this.agent).agent.readings[name].readable };
    });
  }

  scene() {
    const { data, factor } = this, recorded = this.recorded();
    if (recorded) {
      if (this.seed !== recorded.seed && this.changes.length) Object.assign(this, { changes: [], gone: `The edits of episode ${this.seed} are removed.` });
      Object.assign(this, { seed: recorded.seed, factor: recorded.factor, kind: recorded.kind, length: 1 });
    }
    const chosen = data.factors.find(f => f.name === this.factor), names = this.shown.filter(name => this.mind(name).recorded).join(' and ');
    const panels = this.shown.map(name => {
      const mind = this.mind(name), changes = this.changesOf(name).sort((a, b) => a.t - b.t), parts = mind.panel(this.seed, this.factor, changes);
      const cannot = mind.agent.readings[this.factor].cannot || (parts.original.saw.length < 2 ? ONE_STEP : '');
      const edits = changes.filter(c => c.factor === this.factor).map(c => ({ t: c.t + mind.leads(c.factor), value: c.place, kind: c.kind, words: mind.editWords(c) }));
      return { name, ...parts, edits, cannot: cannot ? `Nothing to press: ${cannot}.` : '' };
    });
    this.t = Math.max(0, Math.min(this.t, panels[0].original.saw.length - 1));
    return {
      title: data.title.replace('{episode}', this.seed), task: data.task, episode: this.seed, factors: this.entries(), factor: this.factor,
      agents: this.minds.map(mind => mind.name), agent: this.agent, second: this.second, kinds: recorded ? [recorded.kind] : Object.keys(data.kinds), kind: this.kind, length: this.length, off: this.off(), gone: this.gone, t: this.t,
      values: chosen.labels, signs: chosen.signs, actions: data.actions, action_signs: data.action_signs, panels,
      words: `${this.mind(this.agent).agent.readings[this.factor].words} Direction ${this.kind}: ${data.kinds[this.kind]}.`,
      note: recorded ? `${data.note} Recorded edits only of ${names}, one at a time: ${ONLY_RECORDED[recorded.why]}.` : data.note,
    };
  }

  /** What cannot be used now, and why. */
  off() {
    const recorded = this.recorded();
    if (!recorded) return this.mind(this.agent).agent.readings[this.factor].off;
    const why = `this page has recorded edits only: of episode ${recorded.seed}, by ${recorded.kind}, of length 1`;
    return { twin: why, episode: why, length: why };
  }

  /** Let the memory of a panel's agent say a value in the row t; an error says what cannot be done. */
  press(panel, t, place, kind = '') {
    const agent = this.shown[panel], mind = this.mind(agent), { factor, length } = this;
    const change = { agent, t: t - mind.leads(factor), factor, place, kind: kind || this.kind, length };
    mind.check(this.seed, change);
    const others = this.changes.filter(c => c.agent !== agent || !mind.recorded && (c.t !== change.t || c.factor !== factor));
    Object.assign(this, { changes: [...others, change], t, gone: '' });
    return this.scene();
  }

  undo() {
    this.changes = this.changes.slice(0, -1);
    this.gone = this.changes.length ? '' : NO_EDIT;
    return this.scene();
  }

  reset() {
    Object.assign(this, { changes: [], gone: NO_EDIT });
    return this.scene();
  }

  /** Make the last edit another one; what cannot be done leaves it as it was. */
  changeLast(other) {
    const last = this.changes.at(-1);
    if (!last || this.mind(last.agent).recorded) return;
    const before = this.changes;
    this.changes = [...before.slice(0, -1), { ...last, ...other }];
    try { this.scene(); } catch (problem) { this.changes = before; throw problem; }
  }

  set(name, value) {
    const { episodes, agents } = this.data;
    if (name === 't') { this.t = +value; return this.scene(); }
    this.gone = '';
    if (name === 'episode') {
      if (this.changes.length) this.gone = `The edits of episode ${this.seed} are removed.`;
      const seeds = episodes.map(episode => episode.seed), n = seeds.length;
      this.seed = seeds.includes(+value) ? +value : seeds[((value - seeds[0]) % n + n) % n];
      this.changes = [];
    } else if (name === 'length') {
      this.length = +value;
      this.changeLast({ length: this.length });
    } else {
      const known = { factor: this.entries().map(f => f.name), kind: Object.keys(this.data.kinds), agent: agents.map(a => a.name), second: ['', ...agents.map(a => a.name)] }[name];
      if (!known?.includes(value)) throw Error(`unknown ${name} ${value}`);
      const before = this[name];
      this[name] = value;
      if (name === 'kind') this.changeLast({ kind: value });
      if (name === 'second') {
        const left = this.changes.filter(change => this.shown.includes(change.agent));
        if (left.length < this.changes.length) this.gone = `The edits of ${before} are removed.`;
        this.changes = left;
      }
      if (name === 'agent') {
        if (this.changes.length) this.gone = `The edits of ${before} are removed.`;
        this.changes = [];
        if (this.second === value) this.second = before;
      }
    }
    return this.scene();
  }
}

/** Open the page: the scenes of its data, and in the last line what cannot be done. */
function openMind() {
  const isLight = matchMedia('(prefers-color-scheme: light)'), line = document.querySelector('[role=alert]');
  const engine = new Engine(JSON.parse(document.getElementById('data').textContent));
  const answer = act => {
    try {
      view.draw(act());
      line.textContent = '';
    } catch (problem) { line.textContent = problem.message; }
  };
  const view = microscope(document.getElementById('mind'), {
    press: (...given) => answer(() => engine.press(...given)),
    undo: () => answer(() => engine.undo()),
    reset: () => answer(() => engine.reset()),
    set: (name, value) => name === 't' ? engine.t = value : answer(() => engine.set(name, value)),  // the view draws its cursor
  });
  const showTheme = () => {
    document.body.dataset.jpThemeLight = String(isLight.matches);
    view.paint();
  };
  view.draw(engine.scene());
  isLight.addEventListener('change', showTheme);
  showTheme();
  return Object.assign(engine, { view });
}
