import { DormouseError } from '@dormouse/contracts'
import type { PortAnswer } from '@dormouse/contracts/http'
import type { ListeningPort } from '@dormouse/engine'
import type { PortService } from '../../ports/port-service.ts'
import { type PublicOrigin, previewUrl } from '../../ports/preview-address.ts'
import type { SandboxHandle } from '../../sandbox/sandbox-handle.ts'

interface PortContext {
  readonly sandbox: SandboxHandle
  readonly ports: PortService
  readonly origin: PublicOrigin
  readonly signal: AbortSignal
}

/**
 * Lists ports that a process listens on, and public ports. Wakes the sandbox: processes listen only while it is awake.
 */
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
    pathUrl: previewUrl(origin, { sandboxId: sandbox.id, port, domain: undefined }),
  }
}

/** Extra time for the agent to report the time-out itself. */
const GRACE_MS = 1_000

/** Waits across burrows. Does not wake a sandbox that is put to sleep in the meantime. Throws `port_closed`. */
export async function waitForPort(
  sandbox: SandboxHandle,
  port: number,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<void> {
  const deadline = performance.now() + timeoutMs
  // A sleeping sandbox cannot report the time-out.
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
    throw new DormouseError('port_closed', `The sandbox slept while the call waited for port ${port}.`, {
      details: { port },
    })
  }
}

async function* yieldOnce<Value>(value: Promise<Value>): AsyncGenerator<Value> {
  yield await value
}
