import { expect, test } from 'vitest'
import { FakeClock, serverClock } from '../clock/testing/fake-clock.ts'
import { Agenda } from './agenda.ts'
import type { Sandbox } from './sandbox.ts'

const NOON = Date.UTC(2026, 0, 2, 12)
const MINUTE = 60_000

function start() {
  const host = new FakeClock(NOON)
  const clock = serverClock(host, undefined)
  const sandbox = (row: object, more: object = {}) =>
    ({
      ...{ ageMs: 0, stateMs: 0, work: { idleMs: 0 }, deps: { clock }, checkpoints: {} },
      pendingWrites: { isEmpty: true },
      row: { state: 'standby', tier: 'stored', ...row },
      ...more,
    }) as unknown as Sandbox
  return { host, clock, agenda: new Agenda(clock), sandbox }
}

test('a sandbox that only a caller changes is never due', () => {
  const { host, agenda, sandbox } = start()
  agenda.put(sandbox({}))
  host.pass(100 * MINUTE)
  expect(agenda.takeDue()).toEqual([])
})

test('a sandbox is due at its time, and only once', () => {
  const { host, agenda, sandbox } = start()
  const [soon, later] = [sandbox({ wakesAt: NOON + 1_000 }), sandbox({ wakesAt: NOON + 30_000 })]
  agenda.put(soon)
  agenda.put(later)
  expect(agenda.takeDue()).toEqual([])
  host.pass(1_000)
  expect(agenda.takeDue()).toEqual([soon])
  expect(agenda.takeDue()).toEqual([])
  host.pass(29_000)
  expect(agenda.takeDue()).toEqual([later])
})

test('one that changed meanwhile has its new time, and one that is gone has none', () => {
  const { host, agenda, sandbox } = start()
  const [changed, gone] = [sandbox({ wakesAt: NOON + 1_000 }), sandbox({ wakesAt: NOON + 1_000 })]
  agenda.put(changed)
  agenda.put(gone)
  Object.assign(changed, { row: { ...changed.row, wakesAt: undefined } })
  agenda.put(changed)
  agenda.remove(gone)
  host.pass(MINUTE)
  expect(agenda.takeDue()).toEqual([])
})

test('a wall clock that is set makes it look at all that have a date', () => {
  const { host, clock, agenda, sandbox } = start()
  const one = sandbox({ wakesAt: NOON + 50_000 })
  agenda.put(one)
  host.wall += 50_000
  clock.look()
  expect(agenda.takeDue()).toEqual([one])
})

test('writes that are pending are due in the next round', () => {
  const { agenda, sandbox } = start()
  const one = sandbox({}, { pendingWrites: { isEmpty: false } })
  agenda.put(one)
  expect(agenda.takeDue()).toEqual([one])
})
