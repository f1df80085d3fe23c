/** The part of WebSocket that is used here; browsers, Node 22 and the package `ws` have it. */
export interface Socket {
  binaryType: string
  readonly readyState: number
  readonly bufferedAmount: number
  send(data: string | Uint8Array): void
  close(code?: number, reason?: string): void
  addEventListener(type: string, listener: (event: SocketEvent) => void): void
}

export interface SocketEvent {
  readonly type: string
  readonly data?: unknown
  readonly code?: number
}

export type SocketConstructor = new (url: string, protocols: string[]) => Socket

export const OPEN = 1

export function findSocket(): SocketConstructor | undefined {
  return (globalThis as { WebSocket?: unknown }).WebSocket as SocketConstructor | undefined
}
