/* Memory of a rank: parameters, gradients, optimizer states, activations, against the cards there are.

   Computes what rank_memory of bookext/moving_data/memory.py computes; data has the shapes of its models. */
"use strict";

(() => {
  const GIB = 2 ** 30;
  const CARDS = [24, 80, 141];  // GiB, as they are sold
  const SCALES = [30, 96, 164];  // GiB, of the whole width
  const PARTS = {parameters: "rank-0", gradients: "rank-1", optimizer: "rank-2", activations: "rank-5"};
  const STAGES = [0, 1, 2, 3];

  const words = {
    en: {
      alt: "Four bars, one for each stage of ZeRO: parameters, gradients, optimizer states and activations of a rank, "
        + "with lines for cards of 24, 80 and 141 GiB.",
      model: "Parameters", "model.is": "{} B", zero: "ZeRO stage", sequences: "Microbatch size",
      precision: "Precision", "precision.bf16": "bf16 mixed", "precision.float32": "fp32",
      checkpointing: "Checkpointing", "checkpointing.none": "none",
      "checkpointing.attention": "attention only", "checkpointing.layers": "each layer",
      "zero.0": "0: nothing cut (DDP)", "zero.1": "1: optimizer states", "zero.2": "2: gradients, too",
      "zero.3": "3: parameters, too",
      data: "Data parallel", tensor: "Tensor parallel", pipeline: "Pipeline parallel",
      parameters: "parameters", gradients: "gradients", optimizer: "optimizer", activations: "activations",
      "stage.0": "ZeRO 0 (DDP)", "stage.1": "ZeRO 1", "stage.2": "ZeRO 2", "stage.3": "ZeRO 3 (FSDP)",
      gib: "{} GiB", ranks: "ranks in all {}",
      "where.rank": "a rank", "where.first": "a rank of the first pipeline stage",
      fits: "Stage {stage} keeps {total} GiB on {where}. By this count a card of {card} GiB is enough.",
      large: "Stage {stage} keeps {total} GiB on {where}. None of these cards is enough.",
    },
    zh: {
      alt: "四条横条，ZeRO 每级一条：一个 rank 的参数、梯度、优化器状态和激活值，并标出 24、80 和 141 GiB 的卡。",
      model: "参数量", "model.is": "{} B", zero: "ZeRO 级别", sequences: "microbatch 大小",
      precision: "精度", "precision.bf16": "bf16 混合精度", "precision.float32": "fp32",
      checkpointing: "激活重计算", "checkpointing.none": "无",
      "checkpointing.attention": "只重算注意力", "checkpointing.layers": "每一层",
      "zero.0": "0：什么都不切（DDP）", "zero.1": "1：优化器状态", "zero.2": "2：再加梯度",
      "zero.3": "3：再加参数",
      data: "数据并行", tensor: "张量并行", pipeline: "流水线并行",
      parameters: "参数", gradients: "梯度", optimizer: "优化器", activations: "激活值",
      "stage.0": "ZeRO 0（DDP）", "stage.1": "ZeRO 1", "stage.2": "ZeRO 2", "stage.3": "ZeRO 3（FSDP）",
      gib: "{} GiB", ranks: "rank 总数 {}",
      "where.rank": "每个 rank 上", "where.first": "流水线第一个 stage 的 rank 上",
      fits: "第 {stage} 级在{where}占 {total} GiB。照此计算，{card} GiB 的卡够用。",
      large: "第 {stage} 级在{where}占 {total} GiB。这几种卡都不够。",
    },
  };

  /* Heads are cut by tensor parallelism, layers by the pipeline: not into more than there are. */
  function fit(settings, {models}) {
    const {heads, layers} = models[settings.model];
    let {tensor, pipeline} = settings;
    while (heads % tensor) tensor /= 2;
    while (pipeline > layers) pipeline /= 2;
    return {...settings, tensor, pipeline};
  }

  function activations({heads, hidden, layers, sequence, vocabulary}, width, settings) {
    const {tensor, pipeline, sequences, checkpointing} = settings;
    const tokens = sequence * sequences;
    const values = tokens * hidden / tensor, weights = heads * sequence * tokens / tensor;
    const whole = (16 * width + 2) * values;
    const layer = {none: whole + (2 * width + 1) * weights, attention: whole, layers: width * values}[checkpointing];
    let kept = pipeline * (Math.ceil(layers / pipeline) * layer + values);
    if (checkpointing === "layers") kept += whole;
    if (pipeline === 1) kept += 2 * width * values + 4 * tokens * vocabulary / tensor;
    return kept;
  }

  /* Bytes of a rank of the first pipeline stage, by part. */
  function kept(model, [width, state], zero, settings) {
    const {data, tensor, pipeline} = settings, {hidden, vocabulary, sequence} = model;
    const layers = Math.ceil(model.layers / pipeline);
    const layer = (12 * hidden ** 2 + 13 * hidden) / tensor;
    const root = (vocabulary + sequence + 2) * hidden / tensor;
    const mine = layers * layer + root;
    const [values, gradients, states] = [3, 2, 1].map((stage) => zero >= stage ? data : 1);
    return {
      parameters: width * mine / values + (values > 1 ? width * (root + Math.min(2, layers) * layer) : 0),
      gradients: width * mine / gradients + (gradients > 1 ? width * layer : 0),
      optimizer: state * mine / states,
      activations: activations(model, width, settings),
    };
  }

  const total = (parts) => parts.parameters + parts.gradients + parts.optimizer + parts.activations;

  function compute(settings, {models, precisions}) {
    const bytes = precisions[settings.precision];
    const stages = STAGES.map((stage) => kept(models[settings.model], bytes, stage, settings));
    return {stages, zero: settings.zero, ranks: settings.data * settings.tensor * settings.pipeline};
  }

  const gib = (bytes) => (bytes / GIB).toFixed(1);

  function shown({stages, zero, ranks}) {
    return {
      ...Object.fromEntries(stages.map((parts, stage) => [`total-${stage}`, gib(total(parts))])),
      ...Object.fromEntries(Object.keys(PARTS).map((part) => [`part-${part}`, gib(stages[zero][part])])),
      ranks: String(ranks),
    };
  }

  /* The bar of a stage. One that is longer than the drawing is broken off at its end. */
  function bar(svg, parts, y, width, scale, pale) {
    let x = 0;
    for (const [part, fill] of Object.entries(PARTS)) {
      const end = Math.min(width, x + parts[part] / GIB * scale);
      Moving.add(svg, "rect", {x, y, width: Math.max(0, end - x), height: 20, fill, opacity: pale});
      x = end;
    }
    if (total(parts) / GIB * scale > width) {
      Moving.add(svg, "path", {d: `M${width - 12} ${y + 21}l6 -22h4l-6 22z`, fill: "paper"});
    }
  }

  function draw(svg, result, settings, t, frame, width) {
    const {stages, zero} = result, numbers = shown(result);
    const most = Math.max(...stages.map(total)) / GIB;
    const across = SCALES.find((gibs) => gibs > most) || SCALES[SCALES.length - 1], scale = width / across;
    const top = 24, row = 54, end = top + row * STAGES.length;
    Moving.size(svg, width, end + 54);
    for (const card of CARDS.filter((gibs) => gibs < across)) {
      const x = card * scale;
      const d = STAGES.map((stage) => `M${x} ${top + row * stage + 17}v30`).join("");  // not through the words
      Moving.add(svg, "path", {d, stroke: "quiet", "stroke-width": 1.25, fill: "none"});
      const words = t("gib", card), half = Moving.wide(words) / 2;
      Moving.text(svg, Math.min(x, width - half), top - 10, words, {anchor: "middle", fill: "quiet"});
    }
    stages.forEach((parts, stage) => {
      const y = top + row * stage, mine = stage === zero;
      const fits = total(parts) / GIB <= CARDS[CARDS.length - 1];
      const look = {"font-weight": mine ? 600 : 400, fill: mine ? "ink" : "quiet"};
      Moving.text(svg, 0, y + 14, t(`stage.${stage}`), look);
      Moving.text(svg, width, y + 14, t("gib", numbers[`total-${stage}`]),
        {...look, anchor: "end", fill: fits ? look.fill : "bad"});
      bar(svg, parts, y + 22, width, scale, mine ? 1 : 0.45);
    });
    key(svg, numbers, t, end + 18, width);
  }

  /* What the colours mean, with the numbers of the chosen stage. */
  function key(svg, numbers, t, top, width) {
    Object.entries(PARTS).forEach(([part, fill], i) => {
      const x = (i % 2) * width / 2, y = top + 24 * Math.floor(i / 2);
      Moving.add(svg, "rect", {x, y: y - 10, width: 11, height: 11, fill});
      Moving.text(svg, x + 17, y, t(part));
      const value = numbers[`part-${part}`];
      Moving.text(svg, x + width / 2 - (i % 2 ? 0 : 14), y, width > 400 ? t("gib", value) : value,
        {anchor: "end", "font-weight": 600});
    });
  }

  function said({stages, zero}, settings, t) {
    const card = CARDS.find((gibs) => total(stages[zero]) / GIB <= gibs);
    const where = t(settings.pipeline > 1 ? "where.first" : "where.rank");
    return t(card ? "fits" : "large", {stage: zero, total: gib(total(stages[zero])), card, where});
  }

  Moving.figure("memory", {
    words,
    settings: [
      {key: "model", kind: "range", values: ["0.1", "0.4", "1.3", "2.7", "6.7", "13", "30", "66"], initial: "6.7"},
      {key: "data", kind: "range", values: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], initial: 8},
      {key: "tensor", kind: "range", values: [1, 2, 4, 8], initial: 1},
      {key: "pipeline", kind: "range", values: [1, 2, 4, 8, 16], initial: 1},
      {key: "sequences", kind: "range", values: [1, 2, 4, 8, 16, 32], initial: 1},
      {key: "zero", kind: "choice", values: STAGES, initial: 0},
      {key: "precision", kind: "choice", values: ["bf16", "float32"], initial: "bf16"},
      {key: "checkpointing", kind: "choice", values: ["none", "attention", "layers"], initial: "attention"},
    ],
    fit, compute, shown, draw, said,
  });
})();
