import { readFile, writeFile } from 'node:fs/promises'
import { cpus, release, totalmem } from 'node:os'

/** Times `work` again and again, after a warm-up that does not count. */
export async function measure({ title, warmUp, times, work }) {
  for (let i = 0; i < warmUp; i++) await work()
  const samplesMs = []
  for (let i = 0; i < times; i++) {
    const start = performance.now()
    await work()
    samplesMs.push(performance.now() - start)
  }
  return { title, times, ...percentiles(samplesMs) }
}

export function percentiles(samplesMs) {
  const sorted = [...samplesMs].sort((a, b) => a - b)
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
  return { p50Ms: at(0.5), p99Ms: at(0.99), maxMs: sorted.at(-1) }
}

export function describeMachine() {
  const memoryGiB = Math.round(totalmem() / 1024 ** 3)
  return `${cpus().length} × ${cpus()[0]?.model.trim()}, ${memoryGiB} GiB, Linux ${release()}, Node ${process.version}`
}

export function table(rows) {
  const milliseconds = (value) => value.toFixed(value < 10 ? 2 : 0)
  const lines = rows.map(
    ({ title, times, p50Ms, p99Ms, goal }) =>
      `| ${title} | ${times} | ${milliseconds(p50Ms)} | ${milliseconds(p99Ms)} | ${goal ?? ''} |`,
  )
  return ['| what | times | p50 ms | p99 ms | goal |', '|---|---|---|---|---|', ...lines].join('\n')
}

/** Replaces what stands between this benchmark's marks in docs/benchmarks.md. */
export async function writeSection(name, text) {
  const path = new URL('../docs/benchmarks.md', import.meta.url)
  const page = await readFile(path, 'utf8')
  const section = new RegExp(`(<!-- ${name} -->\n)[^]*?(\n<!-- /${name} -->)`)
  await writeFile(
    path,
    page.replace(section, (_all, open, close) => `${open}${text}${close}`),
  )
}
