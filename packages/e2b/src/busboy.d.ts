declare module 'busboy' {
  import type { IncomingHttpHeaders } from 'node:http'
  import type { Readable, Writable } from 'node:stream'

  interface Parser extends Writable {
    on(
      event: 'file',
      listener: (field: string, file: Readable, info: { filename: string | undefined }) => void,
    ): this
    on(event: 'close', listener: () => void): this
    on(event: 'error', listener: (error: Error) => void): this
    on(event: 'drain', listener: () => void): this
  }

  export default function busboy(options: {
    headers: IncomingHttpHeaders
    preservePath?: boolean
    limits?: { files?: number; fields?: number; parts?: number }
  }): Parser
}
