const SIZE = { width: 760, height: 400, left: 64, right: 200, top: 64, bottom: 56 }
/** With a background of its own, because a page may be dark where the reader's system is light. */
const STYLE = `.page{fill:#fff;stroke:#d0d7de}text{font:13px system-ui,sans-serif;fill:#24292f}
.title{font-weight:600;font-size:15px}.axis{stroke:#57606a}.grid{stroke:#d8dee4}polyline{fill:none;stroke-width:2.5}
.c0{stroke:#0969da;fill:#0969da}.c1{stroke:#1a7f37;fill:#1a7f37}.c2{stroke:#bc4c00;fill:#bc4c00}.c3{stroke:#8250df;fill:#8250df}
text.c0,text.c1,text.c2,text.c3{stroke:none}polyline.c0,polyline.c1,polyline.c2,polyline.c3{fill:none}
.sample{stroke:none;opacity:.3}.dashed{stroke-dasharray:6 5}
@media(prefers-color-scheme:dark){.page{fill:#0d1117;stroke:#30363d}text{fill:#e6edf3}.axis{stroke:#8b949e}.grid{stroke:#262c36}
.c0{stroke:#58a6ff;fill:#58a6ff}.c1{stroke:#3fb950;fill:#3fb950}.c2{stroke:#ffa657;fill:#ffa657}.c3{stroke:#bc8cff;fill:#bc8cff}}`

/**
 * An SVG with lines over a linear x axis and a logarithmic y axis, and the name of each line at its end. `lines` have a
 * `name`, `points` of [x, y], and may have `samples`, which become faint dots, and `isComputed`, which dashes them.
 */
export function drawLines({ title, xLabel, yLabel, xTicks, lines }) {
  const scale = scaleOf(lines)
  const { width, height, left, right, top, bottom } = SIZE
  const { toX, toY } = scale
  const grid = scale.ticks.flatMap((value) => [
    `<line class="grid" x1="${left}" x2="${width - right}" y1="${toY(value)}" y2="${toY(value)}"/>`,
    `<text x="${left - 8}" y="${toY(value) + 4}" text-anchor="end">${value}</text>`,
  ])
  const xs = xTicks ?? [...new Set(lines.flatMap(({ points }) => points.map(([x]) => x)))]
  for (const x of xs)
    grid.push(`<text x="${toX(x)}" y="${height - bottom + 20}" text-anchor="middle">${x}</text>`)
  const svg = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" aria-label="${title}">`,
    `<style>${STYLE}</style>`,
    `<rect class="page" x=".5" y=".5" width="${width - 1}" height="${height - 1}" rx="6"/>`,
    `<text class="title" x="${left}" y="26">${title}</text>`,
    ...grid,
    `<line class="axis" x1="${left}" x2="${width - right}" y1="${height - bottom}" y2="${height - bottom}"/>`,
    `<text x="${(left + width - right) / 2}" y="${height - 14}" text-anchor="middle">${xLabel}</text>`,
    `<text x="${left}" y="${top - 14}">${yLabel}</text>`,
    ...drawNamed(lines, scale),
    '</svg>',
  ]
  return `${svg.join('\n')}\n`
}

function scaleOf(lines) {
  const { width, height, left, right, top, bottom } = SIZE
  const points = lines.flatMap(({ points, samples = [] }) => [...points, ...samples])
  const xMax = Math.max(...points.map(([x]) => x))
  const ys = points.map(([, y]) => y)
  const ticks = ticksFor(Math.min(...ys), Math.max(...ys))
  const [low, high] = [ticks[0], ticks.at(-1)]
  return {
    ticks,
    toX: (x) => left + (x / xMax) * (width - left - right),
    toY: (y) => height - bottom - (Math.log(y / low) / Math.log(high / low)) * (height - top - bottom),
  }
}

/** The numbers 1, 2 and 5 of each decade that enclose the values; only 1 when there are many decades. */
function ticksFor(min, max) {
  const steps = max / min > 1000 ? [1] : [1, 2, 5]
  const all = []
  for (let power = Math.floor(Math.log10(min)); power <= Math.ceil(Math.log10(max)); power++)
    for (const step of steps) all.push(Number((step * 10 ** power).toPrecision(3)))
  const first = all.findLastIndex((value) => value <= min)
  const last = all.findIndex((value) => value >= max)
  return all.slice(first, last + 1)
}

/** Names that would cover each other are moved apart. */
function drawNamed(lines, { toX, toY }) {
  const LINE_HEIGHT = 17
  const ends = lines
    .map(({ points }, index) => ({ index, y: toY(points.at(-1)[1]) }))
    .sort((one, other) => one.y - other.y)
  for (let at = 1; at < ends.length; at++) ends[at].y = Math.max(ends[at].y, ends[at - 1].y + LINE_HEIGHT)
  const nameY = new Map(ends.map(({ index, y }) => [index, y]))
  const placed = (points) => points.map(([x, y]) => [toX(x).toFixed(1), toY(y).toFixed(1)])
  return lines.flatMap(({ name, points, samples, isComputed }, index) => {
    const places = placed(points)
    const dots = samples === undefined ? { at: places, of: `c${index}`, r: 3.5 } : undefined
    const faint = { at: placed(samples ?? []), of: `c${index} sample`, r: 1.8 }
    return [
      ...[faint, dots ?? { at: [] }].flatMap(({ at, of, r }) =>
        at.map(([x, y]) => `<circle class="${of}" cx="${x}" cy="${y}" r="${r}"/>`),
      ),
      `<polyline class="c${index}${isComputed ? ' dashed' : ''}" points="${places.map((place) => place.join()).join(' ')}"/>`,
      `<text class="c${index}" x="${SIZE.width - SIZE.right + 10}" y="${nameY.get(index) + 4}">${name}</text>`,
    ]
  })
}
