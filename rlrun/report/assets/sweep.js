"use strict";
// A sweep: parallel axes, and which parameter matters.

function parallelAxes(sweep) {
  const columns = [...sweep.axes, { name: DATA.metric, kind: "linear", values: sweep.scores, isScore: true }];
  const shares = goodness(sweep.scores);
  const order = sweep.scores.map((_, i) => i).sort((a, b) => shares[a] - shares[b]);
  const brushes = new Map();
  const told = el("p", { class: "soft small" });
  const height = 320,
    top = 44,
    bottom = height - 14;
  let lines = [];

  function picture(width, tip) {
    const svg = canvas(width, height);
    const scales = columns.map((column) => axisScale(column, bottom, top));
    const widest = Math.max(...scales[0].ticks(6).map((tick) => scales[0].text(tick).length));
    const left = Math.max(26, 14 + 6.6 * widest);
    const place = (n) => left + (n * (width - left - 90)) / (columns.length - 1);
    // Configurations with the same choice lie next to each other, so that their lines can be told apart.
    const spread = (column, i) =>
      column.kind === "choice" ? (((i * 0.618) % 1) - 0.5) * Math.min(0.34, 0.01 * order.length) : 0;
    const yOf = (n, i) => scales[n](columns[n].values[i] + spread(columns[n], i));
    lines = order.map((i) => {
      const d = columns.map((_, n) => `${n ? "L" : "M"}${place(n).toFixed(1)},${yOf(n, i).toFixed(1)}`).join("");
      const isBest = i === order[order.length - 1];
      const usual = isBest ? 3 : order.length > 200 ? 1 : 1.4;
      const node = svg.appendChild(
        draw("path", {
          d,
          fill: "none",
          "stroke-width": usual,
          "stroke-opacity": order.length > 200 ? 0.2 + 0.6 * shares[i] ** 2 : 0.85,
          style: `stroke: ${isBest ? "var(--s0)" : shade(shares[i])}`,
        }),
      );
      node.addEventListener("pointerenter", (event) => {
        node.setAttribute("stroke-width", 4);
        tip.show(event, sweep.labels[i], [[shade(shares[i]), DATA.metric, number(sweep.scores[i])]]);
      });
      node.addEventListener("pointerleave", () => {
        node.setAttribute("stroke-width", usual);
        tip.hide();
      });
      return [i, node];
    });
    columns.forEach((column, n) => {
      const at = place(n),
        scale = scales[n],
        last = n === columns.length - 1;
      svg.append(draw("line", { class: "axis", x1: at, x2: at, y1: top, y2: bottom }));
      for (const tick of scale.ticks(6))
        svg.append(
          draw("line", { class: "axis", x1: at - 4, x2: at + 4, y1: scale(tick), y2: scale(tick) }),
          draw("text", {
            class: "over-lines",
            x: at + (last ? 9 : -9),
            y: scale(tick) + 4,
            "text-anchor": last ? "start" : "end",
            text: scale.text(tick),
          }),
        );
      svg.append(
        draw("text", {
          class: "strong",
          x: last ? width : n ? at : 0,
          y: n % 2 && columns.length * 130 > width ? top - 32 : top - 14,
          "text-anchor": last ? "end" : n ? "middle" : "start",
          text: shortened(column.name, 30),
        }),
      );
      brushable(svg, at, n, scale);
    });
    select();
    return svg;
  }

  function brushable(svg, at, n, scale) {
    const mark = svg.appendChild(draw("rect", { class: "brush", x: at - 7, width: 14, visibility: "hidden" }));
    const show = () => {
      const range = brushes.get(n);
      mark.setAttribute("visibility", range ? "visible" : "hidden");
      if (range) {
        mark.setAttribute("y", Math.min(...range));
        mark.setAttribute("height", Math.abs(range[1] - range[0]));
      }
    };
    const zone = svg.appendChild(
      draw("rect", {
        x: at - 12,
        width: 24,
        y: top - 6,
        height: bottom - top + 12,
        fill: "transparent",
        style: "cursor: ns-resize; touch-action: none",
      }),
    );
    let start = null;
    const inside = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.min(bottom, Math.max(top, ((event.clientY - box.top) / box.height) * height));
    };
    zone.addEventListener("pointerdown", (event) => {
      start = inside(event);
      zone.setPointerCapture(event.pointerId);
      brushes.delete(n);
      show();
      select();
    });
    zone.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const now = inside(event);
      if (Math.abs(now - start) > 3) {
        brushes.set(n, [start, now]);
        brushes.get(n).scale = scale;
        show();
        select();
      }
    });
    zone.addEventListener("pointerup", () => {
      start = null;
    });
    show();
  }

  function select() {
    const chosen = [];
    for (const [i, node] of lines) {
      const kept = [...brushes].every(([n, range]) => {
        const y = range.scale(columns[n].values[i]);
        return y >= Math.min(...range) - 0.5 && y <= Math.max(...range) + 0.5;
      });
      node.style.opacity = kept ? "" : "0.06";
      node.style.pointerEvents = kept ? "" : "none";
      if (kept) chosen.push(sweep.scores[i]);
    }
    const mean = chosen.length ? number(sum(chosen) / chosen.length) : "–";
    told.textContent = brushes.size
      ? `${plural(chosen.length, "configuration")} of ${order.length} chosen, ${DATA.metric} ${mean} in the mean. Click an axis to take its range away.`
      : `Each line is a configuration, the thick one the best; the darker (in the dark: the brighter), the better its mean at the end. Drag along an axis to choose a range.`;
  }

  const rows = () => [
    [...columns.map((column) => column.name)],
    ...sweep.scores.map((_, i) => columns.map(({ kind, choices, values }) => (kind === "choice" ? choices[values[i]] : values[i]))),
  ];
  return [figure({ name: "parallel axes", picture, rows, least: 110 * columns.length }).node, told];
}

