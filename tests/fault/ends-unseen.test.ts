import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { newSandboxId } from '@dormouse/contracts'
import type { Burrow, Engine } from '@dormouse/engine'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { linuxFactory } from '../engine-linux/linux-factory.ts'
import { sendSignal } from '../send-signal.ts'

const factory = await linuxFactory()
let engine: Engine
let burrow: Burrow

beforeAll(async () => {
  engine = await factory.open()
})
beforeEach(async () => {
  burrow = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
})
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]()
  await factory.cleanUp()
})

async function agentOf(one: Burrow): Promise<number> {
  const first = await firstPid(one)
  return Number((await readFile(`/proc/${first}/task/${first}/children`, 'utf8')).split(' ')[0])
}

async function firstPid(one = burrow): Promise<number> {
  return Number((await readFile(factory.layout.burrow(one.id).pidFile, 'utf8')).split(' ')[0])
}

async function expectEnded(reason: string): Promise<void> {
  const late = sleep(10_000).then(() => 'not noticed')
  expect(await Promise.race([burrow.ended, late])).toMatchObject({ reason })
  await expect(burrow.guest.info()).rejects.toMatchObject({ code: 'burrow_ended' })
  await burrow.destroy()
}

const HINDRANCE = 'import os; fd = os.eventfd(1, os.EFD_SEMAPHORE)'

describe('the end of a burrow is noticed', () => {
  test('after a snapshot that was refused, without a call since', async () => {
    await burrow.guest.runs.run({ code: HINDRANCE })
    await expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({
      code: 'snapshot_refused',
    })
    await factory.killBurrow(burrow.id)
    await expectEnded('killed')
  })

  test('by the call that cannot reach it any more', async () => {
    await burrow.guest.runs.run({ code: HINDRANCE })
    await expect(engine.snapshot(burrow, { leave: 'gone' })).rejects.toMatchObject({
      code: 'snapshot_refused',
    })
    await factory.killBurrow(burrow.id)
    // A call may still be answered while the kernel ends the processes.
    const call = () =>
      burrow.guest.info().then(
        () => 'answered',
        (error: { code: string }) => error.code,
      )
    for (;;) {
      const outcome = await call()
      if (outcome === 'burrow_ended') break
      expect(['answered', 'agent_unreachable']).toContain(outcome)
    }
    await expectEnded('killed')
  })

  test('when it ends while it is being saved', async () => {
    const saving = engine.snapshot(burrow, { leave: 'gone' }).then(
      () => 'saved',
      () => 'refused',
    )
    await factory.killBurrow(burrow.id)
    if ((await saving) === 'refused') await expectEnded('killed')
    else await expectEnded('stored')
  })

  test('when its first process takes its time after the agent is gone', async () => {
    const first = await firstPid()
    sendSignal(first, 'SIGSTOP')
    await factory.killAgent(burrow.id)
    await expect(burrow.guest.info()).rejects.toMatchObject({ code: 'agent_unreachable' })
    await sleep(2_500)
    sendSignal(first, 'SIGCONT')
    await expectEnded('agent_ended')
  })

  test('when it ends while its files are being saved', async () => {
    const saving = engine.snapshot(burrow, { leave: 'running', kind: 'files' }).catch(() => {})
    await factory.killBurrow(burrow.id)
    await saving
    await expectEnded('killed')
  })
})

describe('an agent that does not answer', () => {
  test('delays neither a snapshot nor the end of its burrow for ever', async () => {
    const other = await engine.createBurrow({ sandboxId: newSandboxId(), template: 'python' })
    const agents = await Promise.all([agentOf(burrow), agentOf(other)])
    for (const agent of agents) sendSignal(agent, 'SIGSTOP')
    const save = (one: Burrow) =>
      engine.snapshot(one, { leave: 'gone' }).catch((error: { code: string }) => error.code)
    // One is destroyed while it is being saved, the other continues.
    const saving = Promise.all([save(burrow), save(other)])
    await other.destroy()
    expect(await saving).toEqual(['agent_unreachable', 'agent_unreachable'])
    sendSignal(agents[0], 'SIGCONT')
    await burrow.guest.info()
    expect((await burrow.guest.runs.run({ code: 'print(7)' })).stdout).toBe('7\n')
    await burrow.destroy()
  }, 120_000)
})
