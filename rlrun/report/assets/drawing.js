"use strict";
// Drawing with inline SVG: elements, scales, ticks, and a chart of curves. Texts are set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Makes an HTML element; `attributes.text` is its text, functions are listeners. */
function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Makes an SVG element. */
function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name === "text") node.textContent = value;
    else if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** A number in few digits, as tables and tips show it. */
function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  const size = Math.abs(value);
  if (size >= 100) return value.toLocaleString("en-US", { maximumFractionDigits: 1 });
  return size !== 0 && size < 0.001
    ? value.toExponential(2).replace(/\.?0+e/, "e")
    : String(Number(value.toPrecision(4)));
}

/** A number for an axis: 40k, 1.5M, 0.25, 1e-4. */
function tickText(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (size >= unit) return Number((value / unit).toPrecision(4)) + letter;
  }
  return size !== 0 && size < 0.001 ? value.toExponential(1).replace(".0", "") : String(Number(value.toPrecision(4)));
}

/** Round numbers between two ends, about so many. */
function ticks(low, high, about) {
  const rough = (high - low) / Math.max(1, about);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n <= Math.floor(high / step + 1e-9); n += 1)
    found.push(Number((n * step).toPrecision(12)));
  return found;
}

/** 1, 2 and 5 times the powers of ten between two positive ends; the powers alone where there are many. */
function logTicks(low, high) {
  const decades = Math.log10(high / low);
  const factors = decades > 3 ? [1] : decades > 1.2 ? [1, 3] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) {
    for (const factor of factors) found.push(Number((factor * 10 ** power).toPrecision(3)));
  }
  return found.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
}

/** A scale of an axis: call it with a value to get a place. Kinds: linear, log, choice. */
function scaleOf({ kind = "linear", low, high, choices }, start, stop) {
  const ends =
    kind === "choice" ? [-0.5, choices.length - 0.5] : kind === "log" ? [Math.log(low), Math.log(high)] : [low, high];
  const width = ends[1] - ends[0] || 1;
  const scale = (value) => start + (((kind === "log" ? Math.log(value) : value) - ends[0]) / width) * (stop - start);
  scale.ticks = (about) => {
    if (kind === "choice") return choices.map((_, place) => place);
    return kind === "log" ? logTicks(low, high) : ticks(low, high, about);
  };
  scale.text = (value) => (kind === "choice" ? shortened(choices[value], 16) : tickText(value));
  return scale;
}

function shortened(text, length) {
  return text.length <= length ? text : text.slice(0, length - 1) + "…";
}

