import { type IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { App } from './route.ts'

/** `take` sees every event first; the existing listeners see what it does not take. */
export function interpose<Args extends unknown[]>(
  app: App,
  event: string,
  take: (...args: Args) => boolean,
): void {
  const listeners = app.server.listeners(event)
  app.server.removeAllListeners(event)
  app.server.on(event, (...args: unknown[]) => {
    if (take(...(args as Args))) return
    for (const listener of listeners) listener.apply(app.server, args)
  })
}

/** Like `interpose`, for a `take` that must first wait: it calls `next` when the existing listeners may see the event. */
export function interposeLater<Args extends unknown[]>(
  app: App,
  event: string,
  take: (args: Args, next: () => void) => boolean,
): void {
  const listeners = app.server.listeners(event)
  const next = (args: unknown[]) => {
    for (const listener of listeners) listener.apply(app.server, args)
  }
  app.server.removeAllListeners(event)
  app.server.on(event, (...args: unknown[]) => {
    if (!take(args as Args, () => next(args))) next(args)
  })
}

/** The response of an upgrade request that is answered with HTTP. */
export function responseOf(request: IncomingMessage, socket: Socket): ServerResponse {
  // Node has removed its own listener.
  socket.on('error', () => socket.destroy())
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket)
  response.once('finish', () => socket.destroySoon())
  return response
}
