// Draws the plots of docs/benchmarks.md from bench/results, without measuring anything.
import { mkdir, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { median } from './measure.mjs'
import { drawLines } from './plot.mjs'
import { readResult } from './results.mjs'

/** Sleeps whose median is one point of a line. */
const WINDOW = 10
/** Of a sandbox that falls asleep every five minutes. */
const SLEEPS_OF_A_DAY = 288

/** Each returns what to draw, or undefined while the measurements do not exist. */
const PLOTS = {
  'wake-over-heap': wakeOverHeap,
  'memory-of-forks': memoryOfForks,
  'latency-over-sleeps': latencyOverSleeps,
}

export async function writePlots() {
  const plots = new URL('../docs/plots/', import.meta.url)
  await mkdir(plots, { recursive: true })
  for (const { file, svg } of await drawPlots()) await writeFile(new URL(file, plots), svg)
}

/** The plots whose measurements exist. */
export async function drawPlots() {
  const plots = []
  for (const [name, describe] of Object.entries(PLOTS)) {
    const described = await describe()
    if (described !== undefined) plots.push({ file: `${name}.svg`, svg: drawLines(described) })
  }
  return plots
}

/** All lines are from one run, so that they can be compared. */
async function wakeOverHeap() {
  const heaps = await readResult('heaps')
  if (heaps === undefined) return undefined
  const line = (name, of) => ({
    name,
    points: heaps.sizes.map(({ heapMB, kinds }) => [heapMB, kinds[of].answer.p50]),
  })
  return {
    title: 'From a sandbox on disk to the first result of a call',
    xLabel: 'memory of the Python process, MB; all lines are from one run',
    yLabel: 'ms, median',
    xTicks: heaps.sizes.map(({ heapMB }) => heapMB),
    lines: [
      line('Dormouse', 'tidy'),
      line('Dormouse, scattered heap', 'touched'),
      line('stock CRIU', 'stockTidy'),
      line('stock CRIU, scattered heap', 'stockTouched'),
    ],
  }
}

async function memoryOfForks() {
  const forks = (await readResult('fork'))?.saved
  if (forks === undefined) return undefined
  const PARENT_MB = 1000
  const all = (name, of) => ({
    name,
    points: forks.map(({ count, perChild }) => [count, (count * perChild[of].p50) / 1e6]),
  })
  return {
    title: 'Memory of n forks of a sandbox with 1 GB',
    xLabel: 'children, all of which have answered a call',
    yLabel: 'MB, all children together',
    lines: [
      all('their own memory', 'privateDirty'),
      all('Pss, with their share', 'pss'),
      {
        name: 'n copies (computed)',
        isComputed: true,
        points: forks.map(({ count }) => [count, count * PARENT_MB]),
      },
    ],
  }
}

async function latencyOverSleeps() {
  const cycles = await readResult('cycles')
  if (cycles?.samples === undefined) return undefined
  const line = (name, of) => {
    const samples = cycles.samples[of].map((ms, index) => [index + 1, ms])
    const points = []
    for (let at = 0; at + WINDOW <= samples.length; at += WINDOW)
      points.push([at + WINDOW / 2, median(samples.slice(at, at + WINDOW).map(([, ms]) => ms))])
    return { name, samples, points }
  }
  const { length } = cycles.samples.resume
  return {
    title: `${length} sleeps of one sandbox${length === SLEEPS_OF_A_DAY ? ', as many as one every five minutes in a day' : ''}`,
    xLabel: `sleep; each line is the median of ${WINDOW}`,
    yLabel: 'ms',
    xTicks: [0, 1, 2, 3, 4, 5].map((fifth) => Math.round((fifth * length) / 5)),
    lines: [
      line('wake, call', 'resume'),
      line('wake, checked result', 'answer'),
      line('sleep, call', 'standby'),
    ],
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await writePlots()
