"use strict";
// How a run went: the best score so far, what it cost, when each trial was trained, what its scheduler stopped.

function histories() {
  for (const run of DATA.runs) {
    const parts = [...bestSoFar(run), ...costs(run), ...timelineOf(run), ...stops(run)];
    if (parts.length) section(`How the search went${ofRun(run)}`, ...parts);
  }
}

function bestSoFar(run) {
  const steps = run.sweep?.history ?? [];
  if (steps.length < 3) return [];
  const chart = (name, xs, xName) =>
    curveChart({
      name,
      height: 230,
      content: () => ({
        curves: [
          { label: "each configuration", xs, ys: steps.map((step) => step.score), color: "var(--other)", dots: true },
          { label: "best so far", xs, ys: steps.map((step) => step.best), color: "var(--accent)", step: true },
        ],
        xName,
        yName: `best ${DATA.metric} so far`,
      }),
    }).node;
  return [
    el("h3", { text: "Best so far" }),
    el(
      "div",
      { class: "pair" },
      chart("best so far over configurations", steps.map((_, n) => n + 1), "configurations"),
      chart("best so far over time", steps.map((step) => step.seconds), "s of training, all trials together"),
    ),
  ];
}

/** Score against seconds of training; configurations that none beats in both have a name. */
function costs(run) {
  const mine = DATA.configurations.filter((row) => row.run === run.name && row.iqm && row.seconds);
  if (mine.length < 3) return [];
  const sign = DATA.mode === "min" ? -1 : 1;
  const each = (row) => row.seconds / row.seeds;
  const isBeaten = (row) =>
    mine.some((other) => other !== row && each(other) <= each(row) && sign * other.iqm.value >= sign * row.iqm.value);
  const height = 260;
  const chart = figure({
    name: "cost of each configuration",
    rows: () => [["configuration", "seconds per seed", "IQM"], ...mine.map((row) => [row.label, each(row), row.iqm.value])],
    picture(width, tip) {
      const svg = canvas(width, height);
      const [left, right, top, bottom] = [58, width - 40, 34, height - 44];
      const x = scaleOf(extent([mine.map(each)], 0.05), left, right);
      const y = scaleOf(extent([mine.map((row) => row.iqm.value)], 0.05), bottom, top);
      axes(svg, x, y, { left, right, top, bottom, xName: "s of training per seed", yName: DATA.metric, xTicks: width / 110, yTicks: 5 });
      for (const row of mine) {
        const free = !isBeaten(row);
        const [cx, cy] = [x(each(row)), y(row.iqm.value)];
        const dot = draw("circle", { cx, cy, r: free ? 6 : 4, "fill-opacity": free ? 1 : 0.5, style: `fill: var(--${free ? "accent" : "soft"})` });
        svg.append(tip.over(dot, () => [row.label, [[null, "IQM", number(row.iqm.value)], [null, "per seed", duration(each(row))]]]));
        if (free) svg.append(draw("text", { x: cx + 9, y: cy + 4, text: `#${rankOf.get(row.label)}` }));
      }
      return svg;
    },
  });
  return [
    el("h3", { text: "What each configuration cost" }),
    chart.node,
    el("p", { class: "soft small", text: "Coloured: no other configuration is as cheap and as good." }),
  ];
}

/** When each trial was trained: trials in one row did not run at once. */
function timelineOf(run) {
  if (run.timeline.length < 2) return [];
  const lanes = Math.max(...run.timeline.map((span) => span.lane)) + 1;
  const row = Math.max(6, Math.min(22, 300 / lanes)),
    top = 6,
    bottom = top + lanes * row,
    height = bottom + 40;
  const score = new Map(DATA.trials.filter((trial) => trial.run === run.name).map((trial) => [trial.name, trial.last]));
  const shares = goodness(run.timeline.map((span) => score.get(span.trial) ?? null));
  const end = Math.max(...run.timeline.map((span) => span.stop));
  const chart = figure({
    name: "timeline of trials",
    rows: () => [["trial", "start_s", "stop_s", "lane"], ...run.timeline.map((span) => [span.trial, span.start, span.stop, span.lane + 1])],
    picture(width, tip) {
      const svg = canvas(width, height);
      const x = scaleOf({ low: 0, high: end }, 8, width - 8);
      for (const tick of x.ticks(width / 110)) {
        svg.append(draw("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top, y2: bottom }));
        svg.append(draw("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle", text: x.text(tick) }));
      }
      svg.append(draw("text", { x: width - 8, y: bottom + 34, "text-anchor": "end", text: "s from the start" }));
      run.timeline.forEach((span, i) => {
        const bar = draw("rect", {
          ...{ x: x(span.start), y: top + span.lane * row + 1, width: Math.max(1, x(span.stop) - x(span.start) - 0.5), height: row - 2 },
          style: `fill: ${shade(shares[i])}`,
        });
        svg.append(
          tip.over(bar, () => [
            span.trial,
            [[null, "trained", `${duration(span.start)} to ${duration(span.stop)}`], [null, DATA.metric, number(score.get(span.trial))]],
          ]),
        );
      });
      return svg;
    },
  });
  return [
    el("h3", { text: "When each trial was trained" }),
    chart.node,
    el("p", {
      class: "soft small",
      text: `${lanes === 1 ? "One trial after the other" : `Up to ${lanes} trials at once, a row each`}; the darker (in the dark: the brighter), the better. Ends are the times of the files, starts the ends less the seconds of training.`,
    }),
  ];
}

function stops(run) {
  if (!run.stops.length) return [];
  const mine = DATA.trials.filter((trial) => trial.run === run.name);
  const times = [...new Set(run.stops.map((stop) => stop.time))].sort((a, b) => a - b);
  const isSteps = run.time_attr.replace("_", " ").toLowerCase() === DATA.steps.toLowerCase();
  const end = Math.max(times[times.length - 1], ...(isSteps ? mine.map((trial) => trial.steps || 0) : []));
  const left = (time) => mine.length - run.stops.filter((stop) => stop.time <= time).length;
  const xs = [0, ...times, end];
  const chart = curveChart({
    name: "trials not stopped",
    height: 200,
    content: () => ({
      curves: [
        { label: "not stopped", xs, ys: xs.map((time) => (time === 0 ? mine.length : left(time))), color: "var(--accent)", step: true },
      ],
      xName: run.time_attr.replaceAll("_", " "),
      yName: "trials not stopped",
      y: { low: 0 },
    }),
  });
  return [
    el("h3", { text: `Stopped by ${run.scheduler || "the scheduler"}` }),
    el("p", { text: `${run.stops.length} of ${plural(mine.length, "trial")} were stopped before their end.` }),
    chart.node,
    el(
      "details",
      {},
      el("summary", { text: "Each decision" }),
      ...sortable(
        [
          { name: "trial", value: (stop) => stop.trial, fixed: 1 },
          { name: "at", value: (stop) => stop.time, number: true },
          { name: "score", value: (stop) => stop.score, number: true },
          { name: "reason", value: (stop) => stop.reason, wide: true },
        ],
        run.stops,
      ),
    ),
  ];
}
