// One sandbox, put to sleep and woken again and again: is its content right every time, does it stay as fast, does anything grow?
import { Content } from './cycles/content.mjs'
import { footprint } from './cycles/footprint.mjs'
import { median, megabytes, ms, report, summarize, table, timesTable, verdict } from './measure.mjs'
import { atWorkbench, readOptions, timed } from './workbench.mjs'

const options = readOptions({ count: { type: 'string' }, 'asleep-ms': { type: 'string', default: '1500' } })
const count = Number(options.count ?? (options.quick ? 20 : 300))
/** By default long enough for the engine to begin its upkeep of the snapshot, which it leaves to those that sleep on. */
const asleepMs = Number(options['asleep-ms'])
const WINDOW = Math.min(50, Math.floor(count / 4))
/** Spares and connections are made in the first cycles; what grows afterwards grows for ever. */
const SETTLED_AFTER = Math.min(10, Math.ceil(count / 4))
const SETTLE_MS = 1500
const LOOKS = 6
const FLAT_GOAL = { atMost: 1.2 }

const lookAfter = new Set([
  SETTLED_AFTER,
  ...Array.from({ length: LOOKS }, (_, index) => Math.round(((index + 1) * count) / LOOKS)),
])

/** The policy here is that of a sandbox that nobody asked to keep snapshots: only the newest is kept. */
async function measureCycles(bench) {
  const { engine, pause } = bench
  const cycles = []
  const looks = []
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
      if (lookAfter.has(cycle)) {
        await engine.upkeep()
        await pause(SETTLE_MS)
        const { bytes } = await engine.getSnapshot(snapshot.id)
        looks.push({ cycle, imageBytes: bytes.images, ...(await footprint(bench)) })
      }
      const resume = await timed(() => engine.restore(snapshot.id, { sandboxId: snapshot.sandboxId }))
      burrow = resume.result
      const answer = await timed(() => content.check(burrow, cycle))
      cycles.push({ standby: standby.ms, resume: resume.ms, answer: resume.ms + answer.ms })
    } catch (error) {
      return { cycles, looks, failure: { cycle, message: error.message, details: error.details } }
    }
  }
  await burrow.destroy()
  return { cycles, looks }
}

function summarizeCycles({ cycles, looks, failure }) {
  const kinds = ['standby', 'resume', 'answer'].map((kind) => {
    const samples = cycles.map((cycle) => cycle[kind])
    const [first, last] = [samples.slice(0, WINDOW), samples.slice(-WINDOW)].map(median)
    return [kind, { ...summarize(samples), first, last, lastByFirst: last / first }]
  })
  return { count, window: WINDOW, ...Object.fromEntries(kinds), looks, ...(failure && { failure }) }
}

function describeCycles({ standby, resume, answer, looks, failure }) {
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
    ]),
    '',
    table(
      ['what', `first ${WINDOW} → last ${WINDOW}, p50 ms`, 'last / first', 'goal'],
      [
        ['standby', ...flat(standby)],
        ['resume', ...flat(resume)],
      ],
    ),
    '',
    `What the engine holds while the sandbox sleeps (spares included), after cycle ${looks.map(({ cycle }) => cycle).join(', ')}:`,
    '',
    table(
      ['what', ...looks.map(({ cycle }) => cycle)],
      [
        ['processes in its cgroups', ...looks.map((look) => look.processes)],
        ['child processes', ...looks.map((look) => look.children)],
        ['cgroups', ...looks.map((look) => look.cgroups)],
        ['mounts', ...looks.map((look) => look.mounts)],
        ['open descriptors', ...looks.map((look) => look.descriptors)],
        ['RSS of the engine’s process, MB', ...looks.map((look) => megabytes(look.rssBytes))],
        ['burrow directories', ...looks.map((look) => look.burrowDirectories)],
        ['entries in its run directory', ...looks.map((look) => look.runDirectories)],
        ['snapshots', ...looks.map((look) => look.snapshots)],
        ['file layers', ...looks.map((look) => look.layers)],
        ['images of the snapshot, MB', ...looks.map((look) => megabytes(look.imageBytes))],
        ['disk, MB', ...looks.map((look) => megabytes(look.diskBytes))],
      ],
    ),
  ].join('\n')
}

const result = summarizeCycles(await atWorkbench(options, measureCycles))
const dry = options.dry || result.failure !== undefined
await report({ name: 'cycles', options: { ...options, dry }, result, text: describeCycles(result) })
if (result.failure !== undefined) process.exitCode = 1
