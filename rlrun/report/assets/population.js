"use strict";
// Populations: who copied whom, and the schedules they found.

function lineage(family) {
  const row = Math.max(5, Math.min(26, 520 / family.members.length)),
    top = 16;
  const height = top + family.members.length * row + 44;
  const shares = goodness(family.stretches.map((stretch) => stretch.score));
  const at = (member) => top + (member + 0.5) * row;
  const picture = (width, tip) => {
    const svg = canvas(width, height);
    const x = scaleOf(
      extent([family.stretches.map((s) => s.start), family.stretches.map((s) => s.stop)]),
      64,
      width - 16,
    );
    const bottom = height - 40;
    if (row > 9)
      family.members.forEach((name, member) =>
        svg.append(
          draw(
            "text",
            {
              x: 54,
              y: at(member) + 4,
              "text-anchor": "end",
              class: member === family.best ? "strong" : null,
              text: shortened(name.match(/^\d+/)?.[0] ?? name, 8),
            },
            draw("title", { text: name }),
          ),
        ),
      );
    svg.append(draw("line", { class: "axis", x1: 64, x2: width - 16, y1: bottom, y2: bottom }));
    for (const tick of x.ticks(width / 110))
      svg.append(draw("text", { x: x(tick), y: bottom + 18, "text-anchor": "middle", text: x.text(tick) }));
    svg.append(draw("text", { x: width - 16, y: bottom + 34, "text-anchor": "end", text: DATA.steps }));
    const copies = family.stretches.filter((stretch) => stretch.parent !== null);
    const link = (stretch) => {
      const from = at(stretch.parent),
        to = at(stretch.member),
        px = x(stretch.start),
        bend = Math.min(14, 4 + Math.abs(to - from) / 6);
      svg.append(
        draw("path", {
          d: `M${px},${from}C${px - bend},${from} ${px - bend},${to} ${px},${to}`,
          fill: "none",
          style: `stroke: ${stretch.is_ancestor ? "var(--s1)" : "var(--soft)"}`,
          "stroke-width": stretch.is_ancestor ? 2.5 : 1,
          "stroke-opacity": stretch.is_ancestor ? 1 : 0.55,
          "pointer-events": "none",
        }),
      );
    };
    const bar = (stretch, n) => {
      const y = at(stretch.member),
        thick = Math.min(row - 2, stretch.is_ancestor ? 12 : 6);
      const node = svg.appendChild(
        draw("rect", {
          x: x(stretch.start),
          y: y - thick / 2,
          width: Math.max(1, x(stretch.stop) - x(stretch.start) - 1),
          height: thick,
          style: `fill: ${stretch.score === null ? "var(--other)" : shade(shares[n])}; stroke: ${stretch.is_ancestor ? "var(--s1)" : "none"}`,
          "stroke-width": 2,
        }),
      );
      node.addEventListener("pointermove", (event) =>
        tip.show(event, `${family.members[stretch.member]}, generation ${stretch.generation}`, [
          [null, stretch.parent === null ? stretch.how : `${stretch.how}, from ${family.members[stretch.parent]}`, ""],
          ...Object.entries(stretch.params).map(([name, value]) => [null, name, value]),
          [null, `${DATA.metric} at its end`, number(stretch.score)],
        ]),
      );
      node.addEventListener("pointerleave", () => tip.hide());
    };
    const dot = (stretch) =>
      svg.append(
        draw("circle", {
          cx: x(stretch.start),
          cy: at(stretch.member),
          r: Math.min(4, row / 3),
          style: `fill: ${stretch.is_ancestor ? "var(--s1)" : "var(--page)"}; stroke: ${stretch.is_ancestor ? "var(--s1)" : "var(--soft)"}`,
          "pointer-events": "none",
        }),
      );
    copies.filter((stretch) => !stretch.is_ancestor).forEach(link);
    family.stretches.forEach(bar);
    copies.filter((stretch) => !stretch.is_ancestor).forEach(dot);
    copies
      .filter((stretch) => stretch.is_ancestor)
      .forEach((stretch) => {
        link(stretch);
        dot(stretch);
      });
    return svg;
  };
  const rows = () => [
    ["member", "generation", "start", "stop", "score", "how", "parent"],
    ...family.stretches.map((one) => [
      ...[family.members[one.member], one.generation, one.start, one.stop, one.score, one.how],
      one.parent === null ? "" : family.members[one.parent],
    ]),
  ];
  return figure({ name: "lineage", picture, rows }).node;
}

/** The values of one setting over time: every member thin, the ancestors of the best one thick. */
function schedule(family, setting) {
  const course = (stretches) => {
    const last = stretches[stretches.length - 1];
    const points = stretches.map((stretch) => [stretch.start, setting.values[family.stretches.indexOf(stretch)]]);
    points.push([last.stop, points[points.length - 1][1]]);
    return { xs: points.map((point) => point[0]), ys: points.map((point) => point[1]) };
  };
  const text = (value) => (setting.kind === "choice" ? setting.choices[value] : fourDigits(value));
  const members = family.members
    .map((_, member) => family.stretches.filter((stretch) => stretch.member === member))
    .filter((stretches) => stretches.length);
  const ancestors = family.stretches.filter((stretch) => stretch.is_ancestor).sort((a, b) => a.start - b.start);
  const y = { kind: setting.kind, choices: setting.choices, ticks: setting.ticks };
  return curveChart({
    name: setting.name,
    height: 220,
    content: () => ({
      curves: [
        ...members.map((stretches) => ({
          ...course(stretches),
          label: "",
          color: "var(--other)",
          muted: true,
          step: true,
        })),
        ...(ancestors.length
          ? [{ ...course(ancestors), label: "ancestors of the best", color: "var(--s1)", step: true, bold: true, text }]
          : []),
      ],
      xName: DATA.steps,
      yName: setting.name,
      y,
    }),
  }).node;
}

function populations() {
  for (const run of DATA.runs) {
    for (const family of run.families) {
      const which = [
        DATA.runs.length > 1 ? run.name : "",
        run.families.length > 1 ? `population of seed ${family.population}` : "",
      ]
        .filter(Boolean)
        .join(", ");
      section(
        `Lineage${which ? ": " + which : ""}`,
        el("p", {
          text: `${plural(family.members.length, "member")}, ${family.copies === 1 ? "1 copy" : `${family.copies} copies`}${family.best === null ? "" : `; ${run.is_done ? "best in the end" : "best so far"}: ${family.members[family.best]}`}.`,
        }),
        lineage(family),
        el("p", {
          class: "soft small",
          text: "Each row is a member; the darker (in the dark: the brighter) a stretch, the better it was at its end. A line into a dot is a copy of weights, after which settings change. Orange: the stretches whose weights the best member has.",
        }),
        ...(family.settings.length
          ? [
              el("h3", { text: "The schedule it found" }),
              ...family.settings.map((setting) => schedule(family, setting)),
              el("p", {
                class: "soft small",
                text: "Orange: the settings under which the best member's weights were trained, one after the other. Grey: all members.",
              }),
            ]
          : []),
      );
    }
  }
}
