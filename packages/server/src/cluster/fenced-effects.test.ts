import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { FencedEffects } from './fenced-effects.ts'

/** A burrow of a loaded machine: each step takes as long as it says. */
function slowBurrow({ freezeMs, thawMs }: { freezeMs: number; thawMs: number }) {
  const steps: string[] = []
  const step = (name: string, ms: number) => async () => {
    await sleep(ms)
    steps.push(name)
  }
  return { id: 'burrow', steps, freeze: step('frozen', freezeMs), thaw: step('thawed', thawMs) }
}

function effectsOf(burrow: ReturnType<typeof slowBurrow>, openMs = 0, ...others: (typeof burrow)[]) {
  const opened: string[] = []
  const sandboxIn = (one: typeof burrow) => ({
    ...{ burrow: one, id: one.id, row: { state: 'running' }, isDeleted: false },
  })
  const sandbox = sandboxIn(burrow)
  const all = [sandbox, ...others.map(sandboxIn)]
  const open = async () => {
    await sleep(openMs)
    opened.push('open')
  }
  const deps = {
    sandboxes: { all: () => all },
    network: { shut: () => opened.push('shut'), open },
  }
  return { opened, sandbox, effects: new FencedEffects(deps as never, { error: () => {} }) }
}

it('lets a sandbox continue when the next lease comes before the freeze of the last one is done', async () => {
  const burrow = slowBurrow({ freezeMs: 30, thawMs: 0 })
  const { effects, opened } = effectsOf(burrow)
  effects.stop()
  await effects.resume(() => true)
  await sleep(50)
  expect(burrow.steps).toEqual(['frozen', 'thawed'])
  expect(opened).toEqual(['shut', 'open'])
})

it('leaves a sandbox frozen when the lease ends again while it is thawed', async () => {
  const burrow = slowBurrow({ freezeMs: 0, thawMs: 30 })
  const { effects, opened } = effectsOf(burrow)
  effects.stop()
  let isHeld = true
  const resumed = effects.resume(() => isHeld)
  await sleep(10)
  isHeld = false
  effects.stop()
  await resumed
  await sleep(50)
  expect(burrow.steps).toEqual(['frozen', 'thawed', 'frozen'])
  expect(opened).toEqual(['shut', 'shut'])
})

it('lets a sandbox continue after a lease that ended while its gate was opened', async () => {
  const burrow = slowBurrow({ freezeMs: 0, thawMs: 0 })
  const { effects } = effectsOf(burrow, 30)
  effects.stop()
  let isHeld = true
  const resumed = effects.resume(() => isHeld)
  await expect.poll(() => burrow.steps, { interval: 2 }).toEqual(['frozen', 'thawed'])
  isHeld = false
  effects.stop()
  await resumed
  isHeld = true
  await effects.resume(() => isHeld)
  expect(burrow.steps).toEqual(['frozen', 'thawed', 'frozen', 'thawed'])
})

it('leaves a sandbox frozen that has fallen asleep while it was to be thawed, with a gate for its wake', async () => {
  const burrow = slowBurrow({ freezeMs: 0, thawMs: 30 })
  const { effects, opened, sandbox } = effectsOf(burrow)
  sandbox.row = { state: 'suspending' }
  effects.stop()
  const resumed = effects.resume(() => true)
  await sleep(50)
  sandbox.row = { state: 'standby' }
  await resumed
  expect(burrow.steps).toEqual(['frozen', 'thawed', 'frozen'])
  expect(opened).toEqual(['shut', 'open'])
})

it('lets the other sandboxes continue while one cannot be thawed', async () => {
  const stuck = slowBurrow({ freezeMs: 0, thawMs: 60_000 })
  const free = slowBurrow({ freezeMs: 0, thawMs: 0 })
  const { effects } = effectsOf(stuck, 0, { ...free, id: 'free' })
  effects.stop()
  void effects.resume(() => true)
  await expect.poll(() => free.steps).toEqual(['frozen', 'thawed'])
})
