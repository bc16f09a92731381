"use strict";
// Drawing with inline SVG: elements, numbers, scales, ticks, axes. Texts are set as text, never as markup.

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

/** A number with four digits, spelled as in the names of configurations: 0.0003142, 7.622e-05. */
function fourDigits(value) {
  const size = Math.abs(value);
  if (Number.isInteger(value)) return String(value);
  if (size >= 1e-4 && size < 1e4) return String(Number(value.toPrecision(4)));
  const [digits, power] = value.toExponential(3).split("e");
  return `${Number(digits)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

/** A number as tables and tips show it: 12,345 and 123.4, small ones with four digits. */
function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en-US");
  return Math.abs(value) >= 100 ? value.toLocaleString("en-US", { maximumFractionDigits: 1 }) : fourDigits(value);
}

/** A number for an axis: 40k, 1.5M, 0.25, 1e-05. */
function tickText(value) {
  const size = Math.abs(value);
  for (const [unit, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (size >= unit) return Number((value / unit).toPrecision(4)) + letter;
  }
  return fourDigits(value);
}

/** Seconds in words: 3.7 s, 12 min, 2.4 h. */
function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 100) return `${Number(seconds.toPrecision(2))} s`;
  return seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
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

/** Round numbers between two positive ends for a logarithmic axis, about so many. */
function logTicks(low, high, about) {
  const first = Math.floor(Math.log10(low)),
    decades = Math.ceil(Math.log10(high)) - first + 1;
  const tried = [[1, 2, 5], [1, 3], [1]].map((factors) =>
    Array.from({ length: decades }, (_, n) => factors.map((factor) => Number((factor * 10 ** (first + n)).toPrecision(3))))
      .flat()
      .filter((tick) => tick >= low * 0.999 && tick <= high * 1.001),
  );
  const most = Math.max(3, about);
  const powers = tried[2];
  return tried.find((found) => found.length <= most) ?? powers.filter((_, n) => n % Math.ceil(powers.length / most) === 0);
}

/** A scale of an axis: call it with a value to get a place. Kinds: linear, log, choice. */
function scaleOf({ kind = "linear", low, high, choices, ticks: fixed, longest = 16 }, start, stop) {
  const ends =
    kind === "choice" ? [-0.5, choices.length - 0.5] : kind === "log" ? [Math.log(low), Math.log(high)] : [low, high];
  const width = ends[1] - ends[0] || 1;
  const scale = (value) => start + (((kind === "log" ? Math.log(value) : value) - ends[0]) / width) * (stop - start);
  scale.back = (place) => {
    const value = ends[0] + ((place - start) / (stop - start)) * width;
    return kind === "log" ? Math.exp(value) : value;
  };
  scale.ticks = (about) => {
    if (kind === "choice") return choices.map((_, place) => place);
    if (fixed) return fixed;
    return kind === "log" ? logTicks(low, high, about) : ticks(low, high, about);
  };
  scale.text = (value) => (kind === "choice" ? shortened(choices[value], longest) : fixed ? fourDigits(value) : tickText(value));
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
