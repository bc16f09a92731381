"use strict";
// What a run is, its learning curves, what its scheduler stopped, and where it came from.

function head() {
  main.append(el("h1", { text: DATA.title }));
  for (const run of DATA.runs) {
    const best =
      run.best &&
      `${number(run.best.value)} by ${run.best.trial}` +
        (run.best.checkpoint ? `, checkpoint ${run.best.checkpoint.split("/").pop()}` : ", which has no checkpoint");
    const facts = {
      [DATA.runs.length > 1 ? "run" : "what"]:
        `${DATA.runs.length > 1 ? run.name + ": " : ""}${run.algorithm} on ${run.env}, ${run.shape}`,
      status: run.status,
      [run.families.length ? "settings now" : "varies"]: Object.entries(run.varied)
        .map(([name, values]) => `${name}: ${values}`)
        .join("; "),
      scheduler: run.scheduler,
      [`best ${DATA.metric}`]: best || "no value yet",
      started: new Date(run.created).toISOString().slice(0, 16).replace("T", " ") + " UTC",
    };
    main.append(
      el(
        "dl",
        { class: "facts" },
        Object.entries(facts)
          .filter(([, said]) => said)
          .flatMap(([what, said]) => [el("dt", { text: what }), el("dd", { text: said })]),
      ),
    );
    if (run.problems.length)
      main.append(
        el(
          "div",
          { class: "problems", role: "alert" },
          el("strong", { text: `${run.name}: what could not be read` }),
          el(
            "ul",
            {},
            run.problems.map((text) => el("li", { text })),
          ),
        ),
      );
    if (run.expect) main.append(...expectation(run));
    for (const one of run.switches) {
      const back = one.regained_at === null ? "" : `, regained at ${number(one.regained_at)} ${DATA.steps}`;
      const text = `${one.trial}: evaluation ${number(one.before)} at the end of ${run.after}, ${number(one.lowest)} after the switch (drop ${number(one.drop)}${back})`;
      main.append(el("p", { class: "verdict", text }));
    }
    for (const { trial, address } of run.pictures)
      main.append(
        el("details", { open: "" }, el("summary", { text: `What ${trial} has learned` }), el("img", { src: address, alt: "" })),
      );
    if (run.episodes)
      main.append(
        el(
          "details",
          { open: "" },
          el("summary", { text: `Episodes of ${run.episodes.trial}, after their returns` }),
          el("pre", { text: run.episodes.text }),
        ),
      );
  }
}

function expectation(run) {
  const rows = run.expect.rows;
  const verdict = (row) => {
    const which = rows.length > 1 ? `${row.label}: ` : "";
    const said = `${which}${row.passed ? "reached" : row.missed ? "missed" : "not reached yet"}: ${run.expect.text}`;
    const seeds = `in training by ${row.reached} of ${plural(row.seeds, "seed")} (${row.needed} must)`;
    const when = row.when.length ? `, after ${listed(row.when.map((at) => number(Math.round(at))))} ${row.counter.replace("_", " ")}` : "";
    const left = row.passed || row.missed ? "" : `; ${underWay(row)}`;
    const look = row.passed ? "good" : row.missed ? "bad" : "";
    return el("p", { class: `verdict ${look}`.trim(), text: `${said}, ${seeds}${when}${left}` });
  };
  if (rows.length <= 3) return rows.map(verdict);
  const passed = rows.filter((row) => row.passed).length;
  const open = rows.filter((row) => !row.passed && !row.missed).length;
  const text = `${passed} of ${plural(rows.length, "configuration")} reached in training: ${run.expect.text}`;
  return [
    el("p", {
      class: `verdict ${passed ? "good" : open ? "" : "bad"}`.trim(),
      text: open ? `${text}; ${open} not yet` : text,
    }),
    el("details", {}, el("summary", { text: "Each configuration" }), rows.map(verdict)),
  ];
}

/** How far the seeds are that may still reach what is expected: "913 of 3,000 env steps". */
function underWay(row) {
  const ends = [row.under_way[0], row.under_way[row.under_way.length - 1]].map(number);
  const steps = ends[0] === ends[1] ? ends[0] : `${ends[0]} to ${ends[1]}`;
  return `${steps}${row.budget === null ? "" : ` of ${number(row.budget)}`} ${row.counter.replace("_", " ")}`;
}

