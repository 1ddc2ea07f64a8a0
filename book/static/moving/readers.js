/* Who reads which sample: ranks, their loader workers, and the ways to share the samples out.

   What each reader reads is what bookext.moving_twins.readers computes, to the order that torch shuffles. */
"use strict";

(() => {
  const {add, text, group, size, wide, rank, on} = Moving;
  const BATCH = 2, EPOCHS = 10;  // of the page; and as many as can be stepped through
  const SHUFFLED = ["shuffled", "set_epoch"];  // by DistributedSampler, which forgets or knows the epoch
  const INDEXED = ["no_sampler", "sampler", ...SHUFFLED];

  function upTo(n, make) {
    return Array.from({length: n}, (_, i) => make(i));
  }

  // ---- torch.randperm: a Mersenne twister, and one swap for each number

  function twister(seed) {
    const state = new Uint32Array(624);
    state[0] = seed;
    for (let i = 1; i < 624; i++) state[i] = Math.imul(1812433253, state[i - 1] ^ (state[i - 1] >>> 30)) + i;
    let at = 624;
    return () => {
      if (at === 624) {
        for (let i = 0; i < 624; i++) {
          const y = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7fffffff);
          state[i] = state[(i + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
        }
        at = 0;
      }
      let y = state[at++];
      y ^= y >>> 11;
      y ^= (y << 7) & 0x9d2c5680;
      y ^= (y << 15) & 0xefc60000;
      return (y ^ (y >>> 18)) >>> 0;
    };
  }

  function permuted(n, seed) {
    const draw = twister(seed), order = upTo(n, (i) => i);
    for (let i = 0; i < n - 1; i++) {
      const other = i + draw() % (n - i);
      [order[i], order[other]] = [order[other], order[i]];
    }
    return order;
  }

  // ---- the shares: [{rank, worker, read, dropped, batches}], in the order of the readers

  /* What DistributedSampler gives a rank. */
  function sampled({samples, ranks, drop_last}, r, order) {
    const each = drop_last ? Math.floor(samples / ranks) : Math.ceil(samples / ranks);
    return upTo(each, (i) => order[(r + i * ranks) % samples]);
  }

  function stream(job, r, w) {
    const workers = Math.max(1, job.workers), count = job.ranks * workers, index = r * workers + w;
    const from = (first, step) => upTo(Math.max(0, Math.ceil((job.samples - first) / step)), (i) => first + i * step);
    if (job.way === "nobody") return from(0, 1);
    if (job.way === "by_rank") return from(r, job.ranks);
    if (job.way === "by_worker") return from(w, workers);
    if (job.way === "by_both") return from(index, count);
    if (job.way === "rounded_up") {
      const share = Math.ceil(job.samples / count);
      return upTo(share, (i) => index * share + i);
    }
    const starts = upTo(job.samples + 1, (line) => upTo(line, (i) => `${i}\n`.length).reduce((a, b) => a + b, 0));
    const edge = (i) => Math.floor(starts[job.samples] * i / count);  // in bytes
    return upTo(job.samples, (i) => i).filter((line) => starts[line] >= edge(index) && starts[line] < edge(index + 1));
  }

  /* drop_last of a loader: an incomplete batch at its end is dropped. */
  function batched(samples, drop) {
    const kept = drop ? samples.length - samples.length % BATCH : samples.length;
    return {read: samples.slice(0, kept), dropped: samples.slice(kept), batches: Math.ceil(kept / BATCH)};
  }

  function shares(job, epoch) {
    const workers = Math.max(1, job.workers), found = [];
    const order = !SHUFFLED.includes(job.way) ? upTo(job.samples, (i) => i)
      : permuted(job.samples, job.way === "set_epoch" ? epoch : 0);
    for (let r = 0; r < job.ranks; r++) {
      if (!INDEXED.includes(job.way)) {
        found.push(...upTo(workers, (w) => ({rank: r, worker: w, ...batched(stream(job, r, w), job.drop_last)})));
        continue;
      }
      const whole = job.way === "no_sampler" ? batched(order, job.drop_last)
        : batched(sampled(job, r, order), false);
      const mine = upTo(workers, (w) => ({rank: r, worker: w, read: [], dropped: [], batches: 0}));
      for (let at = 0; at < whole.read.length; at += BATCH) {  // the batches go to the workers in turn
        const one = mine[at / BATCH % workers];
        one.read.push(...whole.read.slice(at, at + BATCH));
        one.batches++;
      }
      mine[Math.floor(whole.read.length / BATCH) % workers].dropped = whole.dropped;
      found.push(...mine);
    }
    return found;
  }

  function times(readers, samples) {
    const counts = new Array(samples).fill(0);
    for (const one of readers) for (const sample of one.read) if (sample < samples) counts[sample]++;
    return counts;
  }

  function compute(job) {
    if (job.way === "rounded_up" && !job.workers) return {job, fails: true, epochs: []};
    const epochs = upTo(SHUFFLED.includes(job.way) ? EPOCHS : 1, (epoch) => {
      const readers = shares(job, epoch);
      return {readers, times: times(readers, job.samples)};
    });
    return {job, epochs};
  }

  /* How often each sample was read, from the first epoch to this one. */
  function together(result, frame) {
    const epochs = result.epochs.slice(0, frame + 1);
    return epochs[0].times.map((_, i) => epochs.reduce((sum, {times}) => sum + times[i], 0));
  }

  function counted({job, epochs}, frame) {
    const {readers, times} = epochs[frame];
    const read = readers.flatMap((one) => one.read), per = new Array(job.ranks).fill(0);
    for (const one of readers) per[one.rank] += one.batches;
    return {once: times.filter((n) => n === 1).length, more: times.filter((n) => n > 1).length,
      never: times.filter((n) => n === 0).length, others: read.filter((i) => i >= job.samples).length,
      dropped: readers.flatMap((one) => one.dropped).length, fewest: Math.min(...per), most: Math.max(...per)};
  }

  // ---- the drawing: a row a reader, a column a sample, and below them how often each was read

  function draw(svg, result, settings, t, frame, width) {
    const {job} = result, workers = Math.max(1, job.workers), several = result.epochs.length > 1;
    const count = job.ranks * workers, tall = count <= 8 ? 20 : count <= 16 ? 15 : 11;
    const names = width >= 420, gutter = (names ? 56 : 28) + (workers > 1 ? 22 : 4);
    const behind = job.way === "rounded_up" ? 34 : 4;
    const pitch = Math.min(34, (width - gutter - behind) / job.samples);
    const at = {gutter, pitch, tall, workers, names, step: tall * workers + 6, width, x: (i) => gutter + i * pitch};
    const below = 50 + at.step * job.ranks;
    size(svg, width, below + (several ? 122 : 46));
    head(svg, at, job, t);
    upTo(job.ranks, (r) => oneRank(group(svg, 0, 44 + r * at.step), at, job, r, result, frame, t));
    if (result.fails) {
      text(svg, gutter + 8, 58, "AttributeError", {fill: "bad", "font-weight": 600});
      return;
    }
    totals(group(svg, 0, below), at, result.epochs[frame].times, t);
    if (several) history(group(svg, 0, below + 58), at, together(result, frame), frame + 1, t);
  }

  function head(svg, at, job, t) {
    text(svg, 0, 13, at.workers > 1 ? t("readers") : t("rank_only"), {fill: "quiet"});
    const words = t(["rounded_up", "by_bytes"].includes(job.way) ? "line" : "sample");
    text(svg, Math.max(at.gutter, wide(t("readers")) + 24), 13, words, {fill: "quiet"});
    const every = at.pitch >= 18 ? 1 : 5;
    for (let i = 0; i < job.samples; i += every) {
      text(svg, at.x(i) + at.pitch / 2, 34, i, {fill: "quiet", anchor: "middle"});
    }
  }

  function oneRank(place, at, job, r, {epochs, fails}, frame, t) {
    const height = at.tall * at.workers;
    add(place, "rect", {x: 0, y: 0, width: at.names ? 50 : 24, height: height - 1, rx: 4, fill: rank(r)});
    text(place, at.names ? 25 : 12, height / 2 + 4, at.names ? t("rank", r) : r, {anchor: "middle", fill: on(r),
      "font-weight": 600});
    for (let w = 0; w < at.workers; w++) {
      const y = w * at.tall;
      if (at.workers > 1 && at.tall >= 15) {
        text(place, at.gutter - 8, y + at.tall / 2 + 4, w, {fill: "quiet", anchor: "end"});
      }
      add(place, "rect", {x: at.gutter, y, width: at.pitch * job.samples, height: at.tall - 1, rx: 2, fill: "ground"});
      if (!fails) oneReader(group(place, 0, y), at, job, epochs[frame].readers[r * at.workers + w]);
    }
  }

  function oneReader(place, at, job, one) {
    const cell = {y: 0.5, width: Math.max(4, at.pitch - 2), height: at.tall - 2, rx: 2};
    for (const sample of one.read.filter((i) => i < job.samples)) {
      add(place, "rect", {x: at.x(sample) + 1, ...cell, fill: rank(one.rank)});
    }
    for (const sample of one.dropped.filter((i) => i < job.samples)) {
      const box = {x: at.x(sample) + 1.75, y: 1.25, width: cell.width - 1.5, height: cell.height - 1.5, rx: 2};
      add(place, "rect", {...box, fill: "paper", stroke: "bad", "stroke-width": 1.5, "stroke-dasharray": "3 2"});
    }
    const others = one.read.filter((i) => i >= job.samples).length;
    if (others) {
      text(place, at.x(job.samples) + 6, at.tall / 2 + 4, `+${others}`, {fill: "bad", "font-weight": 600});
    }
  }

  /* Samples in a row that were read equally often share a bracket. */
  function totals(place, at, times, t) {
    text(place, 0, 21, t("often"), {fill: "quiet"});
    for (let from = 0, end; from < times.length; from = end) {
      for (end = from + 1; times[end] === times[from];) end++;
      const fill = times[from] === 1 ? "good" : "bad", x = at.x(from) + 1.5, right = at.x(end) - 1.5;
      add(place, "path", {d: `M${x} 2v3H${right}v-3`, fill: "none", stroke: fill, "stroke-width": 1.5});
      text(place, (x + right) / 2, 21, times[from], {fill, anchor: "middle", "font-weight": 600});
    }
  }

  /* Over all epochs so far: a column a sample, and a line where each should end. */
  function history(place, at, sums, epochs, t) {
    const most = Math.max(epochs, ...sums), tall = (n) => n / most * 34;
    text(place, 0, -4, t("so_far", epochs), {fill: "quiet"});
    sums.forEach((n, i) => {
      const x = at.x(i) + at.pitch / 2, width = Math.max(4, Math.min(14, at.pitch - 4));
      const fill = n > 0 && (n < 2 * epochs || n === epochs) ? "good" : "bad";  // bad: the same in every epoch
      add(place, "rect", {x: x - width / 2, y: 40 - tall(n), width, height: Math.max(1, tall(n)), rx: 1.5, fill});
      if (at.pitch >= 17 || n === 0) text(place, x, 56, n, {anchor: "middle", fill});
    });
    const y = 40 - tall(epochs);
    add(place, "path", {d: `M${at.gutter} ${y}H${at.x(sums.length)}`, stroke: "ink", "stroke-width": 1.25,
      "stroke-dasharray": "4 3"});
  }

  // ---- words

  function said(result, settings, t, frame) {
    const {job} = result;
    if (result.fails) return t("why.fails");
    const found = counted(result, frame), even = job.samples % job.ranks === 0;
    const readers = job.ranks * Math.max(1, job.workers);
    const why = {
      nobody: readers > 1 ? "why.nobody" : "why.alone",
      by_rank: job.workers > 1 ? "why.by_rank" : "why.by_rank.right",
      by_worker: job.ranks > 1 ? "why.by_worker" : "why.by_worker.right",
      by_both: "why.by_both",
      no_sampler: job.ranks > 1 ? "why.no_sampler" : "why.alone",
      rounded_up: found.others ? "why.rounded_up" : "why.rounded_up.fits",
      by_bytes: "why.by_bytes",
    }[job.way] || (even ? "why.even" : job.drop_last ? "why.left_out" : "why.padded");
    const parts = [t(why, {readers, workers: job.workers, ranks: job.ranks, others: found.others,
      left: job.samples % job.ranks, more: (job.ranks - job.samples % job.ranks) % job.ranks})];
    if (found.dropped) parts.push(t("why.dropped", found.dropped));
    const {fewest: a, most: b} = found;
    if (a !== b) parts.push(t("why.uneven", {a, b, step: a + 1}));
    if (result.epochs.length > 1 && frame) {
      const never = together(result, frame).filter((n) => n === 0).length;
      parts.push(t(`why.${job.way}`, {epochs: frame + 1, never}));
    }
    return parts.join(t.lang === "zh" ? "" : " ");
  }

  function shown(result, frame) {
    if (result.fails) return {fails: "AttributeError"};
    const found = counted(result, frame), {readers, times} = result.epochs[frame];
    return {
      once: String(found.once), more: String(found.more), never: String(found.never),
      ...(found.others ? {others: String(found.others)} : {}),
      batches: found.fewest === found.most ? String(found.most) : `${found.fewest}–${found.most}`,
      read: readers.map((one) => one.read.join(" ")).join("|"),
      dropped: readers.map((one) => one.dropped.join(" ")).join("|"),
      times: times.join(" "), together: together(result, frame).join(" "),
    };
  }

  Moving.figure("readers", {
    words: {
      en: {alt: "A row for each reader and a column for each sample: coloured cells show who reads what. Below, how " +
          "often each sample is read in an epoch.",
        way: "Who divides", ranks: "Ranks", workers: "Workers a rank", samples: "Samples",
        drop_last: "drop_last",
        "way.nobody": "stream: nobody", "way.by_rank": "stream: by rank", "way.by_worker": "stream: by worker",
        "way.by_both": "stream: by rank and worker", "way.no_sampler": "index: no sampler",
        "way.sampler": "index: DistributedSampler", "way.rounded_up": "file: lines, rounded up",
        "way.by_bytes": "file: ShardedLines",
        "way.shuffled": "index: shuffled, no set_epoch", "way.set_epoch": "index: shuffled, with set_epoch",
        readers: "rank, worker", rank_only: "rank", rank: "rank {}", sample: "sample", line: "line", often: "read",
        so_far: "read so far, in epochs: {}",
        once: "once: {}", more: "more than once: {}", never: "never: {}", others: "not in the file: {}",
        batches: "batches a rank: {}",
        "why.fails": "CeilSplitLines asks its worker for a number, and there is no worker.",
        "why.alone": "There is only one reader.",
        "why.nobody": "Each of the {readers} readers goes through the whole stream.",
        "why.by_rank": "The {workers} workers of a rank all read the same samples.",
        "why.by_rank.right": "With one reader a rank, dividing by rank is enough.",
        "why.by_worker": "The workers share, but each of the {ranks} ranks starts from the same stream.",
        "why.by_worker.right": "With a single rank, dividing by worker is enough.",
        "why.by_both": "The {readers} readers take the samples in turn: none comes twice.",
        "why.no_sampler": "Each of the {ranks} ranks goes through all samples; its workers fetch them in turn.",
        "why.even": "The samples divide evenly among the ranks.",
        "why.padded": "Read again, so that all ranks get the same number of samples: {more}.",
        "why.left_out": "Left out, so that all ranks get the same number of samples: {left}.",
        "why.rounded_up": "All {readers} readers get equally many lines; {others} lie behind the end of the file.",
        "why.rounded_up.fits": "Here the lines divide evenly among the {readers} readers.",
        "why.by_bytes": "Each of the {readers} readers gets a part of the bytes, and the lines that begin in it.",
        "why.dropped": "drop_last drops incomplete batches at the end. Reads lost: {}.",
        "why.uneven": "The ranks make {a} to {b} batches: DDP would hang in step {step}.",
        "why.set_epoch": "Never read in {epochs} epochs: {never}.",
        "why.shuffled": "Without set_epoch, all {epochs} epochs are alike. Never read: {never}."},
      zh: {alt: "每行是一个读取者，每列是一个样本，彩色格子表示谁读了什么；最下面是一个 epoch 里每个样本读了几次。",
        way: "怎样分配", ranks: "rank 数", workers: "worker 数", samples: "样本数",
        drop_last: "drop_last",
        "way.nobody": "数据流：不分配", "way.by_rank": "数据流：按 rank", "way.by_worker": "数据流：按 worker",
        "way.by_both": "数据流：按 rank 和 worker", "way.no_sampler": "有下标：没有 sampler",
        "way.sampler": "有下标：DistributedSampler", "way.rounded_up": "文件：行数向上取整",
        "way.by_bytes": "文件：ShardedLines",
        "way.shuffled": "有下标：打乱，不调用 set_epoch", "way.set_epoch": "有下标：打乱，并调用 set_epoch",
        readers: "rank、worker", rank_only: "rank", rank: "rank {}", sample: "样本", line: "行", often: "次数",
        so_far: "到目前为止读了几次；epoch 数：{}",
        once: "一次：{}", more: "多次：{}", never: "从未：{}", others: "文件里没有的：{}", batches: "每个 rank 的 batch 数：{}",
        "why.fails": "CeilSplitLines 要问 worker 的编号，而这里没有 worker。",
        "why.alone": "只有一个读取者。",
        "why.nobody": "{readers} 个读取者，每一个都把整个数据流读一遍。",
        "why.by_rank": "同一个 rank 的 {workers} 个 worker 读的是同样的样本。",
        "why.by_rank.right": "每个 rank 只有一个读取者，按 rank 分配就够了。",
        "why.by_worker": "worker 之间分开了，但 {ranks} 个 rank 读的是同样的样本。",
        "why.by_worker.right": "只有一个 rank，按 worker 分配就够了。",
        "why.by_both": "{readers} 个读取者轮流取样本，谁也不重复。",
        "why.no_sampler": "{ranks} 个 rank，每一个都读全部样本；它的各个 worker 轮流取 batch。",
        "why.even": "样本数正好能平均分给各个 rank。",
        "why.padded": "为了让各 rank 得到同样多，有 {more} 个样本再给一次。",
        "why.left_out": "为了让各 rank 得到同样多，漏掉了 {left} 个样本。",
        "why.rounded_up": "{readers} 个读取者的行数相同，其中 {others} 行在文件末尾之后。",
        "why.rounded_up.fits": "这里的行数正好能平均分给 {readers} 个读取者。",
        "why.by_bytes": "{readers} 个读取者各得一段字节；一行从哪一段开始，就归谁。",
        "why.dropped": "drop_last 丢掉末尾不满的 batch，共少读 {} 次。",
        "why.uneven": "各 rank 有 {a} 到 {b} 个 batch：DDP 会卡在第 {step} 步。",
        "why.set_epoch": "{epochs} 个 epoch 里，从未读到的样本：{never} 个。",
        "why.shuffled": "没有 set_epoch，{epochs} 个 epoch 都一样。从未读到的样本：{never} 个。"},
    },
    settings: [
      {key: "way", kind: "choice", initial: "by_both", wide: true,
        values: ["nobody", "by_rank", "by_worker", "by_both", ...INDEXED, "rounded_up", "by_bytes"]},
      {key: "ranks", kind: "range", min: 1, max: 8, initial: 2},
      {key: "workers", kind: "range", min: 0, max: 4, initial: 2},
      {key: "drop_last", kind: "check", initial: true},
      {key: "samples", kind: "range", min: 4, max: 24, initial: 11},
    ],
    compute,
    frames: ({epochs}) => epochs.length > 1 ? epochs.length : 0,
    pace: 1200,
    shown,
    said,
    draw,
  });
})();
