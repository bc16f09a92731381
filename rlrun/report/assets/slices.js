"use strict";
// Slices: the score against each parameter; and a map of the score over two parameters.

const CELLS = 24;

/** A scale over the values of a parameter, or of the score. */
function axisScale(axis, start, stop, longest = 16) {
  if (axis.kind === "choice") return scaleOf({ ...axis, longest }, start, stop);
  const span = extent([axis.values], axis.kind === "log" ? 0 : 0.04);
  const ratio = axis.kind === "log" ? (span.high / span.low) ** 0.04 : 1;
  return scaleOf({ ...axis, low: span.low / ratio, high: span.high * ratio }, start, stop);
}

function slices(sweep) {
  const best = sweep.scores.indexOf((DATA.mode === "min" ? Math.min : Math.max)(...sweep.scores));
  const cells = ordered(sweep).map((axis) => slice(axis, sweep, best));
  return [
    el("h3", { text: "Score against each parameter" }),
    el("div", { class: "grid-of-charts" }, cells),
    el("p", { class: "soft small", text: "Each dot is a configuration, the mean of its seeds; the coloured one is the best." }),
  ];
}

/** The axes, those of the most important parameters first. */
function ordered(sweep) {
  const place = (axis) => sweep.importance.effects.findIndex((effect) => effect.name === axis.name) >>> 0;
  return [...sweep.axes].sort((a, b) => place(a) - place(b));
}

function slice(axis, sweep, best) {
  const height = 190;
  return figure({
    name: `${DATA.metric} against ${axis.name}`,
    rows: () => [[axis.name, DATA.metric], ...sweep.scores.map((score, i) => [valueText(axis, i), score])],
    picture(width, tip) {
      const svg = canvas(width, height);
      const [left, right, top, bottom] = [42, width - 10, 30, height - 24];
      const x = axisScale(axis, left + 6, right - 6, Math.floor((right - left) / (7 * (axis.choices?.length ?? 1))));
      const y = scaleOf(extent([sweep.scores], 0.05), bottom, top);
      axes(svg, x, y, { left, right, top, bottom, yName: axis.name, xTicks: width / 60, yTicks: 3 });
      sweep.scores.forEach((score, i) => {
        const dot = draw("circle", {
          ...{ cx: x(axis.values[i]), cy: y(score), r: i === best ? 6 : 4, "fill-opacity": i === best ? 1 : 0.55 },
          style: `fill: var(--${i === best ? "accent" : "soft"})`,
        });
        svg.append(tip.over(dot, () => [sweep.labels[i], [[null, DATA.metric, number(score)]]]));
      });
      return svg;
    },
  }).node;
}

const valueText = (axis, i) => (axis.kind === "choice" ? axis.choices[axis.values[i]] : fourDigits(axis.values[i]));

/** The score over two parameters that can be chosen, at first the two most important ones. */
function parameterMap(sweep) {
  const found = ordered(sweep);
  if (found.length < 2 || sweep.scores.length < 6) return [];
  const chosen = [found[0], found[1]];
  const picture = (width, tip) => mapPicture(sweep, chosen, width, tip);
  const rows = () => [
    [chosen[0].name, chosen[1].name, DATA.metric],
    ...sweep.scores.map((score, i) => [valueText(chosen[0], i), valueText(chosen[1], i), score]),
  ];
  const map = figure({ name: "map of two parameters", picture, rows });
  const choose = (place) =>
    el(
      "select",
      {
        "aria-label": place ? "vertical" : "horizontal",
        change(event) {
          chosen[place] = found[event.target.selectedIndex];
          map.render();
        },
      },
      found.map((axis) => el("option", { text: axis.name, ...(axis === chosen[place] ? { selected: "" } : {}) })),
    );
  return [
    el("h3", { text: "Score over two parameters" }),
    el("div", { class: "controls" }, el("label", {}, "across", choose(0)), el("label", {}, "up", choose(1))),
    map.node,
    el("p", {
      class: "soft small",
      text: "Dots are configurations. The colour between them is a weighted mean of the near ones and no measurement; it is left out far from all of them. The darker (in the dark: the brighter), the better.",
    }),
  ];
}

function mapPicture(sweep, [across, up], width, tip) {
  const height = Math.min(420, Math.max(260, width * 0.5));
  const widest = Math.max(...axisScale(up, 0, 1).ticks(6).map((tick) => axisScale(up, 0, 1).text(tick).length));
  const [left, right, top, bottom] = [Math.max(40, 18 + 6.6 * widest), width - 14, 30, height - 44];
  const svg = canvas(width, height);
  const [x, y] = [axisScale(across, left, right), axisScale(up, bottom, top)];
  const shares = goodness(sweep.scores);
  const points = sweep.scores.map((_, i) => [
    (x(across.values[i]) - left) / (right - left),
    (y(up.values[i]) - top) / (bottom - top),
  ]);
  axes(svg, x, y, { left, right, top, bottom, xName: across.name, yName: up.name, xTicks: width / 110, yTicks: 6 });
  const heat = svg.appendChild(draw("g", { opacity: 0.8 }));
  const [w, h] = [(right - left) / CELLS, (bottom - top) / CELLS];
  for (let column = 0; column < CELLS; column += 1)
    for (let row = 0; row < CELLS; row += 1) {
      const share = nearMean(points, shares, (column + 0.5) / CELLS, (row + 0.5) / CELLS);
      if (share === null) continue;
      const place = { x: left + column * w, y: top + row * h, width: w + 0.5, height: h + 0.5 };
      heat.append(draw("rect", { ...place, style: `fill: ${shade(share)}` }));
    }
  sweep.scores.forEach((score, i) => {
    const dot = draw("circle", {
      ...{ cx: x(across.values[i]), cy: y(up.values[i]), r: 5, style: `fill: ${shade(shares[i])}; stroke: var(--page)` },
      "stroke-width": 1.5,
    });
    svg.append(tip.over(dot, () => [sweep.labels[i], [[shade(shares[i]), DATA.metric, number(score)]]]));
  });
  return svg;
}

/** Mean of the values near a place, by a Gaussian kernel over shares of the picture; null far from all of them. */
function nearMean(points, values, px, py) {
  let total = 0,
    mass = 0;
  points.forEach(([x, y], i) => {
    const near = Math.exp(-((px - x) ** 2 + (py - y) ** 2) / (2 * 0.07 ** 2));
    total += near * values[i];
    mass += near;
  });
  return mass < 0.08 ? null : total / mass;
}
