/* The pipeline explorer: the schedules of torch, run by a clock that costs no time.

   As rankbook.parallel.pipeline's simulate(PipelinePlan(...), Durations(...)), whose lists come from torch
   itself; here the lists are made anew. A test compares both. The unit, F, is a rank's forward pass. */
"use strict";

(() => {
  /* Into how many rounds the interleaved schedules deal their microbatches. */
  const rounds = (p, m) => Math.max(1, Math.floor(m / p));

  /* The nearest number of microbatches that the schedule can run; `changed` says which rule it was. */
  function fit(chosen, schedules) {
    const {schedule, ranks: p} = chosen, {stages, fills, rounds: inRounds} = schedules[schedule];
    const least = fills ? stages * p : 1;
    let m = Math.max(chosen.microbatches, least), changed = m > chosen.microbatches ? "least" : "";
    if (inRounds && m % rounds(p, m)) [m, changed] = [Math.floor(m / p) * p, "rounds"];
    return {...chosen, microbatches: m, follow: Math.min(chosen.follow, m - 1), changed};
  }

  // ---- the lists: for each rank its actions in order; actions in one list are joined

  /* Hands out actions of a rank: of each stage and kind the next microbatch. */
  function counter() {
    const next = {};
    return (stage, kind, as = kind) => {
      const key = stage + as;
      next[key] = (next[key] || 0) + 1;
      return {stage, kind, mb: next[key] - 1};
    };
  }

  const count = (n) => Array.from({length: Math.max(0, n)}, (_, i) => i);

  function gpipe(p, m, r) {
    return ["F", "B"].flatMap((kind) => count(m).map((mb) => ({stage: r, kind, mb})));
  }

  function one1b(p, m, r) {
    const take = counter(), ahead = Math.min(m, p - r);
    const list = count(ahead).map(() => take(r, "F"));
    for (const done of count(m)) {
      list.push(take(r, "B"));
      if (ahead + done < m) list.push(take(r, "F"));
    }
    return list;
  }

  function breadthFirst(p, m, r) {
    const forward = [r, r + p].flatMap((stage) => count(m).map((mb) => ({stage, kind: "F", mb})));
    return [...forward, ...forward.map(({stage, mb}) => ({stage, kind: "B", mb})).reverse()];
  }

  /* 1F1B on two stages a rank; with `split`, the backward for the weights fills the gaps. */
  function interleaved(p, m, r, split) {
    const take = counter(), list = [], round = m / rounds(p, m), all = 2 * m;
    const turn = (k) => Math.floor(k / round) % 2;
    const back = (k) => r + p * (1 - turn(k));
    const ahead = Math.min(round + (split ? 1 : 2) * (p - 1 - r), all);
    let weights = 0;
    for (let k = 0; k < all + ahead; k++) {
      if (k < all) list.push(take(r + p * turn(k), "F"));
      if (k < ahead) continue;
      list.push(take(back(k - ahead), split ? "I" : "B"));
      if (split && k - ahead >= r) list.push(take(back(weights++), "W"));
    }
    while (split && weights < all) list.push(take(back(weights++), "W"));
    return list;
  }

  /* Zero bubble on a V: made for 2p - 1 microbatches or more; of fewer, the others are left out. */
  function zbv(p, m, r) {
    const take = counter(), list = [], down = r, up = 2 * p - 1 - r, full = Math.max(2 * p - 1, m);
    const put = (stage, kinds) => { for (const kind of kinds) list.push(take(stage, kind)); };
    count(2 * (p - r) - 1).forEach(() => put(down, "F"));
    count(r).forEach(() => { put(up, "F"); put(down, "F"); });
    count(p - r).forEach(() => put(up, "FIW"));
    let forwards = 2 * (p - r) - 1 + r, turned = p;  // forward passes so far: downwards, upwards
    while (turned < forwards || forwards < full) {
      if (forwards < full) { put(down, "F"); forwards++; }
      put(down, "IW");
      put(up, "FIW");
      turned++;
    }
    count(r).forEach(() => { put(down, "I"); put(up, "I"); });
    count(p - r).forEach(() => put(down, "IW"));
    count(r).forEach(() => put(up, "W"));
    count(r).forEach(() => put(down, "W"));
    return list.filter(({mb}) => mb < m);
  }

  /* DualPipe, cut in half to a V: in the middle a forward and a backward pass are joined. */
  function dualpipev(p, m, r) {
    const take = counter(), list = [], late = [], down = r, up = 2 * p - 1 - r;
    const forward = (stage) => take(stage, "F");
    const backward = (stage) => take(stage, "B", "I");
    const input = (stage) => { const action = take(stage, "I"); late.push(action); return action; };
    const weights = () => { if (late.length) list.push({...late.shift(), kind: "W"}); };
    const joined = (one, other) => list.push([forward(one), backward(other)]);
    count(2 * (p - r - 1)).forEach(() => list.push(forward(down)));
    count(r + 1).forEach(() => list.push(forward(down), forward(up)));
    count(p - r - 1).forEach(() => { list.push(input(up)); weights(); list.push(forward(up)); });
    count(m - 2 * p + r + 1).forEach((i) => {
      if (i === 0 && r === p - 1) list.push(forward(down), backward(up));
      else joined(down, up);
      joined(up, down);
    });
    count(p - r - 1).forEach(() => { list.push(backward(up)); joined(up, down); });
    let split = false;  // from the middle of what is left on, weights come later
    count(r + 1).forEach((i) => {
      const here = i === Math.floor((r + 1) / 2);
      if (here && r % 2 === 1) split = true;
      list.push(split ? input(up) : backward(up));
      if (here) split = true;
      list.push(split ? input(down) : backward(down));
    });
    count(p - r - 1).forEach(() => { weights(); list.push(split ? input(down) : backward(down)); });
    count(r + 1).forEach(weights);
    return list;
  }

  const LISTS = {gpipe, "1f1b": one1b, interleaved1f1b: (p, m, r) => interleaved(p, m, r, false),
    loopedbfs: breadthFirst, interleavedzb: (p, m, r) => interleaved(p, m, r, true), zbv, dualpipev};

  // ---- the run

  /* How long an action takes. Stage 0 needs no gradient of its input: its I is nothing, its W all. */
  function seconds({stage, kind}, forward, backward, half) {
    if (stage === 0 && (kind === "I" || kind === "W")) return kind === "W" ? backward : 0;
    return {F: forward, B: backward, I: half, W: half}[kind];
  }

  function needs({stage, kind, mb}, last) {
    if (kind === "F") return stage ? [`${stage - 1}F${mb}`] : [];
    if (kind === "W") return [`${stage}B${mb}`];
    return stage < last ? [`${stage}F${mb}`, `${stage + 1}B${mb}`] : [`${stage}F${mb}`];
  }

  /* per: stages of a rank. */
  function simulate({schedule, ranks: p, microbatches: m, ratio, message}, per) {
    const last = per * p - 1;
    const share = 1 / per, half = ratio / 2 * share, backward = (ratio / 2 + ratio / 2) * share;
    const lists = count(p).map((r) => LISTS[schedule](p, m, r).flatMap((item) =>
      Array.isArray(item) ? item.map((one, i) => [one, i === item.length - 1]) : [[item, true]]));
    const at = count(p).map(() => 0), clock = count(p).map(() => 0), work = count(p).map(() => 0);
    const here = count(p).map(() => new Map()), sent = new Map(), outbox = count(p).map(() => []), actions = [];

    /* When the rank can start its next action; undefined while something is not sent yet. */
    function start(r, action) {
      let from = clock[r];
      for (const result of needs(action, last)) {
        const own = here[r].get(result), other = sent.get(result);
        if (own === undefined && other === undefined) return undefined;
        from = Math.max(from, own === undefined ? other + message : own);
      }
      return from;
    }

    for (let moved = true; moved;) {
      moved = false;
      for (const r of count(p)) {
        for (; at[r] < lists[r].length; at[r]++, moved = true) {
          const [action, closes] = lists[r][at[r]], from = start(r, action);
          if (from === undefined) break;
          const takes = seconds(action, share, backward, half);
          clock[r] = from + takes;
          work[r] += takes;
          actions.push({...action, rank: r, start: from, end: clock[r]});
          if (action.kind !== "W") {
            const result = `${action.stage}${action.kind === "F" ? "F" : "B"}${action.mb}`;
            here[r].set(result, clock[r]);
            outbox[r].push(result);
          }
          if (closes) outbox[r].splice(0).forEach((result) => sent.set(result, clock[r]));
        }
      }
    }
    const span = Math.max(...clock);
    const idle = count(p).map((r) => 1 - work[r] / span).reduce((sum, each) => sum + each, 0) / p;
    return {actions, span, idle, per, work: work[0], held: count(p).map((r) => held(actions, r) / per)};
  }

  /* How many microbatches' activations a rank holds at most: from the start of F to the end of B or W. */
  function held(actions, rank) {
    let now = 0, most = 0;
    for (const {rank: r, kind} of actions) {
      if (r !== rank) continue;
      if (kind === "F") most = Math.max(most, ++now);
      if (kind === "B" || kind === "W") now--;
    }
    return most;
  }

  function compute(settings, schedules) {
    const {ranks: p, microbatches: m} = settings, run = simulate(settings, schedules[settings.schedule].stages);
    const plain = settings.schedule === "gpipe" ? run : simulate({...settings, schedule: "gpipe"}, 1);
    return {...run, p, schedule: settings.schedule, gpipe: plain.span, formula: (p - 1) / (m + p - 1)};
  }

  function shown(result) {
    const own = {bubble: (100 * result.idle).toFixed(1), formula: (100 * result.formula).toFixed(1),
      step: result.span.toFixed(1), gpipe: result.gpipe.toFixed(1), most: String(Math.max(...result.held))};
    return Object.assign(own, ...result.held.map((n, r) => ({[`held ${r}`]: String(n)})));
  }

  // ---- the drawing

  const LOOK = {F: {fill: "rank-0"}, B: {fill: "rank-1"}, I: {fill: "rank-1", "fill-opacity": 0.45},
    W: {fill: "paper", stroke: "rank-1", "stroke-width": 1.25}};
  const ON = {F: "on-deep", B: "on-pale", I: "ink", W: "ink"};

  function box(x, y, w, h) {
    const r = Math.min(2, w / 3), a = (dx, dy) => `a${r} ${r} 0 0 1 ${dx} ${dy}`;
    const f = (value) => Math.round(value * 100) / 100;
    return `M${f(x + r)} ${f(y)}h${f(w - 2 * r)}${a(r, r)}v${f(h - 2 * r)}${a(-r, r)}h${f(2 * r - w)}`
      + `${a(-r, -r)}v${f(2 * r - h)}${a(r, -r)}z`;
  }

  function key(svg, kinds, t, width) {
    let x = 0, y = 13;
    for (const kind of kinds) {
      const words = t(`key.${kind}`), wide = 20 + Moving.wide(words) + 14;
      if (x + wide > width - 10) [x, y] = [0, y + 20];
      Moving.add(svg, "path", {d: box(x + 1, y - 11, 12, 12), ...LOOK[kind]});
      Moving.text(svg, x + 20, y, words, {fill: "quiet"});
      x += wide;
    }
    return y;
  }

  function draw(svg, result, settings, t, frame, width) {
    const {p, per, actions} = result, values = shown(result);
    const left = 54, right = 46, lower = per > 1 ? 6 : 0, high = p <= 4 ? 26 : p <= 8 ? 22 : 18;
    const kinds = "FBIW".split("").filter((kind) => actions.some((a) => a.kind === kind));
    const top = key(svg, kinds, t, width) + 34, scale = (width - left - right) / Math.max(result.span, result.gpipe);
    const pitch = high + lower + 7, y = (r) => top + r * pitch, bottom = y(p) - 7;
    Moving.text(svg, width, top - 11, t("holds"), {anchor: "end", fill: "quiet"});
    for (let r = 0; r < p; r++) {
      const middle = y(r) + (high + lower) / 2 + 4.5;
      Moving.add(svg, "rect", {x: left, y: y(r), width: result.span * scale, height: high + lower, rx: 2,
        fill: "ground"});
      Moving.text(svg, 0, middle, t("rank", r));
      Moving.text(svg, width, middle, values[`held ${r}`], {anchor: "end"});
    }
    const all = settings.follow < 0, paths = {}, numbers = [], way = [];
    for (const {kind, stage, mb, rank, start, end} of actions) {
      const x = left + start * scale, wide = (end - start) * scale, gap = wide > 4 ? 1 : wide > 2 ? 0.5 : 0;
      if (wide <= 0) continue;
      const at = y(rank) + (stage >= p ? lower : 0), inset = kind === "W" ? 0.6 : 0, followed = mb === settings.follow;
      const which = kind + (all || followed ? "" : " faint");
      paths[which] = (paths[which] || "") + box(x + inset, at + inset, wide - gap - 2 * inset, high - 2 * inset);
      const middle = [x + (wide - gap) / 2, at + high / 2];
      if (followed && kind !== "W") way.push(middle);
      if ((all || followed) && wide > 7 + 8 * String(mb).length) numbers.push([...middle, mb, ON[kind]]);
    }
    const thin = Math.min(1.25, 0.09 * scale);  // the outline of a narrow box must not fill it
    for (const which of Object.keys(paths).sort((a, b) => b.length - a.length)) {  // what is faint first
      const [kind, faint] = which.split(" ");
      Moving.add(svg, "path", {d: paths[which], ...LOOK[kind], ...(kind === "W" ? {"stroke-width": thin} : {}),
        opacity: faint ? 0.2 : undefined});
    }
    if (way.length) {
      const d = "M" + way.map((point) => point.map((value) => value.toFixed(1)).join(" ")).join("L");
      Moving.add(svg, "path", {d, fill: "none", stroke: "ink", "stroke-width": 1.25, "stroke-linejoin": "round"});
    }
    for (const [x, at, mb, fill] of all ? numbers : []) Moving.text(svg, x, at + 4.5, mb, {anchor: "middle", fill});
    ends(svg, result, values, t, {left, scale, top, bottom, width});
    Moving.size(svg, width, bottom + 46);
  }

  /* Where the step ends, and where GPipe's would: the same axis for all schedules. */
  function ends(svg, result, values, t, {left, scale, top, bottom, width}) {
    const same = result.schedule === "gpipe";
    const mark = (span, words, y, more) => {
      const x = left + span * scale, wide = Moving.wide(words);
      Moving.add(svg, "line", {x1: x, x2: x, y1: top - 4, y2: y - 12, "stroke-width": 1.25, ...more});
      Moving.text(svg, Math.min(x + wide / 2, width - 2) - wide / 2, y, words,
        {anchor: "middle", fill: more.stroke, style: "paint-order: stroke", stroke: "paper", "stroke-width": 4});
    };
    const dashed = {stroke: "quiet", "stroke-dasharray": "3 3"};
    if (!same) mark(result.gpipe, t("end.gpipe", values.gpipe), bottom + 38, dashed);
    mark(result.span, t("end", values.step), bottom + 19, {stroke: "ink"});
  }

  Moving.figure("pipeline", {
    words: {
      en: {
        alt: "A timeline: one row for each rank, a box for every forward and backward pass of a microbatch. What stays "
          + "empty is the bubble. Lines mark where the step ends, and where GPipe's would. Beside each row: how many "
          + "microbatches' activations the rank holds at most.",
        schedule: "Schedule", ranks: "Ranks", microbatches: "Microbatches", ratio: "Backward", message: "Message",
        follow: "Follow microbatch", all: "all",
        "message.is": "{} F", "ratio.is": "{} F",
        "schedule.gpipe": "GPipe", "schedule.1f1b": "1F1B", "schedule.interleaved1f1b": "Interleaved 1F1B",
        "schedule.loopedbfs": "Looped BFS", "schedule.interleavedzb": "Interleaved zero bubble",
        "schedule.zbv": "ZB-V", "schedule.dualpipev": "DualPipeV",
        "key.F": "forward (F)", "key.B": "backward", "key.I": "backward, input", "key.W": "backward, weights",
        rank: "rank {}", holds: "activations", end: "ends at {} F", "end.gpipe": "GPipe: {} F",
        bubble: "bubble {} %", formula: "by the formula {} %", step: "step {} F", most: "activations: at most {}",
        "said.gpipe": "All forward passes, then all backward passes: every rank holds the activations of all "
          + "microbatches.",
        "said.1f1b": "Forward and backward passes in turn: far fewer activations, and GPipe's bubble as long as "
          + "messages are free.",
        "said.interleaved1f1b": "Two stages a rank: the pipeline fills in half the time, and pays with messages.",
        "said.loopedbfs": "Two stages a rank, all microbatches through one before the next: GPipe, filled in half "
          + "the time.",
        "said.interleavedzb": "Nobody waits for gradients of weights, so they can fill gaps.",
        "said.zbv": "Down and up again: rank 0 has the first stage and the last. Once begun, no rank waits, if the "
          + "forward and both halves of the backward take equally long, and messages no time.",
        "said.dualpipev": "A V as well; in the middle, a forward and a backward pass are one, and send only when "
          + "both are done.",
        "changed.least": "It needs at least {} microbatches.",
        "changed.rounds": "It needs equal rounds: {} microbatches.",
      },
      zh: {
        alt: "时间线：每个 rank 一行，每个 microbatch 的每次前向和反向各是一个方框，空着的就是气泡。竖线标出这一步何时结束，"
          + "以及换成 GPipe 何时结束。每行右边是该 rank 最多同时持有几个 microbatch 的激活值。",
        schedule: "调度", ranks: "rank 数", microbatches: "microbatch 数", ratio: "反向", message: "消息",
        follow: "跟踪 microbatch", all: "全部",
        "message.is": "{} F", "ratio.is": "{} F",
        "schedule.gpipe": "GPipe", "schedule.1f1b": "1F1B", "schedule.interleaved1f1b": "Interleaved 1F1B",
        "schedule.loopedbfs": "Looped BFS", "schedule.interleavedzb": "Interleaved zero bubble",
        "schedule.zbv": "ZB-V", "schedule.dualpipev": "DualPipeV",
        "key.F": "前向 (F)", "key.B": "反向", "key.I": "反向：输入", "key.W": "反向：权重",
        rank: "rank {}", holds: "激活值", end: "{} F 结束", "end.gpipe": "GPipe：{} F",
        bubble: "气泡 {}%", formula: "按公式 {}%", step: "一步用时 {} F", most: "激活值最多 {} 份",
        "said.gpipe": "先做完全部前向，再做全部反向：每个 rank 都要存下所有 microbatch 的激活值。",
        "said.1f1b": "前向、反向交替进行：要存的激活值少得多；只要消息不花时间，气泡就和 GPipe 一样大。",
        "said.interleaved1f1b": "每个 rank 两个 stage：填满流水线的时间减半，代价是消息更多。",
        "said.loopedbfs": "每个 rank 两个 stage，所有 microbatch 过完一个再过下一个：填得快一倍的 GPipe。",
        "said.interleavedzb": "没有人等权重的梯度，正好用它来填空档。",
        "said.zbv": "先向下再折回来：rank 0 同时持有第一个和最后一个 stage。若前向和反向的两半用时相同，消息不花时间，那么每个 rank 一旦开工就不再等待。",
        "said.dualpipev": "同样是 V 形；中段把一次前向和一次反向合成一个动作，两者都完成才发送。",
        "changed.least": "它至少需要 {} 个 microbatch。",
        "changed.rounds": "它要求各轮一样大：{} 个 microbatch。",
      },
    },
    settings: [
      {key: "schedule", kind: "choice", values: Object.keys(LISTS), initial: "gpipe"},
      {key: "ranks", kind: "range", min: 2, max: 16, step: 1, initial: 4},
      {key: "microbatches", kind: "range", min: 1, max: 32, step: 1, initial: 8},
      {key: "ratio", kind: "range", min: 0.5, max: 4, step: 0.25, initial: 2},
      {key: "message", kind: "range", min: 0, max: 2, step: 0.1, initial: 0},
      {key: "follow", kind: "range", min: -1, max: 31, step: 1, initial: -1, show: (mb, t) => mb < 0 ? t("all") : mb},
    ],
    fit,
    compute,
    shown,
    draw,
    said: (result, {schedule, microbatches, changed}, t) =>
      t(`said.${schedule}`) + (changed ? (t.lang === "en" ? " " : "") + t(`changed.${changed}`, microbatches) : ""),
  });
})();
