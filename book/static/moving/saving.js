/* How often to save: the share of the time that saves and failures cost, against the interval.

   Computes what lost_parts, lost_share, best_period and exact_best_period of rankbook.predict.cost_model compute. */
"use strict";

(() => {
  const FROM = 10, TO = 86400;  // seconds: the intervals drawn
  const TICKS = [10, 60, 600, 3600, 21600, 86400];
  const TOPS = [0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1];  // ends of the axis
  const POINTS = 160, TOP = 48, HIGH = 210;
  const PARTS = {restarts: "rank-7", saves: "rank-0", again: "rank-1"};  // from the ground up

  const words = {
    en: {
      alt: "The share of the time that is lost against the interval between saves: saves cost less the rarer they are, "
        + "work that is done again costs more, restarts cost the same; between them lies the best interval.",
      period: "Save every", mtbf: "Failure every", save: "Save takes", restart: "Restart takes",
      "name.saves": "saves", "name.again": "work done again", "name.restarts": "restarts", is: "{a} {b}%",
      "at.now": "every {a}: {b}% lost", "at.best": "best, every {a}: {b}%",
      "unit.s": "\u202fs", "unit.min": "\u202fmin", "unit.h": "\u202fh", "unit.d": "\u202fd",
      said: "{a}% of the time is lost. At best, saving every {b}, it would be {c}%. The formula √(2δM) says {d}.",
    },
    zh: {
      alt: "损失的时间占比随保存间隔的变化：保存越稀，保存的代价越小，重做的工作越多，重启的代价不变；"
        + "最佳间隔在两者之间。",
      period: "保存间隔", mtbf: "故障间隔", save: "保存停顿", restart: "重启用时",
      "name.saves": "保存", "name.again": "重做的工作", "name.restarts": "重启", is: "{a} {b}%",
      "at.now": "每 {a}：损失 {b}%", "at.best": "最佳，每 {a}：{b}%",
      "unit.s": " 秒", "unit.min": " 分钟", "unit.h": " 小时", "unit.d": " 天",
      said: "损失 {a}% 的时间。最好是每 {b}保存一次，损失 {c}%。公式 √(2δM) 给出 {d}。",
    },
  };

  /* Seconds as people say them. */
  function time(seconds) {
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 0]];
    const [unit, one] = units.find(([, least]) => seconds >= least), value = seconds / (one || 1);
    return `${+value.toFixed(value < 1 ? 2 : value < 10 ? 1 : 0)}\u202f${unit}`;
  }

  /* What `time` gives, with the unit in the page's language. */
  const local = (t, said) => said.replace(/\u202f(\w+)$/, (own, unit) => t(`unit.${unit}`));

  function lostShare(save, period, mtbf, restart) {
    const takes = mtbf * Math.exp(restart / mtbf) * Math.expm1((period + save) / mtbf);
    return 1 - period / takes;
  }

  function lostParts(save, period, mtbf, restart) {
    const saves = save / (period + save);
    const atOnce = lostShare(save, period, mtbf, 0), whole = lostShare(save, period, mtbf, restart);
    return {saves, again: atOnce - saves, restarts: whole - atOnce};
  }

  function exactBest(save, mtbf) {
    let low = 0, high = 1;
    for (let i = 0; i < 60; i++) {
      const u = (low + high) / 2;
      [low, high] = u + Math.log1p(-u) + save / mtbf > 0 ? [u, high] : [low, u];
    }
    return mtbf * (low + high) / 2;
  }

  function compute({save, period, mtbf, restart}) {
    const best = exactBest(save, mtbf), young = Math.sqrt(2 * save * mtbf);
    return {save, period, mtbf, restart, best, young, parts: lostParts(save, period, mtbf, restart),
      lost: lostShare(save, period, mtbf, restart), least: lostShare(save, best, mtbf, restart)};
  }

  function shown({best, young, lost, least, parts}) {
    const percent = (share) => (100 * share).toFixed(lost < 0.01 ? 3 : 2);
    return {lost: percent(lost), best: time(best), young: time(young), least: percent(least),
      saves: percent(parts.saves), again: percent(parts.again), restarts: percent(parts.restarts)};
  }

  const across = (period, width) => width * Math.log(period / FROM) / Math.log(TO / FROM);

  function curves({save, mtbf, restart}) {
    return [...Array(POINTS + 1).keys()].map((i) => {
      const period = FROM * (TO / FROM) ** (i / POINTS);
      return {period, ...lostParts(save, period, mtbf, restart)};
    });
  }

  /* The three bands, and the name of each where it has room for it. */
  function bands(svg, points, t, width, y, top) {
    const x = points.map(({period}) => across(period, width));
    const line = (heights, kept = () => true) =>
      heights.map((share, i) => `${x[i].toFixed(1)} ${y(share).toFixed(1)}`).filter((_, i) => kept(i));
    let below = points.map(() => 0);
    for (const [part, fill] of Object.entries(PARTS)) {
      const floor = below, above = points.map((point, i) => floor[i] + point[part]);
      const around = [...line(above), ...line(floor).reverse()];
      Moving.add(svg, "path", {d: `M${around.join("L")}Z`, fill, opacity: 0.45});
      const name = t(`name.${part}`), half = Moving.wide(name) / 2 + 6;
      const steps = Math.ceil(half / width * POINTS);
      let most = 0, at = 0, middle = 0;
      for (let i = steps; i < points.length - steps; i++) {  // how high the band is all along the name
        const low = Math.min(y(floor[i - steps]), y(floor[i + steps]));
        const high = Math.max(y(above[i - steps]), y(above[i + steps]));
        if (low - high > most) [most, at, middle] = [low - high, i, (low + high) / 2];
      }
      if (most > 20) Moving.text(svg, x[at], middle + 5, name, {anchor: "middle"});
      below = above;
    }
    const seen = line(below, (i) => below[i] <= top);  // what is higher than the axis ends there
    Moving.add(svg, "path", {d: `M${seen.join("L")}`, fill: "none", stroke: "ink", "stroke-width": 1.5});
  }

  /* A point of the curve, with a line up to its label: above the line, or on one side of it (-1, 1). */
  function mark(svg, period, share, label, line, width, y, fill, side = 0) {
    const x = Math.max(0, Math.min(width, across(period, width))), half = Moving.wide(label) / 2;
    const high = y(share);
    Moving.add(svg, "path", {d: `M${x} ${line + 5}V${high}`, stroke: fill, "stroke-width": 1.25, fill: "none"});
    Moving.add(svg, "circle", {cx: x, cy: high, r: 4.5, fill, stroke: "paper", "stroke-width": 1.25});
    Moving.text(svg, Math.max(half, Math.min(width - half, x + side * (half - 4))), line, label,
      {anchor: "middle", fill, "font-weight": 600, "paint-order": "stroke", stroke: "paper", "stroke-width": 4});
  }

  function draw(svg, result, settings, t, frame, full) {
    const left = 46, width = full - left - 8, ground = TOP + HIGH;
    const plot = Moving.group(svg, left, 0), {lost, least, best, period} = result, numbers = shown(result);
    const top = TOPS.find((share) => share >= Math.max(2.2 * least, 1.08 * lost)) || 1;
    const y = (share) => ground - HIGH * Math.min(1, share / top);
    for (const part of [0, 0.5, 1]) {
      const at = y(part * top);
      Moving.add(plot, "path", {d: `M0 ${at}H${width}`, stroke: part ? "grid" : "quiet", "stroke-width": 1.25});
      Moving.text(plot, -6, at + 4, `${+(100 * part * top).toFixed(2)}%`, {anchor: "end", fill: "quiet"});
    }
    bands(plot, curves(result), t, width, y, top);
    for (const tick of TICKS.filter((seconds) => full > 400 || seconds !== 21600)) {
      const x = across(tick, width);
      Moving.add(plot, "path", {d: `M${x} ${ground}v5`, stroke: "quiet", "stroke-width": 1.25});
      Moving.text(plot, x, ground + 20, local(t, time(tick)), {anchor: tick === TO ? "end" : "middle", fill: "quiet"});
    }
    Moving.size(svg, full, key(svg, numbers, t, ground + 50, full) + 10);
    mark(plot, best, least, t("at.best", {a: local(t, numbers.best), b: numbers.least}), 14, width, y, "good");
    mark(plot, period, lost, t("at.now", {a: local(t, time(period)), b: numbers.lost}), 34, width, y, "ink",
      period < best ? -1 : 1);
  }

  /* What the colours mean, with their numbers; a second line where there is no room. Returns the last one's y. */
  function key(svg, numbers, t, top, width) {
    let x = 0, y = top;
    for (const part of ["saves", "again", "restarts"]) {
      const label = t("is", {a: t(`name.${part}`), b: numbers[part]}), long = 17 + Moving.wide(label) + 6;
      if (x + long > width) [x, y] = [0, y + 24];
      Moving.add(svg, "rect", {x, y: y - 10, width: 11, height: 11, fill: PARTS[part], opacity: 0.6});
      Moving.text(svg, x + 17, y, label);
      x += long + 16;
    }
    return y;
  }

  const lasts = (seconds, t) => local(t, time(seconds));  // as the kit calls it

  Moving.figure("saving", {
    words,
    settings: [
      {key: "period", kind: "range", initial: 3600, show: lasts, values: [10, 15, 20, 30, 45, 60, 90, 120, 180, 300,
        450, 600, 900, 1200, 1800, 2700, 3600, 5400, 7200, 10800, 14400, 21600, 43200, 86400]},
      {key: "mtbf", kind: "range", initial: 10800, show: lasts,
        values: [600, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 604800, 2592000]},
      {key: "save", kind: "range", initial: 30, show: lasts,
        values: [0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600]},
      {key: "restart", kind: "range", initial: 300, show: lasts, values: [5, 10, 30, 60, 120, 300, 600, 1800, 3600]},
    ],
    compute, shown, draw,
    said: (result, settings, t) => {
      const {lost, best, least, young} = shown(result);
      return t("said", {a: lost, b: local(t, best), c: least, d: local(t, young)});
    },
  });
})();
