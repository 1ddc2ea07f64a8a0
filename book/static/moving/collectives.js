/* A collective, step by step: every chunk's way, what each rank has sent, the time by alpha and beta.

   The steps are those of bookext.moving_twins.collectives, the numbers too. */
"use strict";

(() => {
  const {add, text, group, size, wide, rank, on} = Moving;
  const TALL = 144;  // of a tensor, however it is cut
  const POWERS = [10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30];
  const COMPARED = {reduce_scatter: ["reduce_scatter", "all_gather", "ring"]};
  COMPARED.all_gather = COMPARED.reduce_scatter;

  // ---- the steps: messages [{source, target, first, count, adds}] of each

  function around(n, ahead, adds) {
    return upTo(n - 1, (step) => upTo(n, (source) => (
      {source, target: (source + 1) % n, first: (source + ahead - step + n) % n, count: 1, adds})));
  }

  function byRank0(n) {
    const others = upTo(n - 1, (i) => i + 1);
    return [...others.map((r) => [{source: r, target: 0, first: 0, count: 1, adds: true}]),
      ...others.map((r) => [{source: 0, target: r, first: 0, count: 1, adds: false}])];
  }

  function tree(n) {
    const up = [], down = [];
    for (let d = 1; d < n; d *= 2) {
      const pairs = upTo(n, (r) => r).filter((r) => r % (2 * d) === d);
      up.push(pairs.map((r) => ({source: r, target: r - d, first: 0, count: 1, adds: true})));
      down.unshift(pairs.map((r) => ({source: r - d, target: r, first: 0, count: 1, adds: false})));
    }
    return [...up, ...down];
  }

  function halvingDoubling(n, power) {
    const steps = [], exchange = (d, first, adds) => steps.push(
      first.map((at, r) => ({source: r, target: r ^ d, first: at, count: d, adds})));
    let first = upTo(power, () => 0);
    for (let d = power / 2; d >= 1; d /= 2) {
      const kept = first.map((at, r) => at + (r & d ? d : 0));
      exchange(d, kept.map((_, r) => kept[r ^ d]), true);
      first = kept;
    }
    for (let d = 1; d < power; d *= 2) {
      exchange(d, first, false);
      first = first.map((at, r) => Math.min(at, first[r ^ d]));
    }
    if (power === n) return steps;
    const surplus = upTo(n - power, (i) => i + power);
    return [surplus.map((r) => ({source: r, target: r - power, first: 0, count: power, adds: true})), ...steps,
      surplus.map((r) => ({source: r - power, target: r, first: 0, count: power, adds: false}))];
  }

  function collective(way, n) {
    const power = 2 ** Math.floor(Math.log2(n));
    if (way === "rank0") return {way, n, chunks: 1, steps: byRank0(n)};
    if (way === "tree") return {way, n, chunks: 1, steps: tree(n)};
    if (way === "halving") return {way, n, chunks: power, steps: halvingDoubling(n, power)};
    if (way === "reduce_scatter") return {way, n, chunks: n, steps: around(n, -1, true)};
    if (way === "all_gather") return {way, n, chunks: n, steps: around(n, 0, false)};
    return {way, n, chunks: n, steps: [...around(n, 0, true), ...around(n, 1, false)]};
  }

  function upTo(n, make) {
    return Array.from({length: n}, (_, i) => make(i));
  }

  /* For each rank and chunk the ranks in the sum, as bits: before the first step, after the first, ... */
  function heldAfterEach({way, n, chunks, steps}) {
    const states = [upTo(n, (r) => upTo(chunks, (c) => c === r || way !== "all_gather" ? 1 << r : 0))];
    for (const messages of steps) {
      const before = states[states.length - 1], after = before.map((row) => [...row]);
      for (const m of messages) {
        for (let c = m.first; c < m.first + m.count; c++) {
          after[m.target][c] = before[m.source][c] | (m.adds ? after[m.target][c] : 0);
        }
      }
      states.push(after);
    }
    return states;
  }

  function sent({steps, chunks}, r, done) {
    let count = 0;
    for (const m of steps.slice(0, done).flat()) if (m.source === r) count += m.count;
    return count / chunks;
  }

  function inARow({steps}, done) {
    return steps.slice(0, done).reduce((sum, step) => sum + Math.max(...step.map((m) => m.count)), 0);
  }

  function seconds(found, done, {nbytes, alpha, beta}) {
    return done * alpha + inARow(found, done) / found.chunks * nbytes * beta;
  }

  // ---- numbers as they are written

  /* Three digits, no zeros at the end. */
  function short(x) {
    const written = x.toFixed(x < 10 ? 2 : x < 100 ? 1 : 0);
    return written.includes(".") ? written.replace(/\.?0+$/, "") : written;
  }

  function unit(nbytes) {
    return nbytes >= 2 ** 30 ? ["GiB", 2 ** 30] : nbytes >= 2 ** 20 ? ["MiB", 2 ** 20] : ["KiB", 2 ** 10];
  }

  function bytes(x) {
    const [name, one] = unit(x);
    return `${short(x / one)} ${name}`;
  }

  function time(x) {
    if (x < 1e-3) return `${short(x * 1e6)} µs`;
    return x < 1 ? `${short(x * 1e3)} ms` : `${short(x)} s`;
  }

  // ---- the drawing

  function draw(svg, result, settings, t, frame, width) {
    const {found, states, link} = result, {n} = found;
    const done = Math.floor(frame), part = frame - done;
    const names = [t("chunk", n - 1), t("rank"), t("sent"), t("sent.unit", "MiB")];
    const gutter = Math.ceil(Math.max(...names.map((words) => wide(words)))) + 8;
    const pitch = (width - gutter - 24) / n, cell = Math.min(64, Math.round(pitch * 0.64));
    const at = {left: (r) => gutter + 12 + r * pitch + (pitch - cell) / 2, cell, pitch, width, gutter, n,
      tall: TALL / found.chunks, all: found.way === "all_gather"};
    size(svg, width, 326 + 34 * compared(found.way).length);
    ranks(group(svg, 0, 30), at, t, !["rank0", "tree", "halving"].includes(found.way));
    const table = group(svg, 0, 56);
    upTo(found.chunks, (c) => text(table, gutter - 8, (c + 0.5) * at.tall + 4.5,
      found.chunks > 1 ? t("chunk", c) : t("whole"), {fill: "quiet", anchor: "end"}));
    tensors(table, at, states[done]);
    if (part) under_way(table, at, found.steps[done], states[done], part);
    else if (done) arrived(table, at, found.steps[done - 1]);
    moved(group(svg, 0, 56 + TALL + 14), at, result, done, t);
    times(group(svg, 0, 56 + TALL + 112), at, found.way, link, done, t);
  }

  function ranks(place, at, t, ring) {
    text(place, at.gutter - 8, 5, t("rank"), {fill: "quiet", anchor: "end"});
    const middle = (r) => at.left(r) + at.cell / 2;
    if (ring) {
      const first = middle(0), last = middle(at.n - 1);
      const over = `M${last} 0V-22Q${last} -26 ${last - 4} -26H${first + 4}Q${first} -26 ${first} -22V0`;
      add(place, "path", {d: `M${first} 0H${last}${over}`, fill: "none", stroke: "line", "stroke-width": 1.5});
    }
    upTo(at.n, (r) => {
      add(place, "rect", {x: middle(r) - 13, y: -12, width: 26, height: 24, rx: 4, fill: rank(r)});
      text(place, middle(r), 5, r, {anchor: "middle", fill: on(r), weight: 600});
    });
  }

  function tensors(place, at, held) {
    held.forEach((row, r) => row.forEach((bits, c) => chunk(place, at, at.left(r), c, bits)));
  }

  /* A chunk: a strip for each rank whose numbers are in the sum; one colour if nothing is summed. */
  function chunk(place, at, x, c, bits) {
    const y = c * at.tall + 1, height = at.tall - 2;
    add(place, "rect", {x, y, width: at.cell, height, rx: 2, fill: "ground"});
    const strip = at.all ? at.cell : at.cell / at.n;
    for (let r = 0; r < at.n; r++) {
      if (bits & (1 << r)) {
        add(place, "rect", {x: at.all ? x : x + r * strip, y, width: strip, height, fill: rank(r),
          rx: at.all ? 2 : undefined});
      }
    }
  }

  /* Where a message's arrow runs: those that pass over each other take different rows. */
  function rows(m, at) {
    return (m.first + (m.source % m.count) + 0.5) * at.tall;
  }

  function wraps(m, at) {
    return m.source === at.n - 1 && m.target === 0 && at.n > 2 && m.count * at.tall < TALL;
  }

  function ends(m, at) {
    const right = m.target > m.source || wraps(m, at), beside = at.cell + 1;
    return {right, from: at.left(m.source) + (right ? beside : -1), to: at.left(m.target) + (right ? -1 : beside)};
  }

  function arrived(place, at, messages) {
    const arrows = group(place, 0, 0), boxes = group(place, 0, 0), tips = group(place, 0, 0);
    for (const m of messages) {
      const {right, from, to} = ends(m, at), y = rows(m, at), colour = rank(m.source);
      const tip = Math.min(7, (at.pitch - at.cell) * 0.6), back = right ? -tip : tip;
      const around = wraps(m, at) ? `H${at.width - 1}M${at.gutter - 4} ${y}` : "";
      const d = `M${from} ${y}${around}H${to + back}`;
      if (!around) add(arrows, "path", {d, fill: "none", stroke: "paper", "stroke-width": 5});
      add(arrows, "path", {d, fill: "none", stroke: colour, "stroke-width": 2});
      add(tips, "path", {d: `M${to} ${y}l${back} -4.5v9z`, fill: colour, stroke: "paper", "stroke-width": 0.75});
      for (let c = m.first; c < m.first + m.count; c++) {
        add(boxes, "rect", {x: at.left(m.target) - 1, y: c * at.tall, width: at.cell + 2, height: at.tall, rx: 3,
          fill: "none", stroke: "ink", "stroke-width": 1.5});
      }
    }
  }

  /* Between two frames the chunks travel; over the end of the row they come in at its beginning. */
  function under_way(place, at, messages, held, part) {
    for (const m of messages) {
      const from = at.left(m.source), to = at.left(m.target);
      const leaves = at.width + 2 - from, enters = to - (at.gutter - 4 - at.cell);
      const x = !wraps(m, at) ? from + (to - from) * part
        : part < 0.5 ? from + 2 * part * leaves : to - 2 * (1 - part) * enters;
      const parcel = group(place, 0, 0, {opacity: 0.94});
      for (let c = m.first; c < m.first + m.count; c++) chunk(parcel, at, x, c, held[m.source][c]);
      add(parcel, "rect", {x: x - 1, y: m.first * at.tall, width: at.cell + 2, height: m.count * at.tall, rx: 3,
        fill: "none", stroke: rank(m.source), "stroke-width": 1.5});
    }
  }

  function moved(place, at, result, done, t) {
    const {found, link} = result, [name, one] = unit(link.nbytes);
    const whole = upTo(at.n, (r) => sent(found, r, found.steps.length)), most = Math.max(...whole);
    text(place, at.gutter - 8, 22, t("sent"), {fill: "quiet", anchor: "end"});
    text(place, at.gutter - 8, 39, t("sent.unit", name), {fill: "quiet", anchor: "end"});
    upTo(at.n, (r) => {
      const x = at.left(r) + at.cell / 2, now = sent(found, r, done);
      const tall = whole[r] / most * 44, full = now / most * 44;
      const column = (height, look) => height && add(place, "rect",
        {x: x - 8, y: 46 - height, width: 16, height, rx: 2, ...look});
      column(tall, {fill: "none", stroke: "line", "stroke-width": 1.25});
      column(full, {fill: rank(r)});
      const low = at.pitch < 30 && r % 2;  // on the smallest phone two neighbours' numbers would touch
      text(place, x, low ? 78 : 64, short(now * link.nbytes / one), {anchor: "middle", style: "font-variant-numeric: tabular-nums"});
    });
  }

  function compared(way) {
    return COMPARED[way] || ["rank0", "tree", "ring", "halving"];
  }

  /* A bar for each way: step after step the latency, dark, and the bytes, light. */
  function times(place, at, way, link, done, t) {
    const every = compared(way).map((name) => collective(name, at.n));
    const longest = Math.max(...every.map((found) => seconds(found, found.steps.length, link)));
    const mark = (x, fill, words) => {
      add(place, "rect", {x, y: -9, width: 10, height: 10, rx: 2, fill});
      text(place, x + 15, 0, words, {fill: "quiet"});
      return x + 15 + wide(words) + 14;
    };
    text(place, 0, 0, t("time"), {"font-weight": 600});
    mark(mark(wide(t("time")) + 22, "ink", t("latency")), "line", t("bandwidth"));
    every.forEach((found, i) => {
      const mine = found.way === way, y = 22 + 34 * i;
      text(place, 0, y, t(`way.${found.way}`), {fill: mine ? "ink" : "quiet", "font-weight": mine ? 600 : 400});
      text(place, at.width, y, time(seconds(found, found.steps.length, link)), {anchor: "end",
        fill: mine ? "ink" : "quiet", "font-weight": mine ? 600 : 400, style: "font-variant-numeric: tabular-nums"});
      bar(place, found, y + 6, at.width / longest, link, mine ? done : 0);
      if (mine && done) {
        const x = seconds(found, done, link) * at.width / longest;
        add(place, "path", {d: `M${x} ${y + 3}v14`, stroke: "ink", "stroke-width": 1.5});
      }
    });
  }

  function bar(place, found, y, scale, link, done) {
    for (let k = 0; k < found.steps.length; k++) {
      const x = seconds(found, k, link) * scale, end = seconds(found, k + 1, link) * scale;
      const middle = x + link.alpha * scale, gap = end - x > 3 ? 0.75 : 0, opacity = k < done ? 1 : 0.45;
      add(place, "rect", {x, y, width: Math.max(0, middle - x), height: 8, fill: "ink", opacity});
      add(place, "rect", {x: middle, y, width: Math.max(0, end - middle - gap), height: 8,
        fill: k < done ? "quiet" : "line"});
    }
  }

  // ---- words

  function phase({way, n, steps}, step) {
    const half = steps.length / 2;
    if (way === "halving" && 2 ** Math.floor(Math.log2(n)) < n) {
      if (step === 0) return "fold";
      if (step === steps.length - 1) return "back";
    }
    if (way === "reduce_scatter" || way === "all_gather") return way;
    const names = {ring: ["reduce_scatter", "all_gather"], halving: ["halve", "double"], tree: ["up", "down"],
      rank0: ["collect", "return"]};
    return names[way][step < half ? 0 : 1];
  }

  function said(result, settings, t, frame) {
    const {found} = result, last = found.steps.length;
    if (frame === 0) return t(found.way === "all_gather" ? "before.gather" : "before");
    const [m] = found.steps[frame - 1], kind = phase(found, frame - 1);
    const grown = result.states[frame - 1][m.source][m.first].toString(2).split("1").length - 1;
    const words = t(`step.${kind}`, {k: frame, of: last, grown, n: found.n, from: m.source, to: m.target,
      away: Math.abs(m.source - m.target), share: share(m.count, found.chunks)});
    return frame === last ? `${words} ${t(`end.${found.way}`)}` : words;
  }

  function share(count, chunks) {
    return `1/${chunks / count}`;
  }

  const ENDS = {en: "Now every rank holds the sum.", zh: "至此每个 rank 都有总和。"};
  const ends_of = (lang) => Object.fromEntries(["ring", "halving", "tree", "rank0"]
    .map((way) => [`end.${way}`, ENDS[lang]]));

  Moving.figure("collectives", {
    words: {
      en: {alt: "Ranks in a row, and below each its tensor, cut into chunks. Strips in a chunk show whose numbers " +
          "are in the sum so far, arrows which chunk goes where; below, what each rank has sent, and the time of each " +
          "way.",
        way: "Collective", n: "Ranks", nbytes: "Tensor", alpha: "Latency α", gbs: "Bandwidth",
        "way.ring": "ring", "way.reduce_scatter": "ring: reduce_scatter only",
        "way.all_gather": "ring: all_gather only",
        "way.halving": "halving and doubling", "way.tree": "tree", "way.rank0": "by rank 0",
        "alpha.is": "{} µs", "gbs.is": "{} GB/s", rank: "rank", chunk: "chunk {}", whole: "tensor",
        sent: "sent", "sent.unit": "in {}", time: "Time", latency: "latency", bandwidth: "bytes",
        now: "time so far: {}", row: "messages in a row: {}", busiest: "the busiest rank sends {}",
        before: "Before the first step, every rank holds nothing but its own numbers.",
        "before.gather": "Before the first step, every rank holds one chunk, its own.",
        "step.reduce_scatter": "Step {k} of {of}, reduce_scatter: every rank passes a chunk to its right neighbour: a sum over " +
          "{grown} of {n} ranks, to which the neighbour adds its own.",
        "step.all_gather": "Step {k} of {of}, all_gather: every rank passes a finished chunk to its right neighbour.",
        "step.fold": "Step {k} of {of}: surplus ranks hand their whole tensor to a rank below.",
        "step.back": "Step {k} of {of}: the surplus ranks get the sum.",
        "step.halve": "Step {k} of {of}, halving: each rank and the one {away} places away exchange {share} of the " +
          "tensor, and add.",
        "step.double": "Step {k} of {of}, doubling: each rank and the one {away} places away exchange their finished " +
          "{share}.",
        "step.up": "Step {k} of {of}, up the tree: half of those left hand their sum on, {away} places to the left.",
        "step.down": "Step {k} of {of}, down again: each rank that has the total sends it {away} places to the right.",
        "step.collect": "Step {k} of {of}: rank {from} sends its tensor to rank 0; all others wait.",
        "step.return": "Step {k} of {of}: rank 0 sends the sum to rank {to}; all others wait.",
        "end.reduce_scatter": "Now every rank holds one chunk of the sum.",
        "end.all_gather": "Now every rank holds all chunks.", ...ends_of("en")},
      zh: {alt: "各 rank 排成一行，下面是各自的张量，切成若干块。块里的彩条表示哪些 rank 的数已经加进来，箭头表示哪一块传给谁；" +
          "再下面是每个 rank 发送了多少，以及各种办法要用的时间。",
        way: "集合通信", n: "rank 数", nbytes: "张量大小", alpha: "延迟 α", gbs: "带宽",
        "way.ring": "环", "way.reduce_scatter": "环：只做 reduce_scatter", "way.all_gather": "环：只做 all_gather",
        "way.halving": "halving-doubling", "way.tree": "树", "way.rank0": "经过 rank 0",
        "alpha.is": "{} µs", "gbs.is": "{} GB/s", rank: "rank", chunk: "块 {}", whole: "张量",
        sent: "已发送", "sent.unit": "{}", time: "时间", latency: "延迟", bandwidth: "传输",
        now: "到这一步：{}", row: "依次等待的消息：{} 条", busiest: "最忙的 rank 发送 {}",
        before: "第一步之前，每个 rank 只有自己的数。",
        "before.gather": "第一步之前，每个 rank 只有自己的那一块。",
        "step.reduce_scatter": "第 {k} 步，共 {of} 步，reduce_scatter：每个 rank 把一块传给右邻居，里面已有 {grown}/{n} 个 rank 的数，" +
          "右邻居再加上自己的。",
        "step.all_gather": "第 {k} 步，共 {of} 步，all_gather：每个 rank 把一个算好的块传给右邻居。",
        "step.fold": "第 {k} 步，共 {of} 步：多出来的 rank 把整个张量交给编号较小的 rank。",
        "step.back": "第 {k} 步，共 {of} 步：多出来的 rank 拿回总和。",
        "step.halve": "第 {k} 步，共 {of} 步，折半：每个 rank 与相距 {away} 的 rank 交换张量的 {share}，加到自己的上面。",
        "step.double": "第 {k} 步，共 {of} 步，倍增：每个 rank 与相距 {away} 的 rank 交换算好的 {share}。",
        "step.up": "第 {k} 步，共 {of} 步，沿树向上：剩下的 rank 中，一半把部分和交给编号小 {away} 的 rank。",
        "step.down": "第 {k} 步，共 {of} 步，沿树向下：已有总和的 rank 把它发给编号大 {away} 的 rank。",
        "step.collect": "第 {k} 步，共 {of} 步：rank {from} 把张量发给 rank 0，其余的都在等。",
        "step.return": "第 {k} 步，共 {of} 步：rank 0 把总和发给 rank {to}，其余的都在等。",
        "end.reduce_scatter": "至此每个 rank 都有总和中的一块。",
        "end.all_gather": "至此每个 rank 都有全部的块。", ...ends_of("zh")},
    },
    settings: [
      {key: "way", kind: "choice", values: ["ring", "reduce_scatter", "all_gather", "halving", "tree", "rank0"],
        initial: "ring", wide: true},
      {key: "n", kind: "range", min: 2, max: 8, initial: 4},
      {key: "nbytes", kind: "range", values: POWERS.map((p) => 2 ** p), initial: 2 ** 24, show: bytes, keep: true},
      {key: "alpha", kind: "range", values: [1, 2, 5, 10, 20, 50, 100, 175, 500, 1000], initial: 175, keep: true},
      {key: "gbs", kind: "range", values: [0.1, 0.3, 1, 2.6, 10, 25, 50, 100, 200, 400], initial: 2.6, keep: true},
    ],
    compute({way, n, nbytes, alpha, gbs}) {
      const found = collective(way, n);
      return {found, states: heldAfterEach(found), link: {nbytes, alpha: alpha * 1e-6, beta: 1e-9 / gbs}};
    },
    frames: ({found}) => found.steps.length + 1,
    start: () => 2,
    smooth: true,
    pace: 1100,
    shown({found, states, link}, frame) {
      const last = found.steps.length, every = upTo(found.n, (r) => r);
      const one = unit(link.nbytes)[1];
      return {
        now: time(seconds(found, frame, link)),
        row: String(last),
        busiest: bytes(Math.max(...every.map((r) => sent(found, r, last))) * link.nbytes),
        total: time(seconds(found, last, link)),
        sentByRank: every.map((r) => short(sent(found, r, frame) * link.nbytes / one)).join(" "),
        heldBits: states[frame].map((row) => row.join(" ")).join("|"),
        messages: (frame ? found.steps[frame - 1] : [])
          .map((m) => `${m.source}>${m.target}:${m.first}+${m.count}`).join(" "),
        times: compared(found.way).map((name) => collective(name, found.n))
          .map((other) => `${other.way} ${time(seconds(other, other.steps.length, link))}`).join(", "),
      };
    },
    said,
    draw,
  });
})();
