import { newSandboxId } from '@dormouse/contracts'
import { summarize, timesTable } from '../measure.mjs'
import { python, timed } from '../workbench.mjs'
import { checkAnswer } from './tree.mjs'

/** Create from the template's snapshot: nothing boots, numpy and pandas are imported already. */
export async function measureCreate({ engine, pause }, { times }) {
  const samples = { call: [], answer: [] }
  for (let i = -1; i < times; i++) {
    await pause()
    const { ms: callMs, result: burrow } = await timed(() =>
      engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' }),
    )
    const { ms: answerMs } = await timed(() => python(burrow, 'import numpy, pandas; print(1)'))
    // The first one of an engine checks the template's snapshot.
    if (i >= 0) samples.call.push(callMs)
    if (i >= 0) samples.answer.push(callMs + answerMs)
    await burrow.destroy()
  }
  return { call: { ...summarize(samples.call), goal: { atMost: 30 } }, answer: summarize(samples.answer) }
}

export async function measureThaw({ engine, pause }, snapshot, { times }) {
  const burrow = await engine.restore(snapshot.id, { sandboxId: snapshot.sandboxId })
  const samples = { call: [], answer: [] }
  for (let i = 0; i < times; i++) {
    await burrow.freeze()
    await pause(20)
    const { ms: callMs } = await timed(() => burrow.thaw())
    const { ms: answerMs } = await timed(() => checkAnswer(burrow))
    samples.call.push(callMs)
    samples.answer.push(callMs + answerMs)
  }
  await burrow.destroy()
  return { call: { ...summarize(samples.call), goal: { atMost: 1 } }, answer: summarize(samples.answer) }
}

export function describeAwake({ create, thaw }) {
  return timesTable([
    ...(create === undefined
      ? []
      : [
          { title: 'create from the preloaded template, call', ...create.call },
          { title: '… to the first result', ...create.answer },
        ]),
    ...(thaw === undefined
      ? []
      : [
          { title: 'thaw from `frozen`, 1 GB, call', ...thaw.call },
          { title: '… to the first result', ...thaw.answer },
        ]),
  ])
}
