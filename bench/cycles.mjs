// Puts one sandbox to sleep and wakes it, as often as in a day. Checks its content each time, and measures whether
// latency or resource use grows.
import { Content } from './cycles/content.mjs'
import { footprint } from './cycles/footprint.mjs'
import { median, megabytes, ms, report, summarize, table, timesTable, verdict } from './measure.mjs'
import { timePlainPython } from './server/plain-process.mjs'
import { atWorkbench, readOptions, timed } from './workbench.mjs'

/** As many as of a sandbox that falls asleep every five minutes. */
const SLEEPS_OF_A_DAY = 288
const options = readOptions({ count: { type: 'string' }, 'asleep-ms': { type: 'string', default: '1100' } })
const count = Number(options.count ?? (options.quick ? 20 : SLEEPS_OF_A_DAY))
/** The default is long enough for the engine to begin upkeep, which it does only for sandboxes that stay asleep. */
const asleepMs = Number(options['asleep-ms'])
const WINDOW = Math.min(50, Math.floor(count / 4))
/** The engine makes spares and connections in the first cycles; growth after that is a leak. */
const SETTLED_AFTER = Math.min(10, Math.ceil(count / 4))
const SETTLE_MS = 1500
const SAMPLES = 6
const FLAT_GOAL = { atMost: 1.2 }

const sampleAfter = new Set([
  SETTLED_AFTER,
  ...Array.from({ length: SAMPLES }, (_, index) => Math.round(((index + 1) * count) / SAMPLES)),
])

/** Keeps only the newest snapshot, as the server does for a sandbox without named snapshots. */
async function measureCycles(bench) {
  const { engine, pause } = bench
  const cycles = []
  const footprints = []
  const content = new Content()
  let burrow = await content.create(engine)
  let kept
  for (let cycle = 1; cycle <= count; cycle++) {
    try {
      await content.change(burrow, cycle)
      const standby = await timed(() => engine.snapshot(burrow, { leave: 'gone' }))
      const { snapshot } = standby.result
      if (kept !== undefined) await engine.deleteSnapshot(kept.id)
      kept = snapshot
      await pause(asleepMs)
      if (sampleAfter.has(cycle)) {
        await engine.upkeep()
        await pause(SETTLE_MS)
        const { bytes } = await engine.getSnapshot(snapshot.id)
        footprints.push({ cycle, imageBytes: bytes.images, ...(await footprint(bench)) })
      }
      const resume = await timed(() => engine.restore(snapshot.id, { sandboxId: snapshot.sandboxId }))
      burrow = resume.result
      const answer = await timed(() => content.check(burrow, cycle))
      const control = await timePlainPython()
      cycles.push({ standby: standby.ms, resume: resume.ms, answer: resume.ms + answer.ms, control })
    } catch (error) {
      return { cycles, footprints, failure: { cycle, message: error.message, details: error.details } }
    }
  }
  await burrow.destroy()
  return { cycles, footprints }
}

function summarizeCycles({ cycles, footprints, failure }) {
  const kinds = ['standby', 'resume', 'answer', 'control'].map((kind) => {
    const samples = cycles.map((cycle) => cycle[kind])
    const [first, last] = [samples.slice(0, WINDOW), samples.slice(-WINDOW)].map(median)
    return [kind, { ...summarize(samples), first, last, lastByFirst: last / first }]
  })
  const samples = Object.fromEntries(kinds.map(([kind]) => [kind, cycles.map((cycle) => cycle[kind])]))
  return {
    ...{ count, window: WINDOW, ...Object.fromEntries(kinds), footprints, samples },
    ...(failure && { failure }),
  }
}

function describeCycles({ standby, resume, answer, control, footprints, failure }) {
  const ending =
    failure === undefined
      ? `${count} cycles; the content was right after every one.`
      : `**Failed in cycle ${failure.cycle} of ${count}: ${failure.message}** ${JSON.stringify(failure.details ?? {})}`
  const flat = ({ first, last, lastByFirst }) => [
    `${ms(first)} → ${ms(last)}`,
    lastByFirst.toFixed(2),
    verdict(lastByFirst, FLAT_GOAL),
  ]
  return [
    ending,
    '',
    timesTable([
      { title: 'standby, call', ...standby },
      { title: 'resume, call', ...resume },
      { title: '… to the first result, with all checksums', ...answer },
      { title: 'control: a plain `python3 -c` on the host, in each cycle', ...control },
    ]),
    '',
    table(
      ['what', `first ${WINDOW} → last ${WINDOW}, p50 ms`, 'last / first', 'goal'],
      [
        ['standby', ...flat(standby)],
        ['resume', ...flat(resume)],
        ['control', ...flat(control).slice(0, 2)],
      ],
    ),
    '',
    `What the engine holds while the sandbox sleeps (spares included), after cycle ${footprints.map(({ cycle }) => cycle).join(', ')}:`,
    '',
    table(
      ['what', ...footprints.map(({ cycle }) => cycle)],
      [
        ['processes in its cgroups', ...footprints.map((each) => each.processes)],
        ['child processes', ...footprints.map((each) => each.children)],
        ['cgroups', ...footprints.map((each) => each.cgroups)],
        ['mounts', ...footprints.map((each) => each.mounts)],
        ['open descriptors', ...footprints.map((each) => each.descriptors)],
        ['RSS of the engine’s process, MB', ...footprints.map((each) => megabytes(each.rssBytes))],
        ['burrow directories', ...footprints.map((each) => each.burrowDirectories)],
        ['entries in its run directory', ...footprints.map((each) => each.runDirectories)],
        ['snapshots', ...footprints.map((each) => each.snapshots)],
        ['file layers', ...footprints.map((each) => each.layers)],
        ['images of the snapshot, MB', ...footprints.map((each) => megabytes(each.imageBytes))],
        ['disk, MB', ...footprints.map((each) => megabytes(each.diskBytes))],
      ],
    ),
  ].join('\n')
}

const result = summarizeCycles(await atWorkbench(options, measureCycles))
const dry = options.dry || result.failure !== undefined
await report({ name: 'cycles', options: { ...options, dry }, result, text: describeCycles(result) })
if (result.failure !== undefined) process.exitCode = 1
