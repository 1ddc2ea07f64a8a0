/* What all figures that move have in common: controls, frames, words in two languages.

   A figure is one script that calls Moving.figure(NAME, {...}). Classic scripts, so that a page read
   from a file works too. Nothing plays by itself. The parts of a figure, all but the first five optional:

     words     {en: {alt, ...}, zh: {...}}; {} or {name} in a word is the place of a value
     settings  [{key, kind: "range" | "choice" | "check", min, max, step, values, initial}]; a choice's values
               are named by the words KEY.VALUE, a slider's value is written as KEY.is or by show(value, t).
               when(settings): is the control of use? wide: a whole row. keep: the frame stays, whatever is set
     compute   (settings, data) => result, pure; data is what bookext/moving_data/NAME.py gives
     shown     (result, frame) => {key: "12.3"}: every number that a reader sees. Those with a word of their
               own stand below the drawing
     draw      (svg, result, settings, t, frame, width): width is what there is, in CSS pixels
     fit       (settings, data) => settings that are possible
     frames    (result) => how many; start: (result) => the first; stops: (result) => where a step goes;
               pace: milliseconds a frame; smooth: between two frames, draw() gets fractions
     said      (result, settings, t, frame) => a sentence; marks: (result, t) => [{frame, label}], buttons */
"use strict";

