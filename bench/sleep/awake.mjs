import { newSandboxId } from '@dormouse/contracts'
import { summarize, timesTable } from '../measure.mjs'
import { timePlainPython } from '../server/plain-process.mjs'
import { python, timed } from '../workbench.mjs'
import { checkAnswer } from './tree.mjs'

/** After this pause the reserve holds two burrows again. */
const RESERVED_AFTER_MS = 1_200
const THAW_PAUSE_MS = 20

export async function measureAwake(bench, snapshot, { creates, thaws }) {
  return {
    create: await measureCreate(bench, { times: creates }),
    thaw: await measureThaw(bench, snapshot, { times: thaws }),
  }
}

/** Creates from the template's snapshot: nothing boots, and numpy and pandas are already imported. */
async function measureCreate({ engine, pause }, { times }) {
  const samples = { call: [], answer: [], unprepared: [], control: [] }
  const create = () => timed(() => engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' }))
  // The first create of an engine checks the template's snapshot, and the reserve is empty for the second.
  for (let i = -2; i < times; i++) {
    await pause(RESERVED_AFTER_MS)
    const first = await create()
    const answer = await timed(() => python(first.result, 'import numpy, pandas; print(1)'))
    const second = await create()
    const third = await create()
    if (i >= 0) {
      samples.call.push(first.ms)
      samples.answer.push(first.ms + answer.ms)
      samples.unprepared.push(third.ms)
    }
    for (const { result } of [first, second, third]) await result.destroy()
    const plainMs = await timePlainPython()
    if (i >= 0) samples.control.push(plainMs)
  }
  return {
    call: { ...summarize(samples.call), goal: { atMost: 30 } },
    answer: summarize(samples.answer),
    unprepared: summarize(samples.unprepared),
    control: summarize(samples.control),
  }
}

async function measureThaw({ engine, pause }, snapshot, { times }) {
  const burrow = await engine.restore(snapshot.id, { sandboxId: snapshot.sandboxId })
  const samples = { call: [], answer: [], control: [] }
  for (let i = 0; i < times; i++) {
    await burrow.freeze()
    await pause(THAW_PAUSE_MS)
    const { ms: callMs } = await timed(() => burrow.thaw())
    const { ms: answerMs } = await timed(() => checkAnswer(burrow))
    samples.call.push(callMs)
    samples.answer.push(callMs + answerMs)
    await pause(THAW_PAUSE_MS)
    samples.control.push((await timed(() => checkAnswer(burrow))).ms)
  }
  await burrow.destroy()
  return {
    call: { ...summarize(samples.call), goal: { atMost: 1 } },
    answer: summarize(samples.answer),
    control: summarize(samples.control),
  }
}

export function describeAwake({ create, thaw }) {
  return timesTable([
    { title: 'create from the preloaded template, call', ...create.call },
    { title: '… to the first result', ...create.answer },
    { title: '… the third in a row', ...create.unprepared },
    { title: 'control: a plain `python3 -c` on the host, without these imports', ...create.control },
    { title: 'thaw from `frozen`, 1 GB, call', ...thaw.call },
    { title: '… to the first result', ...thaw.answer },
    { title: 'control: the same result without a freeze, after the same pause', ...thaw.control },
  ])
}