function importanceBars(found) {
  if (!found.effects.length) return [el("p", { text: `${found.caveat}.` })];
  const row = 30,
    top = 26,
    height = top + found.effects.length * row + 34;
  const most = Math.min(
    1,
    Math.max(0.25, ...found.effects.map((effect) => Math.max(effect.high, effect.chance) + 0.03)),
  );
  const picture = (width, tip) => {
    const svg = canvas(width, height);
    const x = scaleOf({ low: 0, high: most }, Math.min(190, width * 0.3), width - 20);
    for (const tick of x.ticks(width / 110)) {
      svg.append(draw("line", { class: "grid", x1: x(tick), x2: x(tick), y1: top - 6, y2: height - 28 }));
      svg.append(
        draw("text", { x: x(tick), y: height - 12, "text-anchor": "middle", text: `${Math.round(tick * 100)}%` }),
      );
    }
    svg.append(
      draw("text", {
        class: "strong",
        x: 0,
        y: 12,
        text: shortened(`share of the variance of ${DATA.metric} between configurations`, Math.floor(width / 6.6)),
      }),
    );
    found.effects.forEach((effect, n) => {
      const y = top + n * row + row / 2,
        share = Math.max(0, effect.share),
        real = effect.share > effect.chance;
      const color = real ? "var(--accent)" : "var(--other)";
      svg.append(
        draw("text", {
          class: "strong",
          x: x(0) - 10,
          y: y + 4,
          "text-anchor": "end",
          text: shortened(effect.name, 26),
        }),
      );
      svg.append(
        draw("rect", {
          x: x(0),
          y: y - 8,
          width: Math.max(1, x(share) - x(0)),
          height: 16,
          style: `fill: ${color}`,
          "fill-opacity": 0.75,
        }),
      );
      svg.append(draw("line", { class: "axis", x1: x(effect.low), x2: x(effect.high), y1: y, y2: y }));
      for (const end of [effect.low, effect.high])
        svg.append(draw("line", { class: "axis", x1: x(end), x2: x(end), y1: y - 4, y2: y + 4 }));
      svg.append(
        draw("line", {
          x1: x(effect.chance),
          x2: x(effect.chance),
          y1: y - 12,
          y2: y + 12,
          style: "stroke: var(--bad)",
          "stroke-width": 2,
          "stroke-dasharray": "3 2",
        }),
      );
      const zone = svg.appendChild(draw("rect", { x: 0, y: y - row / 2, width, height: row, fill: "transparent" }));
      zone.addEventListener("pointermove", (event) =>
        tip.show(
          event,
          `${effect.name}: mean ${DATA.metric} by value`,
          effect.bins.map(([label, count, mean]) => [null, `${label} (${count})`, number(mean)]),
        ),
      );
      zone.addEventListener("pointerleave", () => tip.hide());
    });
    return svg;
  };
  const rows = () => [
    ["parameter", "share", "low", "high", "chance"],
    ...found.effects.map(({ name, share, low, high, chance }) => [name, share, low, high, chance]),
  ];
  return [
    el("p", { text: importanceText(found) }),
    figure({ name: "parameter importance", picture, rows }).node,
    el("p", {
      class: "soft small",
      text: `From ${plural(found.configurations, "configuration")}. Each parameter's values are put into bins, and the bar is the share of the variance of the score that lies between bins, less what as many random bins would show (epsilon squared). Whiskers: 95% bootstrap interval. Red mark: what shuffled scores reach for some parameter in one of 20 sweeps; a bar below it says nothing. Effects that two parameters have only together are not seen. Trials that were stopped early count with their last value.`,
    }),
    found.caveat ? el("p", { class: "soft small", text: `Note: ${found.caveat}.` }) : null,
  ];
}

function sweeps() {
  for (const run of DATA.runs.filter((one) => one.sweep)) {
    section(`Which parameter matters${ofRun(run)}`, ...importanceBars(run.sweep.importance).filter(Boolean));
    main.lastChild.append(...slices(run.sweep), ...parameterMap(run.sweep));
    main.lastChild.append(el("h3", { text: "All parameters" }), ...parallelAxes(run.sweep));
  }
}