const Moving = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const KIT = {
    en: {settings: "Settings", moments: "Moments", play: "Play", pause: "Pause", back: "One step back",
      on: "One step on", moment: "Step", of: "{a} of {b}"},
    zh: {settings: "设置", moments: "时刻", play: "播放", pause: "暂停", back: "后退一步",
      on: "前进一步", moment: "步", of: "第 {a} 步，共 {b} 步"},
  };
  const ICONS = {play: "M5 3v14l12-7z", pause: "M4 3h4v14h-4zM12 3h4v14h-4z", back: "M14 3v14l-9-7zM3 3h2v14h-2z",
    on: "M6 3v14l9-7zM15 3h2v14h-2z"};
  const TONE = /^(ink|quiet|line|grid|ground|paper|on-deep|on-pale|bad|good|rank-\d)$/;
  const DEEP = [0, 3, 4, 6];  // the ranks' colours on which words are light, as in plots/theme.py
  const known = {};

  // ---- words

  function say(word, values) {
    const given = values !== null && typeof values === "object" ? values : {"": values};
    return word.replace(/\{(\w*)\}/g, (hole, name) => given[name] === undefined ? hole : given[name]);
  }

  function translator(words, lang) {
    const all = {...KIT[lang], ...words[lang]};
    const t = (key, values) => say(key in all ? all[key] : String(key), values);
    t.has = (key) => key in all;
    t.lang = lang;
    return t;
  }

  // ---- drawing

  function paint(element, attributes) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null) {
        element.setAttribute(name, TONE.test(value) ? `var(--p-${value})` : value);
      }
    }
    return element;
  }

  function add(parent, tag, attributes, words) {
    const element = paint(document.createElementNS(NS, tag), attributes);
    if (words !== undefined) element.textContent = words;
    parent.append(element);
    return element;
  }

  function text(parent, x, y, words, {size = 13, anchor = "start", fill = "ink", weight, ...more} = {}) {
    const look = {"font-size": size, "text-anchor": anchor, "font-weight": weight, fill};
    return add(parent, "text", {x, y, ...look, ...more}, words);
  }

  function group(parent, x, y, attributes) {
    return add(parent, "g", {transform: `translate(${x} ${y})`, ...attributes});
  }

  function size(svg, width, height) {
    paint(svg, {viewBox: `0 0 ${width} ${height}`, width, height});
  }

  /* About how wide words are: nothing has to be drawn to know it. */
  function wide(words, size = 13) {
    let em = 0;
    for (const sign of String(words)) em += sign > "\u2e7f" ? 1 : /[iljtf.,:;|!' ()]/.test(sign) ? 0.36 : 0.6;
    return em * size;
  }

  // ---- computing, without the page

  function initial(spec) {
    return Object.fromEntries(spec.settings.map(({key, initial}) => [key, initial]));
  }

  function state(name, given) {
    const spec = known[name];
    const {frame, ...rest} = given || {};
    const chosen = {...initial(spec), ...rest};
    const settings = spec.fit ? spec.fit(chosen, spec.data) : chosen;
    const result = spec.compute(settings, spec.data);
    const count = spec.frames ? spec.frames(result) : 0;
    const first = frame !== undefined ? frame : spec.start ? spec.start(result) : 0;
    return {settings, result, count, frame: Math.max(0, Math.min(first, count - 1))};
  }

  function shown(name, settings) {
    const now = state(name, settings);
    return known[name].shown(now.result, now.frame);
  }

  /* What a reader has chosen on the page: the settings, and the frame. */
  function chosen(name) {
    const {settings, frame} = known[name].now;
    return {...settings, frame};
  }

  function drawing(spec, now, t, width) {
    const svg = document.createElementNS(NS, "svg");
    paint(svg, {role: "img", "aria-label": t("alt")});
    spec.draw(svg, now.result, now.settings, t, now.frame, width);
    return svg;
  }

  // ---- the page

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value === true) element.setAttribute(name, "");
      else if (value !== false && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  function icon(kind) {
    const svg = paint(document.createElementNS(NS, "svg"), {viewBox: "0 0 20 20", width: 18, height: 18,
      "aria-hidden": "true"});
    add(svg, "path", {d: ICONS[kind], fill: "currentColor"});
    return svg;
  }

  function button(kind, t, onclick) {
    return make("button", {type: "button", class: `moving-${kind}`, "aria-label": t(kind), title: t(kind), onclick},
      icon(kind));
  }

  /* One setting: a native control with its label. `changed` gets the new value. */
  function control(setting, value, t, changed) {
    const {key, kind, values} = setting;
    const name = make("span", {class: "moving-name"}, t(key));
    if (kind === "check") {
      const input = make("input", {type: "checkbox", name: key, onchange: () => changed(input.checked)});
      const set = (to) => { input.checked = to; };
      set(value);
      return {element: make("label", {class: "moving-check"}, input, name), set};
    }
    if (kind === "choice") {
      const word = (v) => t.has(`${key}.${v}`) ? t(`${key}.${v}`) : String(v);
      const options = values.map((v) => make("option", {value: v}, word(v)));
      const select = make("select", {name: key, onchange: () => changed(values[select.selectedIndex])}, ...options);
      const set = (to) => { select.selectedIndex = values.indexOf(to); };
      set(value);
      return {element: make("label", {}, name, select), set};
    }
    const written = (v) => setting.show ? setting.show(v, t) : t.has(`${key}.is`) ? t(`${key}.is`, v) : String(v);
    const ends = values ? {min: 0, max: values.length - 1, step: 1} : setting;
    const is = make("output", {});
    const input = make("input", {type: "range", name: key, min: ends.min, max: ends.max, step: ends.step || 1,
      "aria-label": t(key), oninput: () => changed(values ? values[+input.value] : +input.value)});
    const set = (to) => {
      input.value = values ? values.indexOf(to) : to;
      is.textContent = written(to);
      input.setAttribute("aria-valuetext", written(to));
    };
    set(value);
    return {element: make("label", {}, make("span", {class: "moving-head"}, name, is), input), set};
  }

  /* The numbers that have a word of their own, as a row below the drawing. */
  function numbers(spec, now, t) {
    return Object.entries(spec.shown(now.result, now.frame)).filter(([key]) => t.has(key)).map(([key, value]) => {
      const [before, after = ""] = t(key).split("{}");
      const strong = make("strong", {"data-shown": key}, value);
      return make("span", {}, before.trim() ? `${before.trim()} ` : "", strong, after);
    });
  }

  function still() {
    return matchMedia("(prefers-reduced-motion: reduce)").matches;
  }

  function mount(figure, name) {
    const spec = known[name];
    const lang = document.documentElement.lang.startsWith("zh") ? "zh" : "en";
    const t = translator(spec.words, lang);
    let now = spec.now = state(name), timer = 0, sliding = 0;
    const body = make("div", {class: "moving-drawing"});
    const said = make("p", {class: "moving-said", "aria-live": "polite"});
    const row = make("p", {class: "moving-numbers"});
    const width = () => Math.max(300, Math.min(640, Math.floor(body.clientWidth || 440)));

    function draw(at) {
      body.replaceChildren(drawing(spec, at === undefined ? now : {...now, frame: at}, t, width()));
    }

    function show() {
      draw();
      row.replaceChildren(...numbers(spec, now, t));
      const words = spec.said ? spec.said(now.result, now.settings, t, now.frame) : "";
      if (said.textContent !== words) said.textContent = words;  // what is said twice is read aloud twice
      if (player) player.show();
      const passed = [...moments.children].filter((each) => each.dataset.frame <= now.frame).pop();
      for (const each of moments.children) each.setAttribute("aria-current", each === passed);
    }

    function change(key, value) {
      stop();
      const {keep} = spec.settings.find((setting) => setting.key === key);  // the frame, whatever is set
      now = state(name, {...now.settings, [key]: value, ...(spec.start && !keep ? {} : {frame: now.frame})});
      spec.now = now;
      offer();
      marks();
      show();
    }

    /* The controls as the settings are; those without a use for now are hidden. */
    function offer() {
      for (const {key, when, wide} of spec.settings) {
        controls[key].set(now.settings[key]);
        controls[key].element.classList.toggle("moving-wide", Boolean(wide));
        controls[key].element.hidden = Boolean(when) && !when(now.settings);
      }
    }

    const controls = Object.fromEntries(spec.settings.map((setting) => [setting.key,
      control(setting, now.settings[setting.key], t, (value) => change(setting.key, value))]));

    // ---- frames: play, step, slide

    function go(frame) {
      cancelAnimationFrame(sliding);
      const from = now.frame;
      now.frame = Math.max(0, Math.min(now.count - 1, frame));
      show();
      if (!spec.smooth || still() || now.frame !== from + 1) return;
      const started = performance.now(), takes = Math.min(600, (spec.pace || 900) * 0.7);
      const slide = (time) => {
        const part = Math.max(0, Math.min(1, (time - started) / takes));
        draw(part < 1 ? from + part * part * (3 - 2 * part) : undefined);
        if (part < 1) sliding = requestAnimationFrame(slide);
      };
      slide(started);
    }

    function stop() {
      clearInterval(timer);
      cancelAnimationFrame(sliding);
      timer = 0;
      said.setAttribute("aria-live", "polite");
      if (player) player.show();
    }

    function play() {
      if (timer) return stop();
      if (now.frame >= now.count - 1) go(0);
      said.setAttribute("aria-live", "off");  // nobody can listen that fast
      timer = setInterval(() => {
        go(now.frame + 1);
        if (now.frame >= now.count - 1) stop();
      }, spec.pace || 900);
      player.show();
    }

    /* One step on or back; a figure may say where its steps are. */
    function step(by) {
      stop();
      const stops = spec.stops && spec.stops(now.result);
      if (!stops) return go(now.frame + by);
      const ahead = stops.filter((each) => by > 0 ? each > now.frame : each < now.frame);
      go(by > 0 ? Math.min(now.count - 1, ...ahead) : Math.max(0, ...ahead));
    }

    const player = spec.frames && makePlayer();

    function makePlayer() {
      const toggle = button("play", t, play);
      const slider = make("input", {type: "range", name: "frame", min: 0, step: 1, "aria-label": t("moment"),
        oninput: () => { const to = +slider.value; stop(); go(to); }});
      const element = make("div", {class: "moving-player", role: "group", "aria-label": t("moment")},
        button("back", t, () => step(-1)), toggle, button("on", t, () => step(1)), slider);
      return {element, show() {
        const kind = timer ? "pause" : "play";
        if (toggle.title !== t(kind)) {
          toggle.replaceChildren(icon(kind));
          toggle.title = t(kind);
          toggle.setAttribute("aria-label", t(kind));
        }
        element.hidden = now.count < 2;
        slider.max = Math.max(0, now.count - 1);
        slider.value = now.frame;
        slider.setAttribute("aria-valuetext", t("of", {a: now.frame + 1, b: now.count}));
      }};
    }

    const moments = make("div", {class: "moving-marks", role: "group", "aria-label": t("moments")});

    function marks() {
      const found = spec.marks ? spec.marks(now.result, t) : [];
      moments.hidden = !found.length;
      moments.replaceChildren(...found.map(({frame, label}) => make("button", {type: "button",
        "data-frame": frame, onclick: () => { stop(); go(frame); }}, label)));
    }

    function press(event) {
      if (!player || event.target.matches("input, select") || event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.key === "ArrowRight") step(1);
      else if (event.key === "ArrowLeft") step(-1);
      else if (event.key === " " && event.target === body) play();
      else return;
      event.preventDefault();
    }

    // a swipe, or a tap: in the left third back, elsewhere on
    let down = null;
    function lift(event) {
      if (!player || !down) return;
      const moved = event.clientX - down.x, box = body.getBoundingClientRect();
      if (Math.abs(event.clientY - down.y) > 30) return;
      if (Math.abs(moved) > 30) step(moved < 0 ? 1 : -1);
      else step((event.clientX - box.left) / box.width < 1 / 3 ? -1 : 1);
    }

    body.addEventListener("pointerdown", (event) => { down = {x: event.clientX, y: event.clientY}; });
    body.addEventListener("pointerup", lift);
    figure.addEventListener("keydown", press);
    if (player) Object.assign(body, {tabIndex: 0}).setAttribute("role", "group");
    if (player) body.setAttribute("aria-label", t("alt"));

    drawing(spec, now, t, 440);  // before the still goes: what cannot be drawn leaves it there
    const settings = make("div", {class: "moving-settings", role: "group", "aria-label": t("settings")},
      ...Object.values(controls).map(({element}) => element));
    const parts = [spec.settings.length && settings, moments, body, player && player.element, spec.said && said, row];
    figure.replaceChildren(...parts.filter(Boolean));
    offer();
    marks();
    show();
    let last = width();
    new ResizeObserver(() => {
      if (width() !== last) draw();
      last = width();
    }).observe(body);
  }

  function figure(name, spec) {
    known[name] = spec;
    const places = document.querySelectorAll(`figure.moving[data-moving="${name}"]`);
    const data = document.querySelector(`figure.moving[data-moving="${name}"] script[type="application/json"]`);
    spec.data = data ? JSON.parse(data.textContent) : null;
    places.forEach((place) => mount(place, name));
  }

  return {figure, shown, chosen, known, state, drawing, translator, initial, add, text, group, size, wide,
    rank: (i) => `rank-${i % 8}`, on: (i) => DEEP.includes(i % 8) ? "on-deep" : "on-pale"};
})();