function learningCurves() {
  const featured = DATA.groups.filter((group) => group.featured);
  const others = DATA.groups.filter((group) => !group.featured);
  const view = {
    metric: DATA.metrics[0],
    axis: "steps",
    seeds: false,
    others: true,
    hidden: new Set(),
    bold: null,
  };

  const chart = curveChart({
    content() {
      const curves = [];
      const add = (group, look) => {
        const curve = group.curves[view.metric][view.axis];
        if (curve)
          curves.push({
            label: group.label,
            xs: gridOf(curve),
            ys: curve.mean,
            low: curve.low,
            high: curve.high,
            whole: curve.whole,
            seeds: view.seeds ? curve.seeds : null,
            bold: view.bold === group.label,
            ...look,
          });
      };
      if (view.others)
        others.forEach((group) =>
          add(
            group,
            view.bold === group.label
              ? { color: "var(--ink)" }
              : { color: "var(--other)", muted: true, faint: others.length > 100 },
          ),
        );
      featured.forEach((group, place) => {
        if (!view.hidden.has(group.label)) add(group, { color: `var(--s${place % COLORS})` });
      });
      return { curves, xName: AXIS_NAMES[view.axis], yName: view.metric, empty: `no values of ${view.metric} yet` };
    },
  });

  const choose = (name, values, texts) =>
    el(
      "select",
      {
        change: (event) => {
          view[name] = event.target.value;
          chart.render();
        },
      },
      values.map((value) => el("option", { value, text: texts ? texts[value] : value })),
    );
  const check = (name, text) =>
    el(
      "label",
      {},
      el("input", {
        type: "checkbox",
        ...(view[name] ? { checked: "" } : {}),
        change: (event) => {
          view[name] = event.target.checked;
          chart.render();
        },
      }),
      text,
    );
  const emphasise = (label) => {
    if (view.bold !== label) {
      view.bold = label;
      chart.render();
    }
  };
  const legend = el(
    "div",
    { class: "legend" },
    featured.map((group, place) =>
      el(
        "button",
        {
          type: "button",
          "aria-pressed": "true",
          click(event) {
            const hide = !view.hidden.delete(group.label);
            if (hide) view.hidden.add(group.label);
            event.currentTarget.setAttribute("aria-pressed", String(!hide));
            chart.render();
          },
          pointerenter: () => emphasise(group.label),
          pointerleave: () => emphasise(null),
          title: group.label,
        },
        el("i", { style: `--swatch: var(--s${place % COLORS})` }),
        el("span", { text: `${group.label}${group.seeds > 1 ? ` (${group.seeds} seeds)` : ""}` }),
      ),
    ),
  );

  section(
    "Learning curves",
    el(
      "div",
      { class: "controls" },
      DATA.metrics.length > 1 ? el("label", {}, "metric", choose("metric", DATA.metrics)) : null,
      el("label", {}, "over", choose("axis", Object.keys(AXIS_NAMES), AXIS_NAMES)),
      featured.some((group) => group.seeds > 1) ? check("seeds", "single seeds") : null,
      others.length ? check("others", `${others.length} others in grey`) : null,
    ),
    legend,
    chart.node,
    el("p", { class: "soft small", text: curvesNote(featured) }),
  );
  return emphasise;
}

function curvesNote(featured) {
  const parts = [];
  if (featured.some((group) => group.seeds > 1))
    parts.push(
      "A line is the mean over seeds, its band reaches from the worst to the best of them. It is dashed where not every seed has come to; one that is done counts on with its last value.",
    );
  if (DATA.groups.some((group) => !group.featured)) parts.push("The best ones by their ends are coloured.");
  if (DATA.runs.some((run) => run.families.length))
    parts.push("A population is shown by the best of its members at each point; single members are grey.");
  parts.push("Values are as reported, not smoothed.");
  return parts.join(" ");
}

function stops() {
  for (const run of DATA.runs.filter((one) => one.stops.length)) {
    const mine = DATA.trials.filter((trial) => trial.run === run.name);
    const times = [...new Set(run.stops.map((stop) => stop.time))].sort((a, b) => a - b);
    const end = Math.max(
      times[times.length - 1],
      ...(run.time_attr.replace("_", " ").toLowerCase() === DATA.steps.toLowerCase() ? mine.map((trial) => trial.steps || 0) : []),
    );
    const left = (time) => mine.length - run.stops.filter((stop) => stop.time <= time).length;
    const xs = [0, ...times, end];
    const chart = curveChart({
      height: 200,
      content: () => ({
        curves: [
          {
            label: "not stopped",
            xs,
            ys: xs.map((time) => (time === 0 ? mine.length : left(time))),
            color: "var(--accent)",
            step: true,
          },
        ],
        xName: run.time_attr.replaceAll("_", " "),
        yName: "trials not stopped",
        y: { low: 0 },
      }),
    });
    section(
      `Stopped by ${run.scheduler || "the scheduler"}${DATA.runs.length > 1 ? ": " + run.name : ""}`,
      el("p", { text: `${run.stops.length} of ${plural(mine.length, "trial")} were stopped before their end.` }),
      chart.node,
      el(
        "details",
        {},
        el("summary", { text: "Each decision" }),
        ...sortable(
          [
            { name: "trial", value: (stop) => stop.trial },
            { name: "at", value: (stop) => stop.time, number: true },
            { name: "score", value: (stop) => stop.score, number: true },
            { name: "reason", value: (stop) => stop.reason, wide: true },
          ],
          run.stops,
        ),
      ),
    );
  }
}

function origins() {
  for (const run of DATA.runs) {
    section(
      `Spec and versions${DATA.runs.length > 1 ? ": " + run.name : ""}`,
      el(
        "dl",
        { class: "facts" },
        el("dt", { text: "command" }),
        el("dd", {}, el("code", { text: run.command })),
        el("dt", { text: "directory" }),
        el("dd", {}, el("code", { text: run.path })),
        el("dt", { text: "versions" }),
        el("dd", {
          text: Object.entries(run.versions)
            .map(([name, version]) => `${name} ${version}`)
            .join(", "),
        }),
      ),
      el(
        "details",
        DATA.runs.length > 1 ? {} : { open: "" },
        el("summary", { text: "Resolved spec" }),
        el("pre", { text: run.spec || "cannot be read" }),
      ),
    );
  }
  main.append(
    el("footer", {
      text: `Made ${DATA.made.slice(0, 16).replace("T", " ")} UTC by rlrun ${DATA.rlrun}. Judged by ${DATA.metric}, ${DATA.mode === "min" ? "less" : "more"} is better. This page holds all of its data and fetches nothing.`,
    }),
  );
}
