/* The recorded run of the elastic chapter, played: a frame is a tenth of a second.

   The record's worlds, gaps and lives are read by plots.events; here is what they say at
   a moment. A test compares every number of every frame with the record. */
"use strict";

(() => {
  const NODES = ["a", "b", "c"];
  const WORLDS = {2: "rank-0", 4: "rank-4", 6: "rank-1"};  // colours of world sizes, as in plots/elastic.py
  const MOURNED = 2.5;  // seconds for which the mark stays on what was killed

  /* The moment `t`: the step done last, the gap it lies in, and the fault that came last, with its gap. */
  function moment({steps, gaps, faults, end}, t) {
    const fault = faults.filter(({time}) => time <= t).length;
    return {t, fault, over: t >= end, done: steps.filter(({time}) => time <= t).pop(),
      gap: gaps.find(({start, end: until}) => start < t && t < until),
      cost: fault ? gaps.find((gap) => gap.end > faults[fault - 1].time) : undefined};
  }

  function compute(settings, data) {
    const steps = data.worlds.flatMap(({size, steps: own}, world) =>
      own.map(([time, step, loss]) => ({time, step, loss, size, world})));
    return {...data, steps};
  }

  function shown(result, frame) {
    const t = frame / 10, {fault, done, gap, cost} = moment(result, t);
    const found = {
      time: t.toFixed(1),
      world: gap ? `${gap.before} → ${gap.after}` : done ? String(done.size) : "–",
      step: done ? String(done.step) : "–",
      loss: done ? done.loss.toFixed(3) : "–",
      next: cost ? (cost.end - result.faults[fault - 1].time).toFixed(1) : "–",
      still: cost ? cost.seconds.toFixed(1) : "–",
      redone: cost ? String(cost.redone) : "–",
    };
    result.gaps.forEach((each, i) => {
      if (each.start < t) found[`gap ${i}`] = (Math.min(t, each.end) - each.start).toFixed(1);
    });
    return found;
  }

  function said(result, settings, t, frame) {
    const {fault, done, cost, over, t: time} = moment(result, frame / 10), values = shown(result, frame);
    if (over) return t("said.end", values.step);
    if (!fault) return t(done ? "said.0.after" : "said.0");
    return t(cost && time < cost.end ? `said.${fault}` : `said.${fault}.after`, values);
  }

  // ---- the drawing: nodes, steps against seconds, losses against steps

  const f = (value) => Math.round(value * 10) / 10;

  // a thing looks as in the book's diagrams (book/diagrams/kit)

  /* The mark of what fails. */
  function mark(svg, x, y) {
    Moving.add(svg, "circle", {cx: f(x), cy: f(y), r: 9, fill: "bad", stroke: "paper", "stroke-width": 1.5});
    const d = `M${f(x - 3.5)} ${f(y - 3.5)}l7 7M${f(x + 3.5)} ${f(y - 3.5)}l-7 7`;
    Moving.add(svg, "path", {d, stroke: "paper", "stroke-width": 1.75, "stroke-linecap": "round", fill: "none"});
  }

  /* What runs: an agent, or a worker in its rank's colour. */
  function runs(svg, place, tone, words) {
    const box = {...place, rx: 6};
    Moving.add(svg, "rect", {...box, fill: "paper"});
    Moving.add(svg, "rect", {...box, fill: tone, "fill-opacity": 0.15, stroke: tone, "stroke-width": 1.5});
    Moving.text(svg, place.x + place.width / 2, place.y + place.height / 2 + 4.5, words, {anchor: "middle"});
  }

  function node(svg, result, t, time, name, x, wide) {
    const agents = result.agents.filter((each) => each.node === name);
    const agent = agents.find(({start, end}) => start <= time && time < end);
    const since = agent ? agent.start : 0;  // a new agent is not marked with the old one's end
    const mourned = ({end, killed}) => killed && since <= end && end <= time && time < end + MOURNED;
    const gone = agents.find(mourned);
    const mine = result.lives.filter((each) => each.node === name);
    const workers = mine.filter(({start, end}) => start <= time && time < end);
    const dead = mine.filter(mourned);
    const here = agent || workers.length;
    const outline = here ? {fill: "ground", stroke: "line"} : {fill: "none", stroke: "line", "stroke-dasharray": "5 4"};
    Moving.add(svg, "rect", {x: x + 1, y: 1, width: wide - 2, height: 106, rx: 10, "stroke-width": 1.5, ...outline});
    Moving.text(svg, x + 12, 21, t("node", name), {fill: here ? "ink" : "quiet", weight: 600});
    const place = {x: x + 8, y: 31, width: wide - 16, height: 28};
    if (agent) runs(svg, place, "quiet", t(name === "a" ? "agent.store" : "agent"));
    if (gone) mark(svg, x + wide / 2, 45);
    const width = (wide - 22) / 2;
    const seat = (rank) => ({x: x + 8 + rank % 2 * (width + 6), y: 66, width, height: 32});  // two ranks a node
    const empty = {rx: 6, fill: "none", stroke: "line", "stroke-width": 1.25, "stroke-dasharray": "3 3"};
    for (const rank of agent || workers.length || dead.length ? [0, 1] : []) {
      if (!workers.some((each) => each.rank % 2 === rank)) Moving.add(svg, "rect", {...seat(rank), ...empty});
    }
    for (const {rank} of workers) runs(svg, seat(rank), Moving.rank(rank), wide > 150 ? t("rank", rank) : rank);
    for (const {rank} of dead) mark(svg, seat(rank).x + width / 2, 82);
  }

  /* The steps against seconds: a sawtooth, with the time without a step and the faults. */
  function sawtooth(svg, result, t, frame, {top, high, left, width}) {
    const time = frame / 10, last = result.control.length, values = shown(result, frame);
    const x = (at) => f(left + at / result.end * (width - left - 6));
    const y = (step) => f(top + high - step / last * (high - 6));
    Moving.text(svg, 0, top - 24, t("axis.step"), {fill: "quiet"});
    const begun = result.gaps.filter(({start}) => start < time);
    for (const gap of begun) {
      const until = Math.min(time, gap.end);
      Moving.add(svg, "rect", {x: x(gap.start), y: top, width: x(until) - x(gap.start), height: high, fill: "grid"});
    }
    result.faults.forEach(({time: at}, i) => {
      const look = at <= time ? {fill: "ink", stroke: "quiet"} : {fill: "quiet", stroke: "line"};
      const weight = at <= time ? 700 : 400;
      Moving.add(svg, "line", {x1: x(at), x2: x(at), y1: top - 2, y2: top + high, stroke: look.stroke,
        "stroke-width": 1, "stroke-dasharray": "2 3"});
      Moving.text(svg, x(at), top - 6, i + 1, {anchor: "middle", fill: look.fill, "font-weight": weight});
    });
    begun.forEach((gap, i) => {
      const words = t("seconds", values[`gap ${i}`]), room = x(gap.end) - x(gap.start);
      const halo = {style: "paint-order: stroke", stroke: "grid", "stroke-width": 4};
      if (gap.end <= time) {
        Moving.text(svg, x(gap.start) + room / 2, top + high - 6, room > 40 ? words : values[`gap ${i}`],
          {anchor: "middle", ...halo});
      } else {  // it still counts
        const beside = x(time) + 6 + Moving.wide(words) < width;
        Moving.text(svg, x(time) + (beside ? 6 : -6), top + high - 6, beside ? words : values[`gap ${i}`],
          {anchor: beside ? "start" : "end"});
      }
    });
    axis(svg, [0, 24, 48].map((step) => [left - 8, y(step) + 4.5, step, "end"]));
    axis(svg, [[x(0), top + high + 17, 0, "start"], ...[10, 20, 30].map((s) =>
      [x(s), top + high + 17, t("seconds", s), s < 30 ? "middle" : "end"])]);
    frameOf(svg, top, high, left, width);
    result.worlds.forEach(({size, steps}) => {
      const done = steps.filter(([at]) => at <= time);
      if (!done.length) return;
      const d = "M" + done.map(([at, step]) => `${x(at)} ${y(step)}`).join("L");
      Moving.add(svg, "path", {d, fill: "none", stroke: WORLDS[size], "stroke-width": 2.5, "stroke-linejoin": "round"});
      const [at, step] = done[done.length - 1];
      Moving.add(svg, "circle", {cx: x(at), cy: y(step), r: 2.5, fill: WORLDS[size]});
    });
    const now = x(Math.min(time, result.end));
    Moving.add(svg, "line", {x1: now, x2: now, y1: top, y2: top + high, stroke: "ink", "stroke-width": 1.25});
  }

  /* The losses against steps, on the line of the run that nobody interrupted. */
  function losses(svg, result, t, frame, {top, high, left, width}) {
    const {control} = result, least = Math.min(...control), most = Math.max(...control);
    const x = (step) => f(left + step / control.length * (width - left - 6));
    const y = (loss) => f(top + 4 + (most - loss) / (most - least) * (high - 10));
    Moving.text(svg, 0, top - 8, t("axis.loss"), {fill: "quiet"});
    frameOf(svg, top, high, left, width);
    const d = "M" + control.map((loss, i) => `${x(i + 1)} ${y(loss)}`).join("L");
    Moving.add(svg, "path", {d, fill: "none", stroke: "grid", "stroke-width": 6, "stroke-linejoin": "round"});
    axis(svg, [0, 24, 48].map((step) => [x(step), top + high + 17, step, step < 48 ? "middle" : "end"]));
    const seen = new Set();
    for (const {time, step, loss, size} of result.steps) {
      if (time > frame / 10) break;
      const again = seen.has(step);
      Moving.add(svg, "circle", {cx: x(step), cy: y(loss), r: again ? 5 : 2.5, fill: again ? "none" : WORLDS[size],
        stroke: again ? WORLDS[size] : "none", "stroke-width": 1.25});
      seen.add(step);
    }
  }

  function frameOf(svg, top, high, left, width) {
    const d = `M${left} ${top}V${top + high}H${width - 6}`;
    Moving.add(svg, "path", {d, fill: "none", stroke: "line", "stroke-width": 1.25});
  }

  function axis(svg, marks) {
    for (const [x, y, words, anchor] of marks) Moving.text(svg, x, y, words, {anchor, fill: "quiet"});
  }

  function draw(svg, result, settings, t, frame, width) {
    const gap = width < 400 ? 8 : 16, wide = (width - 2 * gap) / 3, time = frame / 10;
    NODES.forEach((name, i) => node(svg, result, t, time, name, i * (wide + gap), wide));
    const left = 28;
    sawtooth(svg, result, t, frame, {top: 156, high: 110, left, width});
    losses(svg, result, t, frame, {top: 322, high: 84, left, width});
    const x = key(svg, t, width);
    Moving.size(svg, width, x);
  }

  /* The colours of the world sizes, and what the wide line and the rings are. */
  function key(svg, t, width) {
    let x = 0, y = 448;
    const put = (words, mark) => {
      const wide = 22 + Moving.wide(words) + 14;
      if (x + wide > width) [x, y] = [0, y + 20];
      mark(x, y - 4.5);
      Moving.text(svg, x + 22, y, words, {fill: "quiet"});
      x += wide;
    };
    const dash = (stroke, wide) => (at, level) => Moving.add(svg, "line", {x1: at, x2: at + 15, y1: level, y2: level,
      stroke, "stroke-width": wide});
    for (const size of [2, 4, 6]) put(t("workers", size), dash(WORLDS[size], 2.5));
    put(t("never"), dash("grid", 6));
    put(t("again"), (at, level) => Moving.add(svg, "circle", {cx: at + 8, cy: level, r: 5, fill: "none",
      stroke: "quiet", "stroke-width": 1.25}));
    return y + 8;
  }

  const EN = {
    alt: "Three nodes, each with its agent and two workers; below them, the step against seconds and the loss against "
      + "steps, as they were recorded. Faults are numbered; the seconds without a step are shaded.",
    node: "node {}", rank: "rank {}", agent: "agent", "agent.store": "agent, store", seconds: "{} s",
    "axis.step": "step", "axis.loss": "loss, by step",
    workers: "{} workers", never: "never interrupted", again: "done again",
    time: "at {} s", world: "world size {}", step: "step {}", loss: "loss {}",
    next: "fault to next step {} s", still: "without a step {} s", redone: "steps redone {}",
    "mark.1": "1 b joins", "mark.2": "2 a worker killed", "mark.3": "3 b leaves", "mark.4": "4 b and c join",
    "mark.5": "5 node c killed", "mark.6": "6 a's agent killed", "mark.7": "7 started again",
    "said.0": "The agent on node a starts two workers, ranks 0 and 1.",
    "said.0.after": "Two workers train. Every five steps they save a checkpoint.",
    "said.1": "b's agent joins and waits. a's agent sees it and sends its workers SIGTERM: they finish the step, "
      + "save and end.",
    "said.1.after": "Four new workers go on where the two stopped: no step was lost.",
    "said.2": "One of b's workers is killed. gloo finds its connection closed, so the others raise; nobody could save.",
    "said.2.after": "Four new workers, from the last checkpoint. Steps done again: {redone}.",
    "said.3": "b's agent gets SIGTERM. All four workers save after the same step. a's agent waits until b's "
      + "keep-alive is overdue.",
    "said.3.after": "a goes on alone. No step was lost, but {still} s: almost all of it was the wait for the "
      + "keep-alive.",
    "said.4": "c joins, and b again. The rendezvous stays open a second longer, for the last call: one restart for "
      + "both.",
    "said.4.after": "Six workers, a third of the batch on each node.",
    "said.5": "Node c is gone: both workers and the agent. The other workers raise; their agents wait for c's "
      + "keep-alive.",
    "said.5.after": "Four workers go on, {still} s after the last step. Steps done again: {redone}.",
    "said.6": "a's agent is killed, and with it the store. a's workers go, b's raise; b's agent finds nobody. The "
      + "job is over.",
    "said.7": "Somebody starts a again, with the same line. The new agent hosts a new store.",
    "said.7.after": "Two workers go on from the last checkpoint. Steps done again: {redone}.",
    "said.end": "Step {}: done. Every dot lies on the wide line, whoever computed it.",
  };
  const ZH = {
    alt: "三个节点，各有一个 agent 和两个 worker；下面是步数随秒数、损失随步数的变化，均为实际记录。故障有编号，没有一步完成的时间涂成灰色。",
    node: "节点 {}", rank: "rank {}", agent: "agent", "agent.store": "agent、store", seconds: "{} 秒",
    "axis.step": "步数", "axis.loss": "损失（按步数）", workers: "{} 个 worker", never: "从未中断", again: "重做",
    time: "第 {} 秒", world: "world size {}", step: "第 {} 步", loss: "损失 {}",
    next: "故障到下一步 {} 秒", still: "停顿 {} 秒", redone: "重做 {} 步",
    "mark.1": "1 b 加入", "mark.2": "2 杀死一个 worker", "mark.3": "3 b 离开", "mark.4": "4 b、c 加入",
    "mark.5": "5 杀死节点 c", "mark.6": "6 杀死 a 的 agent", "mark.7": "7 重新启动",
    "said.0": "节点 a 上的 agent 启动两个 worker：rank 0 和 rank 1。",
    "said.0.after": "两个 worker 在训练，每五步保存一次 checkpoint。",
    "said.1": "b 的 agent 加入并等待。a 的 agent 发现后给自己的 worker 发 SIGTERM：它们做完这一步，保存，退出。",
    "said.1.after": "四个新 worker 接着停下的地方继续，一步也没丢。",
    "said.2": "b 的一个 worker 被杀死。gloo 发现连接已断，其余 worker 抛出异常，谁也来不及保存。",
    "said.2.after": "四个新 worker 从最近的 checkpoint 继续，重做 {redone} 步。",
    "said.3": "b 的 agent 收到 SIGTERM。四个 worker 在同一步之后保存。a 的 agent 要等到 b 的 keep-alive 过期。",
    "said.3.after": "a 独自继续。一步没丢，却停了 {still} 秒，几乎都在等 keep-alive 过期。",
    "said.4": "c 加入，b 也回来了。rendezvous 多开放一秒（last call），两个节点只需重启一次。",
    "said.4.after": "六个 worker，每个节点负责三分之一的 batch。",
    "said.5": "节点 c 没了：两个 worker 连同 agent。其余 worker 抛出异常，它们的 agent 等 c 的 keep-alive 过期。",
    "said.5.after": "四个 worker 在停顿 {still} 秒之后继续，重做 {redone} 步。",
    "said.6": "a 的 agent 被杀死，store 也随之消失。a 的 worker 退出，b 的抛出异常；b 的 agent 谁也找不到，作业到此结束。",
    "said.7": "有人用同一行命令再次启动 a，新的 agent 带着新的 store。",
    "said.7.after": "两个 worker 从最近的 checkpoint 继续，重做 {redone} 步。",
    "said.end": "第 {} 步，完成。无论由谁计算，每个点都落在那条宽线上。",
  };

  Moving.figure("elastic", {
    words: {en: EN, zh: ZH},
    settings: [],
    compute,
    shown,
    said,
    draw,
    frames: ({end}) => Math.ceil(end * 10) + 1,
    start: ({faults}) => Math.ceil(faults[4].time * 10) + 3,  // three nodes, and one just killed
    pace: 100,
    marks: ({faults}, t) => faults.map(({time}, i) => ({frame: Math.ceil(time * 10), label: t(`mark.${i + 1}`)})),
    /* Where something happens: a fault, the last step before a gap, the first after it, the end. */
    stops: ({faults, gaps, end}) => [0, ...faults.map(({time}) => time), ...gaps.flatMap(({start, end: until}) =>
      [start, until]), end].map((time) => Math.ceil(time * 10)).sort((a, b) => a - b),
  });
})();
