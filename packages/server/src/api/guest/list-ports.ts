import { DormouseError } from '@dormouse/contracts'
import type { PortAnswer } from '@dormouse/contracts/http'
import type { ListeningPort } from '@dormouse/engine'
import type { PortService } from '../../ports/port-service.ts'
import { type PublicOrigin, previewUrl } from '../../ports/preview-address.ts'
import type { Sandbox } from '../../sandbox/service.ts'

interface PortContext {
  readonly sandbox: Sandbox
  readonly ports: PortService
  readonly origin: PublicOrigin
  readonly signal: AbortSignal
}

/** What listens inside, and what was made public whether it listens or not. Wakes it: only what is awake listens. */
export async function listPorts(context: PortContext): Promise<PortAnswer[]> {
  const listening = await listeningIn(context)
  const known = new Set([
    ...listening.map(({ port }) => port),
    ...context.ports.listPublic(context.sandbox.id),
  ])
  return [...known].sort((one, other) => one - other).map((port) => describePort(context, port, listening))
}

export async function getPort(context: PortContext, port: number): Promise<PortAnswer> {
  return describePort(context, port, await listeningIn(context))
}

async function listeningIn({ sandbox, signal }: PortContext): Promise<readonly ListeningPort[]> {
  return sandbox.use({ cause: 'port', what: 'listing ports', signal }, (guest) => guest.ports.list())
}

function describePort(
  { sandbox, ports, origin }: PortContext,
  port: number,
  listening: readonly ListeningPort[],
): PortAnswer {
  const addresses = listening.filter((one) => one.port === port).map(({ address }) => address)
  return {
    port,
    isListening: addresses.length > 0,
    addresses,
    access: ports.isPublic(sandbox.id, port) ? 'public' : 'private',
    url: previewUrl(origin, { sandboxId: sandbox.id, port, domain: ports.domain }),
  }
}

/** The agent answers in time when it is awake. */
const GRACE_MS = 1_000

/** Waits in whatever burrow it is; a sandbox that somebody puts to sleep meanwhile is not woken for it. Throws `port_closed`. */
export async function waitForPort(
  sandbox: Sandbox,
  port: number,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  // Asleep there is nobody who could tell that the time is over.
  const either = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs + GRACE_MS)])
  const waiting = sandbox.attach(
    { cause: 'port', what: `waiting for port ${port}`, signal: either },
    (guest) => {
      const leftMs = Math.max(0, Math.round(deadline - performance.now()))
      return yieldOnce(guest.ports.wait(port, { timeoutMs: leftMs, signal: either }))
    },
  )
  try {
    for await (const _listening of waiting) return
  } catch (error) {
    if (signal.aborted || !either.aborted) throw error
    throw new DormouseError('port_closed', `The sandbox slept while port ${port} was waited for.`, {
      details: { port },
    })
  }
}

async function* yieldOnce<Value>(value: Promise<Value>): AsyncGenerator<Value> {
  yield await value
}
