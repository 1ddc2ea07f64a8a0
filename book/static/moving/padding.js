/* Padding: what of a batch is real, and what share of the arithmetic is not.

   Computes what rankbook.speed.padding computes, from the lengths of the chapter's own reviews. */
"use strict";

(() => {
  const WAYS = ["longest of all", "longest of batch", "bucketed", "packed"];
  const ROWS = 36;  // about so many reviews are drawn
  const HIGH = 220;  // pixels
  const REAL = "rank-0", NEXT = "rank-2", EMPTY = "rank-1";

  const words = {
    en: {
      alt: "Reviews as rows of real tokens and padding, a few batches of an epoch, and below them, for four ways of "
        + "batching, the arithmetic that is paid for each unit that the real tokens need.",
      batch: "Batch size", limit: "Cut at", "limit.is": "{} tokens", way: "Way",
      pool: "Pool", "pool.is": "{} batches",
      "way.longest of all": "longest of all", "way.longest of batch": "longest of batch",
      "way.bucketed": "bucketed", "way.packed": "packed",
      rows: "{a} of {b} batches, a line a review", packed: "{a} of {b} batches, end to end",
      tokens: "{} tokens", need: "what the real tokens need", paid: "{a}×, {b}% wasted", share: "{}% wasted",
      products: "padding in matrix products", square: "in attention",
      linear: "wasted in matrix products {}%", attention: "in attention {}%",
      computed: "tokens computed for each real one {}",
      said: "{}% of the arithmetic goes into padding.",
    },
    zh: {
      alt: "影评按行画出，分成真实 token 和填充，取一个 epoch 里的几个 batch；下方是四种组批方式各自付出的计算量，"
        + "以真实 token 所需为 1。",
      batch: "batch 大小", limit: "截断于", "limit.is": "{} token", way: "组批方式",
      pool: "分桶范围", "pool.is": "{} 批",
      "way.longest of all": "填充到全体最长", "way.longest of batch": "填充到本批最长",
      "way.bucketed": "分桶", "way.packed": "打包",
      rows: "{b} 批中的 {a} 批，一行一条影评", packed: "{b} 批中的 {a} 批，首尾相接",
      tokens: "{} 个 token", need: "真实 token 所需", paid: "{a}×，浪费 {b}%", share: "浪费 {}%",
      products: "矩阵乘法中的填充", square: "注意力中的填充",
      linear: "矩阵乘法中浪费 {}%", attention: "注意力中 {}%",
      computed: "每个真实 token 对应计算的 token {}",
      said: "{}% 的计算花在填充上。",
    },
  };

  /* The lengths of each batch of the epoch. */
  function batched(lengths, way, batch, pool) {
    const found = [];
    const chunk = way === "bucketed" ? pool * batch : lengths.length;
    for (let at = 0; at < lengths.length; at += chunk) {
      const part = lengths.slice(at, at + chunk);
      if (way === "bucketed") part.sort((a, b) => b - a);
      for (let row = 0; row < part.length; row += batch) found.push(part.slice(row, row + batch));
    }
    return found;
  }

  /* FLOP of a forward pass over sequences: [all of it, attention's two products alone]. */
  function flop(lengths, {width, hidden, layers, classes}) {
    const token = layers * (8 * width * width + 4 * width * hidden), head = 2 * width * (width + classes);
    let all = 0, attention = 0;
    for (const length of lengths) {
      const square = layers * 4 * width * length * length;
      all += token * length + square + head;
      attention += square;
    }
    return [all, attention];
  }

  const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

  function cost(lengths, way, {batch, pool}, model) {
    const batches = batched(lengths, way, batch, pool);
    const longest = Math.max(...lengths);
    const padded = way === "packed" ? lengths : batches.flatMap((each) => {
      const to = way === "longest of all" ? longest : Math.max(...each);
      return each.map(() => to);
    });
    const [realAll, realAttention] = flop(lengths, model), [all, attention] = flop(padded, model);
    return {
      batches, longest, ratio: all / realAll,
      wasted: 1 - realAll / all,
      linear: 1 - (realAll - realAttention) / (all - attention),
      attention: 1 - realAttention / attention,
      computed: sum(padded) / sum(lengths),
      inAttention: (attention - realAttention) / realAll,  // of the padding's arithmetic, in units of the real one
    };
  }

  function compute(settings, data) {
    const lengths = data.lengths.map((length) => Math.min(length, settings.limit));
    const ways = Object.fromEntries(WAYS.map((way) => [way, cost(lengths, way, settings, data.model)]));
    return {ways, way: settings.way, limit: settings.limit, batch: settings.batch};
  }

  function shown({ways, way}) {
    const percent = (share) => (100 * share).toFixed(1);
    const {wasted, linear, attention, computed} = ways[way];
    const each = WAYS.flatMap((name, i) => [[`ratio-${i}`, ways[name].ratio.toFixed(2)],
      [`wasted-${i}`, percent(ways[name].wasted)]]);
    return {wasted: percent(wasted), linear: percent(linear), attention: percent(attention),
      computed: computed.toFixed(2), ...Object.fromEntries(each)};
  }

  /* Some batches, from all over the epoch. */
  function some({batches}, batch) {
    const least = batch <= 32 ? 3 : batch <= 64 ? 2 : 1;
    const count = Math.min(batches.length, Math.max(least, Math.floor(ROWS / batch)));
    return [...Array(count).keys()].map((i) => batches[Math.floor((i + 0.5) * batches.length / count)]);
  }

  function drawRows(svg, {ways, way, limit, batch}, t, top, width) {
    const found = ways[way], drawn = some(found, batch), scale = width / limit;
    const gap = Math.min(6, 100 / drawn.length), rows = sum(drawn.map((each) => each.length));
    const high = (HIGH - gap * (drawn.length - 1)) / rows;
    const tall = high < 3 ? high : Math.max(high * 0.8, high - 1.5);  // thin rows lie close, or they would flicker
    let y = top;
    const bar = (x, tokens, fill, more) =>
      Moving.add(svg, "rect", {x: x * scale, y, width: tokens * scale, height: tall, fill,
        "shape-rendering": high < 3 ? "crispEdges" : null, ...more});
    for (const each of drawn) {
      if (way === "packed") y = line(each, bar, limit, y, (to) => { y = to; }, high);
      else {
        const to = way === "longest of all" ? found.longest : Math.max(...each);
        for (const length of each) {
          bar(0, length, REAL);
          if (to > length) bar(length, to - length, EMPTY, {opacity: 0.38});
          y += high;
        }
      }
      y += gap;
    }
    const which = t(way === "packed" ? "packed" : "rows", {a: drawn.length, b: found.batches.length});
    Moving.text(svg, 0, top - 9, which, {fill: "quiet"});
    Moving.text(svg, width, top - 9, t("tokens", limit), {anchor: "end", fill: "quiet"});
  }

  /* A packed batch: its reviews end to end, folded where the drawing ends. Returns where the next begins. */
  function line(lengths, bar, limit, top, goTo, high) {
    let at = 0;
    lengths.forEach((length, number) => {
      for (const end = at + length; at < end;) {
        const row = Math.floor(at / limit), stop = Math.min(end, (row + 1) * limit);
        goTo(top + row * high);
        bar(at - row * limit, stop - at, number % 2 ? NEXT : REAL);
        at = stop;
      }
    });
    return top + Math.ceil(at / limit) * high;
  }

  function drawBars(svg, result, t, top, width) {
    const {ways, way} = result, numbers = shown(result);
    const scale = width / Math.max(1.25, ...WAYS.map((name) => ways[name].ratio));
    WAYS.forEach((name, i) => {
      const y = top + 42 * i, mine = name === way, {ratio, inAttention} = ways[name];
      const look = {weight: mine ? 600 : 400, fill: mine ? "ink" : "quiet"};
      Moving.text(svg, 0, y, t(`way.${name}`), {fill: look.fill, "font-weight": look.weight});
      const long = t("paid", {a: numbers[`ratio-${i}`], b: numbers[`wasted-${i}`]});
      Moving.text(svg, width, y, width > 400 ? long : t("share", numbers[`wasted-${i}`]),
        {anchor: "end", fill: look.fill, "font-weight": look.weight});
      const bar = (from, to, fill, opacity) => Moving.add(svg, "rect",
        {x: from * scale, y: y + 7, width: Math.max(0, to - from) * scale, height: 10, fill, opacity});
      const pale = mine ? 1 : 0.55;
      bar(0, 1, REAL, pale);
      bar(1, ratio - inAttention, EMPTY, 0.45 * pale);
      bar(ratio - inAttention, ratio, EMPTY, 0.9 * pale);
    });
    const end = top + 42 * WAYS.length - 14;
    const d = WAYS.map((_, i) => `M${scale} ${top + 42 * i + 3}v18`).join("");  // not through the words
    Moving.add(svg, "path", {d, stroke: "ink", "stroke-width": 1.25, fill: "none"});
    const half = Moving.wide(t("need")) / 2;
    const middle = Math.max(half, Math.min(width - half, scale));
    Moving.text(svg, middle, end + 15, t("need"), {anchor: "middle", fill: "quiet"});
    let x = 0;
    for (const [key, opacity] of [["products", 0.45], ["square", 0.9]]) {
      Moving.add(svg, "rect", {x, y: end + 32, width: 11, height: 11, fill: EMPTY, opacity});
      Moving.text(svg, x + 17, end + 42, t(key), {fill: "quiet"});
      x += 17 + Moving.wide(t(key)) + 20;
    }
  }

  function draw(svg, result, settings, t, frame, width) {
    Moving.size(svg, width, 24 + HIGH + 42 + 42 * WAYS.length + 34);
    drawRows(svg, result, t, 24, width);
    drawBars(svg, result, t, 24 + HIGH + 42, width);
  }

  Moving.figure("padding", {
    words,
    settings: [
      {key: "way", kind: "choice", values: WAYS, initial: "longest of batch"},
      {key: "batch", kind: "range", values: [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128], initial: 12},
      {key: "limit", kind: "range", values: [64, 128, 192, 256, 384, 512, 768, 1024, 2048], initial: 512},
      {key: "pool", kind: "range", values: [1, 2, 5, 10, 20, 50, 100], initial: 50},
    ],
    compute, shown, draw,
    said: (result, settings, t) => t("said", shown(result).wasted),
  });
})();
