"use strict";
// Learning curves and the grid of all metrics: the best configuration and chosen ones in colour, the others grey.

const MOST_COLORED_AT_FIRST = 3;
const MOST_NAMED = 8;

/** What all charts of curves show: colours by label of the group, the axis, zoom, smoothing. */
function curvesView() {
  const own = DATA.groups.filter((group) => rankOf.has(group.label));
  const isEven = own.length <= MOST_COLORED_AT_FIRST || (!DATA.leader && own.length <= COLORS);
  const colored = isEven ? own : own.slice(0, 1);
  return {
    ...newView(),
    axis: "steps",
    seeds: false,
    others: true,
    bold: null,
    colors: new Map(colored.map((group, place) => [group.label, place])),
  };
}

function learningCurves() {
  const view = curvesView();
  const own = DATA.groups.filter((group) => rankOf.has(group.label));
  const grid = Object.entries(DATA.grid.sections);
  const shown = { metric: DATA.drawn };
  const charts = [];
  const render = () => charts.forEach((chart) => chart.render());
  const zoomed = () => {
    reset.hidden = !view.zoom;
    render();
  };
  const reset = el("button", {
    type: "button",
    text: "whole range",
    hidden: "",
    click() {
      view.zoom = null;
      zoomed();
    },
  });
  const big = curveChart({ name: "learning curves", view, zoomed, content: () => contentOf(shown.metric, view, true) });
  charts.push(big);
  const legend = el("div", { class: "legend" });
  const toggle = (label) => {
    if (!view.colors.delete(label)) view.colors.set(label, freeColor(view.colors));
    fillLegend(legend, own, view, toggle, emphasise);
    render();
  };
  const emphasise = (label) => {
    if (view.bold === label) return;
    view.bold = label;
    big.render();
  };
  fillLegend(legend, own, view, toggle, emphasise);
  section(
    "Learning curves",
    el("div", { class: "controls" }, controls(view, shown, own, render, () => zoomed()), reset),
    own.length > 1 ? legend : null,
    big.node,
    el("p", { class: "soft small", text: curvesNote(own, view) }),
  );
  for (const [title, metrics] of grid) {
    const cells = metrics.map((metric) => {
      const chart = curveChart({ name: metric, height: 150, small: true, view, zoomed, content: () => contentOf(metric, view, false) });
      charts.push(chart);
      return chart.node;
    });
    const drawn = el("div", { class: "grid-of-charts" }, cells);
    if (title === "Time") main.lastChild.append(el("details", {}, el("summary", { text: title }), drawn));
    else main.lastChild.append(el("h3", { text: title }), drawn);
  }
  main.lastChild.append(...gridNotes(grid));
  return { emphasise, toggle };
}

const freeColor = (colors) => {
  const taken = new Set(colors.values());
  return Array.from({ length: COLORS }, (_, n) => n).find((n) => !taken.has(n)) ?? colors.size % COLORS;
};

/** Curves of one metric, lines of what is expected, and the best configuration's last value. */
function contentOf(metric, view, isBig) {
  const curves = [];
  const several = rankOf.size > 1;
  for (const group of DATA.groups) {
    const curve = curveOf(group, metric, view.axis);
    const color = view.colors.get(group.label);
    if (!curve || (color === undefined && !view.others && view.bold !== group.label)) continue;
    const isBold = view.bold === group.label;
    const look =
      color !== undefined
        ? { color: `var(--s${color})`, low: curve.low, high: curve.high, seeds: view.seeds && isBig ? curve.seeds : null }
        : isBold
          ? { color: "var(--ink)" }
          : { color: "var(--other)", muted: true, faint: DATA.groups.length > 100 };
    const rank = rankOf.get(group.label);
    const isNamed = isBig && several && rank && (color !== undefined || isBold || rank <= MOST_NAMED);
    const name = isNamed ? shortName(group.label) : undefined;
    curves.push({ label: group.label, xs: curve.xs, ys: curve.mean, whole: curve.whole, bold: isBold, end: name, ...look });
  }
  const best = curves.find((curve) => rankOf.get(curve.label) === 1);
  const last = best && best.ys.reduce((found, value) => value ?? found, null);
  return {
    curves,
    lines: linesFor(metric, view.axis, isBig),
    xName: AXIS_NAMES[view.axis],
    yName: isBig ? metric : inShort(metric),
    note: isBig || last === null || last === undefined ? null : number(last),
    empty: `no values of ${metric} yet`,
  };
}

