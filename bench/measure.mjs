import { execFileSync } from 'node:child_process'
import { mkdir, statfs, writeFile } from 'node:fs/promises'
import { cpus, release, totalmem } from 'node:os'
import { findCriu } from '@dormouse/engine-linux/setup'
import { wrapProse } from '../docs/wrap-prose.mjs'
import { writeSection } from './write-section.mjs'

/** Times `work` `times` times, after `warmUp` runs that do not count. */
export async function measure({ warmUp, times, work }) {
  for (let i = 0; i < warmUp; i++) await work()
  const samplesMs = []
  for (let i = 0; i < times; i++) {
    const start = performance.now()
    await work()
    samplesMs.push(performance.now() - start)
  }
  return summarize(samplesMs)
}

/** With fewer than a hundred samples, p99 is the largest sample. */
export function summarize(samples) {
  const sorted = [...samples].sort((a, b) => a - b)
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
  const [min, max] = [sorted[0], sorted.at(-1)]
  return { times: sorted.length, p50: median(samples), p99: at(0.99), min, max }
}

export function median(samples) {
  const sorted = [...samples].sort((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  return (sorted[Math.floor(middle)] + sorted[Math.ceil(middle)]) / 2
}

export function ms(value) {
  return value.toFixed(value < 10 ? 2 : 0)
}

/** Decimal megabytes, as for disks and goals. */
export function megabytes(bytes) {
  return (bytes / 1e6).toFixed(bytes < 1e8 ? 1 : 0)
}

export function table(head, rows) {
  const line = (cells) => `| ${cells.map((cell) => cell ?? '').join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}

/** One line per measurement: `title`, the result of `summarize` in milliseconds, and `goal`, a bound on the median. */
export function timesTable(rows) {
  return table(
    ['what', 'times', 'p50 ms', 'p99 ms', 'goal'],
    rows.map(({ title, times, p50, p99, goal }) => [
      title,
      times,
      ms(p50),
      ms(p99),
      verdict(p50, goal, 'ms'),
    ]),
  )
}

/** Describes the goal and whether it was met, e.g. `≤ 25 ms, **missed**`. Returns an empty string without a goal. */
export function verdict(value, goal, unit = '') {
  if (goal === undefined) return ''
  const { atMost, atLeast } = goal
  const isMet = atMost === undefined ? value >= atLeast : value <= atMost
  const bound = atMost === undefined ? `≥ ${atLeast}` : `≤ ${atMost}`
  return `${bound}${unit && ` ${unit}`}, ${isMet ? 'met' : '**missed**'}`
}

/** All but what the programs write themselves: a second one after the first measures the same commit. */
const MEASURED = [':/', ':!/bench/results', ':!/docs/benchmarks.md', ':!/docs/scale.md', ':!/docs/plots']

async function describeRun({ data }) {
  const EXT4 = 0xef53
  const names = { [EXT4]: 'ext4', [0x58465342]: 'xfs', [0x9123683e]: 'btrfs', [0x01021994]: 'tmpfs' }
  const { type } = await statfs(data)
  const git = (...args) => execFileSync('git', args, { cwd: import.meta.dirname, encoding: 'utf8' }).trim()
  return {
    date: new Date().toISOString(),
    commit:
      git('describe', '--always') + (git('status', '--porcelain', '--', ...MEASURED) === '' ? '' : '-dirty'),
    cpus: cpus().length,
    cpu: cpus()[0]?.model.trim(),
    memoryBytes: totalmem(),
    linux: release(),
    fileSystem: names[type] ?? `0x${type.toString(16)}`,
    node: process.version,
    criu: (await findCriu(data))?.version,
  }
}

/**
 * Prints the measurements. Unless this is a dry run, also writes them to bench/results and between the markers with
 * this name in docs/benchmarks.md, or in another `page` of docs. `program` is the benchmark, if it has another name.
 */
export async function report({ name, program = name, options, result, text, page: pageName }) {
  const run = await describeRun(options)
  const command = ['node', ...process.execArgv, `bench/${program}.mjs`, ...process.argv.slice(2)].join(' ')
  const machine = `${run.cpus} × ${run.cpu}, ${Math.round(run.memoryBytes / 1024 ** 3)} GiB, ${run.fileSystem}`
  const versions = `Linux ${run.linux}, Node ${run.node}, CRIU ${run.criu}, commit ${run.commit}`
  const page = wrapProse(`${text}\n\n${run.date.slice(0, 10)}, ${machine}, ${versions}.\n\`${command}\``)
  console.log(page)
  if (options.dry) return
  const results = new URL('results/', import.meta.url)
  await mkdir(results, { recursive: true })
  const json = JSON.stringify({ name, command, ...run, result, section: page.split('\n') }, rounded, 2)
  await writeFile(new URL(`${name}.json`, results), `${json}\n`)
  await writeSection(name, page, pageName)
  // Loaded here, because these import this module.
  const [{ writePlots }, { writeGoals }] = await Promise.all([import('./plots.mjs'), import('./goals.mjs')])
  await writePlots()
  await writeGoals()
}

function rounded(_key, value) {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value
}
