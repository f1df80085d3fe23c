import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { E2b, type ForwardRequest, type ItemStore, type RecordStore } from '@dormouse/e2b'
import { interpose, responseOf } from '../api/interpose.ts'
import { proxyRequest } from '../api/preview/proxy-request.ts'
import { openRelay } from '../api/preview/relay.ts'
import type { App } from '../api/route.ts'
import type { Services } from '../api/services.ts'
import type { SandboxHandle } from '../sandbox/sandbox-handle.ts'

/** Lets clients of E2B in: their requests are answered before previews and the API see them. */
export function openE2b(
  app: App,
  services: Services,
  { records, items }: { records: RecordStore; items: ItemStore },
): void {
  const { access, sandboxes, runs, templates, uploads, volumes, secrets, ports } = services
  const e2b = new E2b({
    ...{ access, sandboxes, runs, templates, uploads, volumes, secrets, records, items },
    policyDefaults: services.policyDefaults,
    defaultLimits: services.defaultLimits,
    domain: ports.domain,
    forward: (request) => forward(request, ports.idleConnectionMs),
    log: app.log,
  })
  app.server.once('close', () => e2b[Symbol.dispose]())
  app.takenBefore.push((request) => e2b.isTarget(request))
  interpose(app, 'request', (request: IncomingMessage, response: ServerResponse) =>
    e2b.take(request, response),
  )
  interpose(app, 'upgrade', (request: IncomingMessage, socket: Socket, head: Buffer) =>
    e2b.isTarget(request) ? e2b.take(request, responseOf(request, socket), head) : false,
  )
}

async function forward(forwarded: ForwardRequest, idleMs: number): Promise<void> {
  const { request, response, head, port, host } = forwarded
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  if (head !== undefined) request.socket.once('close', () => gone.abort())
  const relay = await openRelay(forwarded.sandbox as SandboxHandle, port, { signal: gone.signal, idleMs })
  try {
    await proxyRequest({
      request,
      response,
      port,
      prefix: undefined,
      host,
      target: request.url ?? '/',
      relay,
      head,
    })
  } catch (error) {
    relay.connection.destroy()
    throw error
  }
}