/** Lowest and highest of the finite numbers in lists, widened a little; null if there are none. */
function extent(lists, pad = 0) {
  let low = Infinity,
    high = -Infinity;
  for (const list of lists) {
    for (const value of list) {
      if (value === null || value === undefined) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) return null;
  const room = (high - low) * pad || (high === low ? Math.abs(high) * 0.1 || 1 : 0);
  return { low: low - room, high: high + room };
}

/** The d of a path through points; null interrupts it. */
function path(xs, ys, x, y, { step = false, from = 0, to = xs.length } = {}) {
  let text = "",
    pen = false;
  for (let i = from; i < to; i += 1) {
    if (ys[i] === null || ys[i] === undefined) {
      pen = false;
      continue;
    }
    const px = x(xs[i]).toFixed(1),
      py = y(ys[i]).toFixed(1);
    text += pen ? (step ? `H${px}V${py}` : `L${px},${py}`) : `M${px},${py}`;
    pen = true;
  }
  return text;
}

/** The d of the area between two courses. */
function area(xs, low, high, x, y) {
  const there = xs.map((_, i) => i).filter((i) => low[i] !== null && high[i] !== null);
  const edge = (i, values) => `${x(xs[i]).toFixed(1)},${y(values[i]).toFixed(1)}`;
  return there.length < 2
    ? ""
    : "M" +
        there.map((i) => edge(i, high)).join("L") +
        "L" +
        there
          .reverse()
          .map((i) => edge(i, low))
          .join("L") +
        "Z";
}

/** Axes with grid lines, ticks and names, into an svg. */
function axes(svg, x, y, { left, right, top, bottom, xName, yName, xTicks = 8, yTicks = 6 }) {
  for (const tick of y.ticks(yTicks)) {
    const at = y(tick);
    svg.append(draw("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }));
    svg.append(draw("text", { x: left - 8, y: at + 4, "text-anchor": "end", text: y.text(tick) }));
  }
  svg.append(draw("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
  for (const tick of x.ticks(xTicks)) {
    svg.append(draw("line", { class: "axis", x1: x(tick), x2: x(tick), y1: bottom, y2: bottom + 5 }));
    svg.append(draw("text", { x: x(tick), y: bottom + 19, "text-anchor": "middle", text: x.text(tick) }));
  }
  if (xName) svg.append(draw("text", { x: right, y: bottom + 36, "text-anchor": "end", text: xName }));
  if (yName) svg.append(draw("text", { class: "strong", x: 0, y: top - 12, text: yName }));
}

/** A box beside the pointer with rows of [colour, name, value]. */
function tipOf(chart) {
  const tip = chart.appendChild(el("div", { class: "tip", role: "status" }));
  return {
    show(event, heading, rows) {
      const box = chart.getBoundingClientRect();
      tip.replaceChildren(el("div", { class: "soft", text: heading }));
      for (const [color, name, value] of rows) {
        const swatch = color ? el("i", { style: `--swatch: ${color}` }) : null;
        tip.append(el("div", {}, swatch, el("span", { text: name }), el("b", { text: value })));
      }
      tip.style.display = "block";
      const [px, py] = [event.clientX - box.left, event.clientY - box.top];
      tip.style.left = `${px + 16 + tip.offsetWidth > box.width ? Math.max(0, px - 16 - tip.offsetWidth) : px + 16}px`;
      tip.style.top = `${Math.max(0, py - tip.offsetHeight / 2)}px`;
    },
    hide() {
      tip.style.display = "none";
    },
  };
}

/**
 * A chart of curves that follows the width of its place.
 *
 * `content()` returns what is shown now: {curves, xName, yName, y}; a curve has xs, ys, color, label and may have
 * low and high (a band), whole (so many points are drawn solid, the rest dashed), seeds, muted, faint, step, bold.
 */
function curveChart({ height = 380, content }) {
  const chart = el("div", { class: "chart" });
  const tip = tipOf(chart);
  let state = null;

  function render() {
    const width = Math.max(320, chart.clientWidth || 1000);
    const { curves, xName, yName, y: yAxis = {}, empty = "nothing to draw yet" } = content();
    const [left, right, top, bottom] = [58, width - 14, 30, height - 44];
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${yName} over ${xName}` });
    const spanX = extent(curves.map((curve) => curve.xs));
    const spanY = extent(
      curves.flatMap((curve) => [curve.ys, curve.low || [], curve.high || []]),
      yAxis.kind === "log" ? 0 : 0.04,
    );
    state = null;
    if (spanX && spanY) {
      const x = scaleOf(spanX, left, right),
        y = scaleOf({ ...spanY, ...yAxis }, bottom, top);
      axes(svg, x, y, {
        left,
        right,
        top,
        bottom,
        xName,
        yName,
        xTicks: width / 110,
        yTicks: Math.max(4, (bottom - top) / 52),
      });
      for (const curve of [...curves].sort((a, b) => rank(a) - rank(b))) drawCurve(svg, curve, x, y);
      const cursor = svg.appendChild(
        draw("line", { class: "axis", y1: top, y2: bottom, "stroke-dasharray": "2 3", visibility: "hidden" }),
      );
      state = { x, y, cursor, curves, width, xName, left, right };
    } else {
      svg.append(draw("text", { x: left, y: height / 2, text: empty }));
    }
    const old = chart.querySelector("svg");
    if (old) old.replaceWith(svg);
    else chart.prepend(svg);
  }

  const rank = (curve) => (curve.bold ? 2 : curve.muted ? 0 : 1);

  function hover(event) {
    if (!state) return;
    const box = chart.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * state.width;
    if (px < state.left - 4 || px > state.right + 4) return leave();
    const rows = [];
    let at = null;
    for (const curve of state.curves.filter((one) => !one.muted)) {
      const i = nearest(curve, px, state.x);
      if (i === null) continue;
      at = at === null || Math.abs(state.x(curve.xs[i]) - px) < Math.abs(state.x(at) - px) ? curve.xs[i] : at;
      const band = curve.low ? `  (${number(curve.low[i])} to ${number(curve.high[i])})` : "";
      const value = curve.text ? curve.text(curve.ys[i]) : number(curve.ys[i]);
      rows.push([curve.color, shortened(curve.label, 60), value + band, curve.ys[i]]);
    }
    if (at === null) return leave();
    state.cursor.setAttribute("x1", state.x(at));
    state.cursor.setAttribute("x2", state.x(at));
    state.cursor.setAttribute("visibility", "visible");
    rows.sort((a, b) => b[3] - a[3]);
    tip.show(event, `${number(at >= 100 ? Math.round(at) : at)} ${state.xName}`, rows.slice(0, 14));
  }

  function leave() {
    tip.hide();
    if (state) state.cursor.setAttribute("visibility", "hidden");
  }

  chart.addEventListener("pointermove", hover);
  chart.addEventListener("pointerleave", leave);
  follow(chart, render);
  return { node: chart, render };
}

/** Draws again when the width of a place changes. */
function follow(node, render) {
  let width = -1;
  new ResizeObserver(() => {
    if (node.clientWidth !== width) {
      width = node.clientWidth;
      render();
    }
  }).observe(node);
}

function nearest(curve, px, x) {
  let best = null;
  for (let i = 0; i < curve.xs.length; i += 1) {
    if (curve.ys[i] === null) continue;
    if (curve.step) {
      if (x(curve.xs[i]) <= px + 1) best = i;
      continue;
    }
    if (best === null || Math.abs(x(curve.xs[i]) - px) < Math.abs(x(curve.xs[best]) - px)) best = i;
  }
  if (best === null || curve.step) return best;
  return Math.abs(x(curve.xs[best]) - px) > 30 ? null : best;
}

function drawCurve(svg, curve, x, y) {
  const { xs, ys, color } = curve;
  const line = (values, width, extra = {}, part = {}) =>
    svg.append(
      draw("path", {
        d: path(xs, values, x, y, { step: curve.step, ...part }),
        fill: "none",
        style: `stroke: ${color}`,
        "stroke-width": width,
        "stroke-linejoin": "round",
        ...extra,
      }),
    );
  if (curve.low)
    svg.append(
      draw("path", { d: area(xs, curve.low, curve.high, x, y), style: `fill: ${color}`, "fill-opacity": 0.16 }),
    );
  for (const seed of curve.seeds || []) line(seed, 0.8, { "stroke-opacity": 0.6 });
  const whole = curve.whole ?? xs.length;
  line(ys, curve.bold ? 3 : curve.muted ? 0.9 : 2, curve.muted ? { "stroke-opacity": curve.faint ? 0.35 : 0.75 } : {}, {
    to: whole,
  });
  if (whole < xs.length) line(ys, 1.6, { "stroke-dasharray": "5 4" }, { from: Math.max(0, whole - 1) });
}
