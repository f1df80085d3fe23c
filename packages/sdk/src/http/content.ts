import { invalidArgument } from '../check.ts'

/** Not `BodyInit`: the types of Node have no such name. */
export type RequestBody = NonNullable<RequestInit['body']>

/**
 * What a file or an input is made of. A stream (of the web, or a Node `Readable`) is sent as it comes, and cannot be
 * sent again after a lost connection.
 */
export type Content =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | ReadableStream<Uint8Array>
  | AsyncIterable<Uint8Array | string>

/** The body of a request, and what becomes of its source. */
export interface ContentBody {
  readonly body: RequestBody
  readonly isStream: boolean
  /** Sends it with `send`. An error of the source is thrown as it is, not as an error of the connection. */
  use<Answer>(send: () => Promise<Answer>): Promise<Answer>
}

/** Throws `invalid_argument`, which names the argument, if the value cannot be sent. */
export function contentBody(argument: string, content: Content): ContentBody {
  checkContent(argument, content)
  if (isWhole(content)) return whole(content as RequestBody)
  if (isWebStream(content)) return streamed(argument, readerOf(content))
  return streamed(argument, content[Symbol.asyncIterator]())
}

/** Does not read from a stream. */
function checkContent(argument: string, content: unknown): asserts content is Content {
  if (isWhole(content)) return
  if (isWebStream(content)) {
    if (content.locked) throw invalidArgument(argument, 'is a stream that another reader has locked', content)
    return
  }
  if (typeof content !== 'object' || content === null || !(Symbol.asyncIterator in content))
    throw invalidArgument(
      argument,
      'must be a string, bytes, a Blob or a stream',
      content,
      'Turn an object into text first, for example with JSON.stringify.',
    )
  const { readableEnded, destroyed } = content as { readableEnded?: unknown; destroyed?: unknown }
  if (readableEnded === true || destroyed === true)
    throw invalidArgument(argument, 'is a stream that has ended or was destroyed', content)
}

function isWhole(content: unknown): content is string | Blob | ArrayBuffer | ArrayBufferView {
  return (
    typeof content === 'string' ||
    content instanceof Blob ||
    content instanceof ArrayBuffer ||
    ArrayBuffer.isView(content)
  )
}

function whole(body: RequestBody): ContentBody {
  return { body, isStream: false, use: (send) => send() }
}

function streamed(argument: string, source: AsyncIterator<unknown>): ContentBody {
  let failure: { readonly error: unknown } | undefined
  // Reads the first piece at once: a Node stream whose error is not awaited would end the program.
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        for (;;) {
          const { done, value } = await source.next()
          if (done === true) return controller.close()
          const bytes = bytesOf(argument, value)
          if (bytes.byteLength === 0) continue
          return controller.enqueue(bytes)
        }
      } catch (error) {
        failure = { error }
        controller.error(error)
        // The caller gets the first error.
        await source.return?.().catch(() => {})
      }
    },
    async cancel() {
      // The request reads no more, so an error has no meaning.
      await source.return?.().catch(() => {})
    },
  })
  return {
    body,
    isStream: true,
    async use(send) {
      try {
        return await send()
      } catch (error) {
        // The request may have failed before it read the source. Not awaited: a source may hang.
        source.return?.().catch(() => {})
        throw failure === undefined ? error : failure.error
      }
    },
  }
}

function bytesOf(argument: string, piece: unknown): Uint8Array {
  if (piece instanceof Uint8Array) return piece
  if (typeof piece === 'string') return new TextEncoder().encode(piece)
  if (ArrayBuffer.isView(piece)) return new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength)
  if (piece instanceof ArrayBuffer) return new Uint8Array(piece)
  throw invalidArgument(argument, 'must be a stream of text or bytes', piece)
}

/** Also streams of another realm, and of polyfills. */
function isWebStream(value: unknown): value is ReadableStream<unknown> {
  return (
    typeof value === 'object' &&
    value !== null &&
    typeof (value as { getReader?: unknown }).getReader === 'function'
  )
}

/** Not every browser can iterate over a stream. */
function readerOf(stream: ReadableStream<unknown>): AsyncIterator<unknown> {
  const reader = stream.getReader()
  return {
    next: async () => {
      const { done, value } = await reader.read()
      return done ? { done, value: undefined } : { done, value }
    },
    return: async () => {
      await reader.cancel()
      return { done: true, value: undefined }
    },
  }
}