/** A metric's name for a small chart, whose section says the rest. */
const inShort = (metric) =>
  metric
    .replace(/^(learner|time)\//, "")
    .replace(/^evaluation\/episode_/, "evaluation: ")
    .replace(/^evaluation\/against\//, "")
    .replace(/(^|\/)policies\/([^/]+)\/(learner\/)?/, "$1$2: ")
    .replace(/^episode_/, "");

/** A group's curve with its xs; over time a curve that was only kept over steps goes by the time of each step. */
function curveOf(group, metric, axis) {
  const curves = group.curves[metric];
  if (!curves?.steps) return null;
  const own = curves[axis];
  if (own) return { ...own, xs: gridOf(own) };
  const clock = group.curves.time_total_s?.steps;
  return clock ? { ...curves.steps, xs: interpolated(gridOf(curves.steps), gridOf(clock), clock.mean) } : null;
}

/** Values at places of a course with ascending xs; its ends count on. */
function interpolated(places, xs, ys) {
  let n = 0;
  return places.map((place) => {
    while (n < xs.length - 2 && xs[n + 1] < place) n += 1;
    const share = Math.min(1, Math.max(0, (place - xs[n]) / (xs[n + 1] - xs[n] || 1)));
    return ys[n] + share * ((ys[n + 1] ?? ys[n]) - ys[n]);
  });
}

/** Lines at what is expected and at where trials stop; small charts have no upright ones. */
function linesFor(metric, axis, isBig) {
  const x = axis === "time" ? "time_total_s" : DATA.step_metric;
  const level = DATA.lines.filter((line) => line.metric === metric);
  const upright = isBig ? DATA.lines.filter((line) => line.metric === x) : [];
  const places = [...new Set(upright.map((line) => line.value))];
  return [
    ...level.map((line) => ({ y: line.value, name: `${line.what}: ${number(line.value)}` })),
    ...places.map((value) => ({
      x: value,
      name: upright.filter((line) => line.value === value).map((line) => line.what).join(", "),
    })),
  ];
}

function controls(view, shown, own, render, zoomed) {
  const choose = (values, texts, chosen, now) =>
    el(
      "select",
      { change: (event) => chosen(event.target.value) },
      values.map((value) => el("option", { value, text: texts?.[value] ?? value, selected: value === now ? "" : null })),
    );
  const check = (name, text) =>
    el(
      "label",
      {},
      el("input", {
        type: "checkbox",
        ...(view[name] ? { checked: "" } : {}),
        change(event) {
          view[name] = event.target.checked;
          render();
        },
      }),
      text,
    );
  const smoothing = el("input", {
    ...{ type: "range", min: 0, max: 0.98, step: 0.02, value: 0 },
    input(event) {
      view.smoothing = Number(event.target.value);
      render();
    },
  });
  const metric = (name) => {
    shown.metric = name;
    render();
  };
  const axis = (name) => {
    Object.assign(view, { axis: name, zoom: null });
    zoomed();
  };
  return [
    DATA.metrics.length > 1 ? el("label", {}, "metric", choose(DATA.metrics, null, metric, shown.metric)) : null,
    el("label", {}, "over", choose(Object.keys(AXIS_NAMES), AXIS_NAMES, axis)),
    el("label", {}, "smoothing", smoothing),
    check("logX", "log x"),
    check("logY", "log y"),
    own.some((group) => group.seeds > 1) ? check("seeds", "single seeds") : null,
    DATA.groups.length > view.colors.size ? check("others", "others in grey") : null,
  ];
}

/** Buttons of the best configurations and of all that have a colour, sorted by rank. */
function fillLegend(legend, own, view, toggle, emphasise) {
  const listed = own.filter((group) => rankOf.get(group.label) <= MOST_NAMED || view.colors.has(group.label));
  legend.replaceChildren(
    ...listed.map((group) => {
      const color = view.colors.get(group.label);
      return el(
        "button",
        {
          type: "button",
          "aria-pressed": String(color !== undefined),
          click: () => toggle(group.label),
          pointerenter: () => emphasise(group.label),
          pointerleave: () => emphasise(null),
          title: group.label,
        },
        el("i", { style: `--swatch: var(--${color === undefined ? "other" : `s${color}`})` }),
        el("b", { text: `#${rankOf.get(group.label)}` }),
        el("span", { text: group.label }),
      );
    }),
  );
}

function curvesNote(own, view) {
  const parts = ["Drag over a chart to zoom into all of them; a double click shows the whole range."];
  if (own.length > view.colors.size)
    parts.push("The best configuration has a colour, the others are grey; a click on a name or on a row of the table gives it one too.");
  if (own.some((group) => group.seeds > 1))
    parts.push(
      "A line is the mean over seeds, its band reaches from the worst to the best of them. It is dashed where some seeds have ended; a finished seed keeps its last value.",
    );
  if (DATA.runs.some((run) => run.families.length))
    parts.push("A population is shown by the best of its members at each point; in the small charts, by their mean.");
  if (DATA.drawn !== DATA.metrics[0])
    parts.push(`${DATA.metrics[0]} has only a few values so far, so the chart begins with ${DATA.drawn}.`);
  return parts.join(" ");
}

function gridNotes(grid) {
  const constants = Object.entries(DATA.grid.constants);
  const notes = [];
  if (constants.length)
    notes.push(`Constant: ${constants.map(([name, value]) => `${name} ${number(value)}`).join(", ")}.`);
  if (DATA.grid.left_out) notes.push(`${plural(DATA.grid.left_out, "more metric")}: --metric NAME draws it.`);
  if (!grid.length && DATA.trials.length > 1) notes.push("Of so many trials other metrics are not read: --metric NAME draws them.");
  return notes.map((text) => el("p", { class: "soft small", text }));
}
