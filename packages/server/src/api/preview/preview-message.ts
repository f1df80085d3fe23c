import type { IncomingHttpHeaders } from 'node:http'

/** The part of a request that a preview needs: Node's `IncomingMessage`, or a `PlainRequest`. */
export interface PreviewRequest {
  readonly method?: string | undefined
  readonly url?: string | undefined
  readonly headers: IncomingHttpHeaders
  /** Names and values in turns. */
  readonly rawHeaders: readonly string[]
  readonly socket: { readonly remoteAddress?: string | undefined; readonly encrypted?: boolean | undefined }
}

/** The part of a response that a preview needs: Node's `ServerResponse`, or a `PlainResponse`. */
export interface PreviewResponse {
  readonly statusCode: number
  readonly headersSent: boolean
  readonly destroyed: boolean
  readonly writableLength: number
  setHeader(name: string, value: string | number): unknown
  /** `headers`: names and values in turns. */
  writeHead(status: number, message: string, headers: string[]): unknown
  writeHead(status: number, headers: Record<string, string | number>): this
  flushHeaders(): void
  write(piece: Buffer): boolean
  end(text: string, encoding?: BufferEncoding): unknown
  end(piece?: Buffer): unknown
  destroy(): unknown
  once(event: 'drain', listener: () => void): unknown
}
