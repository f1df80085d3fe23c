import { openSync } from 'node:fs'
import { DormouseError, newSandboxId } from '@dormouse/contracts'
import type { Burrow, BurrowEnd, Gate } from '@dormouse/engine'
import { beforeEach, expect, test } from 'vitest'
import type { SandboxRow } from '../store/sandbox-rows.ts'
import { DenialHistory } from './denial-history.ts'
import { FailedLookupHistory } from './failed-lookup-history.ts'
import { type EgressControl, NetworkService } from './network-service.ts'

const id = newSandboxId()
let done: string[]
let failures: string[]
let refuse: { attach?: Error; change?: Error }
let tenant: { id: typeof id; effectiveRow: SandboxRow }

const egressControl: EgressControl = {
  attach: async (_id, gate, { mode }) => {
    if (refuse.attach) throw refuse.attach
    await new Promise((resolve) => setTimeout(resolve, 5))
    done.push(`attach ${gate.tcp} ${mode}`)
  },
  change: async (_id, { mode }) => {
    if (refuse.change) throw refuse.change
    done.push(`change ${mode}`)
  },
  detach: async () => void done.push('detach'),
  park: async () => [],
  unpark: async () => {},
  resume: async () => {},
  endParked: async () => {},
  listOpen: async () => [],
  onLost: () => {},
  forget: () => void done.push('forget'),
  check: () => {},
  reportDenials: async () => {},
  counters: () => ({ connections: 1, denied: 2, names: 3, bytesOut: 4, bytesIn: 5 }),
}

function service(egress?: EgressControl) {
  const denials = new DenialHistory({
    record: () => {},
    clock: { wallMs: Date.now, monotonicMs: () => performance.now() },
  })
  denials[Symbol.dispose]()
  const log = { info() {}, warn() {}, error() {} }
  return new NetworkService({
    ...{ egress, denials, log, secretsOf: () => [] },
    failedLookups: new FailedLookupHistory({ wallMs: Date.now }),
    record: (_id, { detail = '' }) => void failures.push(detail),
  })
}

/** A burrow whose gate is number `fd`. */
function burrow(fd: number, open?: () => Promise<Gate>) {
  let end: (end: BurrowEnd) => void = () => {}
  const ended = new Promise<BurrowEnd>((resolve) => {
    end = resolve
  })
  const gate = { tcp: fd, dns: fd, close: () => void done.push(`close ${fd}`) }
  return {
    burrow: { ended, openGate: open ?? (async () => gate), takeEnds: () => [] } as unknown as Burrow,
    end: () => end({ reason: 'destroyed' }),
  }
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 20))

beforeEach(() => {
  done = []
  failures = []
  refuse = {}
  tenant = { id, effectiveRow: { id, network: { mode: 'public', allow: [] } } as unknown as SandboxRow }
})

test('a burrow that takes the place of another has its own gate, and the end of the first takes nothing from it', async () => {
  const network = service(egressControl)
  const [one, two] = [burrow(101), burrow(102)]
  await network.open(tenant, one.burrow)
  await network.open(tenant, two.burrow)
  await settled()
  one.end()
  await settled()
  expect(done).toEqual(['attach 101 public', 'attach 102 public', 'close 101'])
  two.end()
  await settled()
  expect(done.slice(3)).toEqual(['close 102', 'detach'])
})

test('a call inside waits for the gate of its burrow, and not for the server that answers there', async () => {
  let attached = () => {}
  const attach = () =>
    new Promise<void>((resolve) => {
      attached = resolve
    })
  const network = service({ ...egressControl, attach })
  await network.open(tenant, burrow(101).burrow)
  let hasChanged = false
  const changed = network.change(tenant).then(() => {
    hasChanged = true
  })
  await settled()
  expect(hasChanged).toBe(false)
  attached()
  await changed
  expect(done).toEqual(['change public'])
})

test('a burrow that ends while its gate is opened leaves no descriptor behind', async () => {
  const network = service(egressControl)
  const fds = [openSync('/dev/null', 'r'), openSync('/dev/null', 'r')] as const
  const gate = { tcp: fds[0], dns: fds[1], close: () => void done.push('close') }
  const one = burrow(0, () => new Promise((resolve) => setTimeout(() => resolve(gate), 10)))
  const opened = network.open(tenant, one.burrow)
  one.end()
  await opened
  await settled()
  expect(done).toEqual(['close', 'detach'])
  for (const fd of fds) expect(openSync('/dev/null', 'r')).toBe(fd)
})

test('a change that comes while it is attached holds, and one without a burrow is for the next', async () => {
  const network = service(egressControl)
  await network.change(tenant)
  expect(done).toEqual([])
  const one = burrow(101)
  const opened = network.open(tenant, one.burrow)
  tenant.effectiveRow = { ...tenant.effectiveRow, network: { mode: 'none', allow: [] } }
  await network.change(tenant)
  await opened
  expect(done.at(-1)).toBe('change none')
  refuse.change = new Error('no')
  await expect(network.change(tenant)).rejects.toThrow('no')
  network.shut(id)
  await settled()
  expect(done.slice(-2)).toEqual(['close 101', 'detach'])
  expect(network.problemOf(id)).toContain('could not be opened')
})

test.each([
  ['the engine', () => Promise.reject(new Error('/host/path: EPERM')), undefined, 'server log'],
  [
    'a process inside',
    () => Promise.reject(new DormouseError('in_use', 'Port 53 is taken.')),
    undefined,
    'Port 53',
  ],
  ['the way out', undefined, new Error('worker ended'), 'server log'],
])('a failure of %s leaves it without a network, and says so', async (_who, open, attach, said) => {
  const network = service(egressControl)
  if (attach) refuse.attach = attach
  const one = burrow(101, open)
  await network.open(tenant, one.burrow)
  // A burrow without a gate is refused before a call inside; one whose gate does not answer, when that is known.
  if (attach) await settled()
  expect(network.problemOf(id)).toContain(said)
  expect(network.problemOf(id)).not.toContain('/host/path')
  expect(failures).toEqual([network.problemOf(id)])
  await network.change(tenant)
  refuse = {}
  one.end()
  await settled()
  expect(network.problemOf(id)).toBeUndefined()
})

test('where there are no gates it says so without asking', async () => {
  const network = service()
  await network.open(tenant, burrow(101).burrow)
  expect(network.problemOf(id)).toContain('doctor')
  expect(failures).toEqual([])
  expect(network.counters(id).connections).toBe(0)
})

test('what was deleted still counts in the total', async () => {
  const network = service(egressControl)
  expect(network.total([id])).toMatchObject({ connections: 1, bytesIn: 5 })
  network.forget(id)
  await settled()
  expect(network.total([])).toMatchObject({ connections: 1, bytesIn: 5 })
  expect(done).toEqual(['forget'])
})

test('a gate opens again for a burrow that lost its first one, as long as the burrow lives', async () => {
  const network = service(egressControl)
  const one = burrow(101)
  await network.open(tenant, one.burrow)
  await settled()
  expect((await network.reopen(id)).tcp).toBe(101)
  expect(done).toEqual(['attach 101 public', 'close 101'])
  one.end()
  await settled()
  await expect(network.reopen(id)).rejects.toMatchObject({ code: 'burrow_ended' })
})
